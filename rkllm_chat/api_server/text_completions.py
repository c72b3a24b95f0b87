"""Continuations of texts without a chat template: read requests, generate and write replies.

OpenAI's completions, and what Ollama's clients ask for with `raw` and `suffix`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ..backends import Backend
from ..backends.base import TokenScore
from ..config.settings import Settings
from .generation import ReplyEnded, ReplyEvent, ReplyText, add_usages, check_length, collect_replies, vary_reply
from .openai_api import END_OF_STREAM, EventWriter, describe_usage, write_event
from .openai_schema import MAX_REPLIES, Limit, RequestBody, SamplingParameters
from .request_backend import RequestBackend

_DEFAULT_MAX_TOKENS = 16  # of the API
_MAX_TEXTS, _MAX_SCORES = 64, 5
_Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class Continuation:
    """A request to continue texts.

    Attributes:
        texts: The texts; each has its own replies.
        suffix: What follows a reply; the model fills in what is between. None to continue a text.
        replies: Number of replies to each text.
        stop_sequences: Texts that end a reply.
        generation: Sampling parameters that the request sets.
        scores: How many of the likeliest tokens each token names; None for no probabilities.
    """

    texts: Sequence[str]
    suffix: str | None = None
    replies: int = 1
    stop_sequences: tuple[str, ...] = ()
    generation: Mapping[str, Any] = field(default_factory=dict[str, Any])
    scores: int | None = None


class ContinuationBody(RequestBody):
    """What the bodies of such requests have in common."""

    def read_continuation(self) -> Continuation:
        """Return the request. Raises ApiError."""
        raise NotImplementedError


class TextCompletionBody(ContinuationBody, SamplingParameters):
    """Body of `POST /v1/completions`."""

    prompt: _Text | Annotated[list[_Text], Field(min_length=1, max_length=_MAX_TEXTS)]
    max_tokens: Limit = None
    n: int | None = Field(default=None, ge=1, le=MAX_REPLIES)
    logprobs: int | None = Field(default=None, ge=0, le=_MAX_SCORES)
    echo: Literal[False] | None = None
    suffix: str | None = None

    def read_continuation(self) -> Continuation:
        """Return the request. Raises ApiError."""
        is_limited = "max_tokens" in self.model_fields_set
        return Continuation(
            [self.prompt] if isinstance(self.prompt, str) else self.prompt,
            self.suffix or None,
            replies=self.n or 1,
            stop_sequences=self.read_stop_sequences(),
            generation=self.read_generation(self.max_tokens if is_limited else _DEFAULT_MAX_TOKENS),
            scores=self.logprobs,
        )


class TokenizeBody(BaseModel):
    """Body of `POST /tokenize`."""

    content: str


async def continue_texts(
    backend: Backend, settings: Settings, request: Continuation
) -> AsyncGenerator[ReplyEvent, None]:
    """Yield the events of the replies, one after another; closing the stream stops the engine.

    Args:
        backend: The loaded backend, held exclusively.
        settings: Settings of the server.
        request: The request.

    Raises:
        ApiError: The engine cannot do that.
        NotSupportedError: The model was not trained to fill in.
        GenerationError: A text does not fit, or the engine failed.
    """
    for text in request.texts:
        check_length(len(text) + len(request.suffix or ""), backend)
    generation = replace(settings.generation, **request.generation)
    for number in range(len(request.texts) * request.replies):
        text, number = request.texts[number // request.replies], number % request.replies
        requested = RequestBackend(backend, request.stop_sequences, scores=request.scores)
        varied = replace(generation, **vary_reply(generation.seed, number))
        if request.suffix is None:
            stream = requested.complete(text, varied)
        else:
            stream = requested.fill_middle(text, request.suffix, varied)
        async with aclosing(stream) as items:
            async for item in items:
                if isinstance(item, str):
                    yield ReplyText(item, requested.take_scores())
        # the cache is shared by all clients: what it has of a text would say what others wrote
        usage = replace(add_usages(requested.usages), reused_tokens=0)
        reason: Literal["length", "stop"] = "length" if requested.has_reached_limit else "stop"
        yield ReplyEnded(reason, replace(usage, prompt_tokens=0) if number else usage)


class TextCompletion(EventWriter):
    """Collects and writes continuations as OpenAI's API does."""

    def __init__(self, model: str) -> None:
        """Start under the name of the model for the client."""
        identity = f"cmpl-{secrets.token_hex(12)}"
        self._head = {"id": identity, "object": "text_completion", "created": int(time.time()), "model": model}

    async def collect(self, events: AsyncIterator[ReplyEvent]) -> dict[str, Any]:
        replies = await collect_replies(events)
        choices = [
            _describe_choice(index, reply.text, reply.end.reason, reply.scores) for index, reply in enumerate(replies)
        ]
        return {
            **self._head,
            "choices": choices,
            "usage": describe_usage(add_usages([reply.end.usage for reply in replies])),
        }

    async def stream(self, events: AsyncIterator[ReplyEvent]) -> AsyncIterator[bytes]:
        """Yield the continuations as server-sent events."""
        index = 0
        async for event in events:
            match event:
                case ReplyText(text, scores):
                    yield self._write(_describe_choice(index, text, None, scores))
                case ReplyEnded(reason):
                    yield self._write(_describe_choice(index, "", reason))
                    index += 1
        yield END_OF_STREAM

    def _write(self, choice: dict[str, Any]) -> bytes:
        return write_event({**self._head, "choices": [choice]})


def _describe_choice(index: int, text: str, reason: str | None, scores: Sequence[TokenScore] = ()) -> dict[str, Any]:
    choice = {"index": index, "text": text, "logprobs": None, "finish_reason": reason}
    if not scores:
        return choice
    tokens = [_decode(score) for score in scores]
    logprobs = {
        "tokens": tokens,
        "token_logprobs": [score.logprob for score in scores],
        "top_logprobs": [{_decode(likely): likely.logprob for likely in score.likeliest} for score in scores],
        "text_offset": [0, *accumulate(map(len, tokens[:-1]))],
    }
    return {**choice, "logprobs": logprobs}


def _decode(score: TokenScore) -> str:
    return score.data.decode("utf-8", errors="replace")
