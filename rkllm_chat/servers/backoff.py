"""When a server that died may be started again. It knows no server; the clock comes in."""

from __future__ import annotations

from collections import deque

FIRST_S, LONGEST_S = 0.5, 30.0
MOST_STARTS, WITHIN_S = 5, 120.0
HEALTHY_S = 60.0


class Backoff:
    """Counts restarts: each waits twice as long as the one before, and after five in two minutes there is no more."""

    def __init__(self) -> None:
        self._starts: deque[float] = deque(maxlen=MOST_STARTS)
        self._next = 0.0
        self._delay = FIRST_S

    def died(self, now: float, healthy_s: float) -> None:
        """A server ended after `healthy_s` seconds of use; a long healthy life is a fresh start."""
        if healthy_s >= HEALTHY_S:
            self.reset()
        self._next = now + self._delay
        self._delay = min(LONGEST_S, 2 * self._delay)

    def wait_s(self, now: float) -> float | None:
        """Seconds until it may be started again; None if it stays down until somebody asks."""
        if len(self._starts) == MOST_STARTS and now - self._starts[0] < WITHIN_S:
            return None
        return max(0.0, self._next - now)

    def started(self, now: float) -> None:
        self._starts.append(now)

    def reset(self) -> None:
        """Somebody asked for the server, or it has been well for long."""
        self._starts.clear()
        self._next, self._delay = 0.0, FIRST_S
