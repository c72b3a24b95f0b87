"""Queue for slow tool calls, with progress notifications while they wait and run.

Calls run one at a time in order of arrival.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

_MAX_WAITING = 16
_REPORT_INTERVAL_S = 2.0

ReportActivity = Callable[[str], None]
SendProgress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Sends a progress notification: progress, total if known, message."""

log = logging.getLogger(__name__)


class BusyError(Exception):
    """The queue is full."""


@dataclass
class Activity:
    """The current activity of a call, for progress notifications."""

    text: str = ""

    def report(self, text: str) -> None:
        """Set the current activity."""
        self.text = text


class JobQueue:
    """A FIFO queue of at most `max_waiting` waiting calls; a cancelled call leaves it."""

    def __init__(self, max_waiting: int = _MAX_WAITING) -> None:
        self._max_waiting = max_waiting
        self._lock = asyncio.Lock()  # fair: first come, first served
        self._size = 0

    @property
    def size(self) -> int:
        """The number of calls that run or wait."""
        return self._size

    @asynccontextmanager
    async def wait_turn(self, activity: Activity) -> AsyncIterator[None]:
        """Wait for the calls before and hold the queue inside the context.

        Raises:
            BusyError: The queue is full.
        """
        if self._size > self._max_waiting:
            raise BusyError(f"{self._size} are before this one; try again later.")
        if self._size:
            activity.report(f"waits for {self._size} before it")
        self._size += 1
        try:
            async with self._lock:
                yield
        finally:
            self._size -= 1


@asynccontextmanager
async def report_progress(
    send: SendProgress, activity: Activity, interval_s: float = _REPORT_INTERVAL_S
) -> AsyncIterator[None]:
    """Send progress notifications inside the context, the first one at once.

    Args:
        send: Sends a notification; its progress is the elapsed time in seconds.
        activity: The activity that is reported.
        interval_s: Seconds between notifications.
    """
    reporting = asyncio.create_task(report_periodically(send, activity, interval_s))
    try:
        yield
    finally:
        reporting.cancel()


async def report_periodically(send: SendProgress, activity: Activity, interval_s: float) -> None:
    """Send progress notifications until cancelled or until one fails."""
    started = time.monotonic()
    with contextlib.suppress(asyncio.CancelledError):
        while await send_report(send, round(time.monotonic() - started, 1), activity.text):  # noqa: ASYNC110 - it is a clock
            await asyncio.sleep(interval_s)


async def send_report(send: SendProgress, progress: float, text: str) -> bool:
    """Send a notification; return False if it fails. The call itself continues."""
    try:
        await send(progress, None, text)
    except Exception as error:
        log.debug("progress cannot be sent: %s", error)
        return False
    return True
