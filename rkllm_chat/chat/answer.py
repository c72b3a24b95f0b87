"""What a turn has produced so far, collected from its events."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.events import (
    CallDescribed,
    CallFound,
    CallsDetected,
    CallUnreadable,
    Event,
    Notice,
    ReplyDiscarded,
    Text,
    TextWasThought,
    ToolFinished,
    TurnEnded,
)
from ..core.messages import ToolCall, ToolResult


@dataclass
class Answer:
    """What a turn has produced so far.

    Attributes:
        text_parts: The text after the last call.
        report: The program's line on the calls, before that text.
        results: Results of the calls.
        suggested: Calls that the reply describes and that did not run.
        notices: Notices.
        end: The last event, once the turn has ended.
    """

    text_parts: list[str] = field(default_factory=list[str])
    report: str = ""
    results: list[ToolResult] = field(default_factory=list[ToolResult])
    suggested: list[ToolCall] = field(default_factory=list[ToolCall])
    notices: list[str] = field(default_factory=list[str])
    end: TurnEnded = field(default_factory=lambda: TurnEnded("answered"))

    @property
    def text(self) -> str:
        return "".join([self.report, *self.text_parts]).strip()

    def add(self, event: Event) -> None:
        """Add an event; text before a call is no part of the answer."""
        match event:
            case Text(line, is_report=True):
                self.report = line
            case Text(part):
                self.text_parts.append(part)
            case CallFound() | CallUnreadable() | CallsDetected():  # or the user had a suggested call run
                self.text_parts.clear()
                self.suggested.clear()
            case ReplyDiscarded() | TextWasThought():
                self.text_parts.clear()
            case CallDescribed(call):
                self.suggested.append(call)
            case ToolFinished(result):
                self.results.append(result)
            case Notice(notice):
                self.notices.append(notice)
            case TurnEnded():
                self.end = event
