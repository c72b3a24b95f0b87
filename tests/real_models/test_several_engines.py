"""Two engines with a real model behind one address each: one dies in a reply and comes back; four chats use both."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from backends.openai.real import CONTEXT_TOKENS, Engine, serving_engine
from backends.openai.talks import talk, tools
from real_models import QWEN, REAL_MODELS
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.openai.backend import OpenaiBackend
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core import i18n
from rkllm_chat.core.errors import GenerationError
from rkllm_chat.core.events import Text, TurnEnded
from stage import FakeToolbox, collect

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(300)]
SHORT = Generation(temperature=0, max_tokens=48)
Run = Callable[..., Any]


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    """Two engines of llama-cpp-python."""
    model = Path(os.environ[REAL_MODELS], QWEN)
    with ExitStack() as stack:
        yield [stack.enter_context(serving_engine(model)) for _ in range(2)]


@pytest.fixture
def remote(engines: list[Engine], run: Run) -> Iterator[OpenaiBackend]:
    """The backend on both."""
    model = " ".join(engine.url for engine in engines)
    backend = open_backend(Settings(model=model, generation=SHORT, context_tokens=CONTEXT_TOKENS))
    assert isinstance(backend, OpenaiBackend)
    yield backend
    run(backend.aclose())


def open_chat(backend: OpenaiBackend, toolbox: FakeToolbox) -> Conversation:
    return Conversation(backend, toolbox, Settings(generation=SHORT), i18n.load())


def text_of(events: list[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def test_a_chat_goes_on_where_one_of_two_engines_dies_in_a_reply_and_comes_back(
    engines: list[Engine], remote: OpenaiBackend, run: Run
) -> None:
    chat = open_chat(remote, FakeToolbox({}))

    async def die_in_a_reply() -> int:
        with pytest.raises(GenerationError):
            async for event in Turn(chat).run("Count from one to fifty in words."):
                if isinstance(event, Text):
                    for engine in engines:
                        if engine.count_replies():
                            engine.process.kill()
                            engine.process.wait()
        return [engine.process.poll() is None for engine in engines].index(True)

    alive = run(die_in_a_reply())
    before = engines[alive].count_replies()
    (events,) = run(talk(chat, "Say hello."))
    assert text_of(events) and engines[alive].count_replies() > before
    dead = engines[1 - alive]
    with serving_engine(Path(os.environ[REAL_MODELS], QWEN), port=urlsplit(dead.url).port or 0) as back:
        engines[alive].process.kill()
        engines[alive].process.wait()
        (events,) = run(talk(chat, "Say goodbye."))
        assert text_of(events) and back.count_replies() == 1


def test_four_chats_are_spread_over_two_engines_and_end_their_tool_tasks(
    engines: list[Engine], remote: OpenaiBackend, run: Run
) -> None:
    async def ask_all() -> list[list[Any]]:
        questions = [f"What time is it in {place}?" for place in ("Tokyo", "Osaka", "Kyoto", "Nagoya")]
        chats = [open_chat(remote, tools()) for _ in questions]
        turns = (collect(Turn(chat).run(question)) for chat, question in zip(chats, questions, strict=True))
        return list(await asyncio.gather(*turns))

    told = run(ask_all())
    assert all("20:26" in text_of(events) for events in told), [text_of(events) for events in told]
    assert [event.reason for events in told for event in events if isinstance(event, TurnEnded)] == ["answered"] * 4
    counts = [engine.count_replies() for engine in engines]
    assert min(counts) >= 2 and max(counts) <= 3 * min(counts), counts
