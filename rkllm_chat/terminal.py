"""Events become characters on a stream, for pipes and plain terminals; and the sentences about them, for any face.

It reads no keys and knows no turn; everything it prints is made safe first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from typing import IO, Any

from .clean import clean, clean_line
from .events import (
    CallGarbled,
    CallsDetected,
    Event,
    Notice,
    Page,
    Table,
    Text,
    Thought,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from .language import Words

ANSWER_MARK = "◆ "
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
LONGEST_LINE = 300
LONGEST_ARGUMENTS = 60
GAP, LEAST_CELL = "  ", 16
FETCHED = ("", "read_resource", "completed")


class Terminal:
    """Shows the events of one turn after another. `answer` gets what the model says, `side` the lines about tools.

    White space at the ends of an answer is not shown; between its words it is kept back until a word follows.
    """

    def __init__(self, answer: IO[str], side: IO[str], words: Words, color: bool, mark: str = ANSWER_MARK) -> None:
        for stream in (answer, side):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal that is not UTF-8 gets "?" instead of an exception
        self._answer = answer
        self._side = side
        self._words = words
        self._color = color
        self._mark = mark
        self._space = self._before = ""
        self._kind: type[Text] | type[Thought] | None = None

    def show(self, event: Event) -> None:
        match event:
            case Text() | Thought():
                self._say(event)
            case Table():
                self._write_lines(table_lines(event))
            case Page(text):
                self._write_lines(clean(text).splitlines())
            case ToolProgress():
                self._line(progress_line(event, self._words))
            case _:
                if isinstance(event, TurnEnded):
                    self.end_line()
                if line := line_about(event, self._words):
                    self._line(line)

    def end_line(self) -> None:
        """Brings the answer to its end, so that what follows begins on a new line."""
        if self._kind:
            self._answer.write((PLAIN if self._kind is Thought and self._color else "") + "\n")
            self._answer.flush()
        self._kind = None
        self._space = ""

    def _say(self, event: Text | Thought) -> None:
        text, self._before = clean(event.text, self._before), (self._before + event.text)[-2:]
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

    def _line(self, text: str) -> None:
        line = text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE] + "…"
        self._write_lines([f"{DIM}{line}{PLAIN}" if self._color else line])

    def _write_lines(self, lines: Sequence[str]) -> None:
        self.end_line()
        self._side.write("".join(f"{line}\n" for line in lines))
        self._side.flush()


def line_about(event: Event, words: Words) -> str:
    """What is said of an event in one line, made safe; "" where there is nothing to say."""
    match event:
        case CallsDetected(count):
            line = words("terminal.detected_one" if count == 1 else "terminal.detected_many", count=count)
        case CallGarbled():
            line = words("terminal.garbled", detail=event.detail)
        case ToolStarted():
            line = words("terminal.calling", tool=event.tool)
        case ToolFinished(result) if (result.server, result.tool, result.status) == FETCHED:
            line = words("terminal.fetched", uri=result.arguments.get("uri", ""))
        case ToolFinished(result):
            line = words(f"terminal.{result.status}", tool=result.tool, text=result.text)
        case Notice(text):
            line = text
        case TurnEnded("length"):
            line = words("terminal.length")
        case _:
            line = ""
    return clean_line(line)


def progress_line(event: ToolProgress, words: Words) -> str:
    done = f"{event.progress:g}/{event.total:g}" if event.total else f"{event.progress:g}"
    return clean_line(words("terminal.progress", tool=event.tool, progress=done, message=event.message))


def table_lines(table: Table, width: int = 0) -> list[str]:
    """The rows with their cells under each other, made safe.

    What does not fit into `width` (0: there is no limit) goes on under its last cell; where that has no room, the
    cells follow each other as words do.
    """
    from rich.cells import cell_len, set_cell_size

    from .markdown.cells import fold

    rows = [[clean_line(cell) for cell in row] for row in (table.head, *table.rows) if row]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    room = width - sum(widths[:-1]) - len(GAP) * (len(widths) - 1) if width else sum(widths)
    if room < min(LEAST_CELL, widths[-1]):
        return [line for row in rows for line in fold(GAP.join(filter(None, row)), width)]
    lines: list[str] = []
    for row in rows:
        start = "".join(set_cell_size(cell, size) + GAP for cell, size in zip(row, widths[:-1], strict=False))
        first, *rest = fold(row[-1], room)
        lines += [f"{start}{first}".rstrip(), *(" " * cell_len(start) + one for one in rest)]
    return lines


def sketch_arguments(arguments: Mapping[str, Any]) -> str:
    """The arguments in a few words: `place="Tokyo"`."""
    parts = (f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in arguments.items())
    line = clean_line(", ".join(parts))
    return line if len(line) <= LONGEST_ARGUMENTS else line[:LONGEST_ARGUMENTS] + "…"
