"""Calls that take long: one at a time, first come first served, told of while they wait and run. It knows no MCP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

MOST_WAITING = 16
TICK_S = 2.0

Say = Callable[[str], None]
Tell = Callable[[float, float | None, str | None], Awaitable[None]]
"""Takes how far a call is, of how much if that is known, and a word on it."""

log = logging.getLogger(__name__)


class BusyError(Exception):
    """So many wait already that one more is turned away."""


@dataclass
class Doing:
    """What a call does just now, in words for whoever waits for it."""

    text: str = ""

    def say(self, text: str) -> None:
        self.text = text


class Turns:
    """A queue. Whoever gives up waiting leaves it; whoever has the turn keeps it until it is done."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()  # it is fair: who waits longest is next
        self._present = 0

    @property
    def present(self) -> int:
        """How many have the turn or wait for it."""
        return self._present

    @asynccontextmanager
    async def turn(self, doing: Doing) -> AsyncIterator[None]:
        """Waits for the turn and holds it. Raises BusyError."""
        if self._present > MOST_WAITING:
            raise BusyError(f"{self._present} are before this one; try again later.")
        if self._present:
            doing.say(f"waits for {self._present} before it")
        self._present += 1
        try:
            async with self._lock:
                yield
        finally:
            self._present -= 1


@asynccontextmanager
async def telling(tell: Tell, doing: Doing, every_s: float = TICK_S) -> AsyncIterator[None]:
    """Tells of a call again and again, the first time at once: the seconds since it came, and what it does."""
    ticking = asyncio.create_task(tick(tell, doing, every_s))
    try:
        yield
    finally:
        ticking.cancel()


async def tick(tell: Tell, doing: Doing, every_s: float) -> None:
    begun = time.monotonic()
    with contextlib.suppress(asyncio.CancelledError):
        while await reach(tell, round(time.monotonic() - begun, 1), doing.text):  # noqa: ASYNC110 - it is a clock
            await asyncio.sleep(every_s)


async def reach(tell: Tell, progress: float, text: str) -> bool:
    """Whether somebody could be told. Who cannot be told is not told again; the call goes on."""
    try:
        await tell(progress, None, text)
    except Exception as error:
        log.debug("nobody to tell of progress: %s", error)
        return False
    return True
