"""Deadline and rate-limited progress reports of one tool call."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager

import anyio

from .protocol.limits import ProgressDeadline
from .timing import PausableDeadlines

_REPORT_INTERVAL_S = 0.25

OnProgress = Callable[[float, "float | None", str], None]
"""Called with progress, total if known, and message."""


class CallDeadline:
    """The deadline of a call, a `ProgressDeadline` of this event loop.

    Pauses with `deadlines` during a login, and while a user answers a question of the server. Several waits may share
    one instance.

    Attributes:
        limit_s: Seconds from the last sign of progress.
        max_s: Seconds from the start, however much progress there is.
    """

    def __init__(self, limit_s: float, deadlines: PausableDeadlines | None = None) -> None:
        now = asyncio.get_running_loop().time()
        self.limit_s = limit_s
        self._deadline = ProgressDeadline(limit_s, now)
        self.max_s = self._deadline.last_end - now
        self._pausable = deadlines or PausableDeadlines()
        self._scope: anyio.CancelScope | None = None
        self._open_questions = 0

    def extend(self) -> None:
        """Restart the limit after a sign of progress."""
        if self._open_questions:
            self._deadline.suspend()
        else:
            self._deadline.extend(asyncio.get_running_loop().time())
        # a paused deadline has the time that it had left, and gets it back
        if self._scope and not self._pausable.is_paused:
            self._scope.deadline = self._deadline.end

    @contextmanager
    def pause_for_question(self) -> Iterator[None]:
        """Suspend the limit while a question of the server is answered."""
        self._open_questions += 1
        self.extend()
        try:
            yield
        finally:
            self._open_questions -= 1
            self.extend()

    @contextmanager
    def enforce(self) -> Iterator[None]:
        """Raise TimeoutError when the deadline expires inside the block."""
        with self._pausable.limit(self._deadline.end - asyncio.get_running_loop().time()) as self._scope:
            yield
        if self._scope.cancelled_caught:
            raise TimeoutError


class ProgressReporter:
    """Forward the progress of a call, at most once per 0.25 s. The newest report waits; the last is always delivered.

    Attributes:
        token: Progress token; `listeners` has this instance under it until `close`, for reports outside of a call.
        deadline: The call's deadline, extended by each report.
    """

    _numbers = itertools.count(1)

    def __init__(
        self, on_progress: OnProgress, deadline: CallDeadline, listeners: MutableMapping[str, ProgressReporter]
    ) -> None:
        self.token = f"task-{next(self._numbers)}"
        listeners[self.token] = self
        self._listeners = listeners
        self._on_progress: OnProgress | None = on_progress
        self.deadline = deadline
        self._latest: tuple[float, float | None, str] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def handle_progress(self, progress: float, total: float | None, message: str) -> None:
        self.deadline.extend()
        self._latest = (progress, total, message)
        if self._timer is None:
            self._report_latest()

    def _report_latest(self) -> None:
        self._timer = None
        if self._latest and self._on_progress:
            latest, self._latest = self._latest, None
            self._timer = asyncio.get_running_loop().call_later(_REPORT_INTERVAL_S, self._report_latest)
            self._on_progress(*latest)

    def close(self) -> None:
        """End the call: deliver the last report and drop later ones."""
        del self._listeners[self.token]
        if self._timer:
            self._timer.cancel()
        if self._latest and self._on_progress:
            self._on_progress(*self._latest)
        self._on_progress = None
