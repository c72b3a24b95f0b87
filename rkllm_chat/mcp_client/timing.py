"""Clocks of a connection: restart delays, and deadlines that pause while the user is asked."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

_FIRST_DELAY_S, _MAX_DELAY_S = 0.5, 30.0
_MAX_STARTS, _STARTS_WINDOW_S = 5, 120.0
_HEALTHY_S = 60.0


class Backoff:
    """Restart delays: each is twice the one before, and after five starts in two minutes there are no more.

    Pure: all times are readings of the same monotonic clock, in seconds.
    """

    def __init__(self) -> None:
        self._starts: deque[float] = deque(maxlen=_MAX_STARTS)
        self._next = 0.0
        self._delay = _FIRST_DELAY_S

    def record_exit(self, now: float, healthy_s: float) -> None:
        """Record that the server ended after `healthy_s` seconds of use; a long run resets the delays."""
        if healthy_s >= _HEALTHY_S:
            self.reset()
        self._next = now + self._delay
        self._delay = min(_MAX_DELAY_S, 2 * self._delay)

    def remaining_s(self, now: float) -> float | None:
        """Return the seconds until a restart is allowed; None if only the user may restart it."""
        if len(self._starts) == _MAX_STARTS and now - self._starts[0] < _STARTS_WINDOW_S:
            return None
        return max(0.0, self._next - now)

    def record_start(self, now: float) -> None:
        self._starts.append(now)

    def reset(self) -> None:
        """Forget earlier failures: the user restarted the server, or it ran for long without a failure."""
        self._starts.clear()
        self._next, self._delay = 0.0, _FIRST_DELAY_S


class PausableDeadlines:
    """The running deadlines of one server. They pause while the user is asked: they measure the server only."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self._remaining_s: dict[anyio.CancelScope, float] = {}
        self._pauses = 0

    @property
    def is_paused(self) -> bool:
        return self._pauses > 0

    @contextmanager
    def limit(self, seconds: float) -> Iterator[anyio.CancelScope]:
        """Cancel the block after `seconds`, not counting pauses; otherwise like `anyio.move_on_after`."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            self._remaining_s[scope] = seconds
            scope.deadline = math.inf if self._pauses else anyio.current_time() + seconds
            try:
                yield scope
            finally:
                self._scopes.discard(scope)
                self._remaining_s.pop(scope, None)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause all deadlines; each resumes with the time that it had left."""
        if not self._pauses:
            now = anyio.current_time()
            self._remaining_s = {scope: scope.deadline - now for scope in self._scopes}
            for scope in self._scopes:
                scope.deadline = math.inf
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                now = anyio.current_time()
                for scope in self._scopes:
                    scope.deadline = now + self._remaining_s[scope]
