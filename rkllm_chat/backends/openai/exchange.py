"""One request to one service and its streamed reply."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import anyio

from ...config.settings import Generation
from ...core.errors import ChatError, ContextOverflowError, GenerationError, prompt_too_long
from ...core.events import Reading, Sentence, Usage
from ..base import StreamItem
from ..shared.stop_sequences import StopDetector
from .requests import ServiceRequest, make_sampling_parameters
from .responses import CutOffError, ReplyChunk, UnreachableError, get_number, parse_chunk
from .service import Service
from .streamed_reply import StreamedReply

_MAX_UNCOUNTED_FRACTION = 0.7
"""A prompt estimated to fill more than this fraction of the available tokens is counted by the service, if it can."""
_MAX_ESTIMATE_FACTOR = 2
"""A prompt estimated at more than this many times the context is refused without an exact count."""
_CLOSE_S = 0.3
_DIAGNOSIS_S = 5.0
_MIN_DIAGNOSED_FRACTION = 0.4
"""A prompt that fills less than this fraction of an assumed context is not suspected to overflow it."""
_MIN_MEASURED_TOKENS = 32
"""Minimum number of prefilled tokens for a measurement of speed."""


class Exchange:
    """Sends a request, reads the reply, and records what the service reports about it."""

    def __init__(
        self,
        service: Service,
        request: ServiceRequest,
        generation: Generation,
        context_tokens: int,
        stop: asyncio.Event,
        *,
        is_assumed: bool = False,
    ) -> None:
        """Prepare a request.

        Args:
            service: The service; its `info` is known.
            request: The request.
            generation: Sampling parameters.
            context_tokens: Size of the context window.
            stop: Set by the consumer to end the reply early.
            is_assumed: Whether the size of the context window is not known.
        """
        self._service, self._request, self._generation = service, request, generation
        self._context_tokens, self._stop, self._is_assumed = context_tokens, stop, is_assumed

    async def run(self) -> AsyncGenerator[StreamItem, None]:
        """Yield the reply, then its Usage; during prefill also Readings.

        Raises:
            UnreachableError: The service did not respond.
            ServiceBusyError: The service asks to retry later.
            ContextOverflowError: The service rejects the prompt as too long.
            GenerationError: The prompt is too long, or the reply was cut off or is invalid.
        """
        service, request = self._service, self._request
        prompt_tokens, max_tokens = await self._count_prompt()
        reply = StreamedReply(request, prompt_tokens, max_tokens, StopDetector(request.stop_sequences))
        known_prefix = service.token_counts.find_known_prefix(request.text)
        new_tokens = service.token_counts.count(request.text[len(known_prefix) :])
        yield Reading(0, max(1, new_tokens), service.prefill_tokens_per_s)
        async with (
            service.open_stream(request.path, self._make_body(max_tokens)) as data,
            aclosing(self._read_reply(data, reply)) as items,
        ):
            async for item in items:
                yield item
        service.record_success()
        if rest := reply.finish():
            yield rest
        yield await self._record_usage(reply)

    async def _count_prompt(self) -> tuple[int, int]:
        """Return the length of the prompt, exact if it is close to the limit, and the maximum length of the reply.

        Raises GenerationError if the prompt is too long.
        """
        service, request, max_tokens = self._service, self._request, self._generation.max_tokens
        tokens, is_exact = service.token_counts.count(request.text), service.token_counts.is_known(request.text)
        limit_tokens = _MAX_UNCOUNTED_FRACTION * (self._context_tokens - max_tokens)
        if not is_exact and tokens > limit_tokens and request.path == "/completions":
            counted = await service.count_tokens(request.text)
            tokens, is_exact = (tokens, False) if counted is None else (counted, True)
        available = self._context_tokens - tokens
        is_far_above = tokens > _MAX_ESTIMATE_FACTOR * self._context_tokens and not request.has_media
        is_certain = is_exact or (is_far_above and not self._is_assumed)
        if available <= 0 and is_certain:
            raise prompt_too_long(tokens, self._context_tokens)
        # a close estimate is no reason to refuse a prompt: the service decides
        return tokens, min(max_tokens, available) if available > 0 else max_tokens

    async def find_overflow(self) -> ContextOverflowError | None:
        """Request one token without streaming, to learn whether a reply failed because the prompt is too long.

        Some services (llama-cpp-python) only close the connection when that happens in a stream. A prompt that is small
        for the context is not sent again.
        """
        tokens = self._service.token_counts.count(self._request.text)
        if tokens < _MIN_DIAGNOSED_FRACTION * self._context_tokens:
            return None
        body = {**self._make_body(1), "stream": False}
        del body["stream_options"]
        try:
            with anyio.move_on_after(_DIAGNOSIS_S):
                async with self._service.open_stream(self._request.path, body):
                    return None
        except ContextOverflowError as overflow:
            return overflow
        except ChatError:
            return None
        return None

    def _make_body(self, max_tokens: int) -> dict[str, Any]:
        info = self._service.info
        assert info
        return {
            "model": info.model,
            **self._request.body,
            **make_sampling_parameters(replace(self._generation, max_tokens=max_tokens), info.kind),
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"return_progress": True} if info.kind_name == "llama.cpp" else {}),
        }

    async def _read_reply(
        self, data: AsyncGenerator[str, None], reply: StreamedReply
    ) -> AsyncGenerator[StreamItem, None]:
        """Yield the reply until it is complete or `stop` is set."""
        async with aclosing(self._read_chunks(data)) as chunks:
            while (chunk := await self._next_chunk(chunks, reply)) is not None:
                if chunk.progress:
                    yield _read_progress(chunk, time.monotonic() - reply.started_at)
                if text := reply.add_chunk(chunk):
                    yield text
                if writing := reply.describe_call(chunk):
                    yield writing
                if reply.should_stop or self._stop.is_set():
                    break
        if reply.stop_detector.is_repeating:
            yield Sentence("chat.circle")

    async def _read_chunks(self, data: AsyncGenerator[str, None]) -> AsyncGenerator[ReplyChunk, None]:
        identity = self._service.identity
        async with aclosing(data):
            async for text in data:
                if text.strip():
                    yield ReplyChunk(is_last=True) if text.strip() == "[DONE]" else parse_chunk(text, identity)

    async def _next_chunk(self, chunks: AsyncGenerator[ReplyChunk, None], reply: StreamedReply) -> ReplyChunk | None:
        """Return the next chunk with content; None at the end. Raises UnreachableError if the reply has not begun."""
        options = self._service.options
        limit_s = reply.chunk_timeout_s(options.first_s, options.timeout_s)
        try:
            with anyio.fail_after(limit_s):
                async for chunk in chunks:
                    if chunk.is_last:
                        if reply.chunk_count:  # [DONE] ends a reply, whether the service names a reason or not
                            reply.finish_reason = reply.finish_reason or "stop"
                        await _read_to_end(chunks)
                        break
                    if chunk.has_data:
                        return chunk
        except TimeoutError:
            if not reply.finish_reason:
                raise self._silence_error(limit_s, has_begun=reply.chunk_count > 0) from None
        except UnreachableError as error:
            if not reply.finish_reason:
                raise (self._cut_error() if reply.chunk_count else error) from error
        if not reply.finish_reason:
            raise self._cut_error()
        return None

    def _silence_error(self, limit_s: float, *, has_begun: bool) -> GenerationError:
        self._service.record_failure()
        when = "in the middle of a reply" if has_begun else "before the reply began"
        return GenerationError(f"{self._service.url} sent nothing for {limit_s:g} s {when}.", "Try it again.")

    def _cut_error(self) -> CutOffError:
        self._service.record_failure()
        return CutOffError(f"{self._service.url} closed the connection in the middle of a reply.", "Try /retry.")

    async def _record_usage(self, reply: StreamedReply) -> Usage:
        """Return the cost of the reply, and record what the service reported or counted."""
        service, text, counts = self._service, self._request.text, self._service.token_counts
        if reply.reported_cached_tokens is not None:
            service.caches_prompts = reply.reported_cached_tokens > 0 or not counts.find_known_prefix(text)
        if reply.reported_prompt_tokens is not None:
            counts.record(text, reply.reported_prompt_tokens, is_text=not self._request.has_media)
        elif (
            not counts.is_known(text) and not self._request.has_media and (counted := await service.count_tokens(text))
        ):
            reply.prompt_tokens = counted
        usage = reply.make_usage()
        if reply.reported_prompt_tokens is not None:
            service.accepted_tokens = max(service.accepted_tokens, usage.prompt_tokens + usage.generated_tokens)
        if reply.reported.get("timings") and usage.prefilled_tokens >= _MIN_MEASURED_TOKENS and usage.prefill_s > 0:
            service.prefill_tokens_per_s = usage.prefilled_tokens / usage.prefill_s
        if self._request.path == "/completions":
            counts.record(text + "".join(reply.text), usage.prompt_tokens + usage.generated_tokens)
        return usage


async def _read_to_end(chunks: AsyncGenerator[ReplyChunk, None]) -> None:
    """Read to the end of the connection: an abandoned stream would be closed only by the event loop's cleanup."""
    with anyio.move_on_after(_CLOSE_S):
        async for _ in chunks:
            pass


def _read_progress(chunk: ReplyChunk, seconds: float) -> Reading:
    """Return the progress of llama.cpp's server in the prompt."""
    total, cached, processed = (get_number(chunk.progress, key) or 0 for key in ("total", "cache", "processed"))
    done = max(0, processed - cached)
    return Reading(done, max(1, total - cached), done / seconds if seconds > 0 else 0.0)
