"""A talk with tools, and single replies, through whatever backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rkllm_chat.backends.base import Backend
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core import i18n as language
from rkllm_chat.core.events import Event, Usage
from rkllm_chat.core.messages import Message, Tool
from stage import GREEDY, FakeToolbox, collect

LINES = ("What time is it in Tokyo?", "Thank you!")
HELLO = [Message("system", "You are a helpful assistant."), Message("user", "Hello!")]


def tools() -> FakeToolbox:
    async def get_time(place: str) -> str:
        return f"It is 20:26 on Friday, 20 November 2026 in {place} (Asia/Tokyo, UTC+09:00)."

    async def calculate(expression: str) -> str:
        left, _, right = expression.partition(" * ")
        return f"{expression} = {int(left) * int(right)}"

    text = {"type": "string"}
    schemas = {
        "get_time": {"type": "object", "properties": {"place": text}, "required": ["place"]},
        "calculate": {"type": "object", "properties": {"expression": text}, "required": ["expression"]},
    }
    return FakeToolbox({"get_time": get_time, "calculate": calculate}, schemas=schemas)


def chat_with(backend: Backend, **settings: Any) -> Conversation:
    """Told of tools as the small model was taught, which its file alone says."""
    settings = {"prompt_profile": "tiny-tools", **settings}
    return Conversation(backend, tools(), Settings(generation=GREEDY, **settings), language.load())


async def talk(chat: Conversation, *lines: str) -> list[list[Event]]:
    return [await collect(Turn(chat).run(line)) for line in lines]


async def take(backend: Backend, prompt: Sequence[Message] = HELLO, generation: Generation = GREEDY) -> list[Any]:
    """All that comes of one request."""
    return [item async for item in backend.stream(prompt, generation)]


async def write(backend: Backend, prompt: Sequence[Message] = HELLO, generation: Generation = GREEDY) -> str:
    """The text of a reply."""
    return "".join(item for item in await take(backend, prompt, generation) if isinstance(item, str))


def usage_of(items: Sequence[Any]) -> Usage:
    assert isinstance(items[-1], Usage)
    return items[-1]


async def reply_of(
    backend: Backend, prompt: Sequence[Message] = HELLO, generation: Generation = GREEDY, tools: Sequence[Tool] = ()
) -> tuple[str, Usage]:
    """The text of a reply, and what it cost."""
    items = [item async for item in backend.stream(prompt, generation, tools)]
    return "".join(item for item in items if isinstance(item, str)), usage_of(items)
