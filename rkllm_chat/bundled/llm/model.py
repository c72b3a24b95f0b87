"""The local model: opened when it is first needed, one reply at a time. It knows no MCP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

import anyio

from ... import language
from ...backends import choose, open_backend
from ...chat import Backend
from ...config import Generation, Settings
from ...errors import GenerationError
from ...events import CallFound, CallGarbled, Notice, Reading, Text, Usage
from ...messages import Message
from ...scanner import Scanner, Seen
from ...window import words_for
from ..turns import Doing, Say, Turns

SHOWN = 60


@dataclass(frozen=True)
class Reply:
    """What the model wrote, without its thoughts, and what it cost."""

    text: str
    usage: Usage


class Model:
    """A backend and the queue before it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.turns = Turns()
        self.backend_name = choose(settings)
        self._opening: asyncio.Future[Backend] | None = None

    async def open(self, doing: Doing) -> Backend:
        """The backend, which goes on loading when the caller gives up. Raises ModelError and the like."""
        if self._opening is None or (self._opening.done() and self._opening.exception()):
            self._opening = asyncio.ensure_future(asyncio.to_thread(open_backend, self.settings))
            self._opening.add_done_callback(lambda done: done.cancelled() or done.exception())  # seen by nobody, maybe
        if not self._opening.done():
            doing.say("loads the model")
        return await asyncio.shield(self._opening)

    @asynccontextmanager
    async def turn(self, doing: Doing) -> AsyncIterator[Backend]:
        """The backend for one caller alone, who waits for those before. Raises BusyError, ModelError and the like."""
        async with self.turns.turn(doing):
            yield await self.open(doing)

    async def aclose(self) -> None:
        """Nobody writes any more."""
        if self._opening and self._opening.done() and not self._opening.exception():
            await self._opening.result().aclose()

    def make_prompt(self, backend: Backend, text: str, system: str = "") -> list[Message]:
        """A question as a chat would begin with it."""
        words = words_for(backend, self.settings, language.load(self.settings.language))
        return [Message("system", system or self.settings.system or words("prompt.system")), Message("user", text)]

    async def write(
        self, backend: Backend, prompt: Sequence[Message], say: Say, max_tokens: int | None = None
    ) -> Reply:
        """One reply, by who has the turn. Cancelling it stops the engine, and waits for it. Raises GenerationError."""
        generation = self.settings.generation
        generation = replace(generation, max_tokens=min(max_tokens or generation.max_tokens, generation.max_tokens))
        tokens = await asyncio.to_thread(backend.count_tokens, prompt)
        if tokens >= backend.context_tokens:
            raise GenerationError(f"The prompt is {tokens} tokens long, the context holds {backend.context_tokens}.")
        say(f"reads {tokens} tokens")
        writing = asyncio.create_task(listen(backend, prompt, generation, say))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            # anyio cancels again and again, and would not let the stream wait for its engine
            writing.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([writing])
            raise


async def listen(backend: Backend, prompt: Sequence[Message], generation: Generation, say: Say) -> Reply:
    """One reply as it comes."""
    scanner, usage = Scanner(), Usage()
    raw: list[str] = []
    seen: list[Seen] = []
    async with aclosing(backend.stream(prompt, generation)) as pieces:
        async for piece in pieces:
            if isinstance(piece, str):
                raw.append(piece)
                seen += scanner.feed(piece)
                say(f"writes, {len(raw)} pieces: {''.join(raw[-SHOWN:])[-SHOWN:]}")
            elif isinstance(piece, Usage):
                usage = piece
            elif isinstance(piece, Reading):
                say(f"reads, {piece.done} of {piece.total} tokens")
            elif isinstance(piece, Notice):
                say(piece.text)
    return Reply(read_reply([*seen, *scanner.close()], "".join(raw)), usage)


def read_reply(seen: Sequence[Seen], raw: str) -> str:
    """The text without thoughts; as it stands where it holds what looks like a call, for nobody here runs one."""
    if any(isinstance(event, CallFound | CallGarbled) for event in seen):
        return raw.strip()
    return "".join(event.text for event in seen if isinstance(event, Text)).strip()
