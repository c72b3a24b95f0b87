"""Write replies as OpenAI's chat completions, whole or as a stream of server-sent events."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ..core.events import Reading, Text, Thought, Usage
from .chat_request import ClientCall
from .errors import ApiError
from .generation import ReplyCall, ReplyEnded, ReplyEvent
from .openai_schema import dump_json

_CHUNK = "chat.completion.chunk"
_WHOLE = _CHUNK.removesuffix(".chunk")
END_OF_STREAM, SSE_COMMENT = b"data: [DONE]\n\n", b": alive\n\n"
_PROGRESS_STEP = 64
"""Progress is reported in steps of so many tokens: exact numbers would reveal what other clients have in the cache."""


class ChatCompletion:
    """Collects and writes one reply."""

    media_type, keep_alive = "text/event-stream", SSE_COMMENT

    def __init__(self, model: str, includes_usage: bool = False) -> None:
        """Start a reply.

        Args:
            model: Name of the model for the client.
            includes_usage: Whether a stream ends with the usage.
        """
        self._head: dict[str, Any] = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
        }
        self._includes_usage = includes_usage

    async def collect(self, events: AsyncIterator[ReplyEvent]) -> dict[str, Any]:
        """Return the whole reply."""
        text, thought, calls, usage, reason = "", "", [], Usage(), "stop"
        async for event in events:
            match event:
                case Text(part):
                    text += part
                case Thought(part):
                    thought += part
                case ReplyCall(call):
                    calls.append(_describe_call(call))
                case ReplyEnded(reason, usage):
                    pass
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
        if thought.strip():
            message["reasoning_content"] = thought.strip()
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return {**self._head, "object": _WHOLE, "choices": [choice], "usage": describe_usage(usage)}

    async def stream(self, events: AsyncIterator[ReplyEvent]) -> AsyncIterator[bytes]:
        """Yield the reply as server-sent events."""
        index = 0
        has_begun = False
        async for event in events:
            if not has_begun:
                has_begun = True
                yield self._write_delta({"role": "assistant", "content": ""})
            match event:
                case Text(part):
                    yield self._write_delta({"content": part})
                case Thought(part):
                    yield self._write_delta({"reasoning_content": part})
                case Reading():
                    yield write_event(
                        {**self._head, "object": _CHUNK, "choices": [], "prompt_progress": _describe_progress(event)}
                    )
                case ReplyCall(call):
                    yield self._write_delta({"tool_calls": [{"index": index, **_describe_call(call)}]})
                    index += 1
                case ReplyEnded(reason, usage):
                    for chunk in self._write_end(reason, usage):
                        yield chunk

    def write_error(self, error: ApiError) -> bytes:
        """Return an error within a stream."""
        return write_event(error.describe())

    def _write_delta(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        return self._write_chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}])

    def _write_end(self, reason: str, usage: Usage) -> Iterator[bytes]:
        yield self._write_delta({}, reason)
        if self._includes_usage:
            yield self._write_chunk([], describe_usage(usage))
        yield END_OF_STREAM

    def _write_chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        chunk = {**self._head, "object": _CHUNK, "choices": choices}
        return write_event({**chunk, "usage": usage} if self._includes_usage else chunk)


def _describe_call(call: ClientCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": dump_json(dict(call.arguments)).decode()}
    return {"id": call.identity, "type": "function", "function": function}


def _describe_progress(reading: Reading) -> dict[str, int]:
    """Return how much of a prompt is evaluated, as llama.cpp's server does."""
    total, done = (-(-tokens // _PROGRESS_STEP) * _PROGRESS_STEP for tokens in (reading.total, reading.done))
    passed_s = reading.done / reading.tokens_per_s if reading.tokens_per_s else 0
    return {"total": total, "cache": 0, "processed": done, "time_ms": int(1000 * passed_s)}


def describe_usage(usage: Usage) -> dict[str, Any]:
    """Return the token counts in OpenAI's shape."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.generated_tokens,
        "total_tokens": usage.prompt_tokens + usage.generated_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.reused_tokens},
    }


def write_event(value: Any, name: str = "") -> bytes:
    """Return a server-sent event with a JSON document."""
    return (b"event: " + name.encode() + b"\n" if name else b"") + b"data: " + dump_json(value) + b"\n\n"
