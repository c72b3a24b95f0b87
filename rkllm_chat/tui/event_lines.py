"""Write events to a stream and format them as lines; shared by all front ends.

All text is sanitized for the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import IO, TextIO

from ..core.ascii_fallback import ASCII_FALLBACK
from ..core.events import (
    CallDescribed,
    CallsDetected,
    CallUnreadable,
    Event,
    Notice,
    Page,
    ReplyDiscarded,
    Table,
    Text,
    TextWasThought,
    Thought,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from ..core.i18n import Words
from ..core.messages import Tool, ToolResult
from ..core.sanitize import (
    MAX_LINE_LENGTH,
    sanitize_for_terminal,
    sanitize_line,
    shorten_line,
    summarize_arguments,
    truncate,
)
from .theme import Theme

ANSWER_MARK = "◆ "
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
_ONLY_ERRORS = Theme(error="error")
_MAX_USER_LINES, _MAX_VALUES = 40, 60
_MAX_NOTICE_LENGTH = 2000
GAP, _MIN_CELL = "  ", 16
_RESOURCE_READ = ("", "read_resource", "completed")  # server, tool and status of its result


def open_terminal() -> TextIO:
    """Open standard output once more: while llama-cpp-python loads a model, file descriptor 1 leads to /dev/null."""
    return os.fdopen(os.dup(sys.stdout.fileno()), "w", 1, encoding=sys.stdout.encoding, errors=sys.stdout.errors)


class EventPrinter:
    """Writes events to two streams: `answer` for the reply, `side` for tool lines and notices.

    Leading and trailing white space of an answer is dropped; white space between words is buffered until a word
    follows.
    """

    def __init__(
        self,
        answer: IO[str],
        side: IO[str],
        words: Words,
        color: bool,
        mark: str = ANSWER_MARK,
        names_servers: Callable[[], bool] = lambda: False,
        get_width: Callable[[], int] = lambda: 0,
    ) -> None:
        """Create the printer.

        Args:
            answer: Stream of the reply.
            side: Stream of tool lines and notices.
            words: The language.
            color: Whether lines of the program are dim.
            mark: What an answer begins with.
            names_servers: Returns whether the lines about calls name the servers of the tools.
            get_width: Returns the width that lines of the program are wrapped to; 0 for none.
        """
        for stream in (answer, side):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors=ASCII_FALLBACK)
        self._answer = answer
        self._side = side
        self._words = words
        self._color = color
        self._mark = mark
        self._names_servers, self._get_width = names_servers, get_width
        self._space = self._before = ""
        self._kind: type[Text] | type[Thought] | None = None

    def show(self, event: Event) -> None:
        """Write an event."""
        match event:
            case Text() | Thought():
                self._write_text(event)
            case Table():
                self._write_lines(format_table(event, self._get_width()))
            case Page(text):
                self._write_lines(sanitize_for_terminal(text).splitlines())
            case ToolProgress():
                self._write_line(_progress_line(event, self._words, self._names_servers()))
            case _:
                if isinstance(event, TurnEnded):
                    self.end_line()
                if line := describe_event(event, self._words, self._names_servers()):
                    # what the program says is whole: its end is what to do
                    limit = _MAX_NOTICE_LENGTH if isinstance(event, Notice) else MAX_LINE_LENGTH
                    self._write_line(line, bool(_ONLY_ERRORS.style_of(event)), limit)  # a failure is never dim
                if isinstance(event, ToolFinished):
                    lines = sanitize_for_terminal(event.result.text).splitlines() if event.is_asked else []
                    self._write_lines([*lines, *format_user_text(event.result, self._words)])

    def end_line(self) -> None:
        """End the current answer, so that the next output starts on a new line."""
        if self._kind:
            self._answer.write((PLAIN if self._kind is Thought and self._color else "") + "\n")
            self._answer.flush()
        self._kind = None
        self._space = ""

    def _write_text(self, event: Text | Thought) -> None:
        text, self._before = sanitize_for_terminal(event.text, self._before), (self._before + event.text)[-2:]
        if self._kind is not type(event):
            text = text.lstrip()
            if not text:
                return
            self.end_line()
            self._kind = type(event)
            self._answer.write(self._mark if isinstance(event, Text) else (DIM if self._color else ""))
        words = text.rstrip()
        if not words:
            self._space += text
            return
        self._answer.write(self._space + words)
        self._answer.flush()
        self._space = text[len(words) :]

    def _write_line(self, text: str, is_error: bool = False, limit: int = MAX_LINE_LENGTH) -> None:
        self._write_lines([truncate(text, limit)], self._color and not is_error)

    def _write_lines(self, lines: Sequence[str], is_dim: bool = False) -> None:
        from .markdown.cells import break_words

        self.end_line()
        width = self._get_width()
        parts = [part for line in lines for part in (break_words(line, width) if width else [line])]
        self._side.write("".join(f"{DIM}{part}{PLAIN}\n" if is_dim else f"{part}\n" for part in parts))
        self._side.flush()


def describe_event(event: Event, words: Words, names_server: bool = False) -> str:
    """Return a sanitized one-line description of an event; "" if there is none.

    Args:
        event: The event.
        words: The language.
        names_server: Name the server of a tool, too: another one may have a tool of that name.
    """
    match event:
        case CallsDetected(count):
            line = words("terminal.detected_one" if count == 1 else "terminal.detected_many", count=count)
        case CallUnreadable():
            line = words("terminal.garbled", detail=event.detail)
        case ToolStarted():
            line = words("terminal.calling", tool=_name_tool(event, names_server))
        case ToolFinished(result) if (result.server, result.tool, result.status) == _RESOURCE_READ:
            line = words("terminal.fetched", uri=result.arguments.get("uri", ""))
        case ToolFinished(result):
            kind = f"{result.status}_{result.decline_reason}" if result.decline_reason else result.status
            uri = result.arguments.get("uri", "")
            line = words(f"terminal.{kind}", tool=_name_tool(result, names_server), text=result.text, uri=uri)
        case Notice(text):
            line = text
        case CallDescribed(call):
            call_text = f"{call.name} {summarize_arguments(call.arguments)}".rstrip()
            line = words("terminal.described", call=call_text)
        case ReplyDiscarded(unknown, reason, values):
            key = f"discarded_{reason}" if reason else "no_such_tool" if unknown else "discarded"
            line = words(f"terminal.{key}", name=unknown, values=shorten_line(values, _MAX_VALUES))
        case TextWasThought() | TurnEnded("length"):
            line = words("terminal.length" if isinstance(event, TurnEnded) else "terminal.was_thought")
        case _:
            line = ""
    return sanitize_line(line)


def _name_tool(of: ToolStarted | ToolProgress | ToolResult, names_server: bool) -> str:
    return Tool(of.tool, server=of.server).full_name if names_server else of.tool


def format_user_text(result: ToolResult, words: Words) -> list[str]:
    """Return what a server addresses to the user alone as sanitized lines below its name; of many, the first.

    They are indented, so that none passes for a line of the program or of the model.
    """
    if not result.user_text:
        return []
    lines = sanitize_for_terminal(result.user_text).splitlines()
    shown = [sanitize_line(words("terminal.user_text", server=result.server)), *lines[:_MAX_USER_LINES]]
    if len(lines) > _MAX_USER_LINES:
        shown.append(words("terminal.user_text_more", count=len(lines) - _MAX_USER_LINES))
    return [shown[0], *(f"  {line}" for line in shown[1:])]


def _progress_line(event: ToolProgress, words: Words, names_server: bool) -> str:
    """Return a sanitized line with the progress of a tool."""
    done = f"{event.progress:g}/{event.total:g}" if event.total else f"{event.progress:g}"
    return sanitize_line(
        words("terminal.progress", tool=_name_tool(event, names_server), progress=done, message=event.message)
    )


def format_table(table: Table, width: int = 0) -> list[str]:
    """Return the rows of a table with aligned, sanitized cells.

    Args:
        table: The rows.
        width: Width in cells; 0 means unlimited. The last column wraps; if it would be narrower than _MIN_CELL, the
            spare column is left out, or the last one is placed below the others, indented.
    """
    from rich.cells import cell_len, set_cell_size

    from .markdown.cells import wrap_text

    rows = [[sanitize_line(cell) for cell in row] for row in (table.head, *table.rows) if row]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    room = width - sum(widths[:-1]) - len(GAP) * (len(widths) - 1) if width else sum(widths)
    if room < min(_MIN_CELL, widths[-1]):
        if (spare := table.spare_column) is not None:
            head, *others = [(*row[:spare], *row[spare + 1 :]) for row in (table.head, *table.rows)]
            return format_table(Table(head, tuple(others)), width)
        if table.is_matrix:
            return [line for row in rows[1:] for line in _list_row(rows[0], row, width)]
        return [line for row in rows for line in _stack_row(row, widths, width)]
    lines: list[str] = []
    for row in rows:
        start = "".join(set_cell_size(cell, size) + GAP for cell, size in zip(row, widths[:-1], strict=False))
        first, *rest = wrap_text(row[-1], room)
        lines += [f"{start}{first}".rstrip(), *(" " * cell_len(start) + line for line in rest)]
    return lines


def _list_row(head: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """Return the lines of a row of a matrix in a narrow window: each text once, with the columns that have it."""
    from .markdown.cells import wrap_text

    columns: dict[str, list[str]] = {}
    for name, text in zip(head[1:], row[1:], strict=True):
        columns.setdefault(text, []).append(name)
    columns.pop("-", None)
    is_same = list(columns.values()) == [[*head[1:]]]
    texts = [text if is_same else f"{', '.join(names)}: {text}" for text, names in columns.items()]
    return [row[0], *(f"{GAP}{line}" for text in texts for line in wrap_text(text, max(2, width - len(GAP))))]


def _stack_row(row: Sequence[str], widths: Sequence[int], width: int) -> list[str]:
    """Return the lines of a row in a narrow window: its last cell below the others, which are aligned if they fit.

    A last cell that is "-", for nothing, is left out. If all last cells are short, they stand behind the others.
    """
    from rich.cells import set_cell_size

    from .markdown.cells import wrap_text

    *cells, last = row
    room = max(2, width - len(GAP))
    if widths[-1] < _MIN_CELL:
        first, *rest = wrap_text(GAP.join(filter(str.strip, row)), room)
        return [first, *(f"{GAP}{line}" for line in rest)]
    if sum(widths[:-1]) + len(GAP) * (len(cells) - 1) <= width:
        aligned = (set_cell_size(cell, size) for cell, size in zip(cells, widths, strict=False))
        first, rest = GAP.join(aligned).rstrip(), []
    else:
        first, *rest = wrap_text(GAP.join(filter(str.strip, cells)), room)
    return [first, *(f"{GAP}{line}" for line in [*rest, *wrap_text("" if last == "-" else last, room)] if line)]
