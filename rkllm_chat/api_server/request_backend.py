"""The engine as one request sees it: with its grammar, its stop sequences and its limits."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from ..backends import Backend, ModelStream
from ..backends.base import PromptRenderer, StoppableStream, StreamItem, TextCompleter
from ..backends.shared.stop_sequences import end_reply
from ..calls.grammar import CallGrammar, NoCalls
from ..config.settings import Generation
from ..core.errors import GenerationError
from ..core.events import Usage
from ..core.messages import Message, Tool
from ..prompt.chat_templates import neutralize_control_tokens
from .errors import ApiError


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
        grammar: CallGrammar | None = None,
        answer_grammar: CallGrammar | None = None,
        prefix: str = "",
    ) -> None:
        """Wrap a backend; its attributes are copied.

        Args:
            backend: The loaded backend.
            stop_sequences: Texts that end a reply.
            grammar: Replaces the grammar of calls; None to keep that.
            answer_grammar: Replaces the prohibition of calls; None to keep that.
            prefix: The beginning of the first reply, which is continued.

        Raises:
            ApiError: The engine cannot continue a reply.
        """
        if prefix and not (isinstance(backend, TextCompleter) and isinstance(backend, PromptRenderer)):
            message = "This engine cannot continue a reply; the last message must be one of the user or a tool result."
            raise ApiError(400, message, param="messages")
        self.name, self.template, self.family = backend.name, backend.template, backend.family
        self.profile, self.context_tokens = backend.profile, backend.context_tokens
        self.native_tools, self.supports_grammar = backend.native_tools, backend.supports_grammar
        self.media_kinds = backend.media_kinds
        self.count_tokens, self.count_cached_tokens = backend.count_tokens, backend.count_cached_tokens
        self.prefill = backend.prefill
        self.usages: list[Usage] = []
        self._backend, self._stop_sequences, self._prefix = backend, tuple(stop_sequences), prefix
        self._grammar, self._answer_grammar = grammar, answer_grammar
        self._stream: ModelStream | None = None

    @property
    def has_reached_limit(self) -> bool:
        """Whether the last reply ended at the token limit."""
        return bool(self.usages) and self.usages[-1].hit_limit

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
            return self.complete(rendered + neutralize_control_tokens(prefix), generation)
        own = self._answer_grammar if isinstance(grammar, NoCalls) else self._grammar
        self._stream = self._backend.stream(prompt, generation, tools, own or grammar)
        return StoppableStream(self._read(self._stream), self._stream.stop)

    def complete(self, text: str, generation: Generation) -> ModelStream:
        """Continue a text, as `TextCompleter.complete`.

        Raises:
            ApiError: The engine cannot do that.
            GenerationError: The text leaves no room, or the engine failed.
        """
        if not isinstance(self._backend, TextCompleter):
            raise ApiError(400, "This engine only answers chats; use /v1/chat/completions.", param="prompt")
        self._stream = self._backend.complete(text, generation)
        return StoppableStream(self._read(self._stream), self._stream.stop)

    def stop(self) -> None:
        """End the reply that is being generated; what has been written stays."""
        if self._stream:
            self._stream.stop()

    async def _read(self, stream: ModelStream) -> AsyncGenerator[StreamItem, None]:
        """Yield the items of a reply up to a stop sequence, and record its cost."""
        ended = end_reply(stream, self._stop_sequences) if self._stop_sequences else stream
        async with aclosing(ended):
            async for item in ended:
                if isinstance(item, Usage):
                    self.usages.append(item)
                yield item

    async def aclose(self) -> None:
        """Do nothing: the backend belongs to the server."""
        return
