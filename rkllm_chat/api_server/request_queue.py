"""Let one request have the model at a time: next the one whose beginning is in the cache, within fairness.

A request of the same model and with the same system text and tools costs less right after another one: no model is
loaded, and no beginning is evaluated again. It may overtake those that wait, each of them a few times only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import takewhile

from ..mcp_servers.job_queue import BusyError

MAX_OVERTAKEN = 4
"""How many later requests may be served before one that waits."""


@dataclass(eq=False)
class _Waiting:
    """A request that waits. `beginning`: what it begins with, from the most costly part on."""

    beginning: Sequence[object]
    turn: asyncio.Future[None]
    overtaken: int = 0


class RequestQueue:
    """A queue of at most `max_waiting` waiting requests; one that is cancelled leaves it."""

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._waiting: list[_Waiting] = []
        self._is_taken = False
        self._last: Sequence[object] = ()

    @property
    def size(self) -> int:
        """The number of requests that run or wait."""
        return len(self._waiting) + self._is_taken

    @asynccontextmanager
    async def wait_turn(self, beginning: Sequence[object] = ()) -> AsyncIterator[None]:
        """Wait for the requests before this one, and hold the model inside the context.

        Args:
            beginning: What the request begins with, from the most costly part on: equal parts need not be done again.

        Raises:
            BusyError: The queue is full.
        """
        if self.size > self._max_waiting:
            raise BusyError(f"{self.size} are before this one; try again later.")
        if self._is_taken:
            await self._wait(_Waiting(beginning, asyncio.get_running_loop().create_future()))
        self._is_taken, self._last = True, beginning
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, request: _Waiting) -> None:
        self._waiting.append(request)
        try:
            await request.turn
        except asyncio.CancelledError:
            if request in self._waiting:
                self._waiting.remove(request)
            else:  # its turn came at the same time
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give the turn to the next request, which holds the model from now on."""
        waiting = [request for request in self._waiting if not request.turn.cancelled()]  # those leave the list later
        # stays taken up to the turn of the next one, or a request that comes now would run beside it
        self._is_taken = bool(waiting)
        if not waiting:
            return
        chosen = waiting[0] if waiting[0].overtaken >= MAX_OVERTAKEN else max(waiting, key=self._count_common)
        for other in takewhile(lambda other: other is not chosen, waiting):
            other.overtaken += 1
        self._waiting.remove(chosen)
        chosen.turn.set_result(None)

    def _count_common(self, request: _Waiting) -> int:
        pairs = zip(request.beginning, self._last, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
