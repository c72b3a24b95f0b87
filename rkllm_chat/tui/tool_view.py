"""Tool calls on the interactive screen: a line per running call, which becomes that of its shortened result."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ..core.events import ToolFinished, ToolProgress, ToolStarted
from ..core.i18n import Words
from ..core.messages import ToolResult
from ..core.sanitize import MAX_LINE_LENGTH, sanitize_for_terminal, sanitize_line, summarize_arguments, truncate
from .event_lines import describe_event
from .file_changes import FileChange, find_change
from .markdown.cells import break_words, cut_text
from .status_line import format_seconds, progress_bar

_SHOWN_ROWS, _MAX_WHOLE_ROWS, _MAX_SHOWN_CHARACTERS = 3, 6, 4000
"""Rows that are shown of a result, and how many it may have to be shown as a whole."""
_MAX_JOINED_CHARACTERS = 100_000
_MAX_FOLDED = 50
_INDENT = "  "


@dataclass
class _RunningCall:
    """A running call with its last progress and its change of a file; `started` is on the monotonic clock."""

    event: ToolStarted
    change: FileChange | None
    started: float = field(default_factory=time.monotonic)
    progress: ToolProgress | None = None


class ShownResult(NamedTuple):
    """The rows of a result, and whether they are all of it."""

    rows: list[str]
    is_whole: bool


class ToolCallView:
    """Describes running and finished calls, and keeps the results that were shortened.

    Args:
        words: The language.
        names_servers: Returns whether the lines name the servers of the tools.
        find_bases: Returns the folders to which a relative path of a server may belong.

    Attributes:
        call_count: Number of calls of the current reply; calls are numbered if there are several.
    """

    def __init__(
        self, words: Words, names_servers: Callable[[], bool], find_bases: Callable[[str], Sequence[Path]]
    ) -> None:
        self.call_count = 0
        self._words, self._names_servers, self._find_bases = words, names_servers, find_bases
        self._running: list[_RunningCall] = []
        self._folded: deque[ToolResult] = deque(maxlen=_MAX_FOLDED)

    @property
    def has_running(self) -> bool:
        """Whether any call runs."""
        return bool(self._running)

    def start(self, event: ToolStarted) -> None:
        """Add a running call."""
        change = find_change(event.tool, event.call.arguments, self._find_bases(event.server))
        self._running.append(_RunningCall(event, change))

    def update(self, event: ToolProgress) -> None:
        """Record the progress of a running call."""
        if call := self._find(event.server, event.tool, event.number):
            call.progress = event

    def _find(self, *key: str | int) -> _RunningCall | None:
        """Return the running call of a server, a tool and a number."""
        events = ((call, call.event) for call in self._running)
        return next((call for call, event in events if (event.server, event.tool, event.number) == key), None)

    def describe_running(self, width: int) -> list[str]:
        """Return a line of at most `width` cells for each running call."""
        return [cut_text(self._describe_running(call), width) for call in self._running]

    def _describe_running(self, call: _RunningCall) -> str:
        parts = [describe_event(call.event, self._words, self._names_servers()), self._position(call.event.number)]
        parts.append(f"{time.monotonic() - call.started:.0f} s")
        if progress := call.progress:
            if progress.total:
                parts.append(progress_bar(progress.progress, progress.total))
                parts.append(f"{progress.progress:g}/{progress.total:g}")
            else:
                parts.append(f"{progress.progress:g}")
            parts.append(sanitize_line(progress.message))
        parts.append(summarize_arguments(call.event.call.arguments))
        return " ".join(filter(None, parts))

    def finish(self, event: ToolFinished) -> str:
        """Remove a call that has finished and return the line about it."""
        result = event.result
        call = self._find(result.server, result.tool, event.number)
        if call:
            self._running.remove(call)
        line = truncate(describe_event(event, self._words, self._names_servers()), MAX_LINE_LENGTH)
        arguments = summarize_arguments(result.arguments) if call or result.status == "completed" else ""
        seconds = format_seconds(result.seconds) if result.seconds else ""
        change = call.change if call and result.status == "completed" else None
        changed = f"+{change.added} -{change.removed}" if change and change.lines is not None else ""
        return " ".join(filter(None, (line, self._position(event.number), arguments, changed, seconds)))

    def list_interrupted(self) -> list[ToolFinished]:
        """Return the ends of the calls that still run: no event reports them."""
        return [ToolFinished(_stopped_result(call), call.event.number) for call in self._running]

    def shorten_result(self, result: ToolResult, width: int, is_asked: bool) -> ShownResult:
        """Return the first rows of what a call returned, indented; one that is shortened is kept for `take_folded`."""
        text = result.text.strip("\r\n")
        is_cut = is_asked and len(text) > MAX_LINE_LENGTH  # in the line about a failure
        if not (is_cut or result.status == "completed") or not text.strip():
            return ShownResult([], is_whole=False)
        first = _break_beginning(text, width - len(_INDENT))
        if len(first) > _MAX_WHOLE_ROWS and (joined := _join_json_lines(text)):
            first = _break_beginning(joined, width - len(_INDENT))
        is_whole = len(first) <= _MAX_WHOLE_ROWS and len(text) <= _MAX_SHOWN_CHARACTERS
        if not is_whole:
            self._folded.append(result)
            lines = text.count("\n") + 1
            more = self._words("live.folded", lines=f"{lines:,}", characters=f"{len(text):,}")
            first = [*first[:_SHOWN_ROWS], more]
        return ShownResult([f"{_INDENT}{row}".rstrip() for row in first], is_whole)

    def take_folded(self) -> ToolResult | None:
        """Return the newest shortened result that was not taken yet; None if there is none."""
        return self._folded.pop() if self._folded else None

    def _position(self, number: int) -> str:
        """Return the position of a call among several of a reply, such as `1/2`."""
        return f"{number}/{self.call_count}" if number and self.call_count > 1 else ""


def _break_beginning(text: str, width: int) -> list[str]:
    """Return the first rows of a text: one more than are shown as a whole."""
    beginning = sanitize_for_terminal(text[:_MAX_SHOWN_CHARACTERS]).split("\n")
    rows = (row for line in beginning for row in break_words(line.rstrip(), width))
    return list(islice(rows, _MAX_WHOLE_ROWS + 1))


def _join_json_lines(text: str) -> str:
    """Return indented JSON on one line, whose first rows show more than brackets; "" for another text."""
    if not text.startswith(("{", "[")) or len(text) > _MAX_JOINED_CHARACTERS:
        return ""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return " ".join(line.strip() for line in text.split("\n"))  # a string has no line end in it


def _stopped_result(call: _RunningCall) -> ToolResult:
    event, seconds = call.event, time.monotonic() - call.started
    return ToolResult(event.server, event.tool, event.call.arguments, "stopped", "", seconds)
