"""What a message will cost is foretold before it is sent, as its reply then tells it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from remote.talks import chat_with, talk
from rkllm_chat.backends.llama import Llama
from rkllm_chat.backends.rkllm import Rkllm
from rkllm_chat.chat import Chat
from rkllm_chat.events import Usage
from rkllm_chat.forecast import Forecast, Ground, Speeds, count_tools, survey
from rkllm_chat.measured import Measured
from rkllm_chat.speed import Sample, Speed
from stage import make_chat, take_turn

pytestmark = pytest.mark.model
LINES = ("Hello!", "What is 12 * 34?", "時刻は？ 東京", "And now?")


@asynccontextmanager
async def opened(model: Path) -> AsyncIterator[Llama]:
    backend = Llama(model, 2048)
    try:
        yield backend
    finally:
        await backend.aclose()


def foretell(chat: Chat, line: str) -> Forecast:
    ground, tokens = survey(chat), chat.count_text(line)
    return ground.foresee(tokens + count_tools(chat, ground, line, tokens), Speed())


async def told_and_spent(chat: Chat, *lines: str) -> list[tuple[tuple[int, int | None], tuple[int, int]]]:
    """Of each line: total and cached as foretold, and as its first reply had it."""
    found = []
    for line in lines:
        told, before = foretell(chat, line), len(chat.spent)
        await talk(chat, line)
        usage = chat.spent[before]
        found.append(((told.total, told.cached), (usage.prompt_tokens, usage.reused_tokens)))
    return found


@pytest.mark.parametrize("tools_share", [1.0, 0.0])
def test_llama_cpp_reads_the_very_tokens_that_were_foretold(
    tools_share: float, shipped_model: Path, run: Callable[..., Any]
) -> None:
    async def go() -> None:
        async with opened(shipped_model) as backend:
            chat = chat_with(backend, tools_share=tools_share)
            found = await told_and_spent(chat, *LINES)
            del chat.history[-2:]
            found += await told_and_spent(chat, "Another question")
            assert [told for told, _ in found] == [spent for _, spent in found]
            assert found[0][0][1] == 0 and min(cached or 0 for (_, cached), _ in found[1:]) > 100

    run(go())


@pytest.mark.parametrize("with_tokens", [True, False])
@pytest.mark.parametrize("history", ["client", "runtime"])
def test_on_the_npu_it_is_foretold_what_the_runtime_reads(
    history: str, with_tokens: bool, open_npu: Callable[..., Rkllm], npu_model: Path, run: Callable[..., Any]
) -> None:
    if with_tokens:
        copyfile(Path(__file__).parents[1] / "models/tiny-tools/tokenizer.json", npu_model.with_name("tokenizer.json"))
    backend = open_npu("G", history=history)
    for told, spent in run(told_and_spent(chat_with(backend), *LINES[:3])):
        assert told == (spent if with_tokens else pytest.approx(spent, rel=0.3))  # else it is an estimate


def test_a_runtime_that_reuses_nothing_is_foretold_to_read_all(
    open_npu: Callable[..., Rkllm], run: Callable[..., Any]
) -> None:
    found = run(told_and_spent(chat_with(open_npu("C")), *LINES[:2]))
    assert [told[1] for told, _ in found] == [0, 0]


def test_of_a_reply_that_was_stopped_nobody_knows_what_the_runtime_holds(
    open_npu: Callable[..., Rkllm], run: Callable[..., Any]
) -> None:
    chat = chat_with(open_npu("G", history="client"))

    async def stop() -> None:
        turn = chat.send("Hello!")
        async for _ in turn:
            break
        await turn.aclose()

    run(stop())
    assert foretell(chat, "And now?").cached is None


@pytest.mark.parametrize("room", [39, 40])
def test_a_message_beyond_the_room_has_no_figure_of_what_is_cached(room: int) -> None:
    forecast = Ground(30, 20, room, 2).foresee(10, Speed([Sample(100, 0, 1.0)]))
    assert (forecast.total, forecast.fits, forecast.cached, forecast.new) == (
        40,
        room == 40,
        20 if room == 40 else None,
        20 if room == 40 else None,
    )
    assert bool(forecast.seconds) == (room == 40)


def test_written_replies_are_foretold_in_their_own_tokens() -> None:
    chat = make_chat(["Well met."] * 2)
    assert foretell(chat, "Hello!").cached == 0
    take_turn(chat, "Hello!")
    told = foretell(chat, "And now?")
    assert told.total == pytest.approx(chat.backend.count_tokens([*chat.shown]) + 20, abs=20)
    assert 0 < (told.cached or 0) < told.total


def test_the_speed_of_each_model_is_there_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    first = Speeds(Measured(path))
    first.note("one.gguf", Usage(200, 100, 100, 5, prefill_s=2.0))
    first.note("one.gguf", Usage())  # a reply that was stopped
    Measured(path).note("load", "one.gguf", 3)
    again = Speeds(Measured(path))
    assert again.of("one.gguf").samples == (Sample(100, 100, 2.0),)
    assert again.of("other.gguf").samples == ()


def test_a_file_that_was_altered_teaches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    path.write_text('{"read one.gguf": [[1, 2], "x", [100, 0, -1]]}', encoding="utf-8")
    assert Speeds(Measured(path)).of("one.gguf").samples == ()
