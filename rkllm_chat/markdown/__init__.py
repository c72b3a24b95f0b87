"""An answer in Markdown becomes lines of a terminal while it grows. It knows no terminal: lines come out as text.

Wanted: what is finished is printed once and never again, and what is still open stays small. So a line of the source
is taken when it is whole; when it is long, in parts of fixed size, so that how the text was cut into pieces shows
nowhere. A line goes out when nothing that follows can change it. Everything that is held is bounded, and so is the
cost of a piece.
"""

from __future__ import annotations

import re

from ..clean import clean
from .blocks import Blocks
from .leaves import Fence
from .tables import Table

LINE_START, LINE_PART, CODE_PART, ROW = 160, 64, 1000, 4000  # characters that are waited for

LAST_MARK = re.compile(r"(?<!\\)[*_~](?=[*_~]{0,5}\Z)")  # it may be half of one


class Growing:
    """One answer. `feed(text)` gives the lines that are finished now, `tail()` those of what is still open.

    `close()` gives the rest. A line has no newline, holds SGR sequences only, each ended on its line, and is at most
    `width` cells wide (2 where less is asked for). Without colour there is no sequence at all, and the marks of
    emphasis, code and headings stay. Where a link leads is always written out.
    """

    def __init__(self, width: int, color: bool) -> None:
        self._blocks = Blocks(max(2, width), color)
        self._part = ""
        self._is_long = False  # the line has begun to be shown
        self._return = ""  # a CR whose LF may come with the next piece
        self._before = ""

    def feed(self, text: str) -> list[str]:
        text = self._return + text
        self._return = "\r" if text.endswith("\r") else ""
        whole = text.removesuffix("\r")
        text, self._before = clean(whole, self._before), (self._before + whole)[-2:]
        while text:
            text = self._take(text)
        return self._finished()

    def tail(self) -> list[str]:
        """What `close` would give, but that a row of a table waits until it is whole and a mark at the end is plain."""
        twin = self._blocks.copy()
        in_code = isinstance(twin.leaf, Fence)
        part = self._part if in_code else LAST_MARK.sub(r"\\\g<0>", self._part)
        if self._is_long:
            twin.go_on(part)
        elif part and not isinstance(twin.leaf, Table):
            twin.begin(part, whole=in_code)
        twin.close()
        return twin.out

    def close(self) -> list[str]:
        if self._part or self._is_long:
            self._end_line()
        self._blocks.close()
        return self._finished()

    def resize(self, width: int) -> None:
        self._blocks.resize(max(2, width))

    def _take(self, text: str) -> str:
        """Takes what one line still waits for; gives what is left."""
        room = self._waited_for() - len(self._part)
        line, newline, _ = text[:room].partition("\n")
        self._part += line
        if newline:
            self._end_line()
        elif len(self._part) >= self._waited_for():
            self._show_part()
        return text[len(line) + len(newline) :]

    def _waited_for(self) -> int:
        if isinstance(self._blocks.leaf, Fence):
            return CODE_PART
        if self._is_long:
            return LINE_PART
        is_row = isinstance(self._blocks.leaf, Table) or self._part.lstrip(" >").startswith("|")
        return ROW if is_row else LINE_START

    def _show_part(self) -> None:
        if self._is_long:
            self._blocks.go_on(self._part)
        else:
            self._blocks.begin(self._part, whole=False)
        self._part, self._is_long = "", True

    def _end_line(self) -> None:
        if self._is_long:
            self._blocks.end(self._part)
        else:
            self._blocks.begin(self._part)
        self._part, self._is_long = "", False

    def _finished(self) -> list[str]:
        finished, self._blocks.out = self._blocks.out, []
        return finished
