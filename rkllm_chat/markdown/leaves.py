"""What stands in a block and is still open: text that may yet become something else, or code."""

from __future__ import annotations

import copy
import re

from .cells import Flow, Piece, Run, chop, joined, pieces_of
from .code import Highlighter
from .inline import spans

SHORTEST_TRY, LONGEST_HELD, MOST_LINES_HELD = 48, 800, 4
MARKS = re.compile(r"[*_`~\[<]")
LETTER = "[\u3041-\u30fa\u30fc-\u30ff\u3400-\u9fff\uac00-\ud7a3]"  # of a script that is written without spaces
BREAKS = re.compile(rf"\s|(?<={LETTER})(?={LETTER})")
TRIES = 3


class Paragraph:
    """Text of one block. What is settled flows into lines; behind a mark that is still open, it is held.

    Held are at most `LONGEST_HELD` characters and a few lines: what is longer loses its emphasis, never its words.
    """

    def __init__(self, width: int, color: bool, style: str = "", is_heading: bool = False) -> None:
        self.flow = Flow(width)
        self.is_heading = is_heading
        self._color = color
        self._style = style
        self._held = ""
        self._next_try = 0

    def copy(self) -> Paragraph:
        twin = copy.copy(self)
        twin.flow = self.flow.copy()
        return twin

    def add(self, text: str) -> None:
        self._held += text
        if len(self._held) >= max(SHORTEST_TRY, self._next_try):
            self._release()

    def newline(self) -> None:
        """The line of the source is over. Lines are kept as the model wrote them."""
        self._held = self._held.rstrip(" ")
        is_much = len(self._held) > LONGEST_HELD or self._held.count("\n") >= MOST_LINES_HELD
        if is_much or len(self._held) >= self._next_try:
            runs, settled = spans(self._held, self._color)
            if settled or is_much:
                self._put(runs, rest="")
                self.flow.newline()
                return
            self._wait()
        self._held += "\n"

    def close(self) -> None:
        self._put(spans(self._held.rstrip(), self._color)[0], rest="")
        self.flow.finish()

    def _release(self) -> None:
        """Lets go of what stands before the last break that is settled."""
        held = self._held
        marks = [mark.start() for mark in MARKS.finditer(held)]
        breaks = [found.start() for found in BREAKS.finditer(held) if found.start()]
        for limit in dict.fromkeys((len(held), *reversed(marks[-TRIES:]), *marks[:1])):
            at = max((at for at in breaks if at < limit), default=0)
            runs, settled = spans(held[:at], self._color) if at else ([], False)
            if settled:
                return self._put(runs, rest=held[at:])
        if len(held) > LONGEST_HELD:
            at = breaks[-1] if breaks else len(held)
            return self._put(spans(held[:at], self._color)[0], rest=held[at:])
        return self._wait()

    def _put(self, runs: list[Run], rest: str) -> None:
        for text, style in runs:
            self.flow.put(text, joined(self._style, style))
        self._held = rest
        self._next_try = 0

    def _wait(self) -> None:
        """The same text is not read again and again: half as much must come before the next try."""
        self._next_try = min(len(self._held) * 3 // 2, LONGEST_HELD + 1)


class Fence:
    """Code between two fences; its lines go out one by one, whole ones in colour."""

    def __init__(self, opening: re.Match[str], indent: int, color: bool) -> None:
        mark = opening["mark"]
        self._closing = re.compile(rf" *{re.escape(mark[0])}{{{len(mark)},}} *")
        self._indent = indent
        language = opening["info"].split()[:1]
        self.highlighter = Highlighter(language[0] if language and color else "")
        self._rest: list[Piece] = []

    def copy(self) -> Fence:
        twin = copy.copy(self)
        twin.highlighter = self.highlighter.copy()
        return twin

    def is_closed_by(self, line: str) -> bool:
        return bool(self._closing.fullmatch(line))

    def line(self, line: str, width: int) -> list[list[Piece]]:
        """The lines that show one whole line of code."""
        spaces = len(line) - len(line.lstrip(" "))
        return chop(pieces_of(self.highlighter.colored(line[min(spaces, self._indent) :])), width)

    def part(self, text: str, width: int) -> list[list[Piece]]:
        """The lines that are full, of a line of code that is too long to be held; the last waits for more."""
        *full, self._rest = chop([*self._rest, *pieces_of([(text, "")])], width)
        return full

    def end_part(self, text: str, width: int) -> list[list[Piece]]:
        lines = chop([*self._rest, *pieces_of([(text, "")])], width)
        self._rest = []
        return lines
