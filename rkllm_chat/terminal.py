"""Events become characters. It reads no keys and knows no turn; everything it prints is made safe first."""

from __future__ import annotations

from io import TextIOWrapper
from typing import IO

from .clean import clean, clean_line
from .events import (
    CallGarbled,
    CallsDetected,
    Event,
    Notice,
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
        self._space = ""
        self._kind: type[Text] | type[Thought] | None = None

    def show(self, event: Event) -> None:
        match event:
            case Text() | Thought():
                self._say(event)
            case Table():
                self._table(event)
            case TurnEnded():
                self.end_line()
        if line := self._line_about(event):
            self._line(line)

    def _line_about(self, event: Event) -> str:
        words = self._words
        match event:
            case CallsDetected(count):
                return words("terminal.detected_one" if count == 1 else "terminal.detected_many", count=count)
            case CallGarbled():
                return words("terminal.garbled", detail=event.detail)
            case ToolStarted():
                return words("terminal.calling", tool=event.tool)
            case ToolProgress():
                done = f"{event.progress:g}/{event.total:g}" if event.total else f"{event.progress:g}"
                return words("terminal.progress", tool=event.tool, progress=done, message=event.message)
            case ToolFinished(result) if (result.server, result.tool, result.status) == FETCHED:
                return words("terminal.fetched", uri=result.arguments.get("uri", ""))
            case ToolFinished(result):
                return words(f"terminal.{result.status}", tool=result.tool, text=result.text)
            case Notice(text):
                return text
            case TurnEnded("length"):
                return words("terminal.length")
        return ""

    def end_line(self) -> None:
        """Brings the answer to its end, so that what follows begins on a new line."""
        if self._kind:
            self._answer.write((PLAIN if self._kind is Thought and self._color else "") + "\n")
            self._answer.flush()
        self._kind = None
        self._space = ""

    def _say(self, event: Text | Thought) -> None:
        text = clean(event.text)
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
        self.end_line()
        line = clean_line(text)
        line = line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + "…"
        self._side.write(f"{DIM}{line}{PLAIN}\n" if self._color else f"{line}\n")
        self._side.flush()

    def _table(self, table: Table) -> None:
        from rich.cells import cell_len, set_cell_size

        self.end_line()
        rows = [[clean_line(cell) for cell in row] for row in (table.head, *table.rows) if row]
        widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = [set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True)]
            self._side.write("  ".join(cells).rstrip() + "\n")
        self._side.flush()
