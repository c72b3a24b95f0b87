"""An engine that repeats what the user said, and calls the tools that the user wrote calls of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from rkllm_chat.backends import BaseBackend, Engine, ModelIdentity
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core.messages import Message


class Parrot(BaseBackend):
    """The loaded engine; `rkllm_chat.backends.BaseBackend` has the members that it does not replace."""

    name = "parrot"

    async def generate(self, prompt: Sequence[Message], generation: Generation) -> AsyncGenerator[str, None]:
        """Repeat the last message, a word at a time."""
        for word in prompt[-1].text.split(" "):
            yield f"{word} "
            await asyncio.sleep(0)


class ParrotEngine(Engine):
    """The row of the engine; only `open` is needed."""

    def open(self, settings: Settings) -> Parrot:
        """Open the engine; what a real one would load is in `settings.model`."""
        return Parrot()

    def check(self, settings: Settings) -> Sequence[str]:
        """Return what `rkllm-chat doctor` shows; a real one would look at its files."""
        return ["repeats what is said"]

    def identify(self, settings: Settings) -> ModelIdentity:
        """Say which model it is; a real one would name its file."""
        return ModelIdentity("parrot")


PARROT = ParrotEngine()
