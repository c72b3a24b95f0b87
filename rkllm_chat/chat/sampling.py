"""Sampling: a server requests a reply of the model, after the user confirmed the cost, in a fresh context.

MCP 2025-11-25, client/sampling; deprecated since 2026-07-28 and still used. The server sees nothing of the
conversation, and nothing of its request enters the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..backends.base import Backend
from ..calls.model_families import make_scanner
from ..calls.scanner import InventedResult, Scanner
from ..config.settings import Settings
from ..core.events import CallFound, Text, Usage
from ..core.i18n import Words
from ..core.messages import Message, Tool
from ..core.sanitize import escape_line_visibly
from ..prompt.compose import compose_prompt
from .conversation import load_prompt_words, select_call_format
from .reply_stream import stop_and_read_usage

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult, CreateMessageResultWithTools

_Ask = Callable[[str], Awaitable[bool]]
FindBackend = Callable[[], Awaitable[Backend]]


class Sampler:
    """Answers sampling requests with the chat's model, one at a time.

    Args:
        find_backend: Returns the current backend; may wait until it is loaded.
        find_settings: Returns the current settings.
        words: Sentences in the user's language.
        ask: Asks the user to confirm a request.
    """

    def __init__(
        self, find_backend: FindBackend, find_settings: Callable[[], Settings], words: Words, ask: _Ask
    ) -> None:
        self._find_backend, self._find_settings, self._words, self._ask = find_backend, find_settings, words, ask
        self._speed = 0.0
        self._lock = asyncio.Lock()

    async def __call__(
        self, server: str, params: CreateMessageRequestParams
    ) -> CreateMessageResult | CreateMessageResultWithTools | None:
        """Return the model's reply; None if the user declines."""
        async with self._lock:
            tools = [Tool(tool.name, tool.description or "", tool.input_schema) for tool in params.tools or ()]
            backend = await self._find_backend()
            settings = self._find_settings()
            words = load_prompt_words(backend, settings, self._words)
            call_format = select_call_format(backend, settings)
            prompt = compose_prompt(
                _read_messages(params.messages), tools, words, params.system_prompt or "", call_format
            )
            tokens = backend.count_tokens(prompt)
            if not await self._ask(self._describe_request(server, prompt[-1].text, tokens, params.max_tokens)):
                return None
            scanner = make_scanner(call_format, backend.family.accepted_formats, tools, words)
            return await self._generate_reply(backend, scanner, prompt, params.max_tokens, params.temperature)

    def _describe_request(self, server: str, text: str, tokens: int, max_tokens: int) -> str:
        time = self._words("ask.sample_time", seconds=f"{tokens / self._speed:.0f}") if self._speed else ""
        excerpt = escape_line_visibly(text)[:200]
        return self._words("ask.sample", server=server, text=excerpt, tokens=tokens, most=max_tokens, time=time)

    async def _generate_reply(
        self, backend: Backend, scanner: Scanner, prompt: Sequence[Message], max_tokens: int, temperature: float | None
    ) -> CreateMessageResult | CreateMessageResultWithTools:
        generation = self._find_settings().generation
        generation = replace(
            generation,
            max_tokens=max(1, min(max_tokens, generation.max_tokens)),
            temperature=generation.temperature if temperature is None else temperature,
        )
        usage = Usage()
        events: list[Any] = []
        async with aclosing(backend.stream(prompt, generation)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Usage):
                    usage = piece
                elif isinstance(piece, str):
                    events += scanner.feed(piece)
                    if isinstance(events[-1] if events else None, InventedResult):
                        usage = await stop_and_read_usage(pieces)
                        break
        events += scanner.close()
        if usage.prefill_s and usage.prefilled_tokens:
            self._speed = usage.prefilled_tokens / usage.prefill_s
        return _write_reply(backend.name, events, usage.hit_limit)


def _read_messages(messages: Sequence[Any]) -> list[Message]:
    """Convert the server's messages: texts as they are, tool results as text, images and audio by name."""
    converted: list[Message] = []
    for message in messages:
        blocks = message.content if isinstance(message.content, list) else [message.content]
        texts = [text for block in blocks for text in _texts_of(block)]
        converted.append(Message(message.role, "\n".join(texts)))
    return converted


def _texts_of(block: Any) -> list[str]:
    from ..mcp_client.content import block_to_text

    if block.type == "tool_use":
        return []
    return [block_to_text(inner) for inner in (block.content if block.type == "tool_result" else [block])]


def _write_reply(
    model: str, events: Sequence[Any], hit_limit: bool
) -> CreateMessageResult | CreateMessageResultWithTools:
    """Convert the reply to the form of the protocol; tool calls are left to the server to run."""
    from mcp_types import CreateMessageResult, CreateMessageResultWithTools, TextContent, ToolUseContent

    text = "".join(event.text for event in events if isinstance(event, Text)).strip()
    calls = [event.call for event in events if isinstance(event, CallFound)]
    if not calls:
        reason = "maxTokens" if hit_limit else "endTurn"
        content = TextContent(type="text", text=text)
        return CreateMessageResult(role="assistant", content=content, model=model, stop_reason=reason)
    tool_uses = [
        ToolUseContent(type="tool_use", id=f"call-{i}", name=call.name, input=dict(call.arguments))
        for i, call in enumerate(calls)
    ]
    blocks: list[Any] = [*([TextContent(type="text", text=text)] if text else []), *tool_uses]
    return CreateMessageResultWithTools(role="assistant", content=blocks, model=model, stop_reason="toolUse")
