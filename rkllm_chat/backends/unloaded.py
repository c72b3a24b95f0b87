"""The engine of a chat whose model is being loaded, or could not be: it generates nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from ..calls.model_families import UNKNOWN
from ..core.errors import GenerationError
from ..core.messages import MediaKind, Message, Tool
from .base import Backend, ModelStream, StoppableStream, StreamItem


class UnloadedBackend:
    """Takes the place of an engine that is closed, with its properties; see `Backend` for the attributes."""

    name = template = profile = ""
    family, context_tokens, media_kinds = UNKNOWN, 0, frozenset[MediaKind]()
    native_tools = supports_grammar = False

    def __init__(self, closed: Backend | None = None) -> None:
        """Take the place of an engine, which may be closed at once; without one, of the first, which is not loaded."""
        if closed:
            self.name, self.template, self.family = closed.name, closed.template, closed.family
            self.profile, self.context_tokens = closed.profile, closed.context_tokens
            self.media_kinds = closed.media_kinds

    def stream(self, *_request: object) -> ModelStream:
        """Return a stream that fails with GenerationError."""
        return StoppableStream(_fail(), lambda: None)

    async def prefill(self, _prompt: Sequence[Message], _tools: Sequence[Tool] = ()) -> int:
        """Return 0: nothing is evaluated."""
        return 0

    def count_tokens(self, _prompt: Sequence[Message]) -> int:
        """Return 0: no text has a known length."""
        return 0

    def count_cached_tokens(self, _prompt: Sequence[Message]) -> int | None:
        """Return None: there is no cache."""
        return None

    async def aclose(self) -> None:
        pass


async def _fail() -> AsyncGenerator[StreamItem, None]:
    raise GenerationError("No model is loaded.", "/model NAME loads one.")
    yield  # makes this a generator
