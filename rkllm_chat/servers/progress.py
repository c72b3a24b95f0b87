"""The patience of one call, and what it reports meanwhile: seldom enough to be shown. It knows no server."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager

import anyio

from .clock import Clock

GAP_S = 0.25
MOST_EXTENSIONS = 20
"""How many times its limit a call may take that keeps reporting progress."""

OnProgress = Callable[[float, "float | None", str], None]


class Patience:
    """How long a call may take: so many seconds from its last sign of progress, and not for ever.

    It stands still while `clock` does, for a login. Several waits may share one patience. While somebody is asked
    what the server wants to know, it is not the server that keeps the call waiting.
    """

    def __init__(self, limit_s: float, clock: Clock | None = None) -> None:
        self.limit_s = limit_s
        self._clock = clock or Clock()
        self.longest_s = MOST_EXTENSIONS * limit_s
        self._end = anyio.current_time() + self.longest_s
        self._deadline = anyio.current_time() + limit_s
        self._scope: anyio.CancelScope | None = None
        self._open_questions = 0

    def extend(self) -> None:
        """There is a sign of progress."""
        wait_s = math.inf if self._open_questions else self.limit_s
        self._deadline = min(self._end, anyio.current_time() + wait_s)
        if self._scope and not self._clock.is_paused:
            self._scope.deadline = self._deadline

    @contextmanager
    def during_question(self) -> Iterator[None]:
        self._open_questions += 1
        self.extend()
        try:
            yield
        finally:
            self._open_questions -= 1
            self.extend()

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Raises TimeoutError when the patience is at its end."""
        with self._clock.limit(self._deadline - anyio.current_time()) as self._scope:
            yield
        if self._scope.cancelled_caught:
            raise TimeoutError


class Reports:
    """Passes a call's reports on, at most one every GAP_S seconds: the newest waits its turn, the last always comes.

    `listeners` has it under its `token` until it is closed, for reports that come outside of a call.
    """

    _numbers = itertools.count(1)

    def __init__(self, tell: OnProgress, patience: Patience, listeners: MutableMapping[str, Reports]) -> None:
        self.token = f"task-{next(self._numbers)}"
        listeners[self.token] = self
        self._listeners = listeners
        self._tell: OnProgress | None = tell
        self.patience = patience
        self._held: tuple[float, float | None, str] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, progress: float, total: float | None, message: str | None) -> None:
        self.patience.extend()
        self._held = (progress, total, message or "")
        if self._timer is None:
            self._pass_on()

    def _pass_on(self) -> None:
        self._timer = None
        if self._held and self._tell:
            held, self._held = self._held, None
            self._timer = asyncio.get_running_loop().call_later(GAP_S, self._pass_on)
            self._tell(*held)

    def close(self) -> None:
        """The call is over: the last report is passed on, and none after it."""
        del self._listeners[self.token]
        if self._timer:
            self._timer.cancel()
        if self._held and self._tell:
            self._tell(*self._held)
        self._tell = None
