"""Write replies as OpenAI's chat completions, whole or as a stream of server-sent events."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ..backends.base import TokenScore
from ..core.events import Reading, Thought, Usage
from .chat_request import ClientCall
from .errors import ApiError
from .generation import Reply, ReplyCall, ReplyEnded, ReplyEvent, ReplyText, add_usages, collect_replies
from .openai_schema import dump_json

_CHUNK = "chat.completion.chunk"
_WHOLE = _CHUNK.removesuffix(".chunk")
END_OF_STREAM, SSE_COMMENT = b"data: [DONE]\n\n", b": alive\n\n"


class EventWriter:
    """Writes server-sent events."""

    media_type, keep_alive = "text/event-stream", SSE_COMMENT

    def write_error(self, error: ApiError) -> bytes:
        """Return an error within a stream."""
        return write_event(error.describe())


class ChatCompletion(EventWriter):
    """Collects and writes the replies to one request."""

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
        """Return the whole replies."""
        replies = await collect_replies(events)
        return {
            **self._head,
            "object": _WHOLE,
            "choices": [_describe_reply(index, reply) for index, reply in enumerate(replies)],
            "usage": describe_usage(add_usages([reply.end.usage for reply in replies])),
        }

    async def stream(self, events: AsyncIterator[ReplyEvent]) -> AsyncIterator[bytes]:
        """Yield the replies as server-sent events."""
        calls, usages = 0, list[Usage]()
        has_begun = False
        async for event in events:
            if not has_begun:
                has_begun, calls = True, 0
                yield self._write_delta(len(usages), {"role": "assistant", "content": ""})
            match event:
                case ReplyText(part, scores):
                    yield self._write_delta(len(usages), {"content": part}, scores=scores)
                case Thought(part):
                    yield self._write_delta(len(usages), {"reasoning_content": part})
                case Reading():
                    yield write_event(
                        {**self._head, "object": _CHUNK, "choices": [], "prompt_progress": _describe_progress(event)}
                    )
                case ReplyCall(call):
                    yield self._write_delta(len(usages), {"tool_calls": [{"index": calls, **_describe_call(call)}]})
                    calls += 1
                case ReplyEnded(reason, usage):
                    yield self._write_delta(len(usages), {}, reason)
                    usages.append(usage)
                    has_begun = False
        if self._includes_usage:
            yield self._write_chunk([], describe_usage(add_usages(usages)))
        yield END_OF_STREAM

    def _write_delta(
        self, index: int, delta: dict[str, Any], reason: str | None = None, scores: Sequence[TokenScore] = ()
    ) -> bytes:
        logprobs = _wrap_scores(scores)
        return self._write_chunk([{"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}])

    def _write_chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        chunk = {**self._head, "object": _CHUNK, "choices": choices}
        return write_event({**chunk, "usage": usage} if self._includes_usage else chunk)


def _describe_reply(index: int, reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or (None if reply.calls else "")}
    if reply.thought.strip():
        message["reasoning_content"] = reply.thought.strip()
    if reply.calls:
        message["tool_calls"] = list(map(_describe_call, reply.calls))
    logprobs = _wrap_scores(reply.scores)
    return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reply.end.reason}


def _wrap_scores(scores: Sequence[TokenScore]) -> dict[str, Any] | None:
    return {"content": describe_scores(scores), "refusal": None} if scores else None


def describe_scores(scores: Sequence[TokenScore]) -> list[dict[str, Any]]:
    """Return the probabilities of tokens."""
    return [
        {**_describe_token(score), "top_logprobs": [_describe_token(likely) for likely in score.likeliest]}
        for score in scores
    ]


def _describe_token(score: TokenScore) -> dict[str, Any]:
    text = score.data.decode("utf-8", errors="replace")
    return {"token": text, "logprob": score.logprob, "bytes": list(score.data)}


def _describe_call(call: ClientCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": dump_json(dict(call.arguments)).decode()}
    return {"id": call.identity, "type": "function", "function": function}


def _describe_progress(reading: Reading) -> dict[str, int]:
    """Return how much of a prompt is evaluated, as llama.cpp's server does."""
    passed_s = reading.done / reading.tokens_per_s if reading.tokens_per_s else 0
    return {"total": reading.total, "cache": 0, "processed": reading.done, "time_ms": int(1000 * passed_s)}


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
