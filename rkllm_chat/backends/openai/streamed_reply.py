"""One reply of an OpenAI-compatible service while it is streamed: the text to show, and its cost."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ...core.events import Usage, WritingCall
from ..shared.stop_sequences import StopDetector
from .requests import ServiceRequest, render_native_call
from .responses import CallDelta, ReplyChunk, get_number

_FINAL_FIGURES_S = 2.0
"""How long to wait for usage figures after the end of a reply."""


@dataclass
class NativeCall:
    """A native tool call while it is streamed."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class StreamedReply:
    """State of one streamed reply. Times are of the monotonic clock.

    Attributes:
        request: The request that it answers.
        prompt_tokens: Length of the prompt, counted or estimated.
        max_tokens: Maximum number of tokens.
        stop_detector: Detects the end of the reply.
        calls: Native tool calls, in the order in which they began.
        call_of_index: The call to which a piece with an index belongs: the last one that began with it.
        text: The text so far.
        chunk_count: Number of chunks with content.
        is_thinking: Whether a thought is open.
        finish_reason: The service's reason for the end; "" before it.
        reported: Usage and timings from the service.
        started_at: Time of the request.
        first_chunk_at: Time of the first chunk with content.
        last_chunk_at: Time of the last chunk with content.
        ended_at: Time of the end.
    """

    request: ServiceRequest
    prompt_tokens: int
    max_tokens: int
    stop_detector: StopDetector
    calls: list[NativeCall] = field(default_factory=list[NativeCall])
    call_of_index: dict[int, NativeCall] = field(default_factory=dict[int, NativeCall])
    text: list[str] = field(default_factory=list[str])
    chunk_count: int = 0
    is_thinking: bool = False
    finish_reason: str = ""
    reported: dict[str, Any] = field(default_factory=dict[str, Any])
    started_at: float = field(default_factory=time.monotonic)
    first_chunk_at: float = 0.0
    last_chunk_at: float = 0.0
    ended_at: float = 0.0

    def add_chunk(self, chunk: ReplyChunk) -> str:
        """Record a chunk and return the text to show, with thoughts in `<think>` tags."""
        now = time.monotonic()
        if chunk.has_reply_content:
            self.first_chunk_at, self.last_chunk_at = self.first_chunk_at or now, now
            self.chunk_count += 1
        for part in chunk.calls:
            self._add_call_delta(part)
        for name, figures in (("usage", chunk.usage), ("timings", chunk.timings)):
            self.reported |= {name: figures} if figures else {}
        if chunk.finish_reason and not self.finish_reason:
            self.finish_reason, self.ended_at = chunk.finish_reason, now
        return self._append_text(self._mark_thought(chunk) + self.stop_detector.feed(chunk.text))

    def describe_call(self, chunk: ReplyChunk) -> WritingCall | None:
        """Return how far the call has come that a chunk continues; None if it continues none."""
        if not chunk.calls:
            return None
        call = self.call_of_index[chunk.calls[-1].index]
        return WritingCall(self.request.tool_names.get(call.name, call.name), len(call.arguments))

    def _add_call_delta(self, part: CallDelta) -> None:
        """Add a piece to its call. Ollama to 0.20 gives all calls the same index, and each an id of its own."""
        call = self.call_of_index.get(part.index)
        if call is None or (part.name and part.id and call.id and part.id != call.id):
            call = self.call_of_index[part.index] = NativeCall()
            self.calls.append(call)
        call.id, call.name = call.id or part.id, call.name or part.name
        call.arguments += part.arguments

    def chunk_timeout_s(self, first_s: float, between_s: float) -> float:
        """Return how many seconds the next chunk may take; after the end of the reply only a few.

        Args:
            first_s: Limit before the first chunk.
            between_s: Limit between two chunks.
        """
        if self.finish_reason:
            return max(0.0, self.ended_at + _FINAL_FIGURES_S - time.monotonic())
        return between_s if self.chunk_count else first_s

    @property
    def should_stop(self) -> bool:
        """Whether the reply must be ended here: by a stop sequence, a repetition, or its maximum length."""
        return bool(self.stop_detector.ending) or self.chunk_count > self.max_tokens

    def finish(self) -> str:
        """Return the delayed text, and the native calls as text."""
        rest = ("</think>\n\n" if self.is_thinking else "") + self.stop_detector.close()
        names = self.request.tool_names
        calls = (render_native_call(names.get(call.name, call.name), call.arguments) for call in self.calls)
        return self._append_text(rest + "".join(calls))

    def _mark_thought(self, chunk: ReplyChunk) -> str:
        before = ""
        if chunk.thought and not self.is_thinking:
            before, self.is_thinking = "<think>", True
        elif self.is_thinking and (chunk.text or chunk.calls):
            before, self.is_thinking = "</think>\n\n", False
        return before + chunk.thought

    def _append_text(self, text: str) -> str:
        """Return the text, preceded by the beginning of the reply that the prompt contained if it is the first."""
        if not text:
            return ""
        lead = "" if self.text else self.request.reply_prefix
        self.text.append(text)
        return lead + text

    def make_usage(self) -> Usage:
        """Return the service's figures if it reports them, else what was counted and measured here."""
        prompt, cached = self.reported_prompt_tokens, self.reported_cached_tokens or 0
        prompt = self.prompt_tokens if prompt is None else prompt
        first, last = self.first_chunk_at or time.monotonic(), self.last_chunk_at or time.monotonic()
        prefill_ms, generate_ms = (
            get_number(self.reported, "timings", f"{what}_ms") for what in ("prompt", "predicted")
        )
        return Usage(
            prompt_tokens=prompt,
            reused_tokens=min(prompt, cached),
            prefilled_tokens=prompt - min(prompt, cached),
            generated_tokens=self.generated_tokens,
            prefill_s=first - self.started_at if prefill_ms is None else prefill_ms / 1000,
            generate_s=last - first if generate_ms is None else generate_ms / 1000,
            first_token_s=first - self.started_at,
            hit_limit=(self.finish_reason == "length" or self.chunk_count > self.max_tokens)
            and not self.stop_detector.is_repeating,
            was_repeating=self.stop_detector.is_repeating,
        )

    @property
    def reported_prompt_tokens(self) -> int | None:
        """Length of the prompt as reported by the service; None if it is not."""
        reported = get_number(self.reported, "usage", "prompt_tokens")
        new = get_number(self.reported, "timings", "prompt_n")
        return (self.reported_cached_tokens or 0) + new if reported is None and new is not None else reported

    @property
    def generated_tokens(self) -> int:
        """Length of the reply in tokens, reported or counted."""
        reported = get_number(self.reported, "usage", "completion_tokens")
        reported = get_number(self.reported, "timings", "predicted_n") if reported is None else reported
        return self.chunk_count if reported is None else reported

    @property
    def reported_cached_tokens(self) -> int | None:
        """Number of cached tokens as reported by the service; None if it is not."""
        cached = get_number(self.reported, "usage", "prompt_tokens_details", "cached_tokens")
        return get_number(self.reported, "timings", "cache_n") if cached is None else cached
