"""The remote backend on llama-cpp-python's own server, which runs the small model on loopback."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.openai.real import CONTEXT_TOKENS, serving_model
from backends.openai.talks import HELLO, LINES, chat_with, take, talk, usage_of, write
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.openai.backend import OpenaiBackend
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.errors import AuthError
from rkllm_chat.core.events import Notice, Text
from rkllm_chat.core.messages import Message
from stage import GREEDY, end_after

pytestmark = pytest.mark.model
CHATS = 10
KEY = "a-key-of-ours-0815"

Run = Callable[..., Any]
Open = Callable[..., OpenaiBackend]
Program = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.slow
@pytest.mark.parametrize("api", ["completions", "chat"])
def test_a_talk_is_the_same_as_through_llama_cpp(
    api: str, real_service: str, open_remote: Open, run: Run, through_llama: list[Message]
) -> None:
    chat = chat_with(open_remote(real_service, api=api))
    run(talk(chat, *LINES))
    assert [(message.role, message.text) for message in chat.history] == [
        (message.role, message.text) for message in through_llama
    ]
    assert [message.result.tool for message in chat.history if message.result] == ["get_time"]


@pytest.mark.slow
def test_the_context_window_is_learned_from_a_refused_prompt(real_service: str, open_remote: Open, run: Run) -> None:
    chat = chat_with(open_remote(real_service, context_tokens=0))
    question = "What time is it now? " * 110
    assert chat.backend.context_tokens == 2 * CONTEXT_TOKENS
    *_, events = run(talk(chat, f"One. {question}", f"Two. {question}"))
    assert chat.backend.context_tokens == CONTEXT_TOKENS
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert notices[0] == "The service's context window has only 2048 tokens; the message is sent again."
    assert [event for event in events if isinstance(event, Text)]


@pytest.mark.slow
def test_many_chats_at_once_are_not_mixed_up(real_service: str, open_remote: Open, run: Run) -> None:
    backend = open_remote(real_service)
    chats = [chat_with(backend) for _ in range(CHATS)]
    lines = [f"What is {number} * 7?" for number in range(10, 10 + CHATS)]

    async def hold_all() -> list[Any]:
        return await asyncio.gather(*(talk(chat, line) for chat, line in zip(chats, lines, strict=True)))

    turns = run(hold_all())
    calls = [message.result.arguments for chat in chats for message in chat.history if message.result]
    assert calls == [{"expression": f"{number} * 7"} for number in range(10, 10 + CHATS)]
    answers = ["".join(event.text for event in turn if isinstance(event, Text)) for (turn,) in turns]
    assert answers == [f"{number} * 7 = {number * 7}" for number in range(10, 10 + CHATS)]
    assert backend.services[0].active_requests == 0


def test_a_prompt_is_counted_by_the_service(
    real_service: str, open_remote: Open, run: Run, shipped_model: Path
) -> None:
    backend, llama = open_remote(real_service), LlamaBackend(shipped_model, 0)
    items = run(take(backend))
    usage = usage_of(items)
    text = "".join(item for item in items if isinstance(item, str))
    grown = [*HELLO, Message("assistant", text), Message("user", "Thank you!")]
    exact, exact_grown = llama.count_tokens(HELLO), llama.count_tokens(grown)
    run(llama.aclose())
    assert usage.prompt_tokens == backend.count_tokens(HELLO) == exact
    assert abs(backend.count_tokens(grown) - exact_grown) < 10, "only what is new is estimated"
    assert 0 < usage.generated_tokens < 20 and usage.first_token_s > 0 and not usage.hit_limit


def test_a_reply_at_its_limit_is_marked(real_service: str, open_remote: Open, run: Run) -> None:
    items = run(take(open_remote(real_service), generation=Generation(temperature=0, max_tokens=3)))
    assert usage_of(items).hit_limit and usage_of(items).generated_tokens <= 4


def test_a_model_is_named_without_folder_and_suffix(real_service: str, open_remote: Open) -> None:
    backend = open_remote(f"{real_service}#tiny-tools")
    assert backend.name == "tiny-tools.gguf" and backend.services[0].info
    assert backend.services[0].info.kind_name == "llama-cpp-python"


@pytest.mark.slow
def test_a_protected_service_needs_its_key(
    shipped_model: Path, open_remote: Open, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", KEY)
    with serving_model(shipped_model, KEY) as url:
        with pytest.raises(AuthError, match="rejects"):
            open_remote(url)
        assert run(write(open_remote(url, key_env="OUR_KEY"))) == "Hello! How can I help you?"


def test_one_turn_of_the_program(real_service: str, program: Program) -> None:
    done = program(
        "-p",
        "What is 12 * 34?",
        "--output-format",
        "json",
        "--temperature",
        "0",
        "--model",
        real_service,
        "--context",
        str(CONTEXT_TOKENS),
    )
    result = json.loads(done.stdout)["result"]
    assert [(call["tool"], call["arguments"]) for call in result["calls"]] == [("calculate", {"expression": "12 * 34"})]
    assert result["text"].endswith("= 408") and result["usage"]["prompt_tokens"] > 100


def test_stopping_frees_the_service_for_the_next(real_service: str, open_remote: Open, run: Run) -> None:
    backend = open_remote(real_service)
    story = [HELLO[0], Message("user", "What time is it in Tokyo?")]

    async def stop_and_ask() -> str:
        stream = backend.stream(story, GREEDY)
        async for item in stream:
            if isinstance(item, str):
                break
        await stream.aclose()
        assert backend.services[0].active_requests == 0
        return await write(backend)

    assert run(asyncio.wait_for(stop_and_ask(), 30)) == "Hello! How can I help you?"


def test_a_reply_that_is_asked_to_end_has_its_usage(real_service: str, open_remote: Open, run: Run) -> None:
    backend = open_remote(real_service)
    whole = usage_of(run(take(backend)))
    usage = usage_of(run(asyncio.wait_for(end_after(backend, HELLO, 3), 30)))
    assert 3 <= usage.generated_tokens < whole.generated_tokens
    assert (usage.prompt_tokens, usage.hit_limit) == (whole.prompt_tokens, False)
    assert backend.services[0].active_requests == 0
    assert run(asyncio.wait_for(write(backend), 30)) == "Hello! How can I help you?"
