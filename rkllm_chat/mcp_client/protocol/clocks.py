"""Rate limits, and the deadline that progress extends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from .limits import MAX_EXTENSIONS


class RateLimit:
    """Allow at most `max_events` events per `window_s` seconds of a clock."""

    def __init__(self, max_events: int, window_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_events, self._window_s, self._clock = max_events, window_s, clock
        self._window_start, self._events = -math.inf, 0

    def try_acquire(self) -> bool:
        """Count an event and return whether it is within the limit."""
        now = self._clock()
        if now - self._window_start >= self._window_s:
            self._window_start, self._events = now, 0
        self._events += 1
        return self._events <= self._max_events


class ProgressDeadline:
    """The deadline of a request: `limit_s` from its last sign of progress, at most 20 times that in all.

    Args:
        limit_s: The limit in seconds.
        now: The time on a clock that all later times are readings of.

    Attributes:
        end: When the deadline expires.
        last_end: When it expires however much progress there is.
    """

    def __init__(self, limit_s: float, now: float) -> None:
        self._limit_s = limit_s
        self.end, self.last_end = now + limit_s, now + MAX_EXTENSIONS * limit_s

    def extend(self, now: float) -> None:
        """Restart the limit after a sign of progress."""
        self.end = min(self.last_end, now + self._limit_s)

    def suspend(self) -> None:
        """Wait without the limit, while a user is asked, until `extend`."""
        self.end = self.last_end
