"""Render Markdown tables.

Column widths depend on all rows, so a table is buffered until it ends; of a long one only the first rows.
"""

from __future__ import annotations

import re
from itertools import zip_longest

from .cells import Cluster, LineWrapper, StyledText, count_cells, join_styles, split_clusters
from .inline import DIM, parse_inline

PIPE_PATTERN = re.compile(r"(?<!\\)\|")
_DELIMITER_ROW = re.compile(r"\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?|\|? *:?-+:? *(?:\| *:?-+:? *)+")
_BREAK = re.compile(r"<br */?>", re.IGNORECASE)
_MAX_ROWS, _MIN_COLUMN = 50, 3
COLUMN_SEPARATOR = " │ "


def _cells_in(row: str) -> list[str]:
    """Return the cells of a row without their pipes."""
    row = row.strip(" ")
    cells = PIPE_PATTERN.split(row)
    cells = cells[1 if row.startswith("|") else 0 :]
    if len(cells) > 1 and not cells[-1].strip():
        cells.pop()
    return [cell.strip(" ").replace("\\|", "|") for cell in cells]


def is_table(head: str, below: str) -> bool:
    """Whether two lines begin a table: a delimiter row with as many columns as the header."""
    below = below.strip(" ")
    return bool(_DELIMITER_ROW.fullmatch(below)) and len(_cells_in(head)) == len(_cells_in(below))


class MarkdownTable:
    """A table that is being read.

    Once it has more than _MAX_ROWS rows (`is_overfull`), further rows are rendered one by one with the widths known by
    then. If `width` is too small for its columns, rows are shown as text with pipes.

    Attributes:
        columns: Number of columns.
        is_shown: Whether the buffered rows have been emitted.
    """

    def __init__(self, head: str, below: str, color: bool) -> None:
        self.color = color
        self.columns = len(_cells_in(head))
        self._aligned = [(cell.startswith(":"), cell.endswith(":")) for cell in _cells_in(below)]
        self._widest = [1] * self.columns
        self._rows: list[list[list[StyledText]]] = []
        self.is_shown = False
        self._rendered: tuple[int, int, list[list[Cluster]]] = (0, 0, [])
        self._add(head, "1" if color else "")

    @property
    def is_overfull(self) -> bool:
        """Whether more rows are buffered than determine the widths."""
        return len(self._rows) > _MAX_ROWS

    def add(self, row: str) -> None:
        self._add(row, "")

    def lines(self, width: int) -> list[list[Cluster]]:
        """Return the lines of all buffered rows."""
        if self._rendered[:2] != (len(self._rows), width):
            head, *rows = (self._row(cells, width) for cells in self._rows)
            lines = [*head, *self._delimiter_row(width), *(line for row in rows for line in row)]
            self._rendered = (len(self._rows), width, lines)
        return self._rendered[2]

    def take_row(self, width: int) -> list[list[Cluster]]:
        """Remove the last row and return its lines."""
        return self._row(self._rows.pop(), width)

    def _add(self, row: str, style: str) -> None:
        cells_text = _cells_in(row)
        excess = cells_text[self.columns - 1 :]
        cells_text = [*cells_text[: self.columns - 1], " | ".join(excess), *[""] * self.columns][: self.columns]
        cells = [_cell_runs(cell, self.color, style) for cell in cells_text]
        self._rows.append(cells)
        if not self.is_overfull:
            self._widest = [max(old, _natural_width(cell)) for old, cell in zip(self._widest, cells, strict=True)]

    def _row(self, cells: list[list[StyledText]], width: int) -> list[list[Cluster]]:
        widths = self._fit(width)
        if not widths:
            return _wrapped([run for cell in cells for run in (("| ", ""), *cell, (" ", ""))], width)
        columns = [_wrapped(cell, column_width) for cell, column_width in zip(cells, widths, strict=True)]
        return [self._side_by_side(line, widths) for line in zip_longest(*columns, fillvalue=[])]

    def _side_by_side(self, line: tuple[list[Cluster], ...], widths: list[int]) -> list[Cluster]:
        joined: list[Cluster] = []
        for number, (pieces, column_width) in enumerate(zip(line, widths, strict=True)):
            left, right = self._aligned[number]
            room = column_width - count_cells(pieces)
            before = (room // 2 if left else room) if right else 0
            joined += split_clusters([(COLUMN_SEPARATOR, DIM if self.color else "")] if number else [])
            joined += [(" ", "", 1)] * before + pieces + [(" ", "", 1)] * (room - before)
        return joined

    def _delimiter_row(self, width: int) -> list[list[Cluster]]:
        widths = self._fit(width) or [min(width, _MIN_COLUMN)]
        return [
            split_clusters([("─┼─".join("─" * column_width for column_width in widths), DIM if self.color else "")])
        ]

    def _fit(self, width: int) -> list[int]:
        """Return column widths that fit, shrinking the widest first; empty if a column would be too narrow."""
        room = width - len(COLUMN_SEPARATOR) * (self.columns - 1)
        if sum(self._widest) <= room:
            return self._widest
        if room < _MIN_COLUMN * self.columns:
            return []
        widths, left = [0] * self.columns, room
        order = sorted(range(self.columns), key=self._widest.__getitem__)
        for done, number in enumerate(order):
            widths[number] = min(self._widest[number], left // (self.columns - done))
            left -= widths[number]
        return widths


def _cell_runs(cell: str, color: bool, style: str) -> list[StyledText]:
    runs: list[StyledText] = []
    for part in _BREAK.split(cell):
        part_runs, _ = parse_inline(part, color)
        runs += [("\n", ""), *((text, join_styles(style, own)) for text, own in part_runs)]
    return runs[1:]


def _natural_width(cell: list[StyledText]) -> int:
    lines = "".join(text for text, _ in cell).split("\n")
    return max(count_cells(split_clusters([(line, "")])) for line in lines)


def _wrapped(runs: list[StyledText], width: int) -> list[list[Cluster]]:
    wrapper = LineWrapper(width)
    for text, style in runs:
        wrapper.put(text, style)
    wrapper.finish()
    return wrapper.lines
