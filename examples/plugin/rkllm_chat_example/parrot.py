"""A backend that repeats what the user said, and calls the tools that the user wrote calls of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from rkllm_chat.backends import Backend, ModelStream
from rkllm_chat.backends.base import StoppableStream, StreamItem
from rkllm_chat.calls.grammar import CallGrammar, NoCalls
from rkllm_chat.calls.model_families import UNKNOWN
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import MediaKind, Message, Tool


def open_parrot(settings: Settings) -> Backend:
    """Open the backend; what a real one would load is in `settings.model`."""
    return Parrot(settings.context_tokens or 4096)


class Parrot:
    """The backend; `rkllm_chat.backends.Backend` documents each member."""

    name = "parrot"
    template = ""
    family = UNKNOWN
    profile = ""
    native_tools = False
    supports_grammar = False
    media_kinds = frozenset[MediaKind]()

    def __init__(self, context_tokens: int) -> None:
        self.context_tokens = context_tokens

    def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        tools: Sequence[Tool] = (),
        grammar: CallGrammar | NoCalls | None = None,
    ) -> ModelStream:
        """Repeat the last message, a word at a time."""
        stop = asyncio.Event()

        async def repeat() -> AsyncGenerator[StreamItem, None]:
            words = prompt[-1].text.split(" ")[: generation.max_tokens]
            for word in words:
                if stop.is_set():
                    break
                yield f"{word} "
                await asyncio.sleep(0)
            tokens = self.count_tokens(prompt)
            yield Usage(prompt_tokens=tokens, prefilled_tokens=tokens, generated_tokens=len(words))

        return StoppableStream(repeat(), stop.set)

    async def prefill(self, prompt: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
        """Evaluate nothing."""
        return 0

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """Count words."""
        return sum(len(message.text.split(" ")) for message in prompt)

    def count_cached_tokens(self, prompt: Sequence[Message]) -> int | None:
        """Return None: nothing is cached."""
        return None

    async def aclose(self) -> None:
        """Release nothing."""
