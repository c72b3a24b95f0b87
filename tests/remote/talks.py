"""A talk with tools, and single replies, through whatever backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rkllm_chat import language
from rkllm_chat.chat import Backend, Chat
from rkllm_chat.config import Generation, Settings
from rkllm_chat.events import Event, Usage
from rkllm_chat.messages import Message
from stage import GREEDY, Box, collect

HELLO = [Message("system", "You are a helpful assistant."), Message("user", "Hello!")]


def tools() -> Box:
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
    return Box({"get_time": get_time, "calculate": calculate}, schemas=schemas)


def chat_with(backend: Backend, **settings: Any) -> Chat:
    """Told of tools as the small model was taught, which its file alone says."""
    taught = {"tools_share": 0.0, "few_tools": True}
    settings = {**taught, "written": frozenset(taught), **settings}
    return Chat(backend, tools(), Settings(generation=GREEDY, **settings), language.load())


async def talk(chat: Chat, *lines: str) -> list[list[Event]]:
    return [await collect(chat.send(line)) for line in lines]


async def take(backend: Backend, prompt: Sequence[Message] = HELLO, generation: Generation = GREEDY) -> list[Any]:
    """All that comes of one request."""
    return [item async for item in backend.stream(prompt, generation)]


async def write(backend: Backend, prompt: Sequence[Message] = HELLO, generation: Generation = GREEDY) -> str:
    """The text of a reply."""
    return "".join(item for item in await take(backend, prompt, generation) if isinstance(item, str))


def usage_of(items: Sequence[Any]) -> Usage:
    assert isinstance(items[-1], Usage)
    return items[-1]
