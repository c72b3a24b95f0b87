"""Convert the records of a session to turns for export: question, answer, calls, cost. Independent of the format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any

from ...calls.model_families import make_scanner
from ...calls.scanner import InventedResult, settle_thoughts
from ...core.events import CallFound, CallUnreadable, Text, Thought, Usage
from ...core.messages import Media, Message, ToolResult
from ...core.sanitize import shorten_line
from ..session_records import (
    ContextTrimmed,
    End,
    HistoryEdited,
    LogEntry,
    SessionTitle,
    Setup,
    TurnFinished,
    find_undone_records,
)

_MAX_TITLE_LENGTH = 80


@dataclass(frozen=True)
class ExportedCall:
    """A tool call and its result; None if the result is unknown."""

    name: str
    arguments: Mapping[str, Any]
    result: ToolResult | None = None


@dataclass(frozen=True)
class CompactedHistory:
    """The conversation so far was replaced by this summary for the model."""

    text: str


TurnPart = Text | Thought | ExportedCall | CallUnreadable | ContextTrimmed | CompactedHistory


@dataclass
class ExportedTurn:
    """A user message and everything up to the next one.

    Attributes:
        asked: Text of the user.
        at: Time of the message in seconds since 1970.
        seconds: Duration of the turn.
        parts: Answer, reasoning and calls, in order.
        costs: Usage of each model request, in order.
        tools_s: Time spent on tools; calls of one reply run concurrently, so only the longest counts.
        reason: How the turn ended; None if it did not.
        error: Why the turn failed.
        tool_lines: Tool signatures that the model was shown with the message.
        media: Pictures and sounds of the message.
    """

    asked: str = ""
    at: float = 0.0
    seconds: float = 0.0
    parts: list[TurnPart] = field(default_factory=list[TurnPart])
    costs: list[Usage] = field(default_factory=list[Usage])
    tools_s: float = 0.0
    reason: End | None = None
    error: str = ""
    tool_lines: tuple[str, ...] = ()
    media: tuple[Media, ...] = ()


@dataclass(frozen=True)
class ExportedConversation:
    """A conversation for export.

    Attributes:
        name: Session id.
        setup: The last setup of the session.
        turns: Turns in order.
        zone: Time zone of the times shown; None is the local one.
        given_title: Title that the user gave, or "".
    """

    name: str
    setup: Setup
    turns: Sequence[ExportedTurn]
    zone: tzinfo | None = None
    given_title: str = ""

    @property
    def title(self) -> str:
        """The given title, else the first line of the first user message, truncated; else the session id."""
        asked = (turn.asked for turn in self.turns if turn.asked.strip())
        return shorten_line(self.given_title or next(asked, self.name), _MAX_TITLE_LENGTH)

    def to_local_time(self, at: float) -> datetime:
        """Convert seconds since 1970 to a time in the zone of the export."""
        return datetime.fromtimestamp(at).astimezone(self.zone)


def build_conversation(name: str, entries: Iterable[LogEntry], zone: tzinfo | None = None) -> ExportedConversation:
    """Convert the records of a session to turns.

    Undone messages are left out; messages that compaction hid from the model stay.
    """
    entries = list(entries)
    undone_indices = find_undone_records([entry.record for entry in entries])
    builder = _TurnBuilder()
    for index, entry in enumerate(entries):
        if index not in undone_indices:
            builder.add_entry(entry)
    return ExportedConversation(name, builder.setup, builder.turns, zone, builder.given_title)


class _TurnBuilder:
    """Builds turns from records, one by one."""

    def __init__(self) -> None:
        self.turns: list[ExportedTurn] = []
        self.setup = Setup()
        self.given_title = ""
        self._pending_calls: list[int] = []
        self._longest_call_s = 0.0

    def add_entry(self, entry: LogEntry) -> None:
        match entry.record:
            case Setup() as setup:
                self.setup = setup
            case SessionTitle(title):
                self.given_title = title
            case Message("user", text, tool_lines=tool_lines, media=media):
                self.turns.append(ExportedTurn(text, entry.at, tool_lines=tool_lines, media=media))
                self._pending_calls = []
            case Message("assistant") as reply:
                self._add_reply(reply)
            case Message() as message:
                self._add_result(message)
            case Usage() as usage:
                self._turn.costs.append(usage)
            case TurnFinished(reason, error):
                self._turn.reason, self._turn.error = reason, error
                self._turn.seconds = max(0.0, entry.at - self._turn.at)
            case ContextTrimmed() as trimmed:
                self._turn.parts.append(trimmed)
            case HistoryEdited(_, _, messages) if messages:
                self._turn.parts.append(CompactedHistory("\n\n".join(message.text for message in messages)))
            case _:
                pass

    @property
    def _turn(self) -> ExportedTurn:
        if not self.turns:
            self.turns.append(ExportedTurn())
        return self.turns[-1]

    def _add_reply(self, reply: Message) -> None:
        if reply.reply_kind == "discarded":  # another one stands in its place
            return
        parts = self._turn.parts
        scanner = make_scanner(self.setup.asks or "json", self.setup.accepts, self.setup.tools)
        self._pending_calls, self._longest_call_s = [], 0.0
        for event in settle_thoughts([*scanner.feed(reply.text), *scanner.close()]):
            last = parts[-1] if parts else None
            event = Text(event.text) if isinstance(event, InventedResult) else event  # older sessions may contain it
            match event:
                case Text() | Thought():
                    if isinstance(last, Text | Thought) and type(last) is type(event):
                        event = replace(last, text=last.text + event.text)
                        del parts[-1]
                    parts.append(event)
                case CallFound(call):
                    self._pending_calls.append(len(parts))
                    parts.append(ExportedCall(call.name, call.arguments))
                case CallUnreadable():
                    self._pending_calls.append(len(parts))
                    parts.append(event)

    def _add_result(self, message: Message) -> None:
        """Results arrive in the order of the calls; feedback messages, which have no result, are skipped."""
        turn = self._turn
        position = self._pending_calls.pop(0) if self._pending_calls else None
        if message.result is None:
            return
        called = ExportedCall(message.result.tool, message.result.arguments, message.result)
        turn.tools_s += max(0.0, message.result.seconds - self._longest_call_s)
        self._longest_call_s = max(self._longest_call_s, message.result.seconds)
        if position is None:
            turn.parts.append(called)
        else:
            turn.parts[position] = called
