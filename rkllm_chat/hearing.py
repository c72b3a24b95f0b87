"""A reply of a model while it is being written, as events; its calls may start meanwhile. It knows no chat.

Where the model goes on behind a call and invents the result, the reply is over: the engine is stopped, and what was
invented is nobody's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any

from .events import Event, Reading, Sentence, Usage
from .messages import NOTHING_SAID
from .rounds import Reply
from .scanner import Scanner

Pieces = AsyncGenerator[str | Usage | Sentence | Reading, Any]


class Hearing:
    """Listens to one reply. `start_calls` is told whenever there may be new calls in it."""

    def __init__(self, scanner: Scanner, reply: Reply, start_calls: Callable[[], None]) -> None:
        self._scanner, self._reply, self._start_calls = scanner, reply, start_calls
        self._said: list[str] = []

    @property
    def said(self) -> str:
        """The reply until now, as the model wrote it."""
        said = "".join(self._said)
        return (said[: self._scanner.kept].rstrip() if self._reply.is_over else said) or NOTHING_SAID

    async def listen(self, stream: Pieces) -> AsyncGenerator[Event | Sentence, None]:
        """The events of the reply, and what the engine says of itself; the stream is closed behind them."""
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                if isinstance(piece, Usage):
                    self._reply.usage = piece
                elif isinstance(piece, str):
                    self._said.append(piece)
                    seen = self._reply.note(self._scanner.feed(piece))
                    self._start_calls()
                    if self._reply.is_over:
                        self._reply.usage = await find_cost(pieces)
                    for event in seen:
                        yield event
                    if self._reply.is_over:
                        break
                else:
                    yield piece
        for event in self._reply.note(self._scanner.close()):
            yield event


async def find_cost(pieces: Pieces) -> Usage:
    """Ends a reply that the engine would go on with; gives what it has cost."""
    with suppress(StopAsyncIteration):
        piece = await pieces.asend(True)
        while not isinstance(piece, Usage):
            piece = await anext(pieces)
        return piece
    return Usage()
