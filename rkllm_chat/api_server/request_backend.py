"""The engine as one request sees it: with its grammar, its stop sequences and its limits."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from ..backends import Backend, ModelStream
from ..backends.base import (
    FirstTokenScorer,
    MessageScorer,
    MiddleFiller,
    PromptRenderer,
    PromptReplacer,
    StoppableStream,
    StreamItem,
    TextCompleter,
    TokenScore,
    TokenScorer,
)
from ..backends.shared.stop_sequences import end_reply
from ..calls.grammar import CallGrammar, NoCalls
from ..config.settings import Generation
from ..core.errors import GenerationError
from ..core.events import Usage
from ..core.messages import Message, Tool
from ..prompt.pieces import neutralize_control_tokens
from .errors import ApiError
from .prompt_progress import PromptProgress


class LimitReachedError(GenerationError):
    """The reply before has reached the token limit of the request, so no further one is generated."""


class RequestBackend:
    """A backend that applies what a request asks of each reply.

    Attributes:
        usages: Cost of each reply.
    """

    def __init__(
        self,
        backend: Backend,
        stop_sequences: Sequence[str],
        grammar: CallGrammar | NoCalls | None = None,
        answer_grammar: CallGrammar | None = None,
        prefix: str = "",
        scores: int | None = None,
        is_left: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wrap a backend; its attributes are copied.

        Args:
            backend: The loaded backend.
            stop_sequences: Texts that end a reply.
            grammar: Replaces the grammar of calls; None to keep that.
            answer_grammar: Replaces the prohibition of calls; None to keep that.
            prefix: The beginning of the first reply, which is continued.
            scores: How many of the likeliest tokens each token of a reply names; None for no probabilities.
            is_left: Whether the client has left: then counting tokens ends the preparation of its reply.

        Raises:
            ApiError: The engine cannot continue a reply, or does not tell probabilities.
        """
        # also None: the request before may have asked for scores
        if isinstance(backend, TokenScorer):
            backend.score_tokens(scores)
        elif scores is not None:
            raise ApiError(400, "This engine does not tell how probable tokens are.", param="logprobs")
        if prefix and not (isinstance(backend, TextCompleter) and isinstance(backend, PromptRenderer)):
            message = "This engine cannot continue a reply; the last message must be one of the user or a tool result."
            raise ApiError(400, message, param="messages")
        self.name, self.template, self.family = backend.name, backend.template, backend.family
        self.profile, self.context_tokens = backend.profile, backend.context_tokens
        self.native_tools, self.supports_grammar = backend.native_tools, backend.supports_grammar
        self.media_kinds = backend.media_kinds
        self.prefill = backend.prefill
        loses_conversation = isinstance(backend, PromptReplacer) and backend.loses_conversation
        if isinstance(backend, FirstTokenScorer) and not loses_conversation:
            self.score_first_token = backend.score_first_token
        if isinstance(backend, MessageScorer):
            self.score_messages, self.prepare_scores = backend.score_messages, backend.prepare_scores
        self.usages: list[Usage] = []
        self._backend, self._stop_sequences, self._prefix = backend, tuple(stop_sequences), prefix
        self._grammar, self._answer_grammar = grammar, answer_grammar
        self._is_left = is_left
        self._known_tokens: int | None = None
        self._stream: ModelStream | None = None
        self._scores: list[TokenScore] = []

    @property
    def was_cut(self) -> bool:
        """Whether the last reply did not end by itself."""
        return bool(self.usages) and self.usages[-1].is_cut

    @property
    def has_reached_limit(self) -> bool:
        """Whether the last reply ended at the token limit."""
        return bool(self.usages) and self.usages[-1].hit_limit

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """Return the length of a prompt in tokens. Raises GenerationError if the client has left."""
        if self._is_left():
            raise GenerationError("The client has left.")
        return self._backend.count_tokens(prompt)

    def count_cached_tokens(self, _prompt: Sequence[Message]) -> None:
        """Return None: how much of a prompt the cache has says what other clients wrote."""
        return

    def report_progress(self, known_tokens: int) -> None:
        """Yield Readings; of the next prompt, the conversation had so many tokens before."""
        self._known_tokens = known_tokens

    def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        tools: Sequence[Tool] = (),
        grammar: CallGrammar | NoCalls | None = None,
    ) -> ModelStream:
        """Generate a reply, as `Backend.stream`.

        Raises:
            LimitReachedError: The last reply ended at the token limit.
            GenerationError: The engine failed.
        """
        if self.has_reached_limit:
            raise LimitReachedError("The token limit of the request is reached.")
        prefix, self._prefix = self._prefix, ""
        if prefix and isinstance(self._backend, PromptRenderer):
            prompt = [replace(message, text=neutralize_control_tokens(message.text)) for message in prompt]
            rendered = self._backend.render_request(prompt, tools)
            # `complete` takes control tokens as such, and these texts are the client's
            return self.complete(rendered + neutralize_control_tokens(prefix), generation)
        own = self._answer_grammar if isinstance(grammar, NoCalls) else self._grammar
        known = self._known_tokens
        progress = None if known is None else PromptProgress(self.count_tokens(prompt) - known)
        return self._wrap(self._backend.stream(prompt, generation, tools, own or grammar), progress)

    def complete(self, text: str, generation: Generation) -> ModelStream:
        """Continue a text, as `TextCompleter.complete`.

        Raises:
            ApiError: The engine cannot do that.
            GenerationError: The text leaves no room, or the engine failed.
        """
        if not isinstance(self._backend, TextCompleter):
            raise ApiError(400, "This engine only answers chats; use /v1/chat/completions.", param="prompt")
        return self._wrap(self._backend.complete(text, generation))

    def fill_middle(self, prefix: str, suffix: str, generation: Generation) -> ModelStream:
        """Write what is between two texts, as `MiddleFiller.fill_middle`.

        Raises:
            ApiError: The engine cannot do that.
            NotSupportedError: The model cannot.
            GenerationError: The texts leave no room, or the engine failed.
        """
        if not isinstance(self._backend, MiddleFiller):
            raise ApiError(400, "This engine cannot write what is between two texts.", param="suffix")
        return self._wrap(self._backend.fill_middle(prefix, suffix, generation))

    def take_scores(self) -> tuple[TokenScore, ...]:
        """Return the scores of the tokens since the last call."""
        scores, self._scores = tuple(self._scores), []
        return scores

    def _wrap(self, stream: ModelStream, progress: PromptProgress | None = None) -> ModelStream:
        self._stream, self._scores = stream, []
        items = self._read(stream)
        return StoppableStream(progress.replace_readings(items) if progress else items, stream.stop)

    def stop(self) -> None:
        """End the reply that is being generated; what has been written stays."""
        if self._stream:
            self._stream.stop()

    async def _read(self, stream: ModelStream) -> AsyncGenerator[StreamItem, None]:
        """Yield the items of a reply up to a stop sequence, and record its cost."""
        ended = end_reply(stream, self._stop_sequences) if self._stop_sequences else stream
        async with aclosing(ended):
            async for item in ended:
                if isinstance(item, TokenScore):
                    self._scores.append(item)
                    continue
                if isinstance(item, Usage):
                    self.usages.append(item)
                    if self._known_tokens is not None:
                        self._known_tokens = item.prompt_tokens + item.generated_tokens
                yield item

    async def aclose(self) -> None:
        """Do nothing: the backend belongs to the server."""
        return
