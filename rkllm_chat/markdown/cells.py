"""Styled text becomes lines of terminal cells, wrapped as it comes. It knows no Markdown.

A style is the parameters of an SGR sequence, "1;4" for bold and underlined, "" for plain. Widths are those of rich.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby

Run = tuple[str, str]  # text, style
Piece = tuple[str, str, int]  # one cluster, style, cells

# Kinsoku: what does not begin a line, what does not end one. (JIS X 4051, the marks that a chat meets)
NO_START = frozenset(
    "、。，．・：；！？）］｝〕〉》」』】〙〗…‥ー々ゝゞぁぃぅぇぉっゃゅょァィゥェォッャュョ,.:;!?)]}%”’"
)
NO_END = frozenset("「『（［｛〔〈《【〘〖([{“‘")
LONGEST_CLUSTER, WIDEST_CLUSTER = 32, 2


def joined(*styles: str) -> str:
    return ";".join(filter(None, styles))


@lru_cache(maxsize=8192)
def cells_of(text: str) -> int:
    """How many cells a terminal gives the text."""
    from rich.cells import cell_len

    return cell_len(text)


def clusters(text: str) -> Iterable[str]:
    """The text in units that are not taken apart: a character and what combines with it."""
    return text if text.isascii() else _joined(text)


def _joined(text: str) -> Iterator[str]:
    held = ""
    for character in text:
        if held and joins(held, character):
            held += character
            continue
        if held:
            yield held
        held = character
    if held:
        yield held


def joins(before: str, after: str) -> bool:
    """Whether a terminal shows the two in the same cells: an accent, a variation, what a joiner joins."""
    if before in (" ", "\n") or after in (" ", "\n") or len(before) >= LONGEST_CLUSTER:
        return False
    return (before[-1] == "\u200d" or not cells_of(after)) and cells_of(before + after) <= WIDEST_CLUSTER


def pieces_of(runs: Iterable[Run]) -> list[Piece]:
    pieces: list[Piece] = []
    for text, style in runs:
        for cluster in clusters(text):
            if pieces and joins(pieces[-1][0], cluster):
                before, style, _ = pieces.pop()
                cluster = before + cluster
            pieces.append((cluster, style, cells_of(cluster)))
    return pieces


def width_of(pieces: Iterable[Piece]) -> int:
    return sum(cells for _, _, cells in pieces)


def chop(pieces: Iterable[Piece], width: int) -> list[list[Piece]]:
    """Lines of at most `width` cells, broken anywhere, as code is; at least one, which may be empty."""
    lines: list[list[Piece]] = [[]]
    used = 0
    for piece in pieces:
        if used + piece[2] > width and lines[-1]:
            lines.append([])
            used = 0
        lines[-1].append(piece)
        used += piece[2]
    return lines


def chop_text(text: str, width: int) -> list[str]:
    """Plain text in lines of at most `width` cells, broken anywhere; tabs become spaces."""
    return [paint(line) for line in chop(pieces_of([(text.expandtabs(4), "")]), max(2, width))]


def fold(text: str, width: int) -> list[str]:
    """Plain text in lines of at most `width` cells, broken between words where that is possible; at least one."""
    flow = Flow(max(2, width))
    flow.put(text)
    flow.finish()
    return [paint(line) for line in flow.lines] or [""]


def paint(pieces: Iterable[Piece]) -> str:
    """The line for the terminal. Every style ends where it was begun, so a line needs no other."""
    painted = ""
    for style, group in groupby(pieces, key=lambda piece: piece[1]):
        text = "".join(cluster for cluster, _, _ in group)
        painted += f"\x1b[{style}m{text}\x1b[0m" if style else text
    return painted.rstrip(" ")


def may_break(before: str, after: str) -> bool:
    """Whether a line may end between two clusters with no space between: beside wide ones, but for kinsoku."""
    if cells_of(before) < 2 and cells_of(after) < 2:
        return False
    return bool(cells_of(after)) and after[0] not in NO_START and before[-1] not in NO_END


class Flow:
    """Text goes in by `put`, lines come out in `lines` as soon as nothing can change them; `finish` ends the last.

    A word wider than a line is broken anywhere. White space at a break is dropped.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[list[Piece]] = []
        self._line: list[Piece] = []
        self._gap: list[Piece] = []
        self._word: list[Piece] = []
        self._line_cells = self._word_cells = 0

    def copy(self) -> Flow:
        twin = copy.copy(self)
        for name in ("lines", "_line", "_gap", "_word"):
            setattr(twin, name, getattr(self, name)[:])
        return twin

    def put(self, text: str, style: str = "") -> None:
        for cluster in clusters(text):
            if cluster == "\n":
                self.newline()
            elif cluster == " ":
                self._space(style)
            else:
                self._add(cluster, style)

    def newline(self) -> None:
        self._commit()
        self._end_line()

    def finish(self) -> None:
        self._commit()
        if self._line:
            self._end_line()

    def resize(self, width: int) -> None:
        """What is still open is wrapped again; the lines that are out stay."""
        again = [*self._line, *self._gap, *self._word]
        lines = self.lines
        Flow.__init__(self, width)
        self.lines = lines
        for cluster, style, _ in again:
            self.put(cluster, style)

    def _space(self, style: str) -> None:
        self._commit()
        if len(self._gap) < self.width:
            self._gap.append((" ", style, 1))

    def _add(self, cluster: str, style: str) -> None:
        if self._word and joins(self._word[-1][0], cluster):
            before, style, cells = self._word.pop()
            self._word_cells -= cells
            cluster = before + cluster
        elif self._word and may_break(self._word[-1][0], cluster):
            self._commit()
        cells = cells_of(cluster)
        if self._word and self._word_cells + cells > self.width:
            self._spill()
        self._word.append((cluster, style, cells))
        self._word_cells += cells

    def _spill(self) -> None:
        """The word fills a line alone and goes on."""
        if self._line:
            self._end_line()
        self.lines.append(self._word)
        self._word, self._gap, self._word_cells = [], [], 0

    def _commit(self) -> None:
        """The word is whole: it goes into this line or begins the next."""
        if not self._word:
            return
        if self._line and self._line_cells + len(self._gap) + self._word_cells > self.width:
            self._end_line()
        elif self._line:
            self._line += self._gap
            self._line_cells += len(self._gap)
        self._line += self._word
        self._line_cells += self._word_cells
        self._word, self._gap, self._word_cells = [], [], 0

    def _end_line(self) -> None:
        self.lines.append(self._line)
        self._line, self._gap, self._line_cells = [], [], 0
