"""A server asks for a reply of the model: it is told the price first, and gets a fresh context. It prints nothing.

MCP 2025-11-25, client/sampling; deprecated since 2026-07-28 and still asked for. Nothing of the talk is shown to the
server, and nothing it says enters the talk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .chat import Backend
from .clean import reveal_line
from .config import Settings
from .events import CallFound, Text, Usage
from .families import make_scanner
from .hearing import find_cost
from .language import Words
from .messages import Message, Tool
from .prompt import compose
from .scanner import Invented, Scanner
from .window import form_of, words_for

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult, CreateMessageResultWithTools

Ask = Callable[[str], Awaitable[bool]]
FindBackend = Callable[[], Awaitable[Backend]]


class Sampler:
    """Answers with the chat's own model, one question at a time. `ask` is put to the user before that."""

    def __init__(self, find_backend: FindBackend, settings: Settings, words: Words, ask: Ask) -> None:
        self._find_backend, self._settings, self._words, self._ask = find_backend, settings, words, ask
        self._speed = 0.0
        self._turn = asyncio.Lock()

    async def __call__(
        self, server: str, params: CreateMessageRequestParams
    ) -> CreateMessageResult | CreateMessageResultWithTools | None:
        """The model's reply; None when the user does not want it."""
        async with self._turn:
            tools = [Tool(tool.name, tool.description or "", tool.input_schema) for tool in params.tools or ()]
            backend = await self._find_backend()
            words = words_for(backend, self._settings, self._words)
            form = form_of(backend, self._settings)
            prompt = compose(read_messages(params.messages), tools, words, params.system_prompt or "", form)
            tokens = backend.count_tokens(prompt)
            if not await self._ask(self._describe(server, prompt[-1].text, tokens, params.max_tokens)):
                return None
            scanner = make_scanner(form, backend.family.accepts, tools, words)
            return await self._reply(backend, scanner, prompt, params.max_tokens, params.temperature)

    def _describe(self, server: str, text: str, tokens: int, most: int) -> str:
        seconds = f"{tokens / self._speed:.0f}" if self._speed else "?"
        asked = reveal_line(text)[:200]
        return self._words("ask.sample", server=server, text=asked, tokens=tokens, most=most, seconds=seconds)

    async def _reply(
        self, backend: Backend, scanner: Scanner, prompt: Sequence[Message], most: int, temperature: float | None
    ) -> CreateMessageResult | CreateMessageResultWithTools:
        generation = self._settings.generation
        generation = replace(
            generation,
            max_tokens=max(1, min(most, generation.max_tokens)),
            temperature=generation.temperature if temperature is None else temperature,
        )
        usage = Usage()
        seen: list[Any] = []
        async with aclosing(backend.stream(prompt, generation)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Usage):
                    usage = piece
                elif isinstance(piece, str):
                    seen += scanner.feed(piece)
                    if isinstance(seen[-1] if seen else None, Invented):
                        usage = await find_cost(pieces)
                        break
        seen += scanner.close()
        if usage.prefill_s and usage.prefilled_tokens:
            self._speed = usage.prefilled_tokens / usage.prefill_s
        return write_reply(backend.name, seen, usage.hit_limit)


def read_messages(messages: Sequence[Any]) -> list[Message]:
    """The server's messages as ours: their texts; results of tools as the user's words; pictures and sound by name."""
    read: list[Message] = []
    for message in messages:
        blocks = message.content if isinstance(message.content, list) else [message.content]
        texts = [text for block in blocks for text in texts_of(block)]
        read.append(Message(message.role, "\n".join(texts)))
    return read


def texts_of(block: Any) -> list[str]:
    from .servers.content import read_block

    if block.type == "tool_use":
        return []
    return [read_block(inner) for inner in (block.content if block.type == "tool_result" else [block])]


def write_reply(model: str, seen: Sequence[Any], hit_limit: bool) -> CreateMessageResult | CreateMessageResultWithTools:
    """The reply in the protocol's form; calls that the model wrote are left to the server to run."""
    from mcp_types import CreateMessageResult, CreateMessageResultWithTools, TextContent, ToolUseContent

    text = "".join(event.text for event in seen if isinstance(event, Text)).strip()
    calls = [event.call for event in seen if isinstance(event, CallFound)]
    if not calls:
        reason = "maxTokens" if hit_limit else "endTurn"
        content = TextContent(type="text", text=text)
        return CreateMessageResult(role="assistant", content=content, model=model, stop_reason=reason)
    used = [
        ToolUseContent(type="tool_use", id=f"call-{i}", name=call.name, input=dict(call.arguments))
        for i, call in enumerate(calls)
    ]
    blocks: list[Any] = [*([TextContent(type="text", text=text)] if text else []), *used]
    return CreateMessageResultWithTools(role="assistant", content=blocks, model=model, stop_reason="toolUse")
