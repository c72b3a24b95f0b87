"""Values of the status line: the open app, the last turns, and what the input line would cost.

All counting runs on the event loop, because a thread could still be counting while the model is closed. The tokens of
earlier messages are cached: a prompt of 18,000 tokens is counted in 3 ms, a new text of 32,000 characters in 20 to 50
ms (measured, x86-64).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from ..backends.base import ContextGuesser
from ..backends.unloaded import UnloadedBackend
from ..chat.app import App
from ..chat.attachments import expand_message
from ..chat.context import count_tokens
from ..chat.conversation import Conversation
from ..chat.prefill import CostEstimate, estimate_cost
from ..config.policy import describe_mode
from ..config.settings import Settings
from ..core.errors import ChatError
from ..core.events import CallsDetected, Event, Reading, Text, Thought, TurnEnded, WritingCall
from ..core.hardware import read_npu, read_temperatures
from ..core.i18n import Words
from ..core.sanitize import sanitize_line
from ..core.working_folder import find_working_folder
from ..mcp_client.roots import find_base_folders
from .input_line import has_visible_text, replace_surrogates
from .slash_commands.registry import is_command, remove_escape
from .status_line import SEPARATOR, find_rate, format_context, format_cost, format_rate, join_fitting, join_shortened
from .theme import spin

_READ_S = 2.0
"""Maximum age of a hardware reading."""
_FIRST_COUNT_S = 0.05
"""Delay before the first count, so that the key is drawn first."""
_PAUSE_S = 0.25
_MAX_TEXT_LENGTH = 32_000
"""Maximum length of a text that is counted, in characters; a longer one would delay the keys."""
_log = logging.getLogger(__name__)


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
        # of the reply that is being written, or about which a question waits: its time is not that of the model
        self._written_tokens, self._writing_since, self._written_at = 0, 0.0, 0.0
        self._read_at = 0.0
        self._npu: int | None = None
        self._celsius: float | None = None

    @property
    def settings(self) -> Settings:
        return self.app.settings if self.app else self._settings

    @property
    def has_several_servers(self) -> bool:
        """Whether several servers are in use, so that a tool is to be named with its server."""
        return self.app is not None and len(self.app.servers.connections) > 1

    def find_bases(self, server: str) -> list[Path]:
        """Return the folders to which a relative path may belong that a call of a server writes."""
        connection = self.app.servers.connections.get(server) if self.app else None
        if connection is None:
            return [Path(find_working_folder())]
        sandbox = connection.sandbox
        written = sandbox.writes if sandbox and not sandbox.unavailable_reason else None
        return [*map(Path, find_base_folders(connection.config, written))]

    def note_event(self, event: Event) -> None:
        """Update the context size and the generation speed while a reply is written, and by the usage of its turn."""
        if isinstance(event, Text | Thought | WritingCall) and self.app:
            if not self._written_tokens:
                self._used_tokens, self._writing_since = count_tokens(self.app.chat), time.monotonic()
            self._written_tokens += 1  # nearly: each has the text of about a token
            self._written_at = time.monotonic()
        elif isinstance(event, Reading | CallsDetected | TurnEnded):
            self._used_tokens += self._written_tokens
            self._written_tokens = 0
        if isinstance(event, TurnEnded) and event.usage:
            if self.app and event.answered_by == "model":  # else the last prompt may not be that of the conversation
                last = event.usage[-1]
                self._fingerprint = make_context_key(self.app.chat)
                self._used_tokens = last.prompt_tokens + last.generated_tokens
            tokens, time_s = (
                sum(getattr(usage, key) for usage in event.usage) for key in ("generated_tokens", "generate_s")
            )
            self._tokens_per_s = find_rate(tokens, time_s) or self._tokens_per_s  # a few tokens may be too fast to tell
            if self.app:
                self.app.record_prefill_speed(event.usage)

    def recount_context(self) -> None:
        """Recount the context if something other than a turn has changed the conversation."""
        chat = self.app.chat if self.app else None
        self._written_tokens = 0
        if chat and self._fingerprint != (fingerprint := make_context_key(chat)):
            self._fingerprint, self._used_tokens = fingerprint, count_tokens(chat) if chat.history else 0

    def format(self, words: Words, width: int, cost: CostEstimate | None, asks: bool = False) -> str:
        """Return the status in at most `width` cells; later parts are dropped first.

        Args:
            words: The language.
            width: The width.
            cost: Cost estimate of the input line; it replaces the model and the context.
            asks: A question waits, so that nothing is shown to go on.
        """
        from rich.cells import cell_len

        app = self.app
        if app is None:
            return ""
        self._read_board()
        backend, connections = app.backend, app.servers.connections.values()
        mode = words(f"modes.{describe_mode(app.settings.policy, app.chat.approval_mode)}")
        failed = sum(connection.lifecycle.needs_user for connection in connections)
        shown = words("status.failed", count=failed) if failed else ""
        parts = {"mode": mode, "failed": shown, "name": sanitize_line(backend.name), "context": ""}
        context_short = activity_short = ""
        if backend.context_tokens:
            is_assumed = isinstance(backend, ContextGuesser) and backend.is_context_assumed
            used_tokens = self._used_tokens + self._written_tokens
            parts["context"], context_short = format_context(used_tokens, backend.context_tokens, is_assumed, words)
        tokens_per_s = self._tokens_per_s
        if self._written_tokens and not asks:
            parts["activity"] = spin(words("price.total", total=self._written_tokens))
            activity_short = spin(str(self._written_tokens))
        if self._written_tokens:
            # at a question the model has written all; else it may be stuck, and its speed falls
            until = self._written_at if asks else time.monotonic()
            tokens_per_s = find_rate(self._written_tokens - 1, until - self._writing_since)
        if tokens_per_s:
            parts["speed"] = words("status.speed", tokens=format_rate(tokens_per_s))
        board = [f"NPU {self._npu}%"] if self._npu is not None else []
        board += [f"{self._celsius:.0f} °C"] if self._celsius is not None else []
        parts["board"] = SEPARATOR.join(board)
        if connections:
            up = sum(connection.lifecycle.is_open for connection in connections)
            parts["servers"] = words("status.servers", up=up, all=len(connections))
            parts["tools"] = words("status.tools", count=sum(bool(tool.server) for tool in app.toolbox.tools))
        if cost:
            room = width - cell_len(mode) - len(SEPARATOR)
            line = format_cost(cost, words, room)
            others = [text for part, text in parts.items() if part not in ("mode", "failed", "name", "context")]
            first = [mode, line] if cell_len(line) <= room else [format_cost(cost, words, width)]
            return join_fitting([*first, *others], width)
        less_important = [(part, "") for part in ("tools", "servers", "board", "name")]
        important = [("context", context_short), ("activity", activity_short), ("speed", ""), ("context", "")]
        return join_shortened(parts, [step for step in (*less_important, *important) if step[0] in parts], width)

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


class CostPreview:
    """Cost preview of the input line; `refresh` is called after each new estimate."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        self._refresh = refresh
        self._text, self._tool_count = "", 0
        self._cost: CostEstimate | None = None
        self._counted: tuple[str, int] | None = None  # the text and number of tools that the estimate is for
        self._counting: asyncio.Task[None] | None = None

    def update(self, app: App | None, text: str) -> CostEstimate | None:
        """Return the latest estimate for sending `text`; None if it is not a message.

        A new text is counted in the background; meanwhile the previous estimate is returned.
        """
        if app is None or not text:
            self._text, self._cost, self._counted = "", None, None
        elif (text, len(app.toolbox.tools)) != (self._text, self._tool_count):
            self._text, self._tool_count = text, len(app.toolbox.tools)
            if self._counting is None:
                self._counting = asyncio.get_running_loop().create_task(self._count_loop(app))
        return self._cost

    def close(self) -> None:
        """Stop counting."""
        if self._counting:
            self._counting.cancel()

    async def _count_loop(self, app: App) -> None:
        """Count the input line until neither it nor the cache changes any more."""
        self._counted, was_prefilling = None, False
        try:
            await asyncio.sleep(_FIRST_COUNT_S)
            while text := self._text:
                is_prefilling = app.prefiller.is_running
                key = text, self._tool_count
                if key != self._counted or is_prefilling or was_prefilling:
                    self._cost, self._counted = _estimate(app, text), key
                    self._refresh()
                was_prefilling = is_prefilling
                await asyncio.sleep(_PAUSE_S)
                # the line may have been empty meanwhile, which drops the estimate, and have the same text again
                if self._counted == (self._text, self._tool_count) and (self._cost is None or not is_prefilling):
                    break
        finally:
            self._counting = None


def _estimate(app: App, line: str) -> CostEstimate | None:
    """Return the estimate; None for commands, for text that cannot be counted quickly, and without a loaded model."""
    if (
        isinstance(app.backend, UnloadedBackend)
        or len(line) > _MAX_TEXT_LENGTH
        or line.startswith("!")
        or is_command(line)
        or not has_visible_text(line)
    ):
        return None
    try:
        text = expand_message(app, remove_escape(replace_surrogates(line).strip()))
        if text is None or len(text) > _MAX_TEXT_LENGTH:
            return None
        return estimate_cost(app.chat, text, app.prefill_speed)
    except ChatError as error:
        _log.debug("no cost estimate: %s", sanitize_line(str(error)))
        return None
