"""A table is held until it is over, for its columns are as wide as their widest cell; a long one is held in part."""

from __future__ import annotations

import re
from itertools import zip_longest

from .cells import Flow, Piece, Run, joined, pieces_of, width_of
from .inline import DIM, spans

PIPE = re.compile(r"(?<!\\)\|")
BELOW_HEAD = re.compile(r"\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?|\|? *:?-+:? *(?:\| *:?-+:? *)+")
BREAK = re.compile(r"<br */?>", re.IGNORECASE)
MOST_ROWS, NARROWEST = 50, 3
BETWEEN = " │ "


def cells_in(row: str) -> list[str]:
    """The cells of a row as they were written, without their pipes."""
    row = row.strip(" ")
    cells = PIPE.split(row)
    cells = cells[1 if row.startswith("|") else 0 :]
    if len(cells) > 1 and not cells[-1].strip():
        cells.pop()
    return [cell.strip(" ").replace("\\|", "|") for cell in cells]


def is_table(head: str, below: str) -> bool:
    """Whether two lines begin a table: the second is of dashes, and has as many columns."""
    below = below.strip(" ")
    return bool(BELOW_HEAD.fullmatch(below)) and len(cells_in(head)) == len(cells_in(below))


class Table:
    """The rows so far. `lines` shows them; once there are too many, `overfull`, they are shown row by row.

    A table that is too narrow for its columns is shown as it was written.
    """

    def __init__(self, head: str, below: str, color: bool) -> None:
        self.color = color
        self.columns = len(cells_in(head))
        self._aligned = [(cell.startswith(":"), cell.endswith(":")) for cell in cells_in(below)]
        self._widest = [1] * self.columns
        self._rows: list[list[list[Run]]] = []
        self.is_shown = False
        self._shown: tuple[int, int, list[list[Piece]]] = (0, 0, [])
        self._add(head, "1" if color else "")

    @property
    def overfull(self) -> bool:
        return len(self._rows) > MOST_ROWS

    def add(self, row: str) -> None:
        self._add(row, "")

    def lines(self, width: int) -> list[list[Piece]]:
        """The whole table."""
        if self._shown[:2] != (len(self._rows), width):
            head, *rows = (self._row(cells, width) for cells in self._rows)
            lines = [*head, *self._below_head(width), *(line for row in rows for line in row)]
            self._shown = (len(self._rows), width, lines)
        return self._shown[2]

    def take_row(self, width: int) -> list[list[Piece]]:
        """The last row alone, in the columns of those before; it is held no longer."""
        return self._row(self._rows.pop(), width)

    def _add(self, row: str, style: str) -> None:
        written = cells_in(row)
        over = written[self.columns - 1 :]
        written = [*written[: self.columns - 1], " | ".join(over), *[""] * self.columns][: self.columns]
        cells = [_cell_runs(cell, self.color, style) for cell in written]
        self._rows.append(cells)
        if not self.overfull:
            self._widest = [max(old, _natural(cell)) for old, cell in zip(self._widest, cells, strict=True)]

    def _row(self, cells: list[list[Run]], width: int) -> list[list[Piece]]:
        widths = self._fit(width)
        if not widths:
            return _wrapped([run for cell in cells for run in (("| ", ""), *cell, (" ", ""))], width)
        columns = [_wrapped(cell, wide) for cell, wide in zip(cells, widths, strict=True)]
        return [self._side_by_side(line, widths) for line in zip_longest(*columns, fillvalue=[])]

    def _side_by_side(self, line: tuple[list[Piece], ...], widths: list[int]) -> list[Piece]:
        joined: list[Piece] = []
        for number, (pieces, wide) in enumerate(zip(line, widths, strict=True)):
            left, right = self._aligned[number]
            room = wide - width_of(pieces)
            before = (room // 2 if left else room) if right else 0
            joined += pieces_of([(BETWEEN, DIM if self.color else "")] if number else [])
            joined += [(" ", "", 1)] * before + pieces + [(" ", "", 1)] * (room - before)
        return joined

    def _below_head(self, width: int) -> list[list[Piece]]:
        widths = self._fit(width) or [min(width, NARROWEST)]
        return [pieces_of([("─┼─".join("─" * wide for wide in widths), DIM if self.color else "")])]

    def _fit(self, width: int) -> list[int]:
        """Widths that fit: the widest columns give way first. None when a column would be too narrow to read."""
        room = width - len(BETWEEN) * (self.columns - 1)
        if sum(self._widest) <= room:
            return self._widest
        if room < NARROWEST * self.columns:
            return []
        widths, left = [0] * self.columns, room
        order = sorted(range(self.columns), key=self._widest.__getitem__)
        for done, number in enumerate(order):
            widths[number] = min(self._widest[number], left // (self.columns - done))
            left -= widths[number]
        return widths


def _cell_runs(cell: str, color: bool, style: str) -> list[Run]:
    runs: list[Run] = []
    for part in BREAK.split(cell):
        found, _ = spans(part, color)
        runs += [("\n", ""), *((text, joined(style, own)) for text, own in found)]
    return runs[1:]


def _natural(cell: list[Run]) -> int:
    lines = "".join(text for text, _ in cell).split("\n")
    return max(width_of(pieces_of([(line, "")])) for line in lines)


def _wrapped(runs: list[Run], width: int) -> list[list[Piece]]:
    flow = Flow(width)
    for text, style in runs:
        flow.put(text, style)
    flow.finish()
    return flow.lines
