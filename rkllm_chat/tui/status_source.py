"""Source of the status line and the completion: the open app and values of the last turns."""

from __future__ import annotations

import time

from ..backends.base import ContextGuesser
from ..chat.app import App
from ..chat.context import count_tokens
from ..chat.conversation import Conversation
from ..chat.cost_estimate import CostEstimate
from ..config.policy import describe_mode
from ..config.settings import Settings
from ..core.events import Event, TurnEnded
from ..core.hardware import read_npu, read_temperatures
from .status_line import StatusValues, find_rate

_READ_S = 2.0
"""Maximum age of a hardware reading."""


class StatusSource:
    """Status values collected from events.

    Args:
        settings: The settings until the app is open.

    Attributes:
        app: The app; None until it is open.
    """

    def __init__(self, settings: Settings) -> None:
        self.app: App | None = None
        self._settings = settings
        self._used_tokens = 0
        self._fingerprint: tuple[object, ...] = (0,)
        self._tokens_per_s = 0.0
        self._read_at = 0.0
        self._npu: int | None = None
        self._celsius: float | None = None

    @property
    def settings(self) -> Settings:
        """The current settings."""
        return self.app.settings if self.app else self._settings

    def note_event(self, event: Event) -> None:
        """Update the context size and the generation speed from the usage of a finished turn."""
        if isinstance(event, TurnEnded) and event.usage:
            if self.app and event.answered_by == "model":  # else the last prompt may not be that of the conversation
                last = event.usage[-1]
                self._fingerprint = make_context_key(self.app.chat)
                self._used_tokens = last.prompt_tokens + last.generated_tokens
            tokens, time_s = (
                sum(getattr(usage, key) for usage in event.usage) for key in ("generated_tokens", "generate_s")
            )
            self._tokens_per_s = find_rate(tokens, time_s)
            if self.app:
                self.app.record_prefill_speed(event.usage)

    def recount_context(self) -> None:
        """Recount the context if something other than a turn has changed the conversation."""
        chat = self.app.chat if self.app else None
        if chat and self._fingerprint != (fingerprint := make_context_key(chat)):
            self._fingerprint, self._used_tokens = fingerprint, count_tokens(chat) if chat.history else 0

    def status(self, cost: CostEstimate | None = None) -> StatusValues:
        """Return the current status. `cost` is the cost estimate of the input line, if known."""
        app = self.app
        if app is None:
            return StatusValues()
        self._read_board()
        connections = app.servers.connections.values() if app.servers else ()
        return StatusValues(
            app.backend.name,
            sum(connection.lifecycle.is_open for connection in connections),
            len(connections),
            len(app.toolbox.tools),
            self._used_tokens,
            app.backend.context_tokens,
            self._tokens_per_s,
            self._npu,
            self._celsius,
            cost,
            describe_mode(app.settings.policy, app.chat.approval_mode),
            isinstance(app.backend, ContextGuesser) and app.backend.is_context_assumed,
        )

    def expect_s(self, new_tokens: int) -> float:
        """Estimate the prefill time in seconds of `new_tokens`; 0.0 if unknown."""
        if self.app is None:
            return 0.0
        return self.app.prefill_speed.estimate_s(new_tokens, max(0, self._used_tokens - new_tokens))

    def _read_board(self) -> None:
        """Read the NPU load and the highest temperature, on machines with an NPU."""
        now = time.monotonic()
        if now - self._read_at < _READ_S:
            return
        self._read_at = now
        npu = read_npu()
        self._npu = max(npu.load) if npu and npu.load else None
        degrees = read_temperatures() if npu else {}
        self._celsius = max(degrees.values()) if degrees else None


def make_context_key(chat: Conversation) -> tuple[object, ...]:
    """Return a key that changes when the prompt of the conversation changes in size."""
    shown = chat.visible_messages
    return (len(shown), *shown[:1])
