"""Keep a server that sends without end from taking the processor: its messages are then read in a part of the time.

To read faster is no help against it. While reading pauses, what the server sends stays in its own buffers.
"""

from __future__ import annotations

import time

import anyio

_BURST, _PER_SECOND = 500, 50
"""Messages that are read at once, and how many more with each second; no server needs as many for long."""
_MESSAGES_BETWEEN_PAUSES = 20
_PAUSES_PER_READING = 3.0
"""How much longer a pause is than the reading before it: a quarter of a core is left for a flood."""
_MAX_PAUSE_S = 0.3


class FloodBrake:
    """The messages of one connection that answer no request."""

    def __init__(self) -> None:
        self._free, self._counted_at = float(_BURST), time.monotonic()
        self._beyond, self._resumed_at = 0, self._counted_at

    async def count(self) -> None:
        """Count a message that was read; pause if there are too many."""
        now = time.monotonic()
        self._free = min(_BURST, self._free + (now - self._counted_at) * _PER_SECOND)
        self._counted_at = now
        if self._free >= 1:
            self._free -= 1
            self._beyond, self._resumed_at = 0, now
            return
        self._beyond += 1
        if self._beyond % _MESSAGES_BETWEEN_PAUSES == 0:
            await anyio.sleep(min(_MAX_PAUSE_S, (now - self._resumed_at) * _PAUSES_PER_READING))
            self._resumed_at = time.monotonic()
