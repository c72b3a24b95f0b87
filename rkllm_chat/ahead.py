"""Reads ahead: while a person reads or types, the engine reads the prompt as it stands. It says nothing.

It is no promise: whatever asks the engine for something comes first (see `Backend.prefill`), a failure is logged, and
once the engine holds the prompt nothing runs any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .chat import Chat
from .messages import Message
from .window import prompt_of, room_of, tools_beside

log = logging.getLogger(__name__)


class Ahead:
    """Reads ahead for a chat, if it `is_wanted`: `begin` it whenever the prompt may have changed, `end` it at last."""

    def __init__(self, chat: Chat, is_wanted: bool) -> None:
        self._chat, self._is_wanted = chat, is_wanted
        self._resting = 0
        self._prompt: list[Message] = []
        self._reading: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Reads the prompt as it stands, in place of one that was begun before; nothing while something else runs."""
        if self._resting or not self._is_wanted:
            return
        prompt = prompt_of(self._chat)
        if self._reading and not self._reading.done() and prompt == self._prompt:
            return
        self._prompt = prompt
        self._reading = asyncio.ensure_future(self._read(prompt, self._reading))

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Begins nothing before this has ended. What is under way goes on until the engine is asked for something."""
        self._resting += 1
        try:
            yield
        finally:
            self._resting -= 1
            self.begin()

    async def stop(self) -> None:
        """The engine is free, or will be as soon as it can, when this comes back."""
        await end(self._reading)

    async def end(self) -> None:
        """Stops, and begins nothing any more."""
        self._is_wanted = False
        await self.stop()

    async def _read(self, prompt: Sequence[Message], before: asyncio.Task[None] | None) -> None:
        await end(before)
        chat = self._chat
        try:
            if chat.backend.count_tokens(prompt) > room_of(chat):  # turns will be forgotten first
                return
            tokens = await chat.backend.prefill(prompt, tools_beside(chat))
        except Exception:  # whatever it is, the turn that needs the prompt will meet it again, and say so
            log.warning("The prompt could not be read ahead.", exc_info=True)
            return
        chat.prefix.ahead += tokens
        log.debug("Read ahead: %d tokens.", tokens)


async def end(reading: asyncio.Task[None] | None) -> None:
    """Cancels it, and waits until it has ended."""
    if reading:
        reading.cancel()
        await asyncio.wait([reading])
