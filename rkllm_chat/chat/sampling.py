"""Sampling: a server requests a reply of the model, after the user confirmed the cost, in a fresh context.

MCP 2025-11-25, client/sampling; deprecated since 2026-07-28 and still used. The server sees nothing of the
conversation, and nothing of its request enters the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..backends.base import Backend, ModelStream
from ..calls.grammar import build_call_grammar, require_call
from ..calls.model_families import make_scanner
from ..calls.scanner import settle_thoughts
from ..config.settings import Generation, Settings
from ..core.errors import GenerationError
from ..core.events import CallFound, Event, Notice, Sentence, Text
from ..core.i18n import Words
from ..core.messages import NOT_SHOWN, Media, MediaKind, Message, Tool, ToolCall
from ..core.sanitize import escape_line_visibly
from ..prompt.compose import compose_prompt, show_media
from .conversation import find_profile, select_call_format
from .reply_stream import ReplyStream

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult, CreateMessageResultWithTools

    from ..storage.media import MediaStore

_Ask = Callable[[str], Awaitable[bool]]
GetBackend = Callable[[], Awaitable[Backend]]


class Sampler:
    """Answers sampling requests with the chat's model, one at a time.

    Args:
        get_backend: Returns the current backend; may wait until it is loaded.
        get_settings: Returns the current settings.
        words: Sentences in the user's language.
        ask: Asks the user to confirm a request.
        estimate_s: Estimates the seconds to read a number of tokens; 0.0 if unknown.
        store: Stores pictures and sounds for a model that understands them; without it they are named.
    """

    def __init__(
        self,
        get_backend: GetBackend,
        get_settings: Callable[[], Settings],
        words: Words,
        ask: _Ask,
        estimate_s: Callable[[int], float] = lambda _tokens: 0.0,
        store: MediaStore | None = None,
    ) -> None:
        self._get_backend, self._get_settings, self._words, self._ask = get_backend, get_settings, words, ask
        self._estimate_s, self._store = estimate_s, store
        self._lock = asyncio.Lock()

    async def __call__(
        self, server: str, params: CreateMessageRequestParams
    ) -> CreateMessageResult | CreateMessageResultWithTools | None:
        """Return the model's reply; None if the user declines.

        Raises:
            GenerationError: The request requires a call of a tool, and the reply has none.
        """
        choice = params.tool_choice.mode if params.tool_choice else "auto"
        offered = () if choice == "none" else params.tools or ()
        tools = [Tool(tool.name, tool.description or "", tool.input_schema) for tool in offered]
        must_call = choice == "required"
        if must_call and not tools:
            raise GenerationError("The request requires a tool call and offers no tools.")
        async with self._lock:
            # inside the lock: the model may have been switched while this request waited
            backend, settings = await self._get_backend(), self._get_settings()
            words = find_profile(backend, settings).load_words(self._words.code)
            call_format = select_call_format(backend, settings)
            kinds = backend.media_kinds if self._store else frozenset[MediaKind]()
            messages = await _read_messages(params.messages, self._store, kinds)
            prompt = compose_prompt(messages, tools, words, params.system_prompt or "", call_format, media_kinds=kinds)
            tokens = backend.count_tokens(prompt)
            shown = show_media(prompt[-1]).text.replace(NOT_SHOWN, "]")
            if not await self._ask(self._describe_request(server, shown, tokens, params.max_tokens)):
                return None
            grammar = build_call_grammar(tools, call_format) if must_call and backend.supports_grammar else None
            generation = self._choose_generation(params.max_tokens, params.temperature)
            stream = backend.stream(prompt, generation, (), require_call(grammar) if grammar else None)
            scanner = make_scanner(call_format, backend.family.accepted_formats, tools, words)
            events, hit_limit = await _read_events(ReplyStream(scanner, lambda _call: None), stream)
            calls = [event.call for event in events if isinstance(event, CallFound)] if tools else []
            if must_call and not calls:
                raise GenerationError("The model called no tool, which the request requires.")
            return _write_reply(backend.name, events, calls, hit_limit)

    def _describe_request(self, server: str, text: str, tokens: int, max_tokens: int) -> str:
        time_s = self._estimate_s(tokens)
        time = self._words("ask.sample_time", seconds=f"{time_s:.0f}") if time_s else ""
        excerpt = escape_line_visibly(text)[:200]
        return self._words("ask.sample", server=server, text=excerpt, tokens=tokens, most=max_tokens, time=time)

    def _choose_generation(self, max_tokens: int, temperature: float | None) -> Generation:
        generation = self._get_settings().generation
        return replace(
            generation,
            max_tokens=max(1, min(max_tokens, generation.max_tokens)),
            temperature=generation.temperature if temperature is None else temperature,
        )


async def _read_events(reply: ReplyStream, stream: ModelStream) -> tuple[list[Event], bool]:
    """Return the events of a reply, and whether the limit of tokens truncated it."""
    events: list[Event] = []

    async def keep(event: Event) -> None:
        events.append(event)

    await reply.read(stream, keep, lambda piece: Notice(piece.key) if isinstance(piece, Sentence) else piece)
    return events, reply.usage.hit_limit


async def _read_messages(
    messages: Sequence[Any], store: MediaStore | None, kinds: frozenset[MediaKind]
) -> list[Message]:
    """Convert the server's messages: texts and results of tools, with the media that the model understands.

    Other images and sounds are named in the text.
    """
    from ..mcp_client.content import block_to_text
    from ..mcp_client.stored_content import read_block_media

    converted: list[Message] = []
    for message in messages:
        texts, media = list[str](), list[Media]()
        for block in _list_blocks(message):
            found = await read_block_media(store, block) if store and kinds and message.role == "user" else None
            if found and found.kind in kinds:
                media.append(replace(found, position=len("\n".join(texts))))
            else:
                texts.append(block_to_text(block))
        converted.append(Message(message.role, "\n".join(texts), media=tuple(media)))
    return converted


def _list_blocks(message: Any) -> list[Any]:
    """Return the content blocks of a message, with those of tool results and without tool calls."""
    blocks = message.content if isinstance(message.content, list) else [message.content]
    return [
        inner
        for block in blocks
        if block.type != "tool_use"
        for inner in (block.content if block.type == "tool_result" else [block])
    ]


def _write_reply(
    model: str, events: Sequence[Any], calls: Sequence[ToolCall], hit_limit: bool
) -> CreateMessageResult | CreateMessageResultWithTools:
    """Convert the reply to the form of the protocol; tool calls are left to the server to run."""
    from mcp_types import CreateMessageResult, CreateMessageResultWithTools, TextContent, ToolUseContent

    text = "".join(event.text for event in settle_thoughts(events) if isinstance(event, Text)).strip()
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
