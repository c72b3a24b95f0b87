"""The state of one server and what may happen next. Pure: it starts nothing, and times are arguments."""

from __future__ import annotations

from enum import Enum

from ..core.errors import ChatError, ConnectError
from .timing import Backoff

_MAX_RESTART_WAIT_S = 5.0
"""A request waits this long for a restart that the backoff delays; it fails if the delay is longer."""
_MAX_FAILURES = 2
"""Requests in a row that fail in a session before another one is tried."""


class ServerState(str, Enum):
    """The state of a server; the values are part of the keys of the language tables."""

    CLOSED = "closed"
    STARTING = "starting"
    OPEN = "open"
    IDLE = "idle"
    """Stopped because nothing used it; the next request starts it."""
    FAILED = "failed"

    def __str__(self) -> str:
        return self.value


class SessionDoubt:
    """Decides when another session is tried: after two failures in a row, and once until a request succeeds.

    Some servers that have lost a session do not say so; they answer each of its requests with an error of their own.
    """

    def __init__(self) -> None:
        self._failures, self._has_tried = 0, False

    @property
    def is_due(self) -> bool:
        """Whether the next request is to be sent in another session."""
        return self._failures >= _MAX_FAILURES and not self._has_tried

    def note_tried(self) -> None:
        """Record that another session is begun."""
        self._has_tried = True

    def note_success(self) -> None:
        """Record that a request was answered."""
        self._failures, self._has_tried = 0, False

    def note_failure(self) -> None:
        """Record that a request failed as it may in a lost session."""
        self._failures += 1


class LifecycleState:
    """State machine of one server.

        CLOSED, FAILED -> STARTING -> OPEN, CLOSED, FAILED
        OPEN -> CLOSED, IDLE
        IDLE -> OPEN, CLOSED, FAILED                                 (a restart from idle is not shown)

    All times are readings of one monotonic clock, in seconds.

    Attributes:
        state: The current state.
        error: Why the server is not open; None while it is, or was closed on purpose.
        is_legacy: Whether to start with the handshake of MCP 2025-11-25 and before.
    """

    def __init__(self, server: str) -> None:
        self.state = ServerState.CLOSED
        self.error: ChatError | None = None
        self.is_legacy = False
        self._server = server
        self._backoff = Backoff()
        self._was_open = self._died_of_discover = False

    @property
    def is_ready(self) -> bool:
        """Whether requests are accepted: it is open, or idle."""
        return self.state in (ServerState.OPEN, ServerState.IDLE)

    def reset(self) -> None:
        """Forget earlier failures, because the user starts the server."""
        self.state = ServerState.CLOSED
        self._backoff.reset()

    def mark_starting(self) -> None:
        """Record that a start begins."""
        self.error, self._died_of_discover = None, False
        # an idle server stays ready while it starts again, so that this is no news
        if self.state is not ServerState.IDLE:
            self.state = ServerState.STARTING

    def mark_open(self) -> bool:
        """Record that the server is open; return whether that is news, which it is not after a restart from idle."""
        is_news = self.state is not ServerState.IDLE
        self.state, self._was_open = ServerState.OPEN, True
        return is_news

    def mark_idle(self) -> None:
        """Record that the server is stopped until the next request."""
        self.state = ServerState.IDLE
        self._backoff.reset()

    def mark_closing(self) -> None:
        """Record that the server is to be closed: an idle one is closed at once, an open one when it has ended."""
        if self.state is ServerState.IDLE:
            self.state = ServerState.CLOSED

    def mark_failed(self, error: ChatError, died_of_discover: bool = False, was_open: bool = False) -> None:
        """Record why the server could not be opened or ended.

        Args:
            error: The reason.
            died_of_discover: Whether it died after `server/discover`, which some servers before MCP 2026-07-28 do.
            was_open: Whether it ended after it was open, so that the next request starts it again.
        """
        self.state, self.error = ServerState.CLOSED if was_open else ServerState.FAILED, error
        # one that was open once speaks the newer protocol, so that it died of something else
        self._died_of_discover = died_of_discover and not self._was_open

    def mark_ended(self, now: float, lasted_s: float | None) -> None:
        """Record that a start is over; `lasted_s` is how long the server was open, None if it never was."""
        if self.state in (ServerState.STARTING, ServerState.OPEN):
            self.state = ServerState.CLOSED
        # one that was stopped because nothing used it may start again at once
        if lasted_s is not None and self.state is not ServerState.IDLE:
            self._backoff.record_exit(now, lasted_s)

    def mark_start_failed(self, now: float) -> None:
        """Delay the next restart."""
        self._backoff.record_exit(now, healthy_s=0)

    def try_legacy(self) -> bool:
        """Select the older protocol if the server died of `server/discover`; return whether to start it again."""
        self.is_legacy = self.is_legacy or self._died_of_discover
        return self._died_of_discover

    def undo_legacy(self, first_error: ChatError | None) -> None:
        """Return to the newer protocol: the server failed in both, so the first error counts."""
        self.error, self.is_legacy = first_error, False

    def needs_user(self, now: float) -> bool:
        """Return whether the server is down until the user starts it, and was not closed on purpose."""
        is_spent = self._backoff.remaining_s(now) is None
        return self.state is ServerState.FAILED or (self.state is ServerState.CLOSED and bool(self.error) and is_spent)

    def get_restart_delay_s(self, now: float) -> float:
        """Return the seconds to wait before a restart.

        Raises:
            ConnectError: Only the user may restart the server, or the delay is too long for a request.
        """
        wait_s = self._backoff.remaining_s(now)
        if wait_s is None:
            reason = f" {self.error.message}" if self.error else ""
            text = f'Server "{self._server}" ended too often and is not restarted automatically.{reason}'
            raise ConnectError(text, f"Start it with /mcp restart {self._server}.")
        if wait_s > _MAX_RESTART_WAIT_S:
            raise ConnectError(f'Server "{self._server}" is down; the next restart is possible in {wait_s:.0f} s.')
        return wait_s

    def mark_restarting(self, now: float) -> None:
        """Record a restart, of which only a few are allowed in a short time."""
        self._backoff.record_start(now)
