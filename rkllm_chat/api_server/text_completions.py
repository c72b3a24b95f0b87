"""OpenAI's completions of a text, without a chat template: read requests, generate and write replies."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, Field

from ..backends import Backend
from ..config.settings import Settings
from ..core.events import Text, Usage
from .errors import ApiError
from .generation import ReplyEnded, ReplyEvent, add_usages, check_length
from .openai_api import END_OF_STREAM, SSE_COMMENT, describe_usage, write_event
from .openai_schema import Limit, RequestBody, SamplingParameters
from .request_backend import RequestBackend

_DEFAULT_MAX_TOKENS = 16  # of the API


class TextCompletionBody(RequestBody, SamplingParameters):
    """Body of `POST /v1/completions`."""

    prompt: str = Field(min_length=1)
    max_tokens: Limit = None
    n: Literal[1] | None = None
    echo: Literal[False] | None = None
    suffix: Literal[""] | None = None


class TokenizeBody(BaseModel):
    """Body of `POST /tokenize`."""

    content: str


async def complete_text(
    backend: Backend, settings: Settings, body: TextCompletionBody
) -> AsyncGenerator[ReplyEvent, None]:
    """Yield the continuation of a text; closing the stream stops the engine.

    Raises:
        ApiError: The engine cannot continue a text.
        GenerationError: The text does not fit, or the engine failed.
    """
    check_length(len(body.prompt), backend)
    requested = RequestBackend(backend, body.read_stop_sequences())
    is_limited = "max_tokens" in body.model_fields_set
    values = body.read_generation(body.max_tokens if is_limited else _DEFAULT_MAX_TOKENS)
    async with aclosing(requested.complete(body.prompt, replace(settings.generation, **values))) as items:
        async for item in items:
            if isinstance(item, str):
                yield Text(item)
    # the cache is shared by all clients: what it has of a text would say what others wrote
    usages = [replace(usage, reused_tokens=0) for usage in requested.usages]
    yield ReplyEnded("length" if requested.has_reached_limit else "stop", add_usages(usages))


class TextCompletion:
    """Collects and writes one continuation."""

    media_type, keep_alive = "text/event-stream", SSE_COMMENT

    def __init__(self, model: str) -> None:
        """Start a reply under the name of the model for the client."""
        identity = f"cmpl-{secrets.token_hex(12)}"
        self._head = {"id": identity, "object": "text_completion", "created": int(time.time()), "model": model}

    async def collect(self, events: AsyncIterator[ReplyEvent]) -> dict[str, Any]:
        """Return the whole continuation."""
        text, end = "", ReplyEnded("stop", Usage())
        async for event in events:
            text += event.text if isinstance(event, Text) else ""
            end = event if isinstance(event, ReplyEnded) else end
        return {**self._describe(text, end.reason), "usage": describe_usage(end.usage)}

    async def stream(self, events: AsyncIterator[ReplyEvent]) -> AsyncIterator[bytes]:
        """Yield the continuation as server-sent events."""
        async for event in events:
            if isinstance(event, Text):
                yield write_event(self._describe(event.text, None))
            elif isinstance(event, ReplyEnded):
                yield write_event(self._describe("", event.reason))
                yield END_OF_STREAM

    def write_error(self, error: ApiError) -> bytes:
        """Return an error within a stream."""
        return write_event(error.describe())

    def _describe(self, text: str, reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
        return {**self._head, "choices": [choice]}
