"""The cost of a message is estimated before it is sent; its reply then reports the true one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from backends.openai.talks import chat_with, talk
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.rkllm.backend import RkllmBackend
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.prefill import CostEstimate, PrefillSpeed, estimate_cost
from rkllm_chat.chat.turn import Turn
from rkllm_chat.core.events import Text, Usage
from rkllm_chat.storage.local_statistics import Measurements
from stage import add_profile, make_chat, take_turn

pytestmark = pytest.mark.model
LINES = ("Hello!", "What is 12 * 34?", "時刻は？ 東京")


def estimate(chat: Conversation, line: str) -> CostEstimate:
    return estimate_cost(chat, line, PrefillSpeed())


async def estimate_and_send(chat: Conversation, *lines: str) -> list[tuple[tuple[int, int | None], tuple[int, int]]]:
    """For each line: total and cached tokens as estimated, and as its first reply reports them."""
    costs = []
    for line in lines:
        estimated, replies = estimate(chat, line), len(chat.usages)
        await talk(chat, line)
        usage = chat.usages[replies]
        costs.append(((estimated.total_tokens, estimated.cached_tokens), (usage.prompt_tokens, usage.reused_tokens)))
    return costs


@pytest.mark.slow
@pytest.mark.parametrize("tools_share", [1.0, 0.0])
def test_llama_cpp_prefills_exactly_the_estimated_tokens(
    tools_share: float, shipped_model: Path, run: Callable[..., Any]
) -> None:
    backend = LlamaBackend(shipped_model, 2048)
    try:
        chat = chat_with(backend, prompt_profile=add_profile(tools_fraction=tools_share))
        costs = run(estimate_and_send(chat, *LINES))
        del chat.history[-2:]
        costs += run(estimate_and_send(chat, "Another question"))
    finally:
        run(backend.aclose())
    assert [estimated for estimated, _ in costs] == [true for _, true in costs]
    assert costs[0][0][1] == 0 and min(cached or 0 for (_, cached), _ in costs[1:]) > 100


@pytest.mark.slow
@pytest.mark.parametrize(("history", "with_tokens"), [("client", True), ("runtime", True), ("client", False)])
def test_on_the_npu_the_estimate_is_what_the_runtime_prefills(
    history: str, with_tokens: bool, open_npu: Callable[..., RkllmBackend], npu_model: Path, run: Callable[..., Any]
) -> None:
    if with_tokens:
        copyfile(Path(__file__).parents[2] / "models/tiny-tools/tokenizer.json", npu_model.with_name("tokenizer.json"))
    for estimated, true in run(estimate_and_send(chat_with(open_npu("G", history=history)), *LINES)):
        assert estimated == (true if with_tokens else pytest.approx(true, rel=0.3))  # without a tokenizer it is a guess


@pytest.mark.slow
def test_nothing_is_cached_by_a_runtime_that_reuses_nothing(
    open_npu: Callable[..., RkllmBackend], run: Callable[..., Any]
) -> None:
    costs = run(estimate_and_send(chat_with(open_npu("C")), *LINES[:2]))
    assert [cached for (_, cached), _ in costs] == [0, 0]


@pytest.mark.slow
def test_after_a_stopped_reply_the_cache_of_the_runtime_is_unknown(
    open_npu: Callable[..., RkllmBackend], run: Callable[..., Any]
) -> None:
    chat = chat_with(open_npu("G", history="client", PACE="20"))  # else the reply may have ended before
    turn = Turn(chat).run("Hello!")
    while not isinstance(run(anext(turn)), Text):
        pass
    run(turn.aclose())
    assert estimate(chat, "And now?").cached_tokens is None


def test_a_message_beyond_the_budget_has_no_figure_of_what_is_cached(tmp_path: Path) -> None:
    chat, speed = make_chat(["Well met."]), PrefillSpeed("scripted", Measurements(tmp_path / "measured.json"))
    take_turn(chat, "Hello!")
    speed.record(Usage(100, 0, 100, 5, prefill_s=1.0))
    budget = estimate_cost(chat, "", speed).budget_tokens
    length = 1
    while (cost := estimate_cost(chat, length * "ship ", speed)).total_tokens <= budget:
        assert cost.is_within_budget and cost.prefill_s and cost.cached_tokens and cost.new_tokens
        fits, length = length, 2 * length
    while fits + 1 < length:  # find the longest message that fits
        middle = (fits + length) // 2
        cost = estimate_cost(chat, middle * "ship ", speed)
        fits, length = (middle, length) if cost.is_within_budget else (fits, middle)
    within, over = (estimate_cost(chat, words * "ship ", speed) for words in (fits, length))
    assert within.total_tokens <= budget < over.total_tokens <= within.total_tokens + 2
    assert within.new_tokens == within.total_tokens - (within.cached_tokens or 0)
    assert (over.cached_tokens, over.new_tokens, over.prefill_s, over.is_within_budget) == (None, None, 0.0, False)


def test_scripted_replies_are_estimated_in_their_own_tokens() -> None:
    chat = make_chat(["Well met."] * 2)
    assert estimate(chat, "Hello!").cached_tokens == 0
    take_turn(chat, "Hello!")
    cost = estimate(chat, "And now?")
    assert cost.total_tokens == pytest.approx(chat.backend.count_tokens([*chat.visible_messages]) + 20, abs=20)
    assert 0 < (cost.cached_tokens or 0) < cost.total_tokens
