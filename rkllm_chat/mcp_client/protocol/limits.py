"""The limits of a session with a server, for every client of this program, and what holds to them in time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

MB = 1 << 20
MAX_MESSAGE_BYTES = 4 * MB
"""Size of a message in a conversation."""
MAX_RESULT_BYTES = 64 * MB
"""Size of a message for one-shot commands, which can write a result to files; a model could not read as much."""
MAX_DISCARDED_BYTES = 128 * MB
"""Size of a line after which the connection ends."""
MAX_DEPTH = 100
"""Levels of nested objects and arrays in a message."""
LIST_TIMEOUT_S = 10.0
"""Deadline for all pages of a list together."""
MAX_PAGES = 500
"""Pages of a list that are read; that there are more is said."""
MAX_ENTRIES = 10_000
"""Entries of a list that are read; that there are more is said."""
MAX_LIST_CHARACTERS = 32 << 20
"""Size of a list after which no further page is read; that there are more is said."""
MAX_TOOLS = 1000
"""Tools of a server that are used in a conversation; that there are more is said."""
MAX_EXTENSIONS = 20
"""Factor by which a call that keeps reporting progress may exceed its limit."""
MAX_RETRY_WAIT_S = 10.0
"""Longest wait that a server can ask for before a request is repeated (HTTP 429)."""
DEFAULT_RESUME_S = 1.0
"""Wait before a stream of events is resumed, unless the server wishes another; the SDK's."""
MIN_RESUME_S = 0.05
"""Shortest wait before a stream of events is resumed."""
MAX_RESUME_FAILURES = 2
"""Attempts in a row to resume a stream of events; the SDK's."""
STDERR_TAIL_BYTES = 4096
"""End of a server's standard error that is kept for error messages."""


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
