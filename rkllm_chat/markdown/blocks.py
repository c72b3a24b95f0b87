"""Lines of Markdown become lines of a terminal, block by block. It knows no pieces: it is given lines, or their parts.

The blocks are those of CommonMark and GitHub's tables, with what a growing answer in a chat asks for instead of a page:
lines end where the model ended them, an item keeps the number it was given, and a line of dashes below a paragraph is
a rule, for the paragraph may have been printed already.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, replace

from .cells import Piece, Run, chop, paint, pieces_of, width_of
from .inline import DIM
from .leaves import Fence, Paragraph
from .tables import Table, is_table

FENCE = re.compile(r"(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)")
HEADING = re.compile(r"(?P<marks>#{1,6}) +(?P<text>.*?)(?: +#+)? *")
RULE = re.compile(r"(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,}")
UNDERLINE = re.compile(r"(?P<mark>=|-)(?P=mark)+ *")
MARKER = re.compile(r"(?P<mark>[-+*•]|\d{1,9}[.)])(?P<space> +|$)")
HEADINGS = ("1;4", "1", "1;3")
QUOTE_MARK, BULLET = "│ ", "• "
MOST_BOXES, LONGEST_RULE = 16, 40


@dataclass(frozen=True)
class Box:
    """What other blocks stand in: a quote, or an item of a list with its columns in the source."""

    mark: str
    marker: int = 0
    content: int = 0
    is_shown: bool = False

    @property
    def is_quote(self) -> bool:
        return self.mark == QUOTE_MARK


class Blocks:
    """`begin` is given a line; or, when it is too long to wait for, its first part, then `go_on` and `end` the rest.

    `out` gathers the lines that are finished.
    """

    def __init__(self, width: int, color: bool) -> None:
        self.width = width
        self.color = color
        self.out: list[str] = []
        self.leaf: Paragraph | Fence | Table | None = None
        self._boxes: tuple[Box, ...] = ()
        self._head = ""  # a line that the next one may make the head of a table
        self._has_begun = False
        self._gap = False

    def copy(self) -> Blocks:
        """A twin that may go on by itself."""
        twin = copy.copy(self)
        twin.out = []
        if not isinstance(self.leaf, Table):  # one that is not written to: a part of a row is never shown
            twin.leaf = self.leaf and self.leaf.copy()
        return twin

    def resize(self, width: int) -> None:
        self.width = width
        if isinstance(self.leaf, Paragraph):
            self.leaf.flow.resize(self._room())

    def begin(self, line: str, whole: bool = True) -> None:
        line = line.expandtabs(4)
        rest, depth = self._inside(line)
        stays = depth == len(self._boxes)
        if self._head and self._begins_table(rest, stays and whole):
            return
        if stays and self._goes_into_leaf(rest, whole):
            return
        if whole and not rest.strip(" "):
            self._close_leaf()
            self._leave(depth)
            self._gap = self._has_begun
            return
        if stays or not isinstance(self.leaf, Paragraph) or _begins_block(rest):
            self._leave(depth)
            rest = self._enter(rest, whole)
        self._fill(rest, whole)

    def go_on(self, part: str) -> None:
        if isinstance(self.leaf, Paragraph):
            self.leaf.add(part.replace("\t", " "))
            self._drain()
        elif isinstance(self.leaf, Fence):
            self._emit_all(self.leaf.part(part.expandtabs(4), self._room()))

    def end(self, part: str) -> None:
        self.go_on(part)
        if isinstance(self.leaf, Paragraph):
            self._end_line(self.leaf)
        elif isinstance(self.leaf, Fence):
            self._emit_all(self.leaf.end_part("", self._room()))

    def close(self) -> None:
        if self._head:
            self._say(self._head, whole=True)
        self._close_leaf()
        self._leave(0)

    def _inside(self, line: str) -> tuple[str, int]:
        """What the line says inside the boxes it belongs to, and how many those are."""
        for depth, box in enumerate(self._boxes):
            bare = line.lstrip(" ")
            indent = len(line) - len(bare)
            if box.is_quote:
                if not bare.startswith(">"):
                    return line, depth
                line = bare[1:].removeprefix(" ")
            elif (
                not bare
                or indent >= box.content
                or isinstance(self.leaf, Fence)
                or (indent >= box.marker + 2 and MARKER.match(bare))
            ):
                line = line[min(indent, box.content) :]
            else:
                return line, depth
        return line, len(self._boxes)

    def _begins_table(self, below: str, may: bool) -> bool:
        head, self._head = self._head, ""
        if may and is_table(head, below):
            self._close_leaf()
            self.leaf = Table(head, below, self.color)
            return True
        self._say(head, whole=True)
        return False

    def _goes_into_leaf(self, rest: str, whole: bool) -> bool:
        leaf = self.leaf
        if isinstance(leaf, Fence):
            self._code(leaf, rest, whole)
            return True
        if isinstance(leaf, Table) and whole and "|" in rest:
            leaf.add(rest)
            if leaf.overfull:
                self._overflow(leaf)
            return True
        if isinstance(leaf, Paragraph) and whole and (underline := UNDERLINE.fullmatch(rest.strip(" "))):
            self._close_leaf()
            self._rule("═" if underline["mark"] == "=" else "─")
            return True
        return False

    def _enter(self, rest: str, whole: bool) -> str:
        """Opens the boxes that begin on this line; gives what stands in them."""
        is_first = True
        while box := self._box_at(rest, whole):
            if is_first:
                self._close_leaf()
                self._show_gap()
            is_first = False
            bare = rest.lstrip(" ")
            rest = bare[1:].removeprefix(" ") if box.is_quote else rest[box.content :]
            self._boxes = (*self._boxes, box)
        return rest

    def _box_at(self, rest: str, whole: bool) -> Box | None:
        bare = rest.lstrip(" ")
        if bare.startswith(">"):
            return self._fitting(Box(QUOTE_MARK))
        marker = MARKER.match(bare)
        if not marker or (whole and RULE.fullmatch(bare)) or not (whole or marker["space"]):
            return None
        mark, spaces = marker["mark"], len(marker["space"])
        is_number = mark[0].isdigit()
        if isinstance(self.leaf, Paragraph) and (marker.end() == len(bare) or (is_number and mark[:-1] != "1")):
            return None
        column = len(rest) - len(bare)
        content = column + len(mark) + (spaces if 1 <= spaces <= 4 else 1)
        return self._fitting(Box(f"{mark} " if is_number else BULLET, column, content))

    def _fitting(self, box: Box) -> Box | None:
        """None where the boxes would leave no room for text: then their marks are text."""
        taken = sum(len(other.mark) for other in (*self._boxes, box))
        return box if taken <= self.width // 2 and len(self._boxes) < MOST_BOXES else None

    def _fill(self, rest: str, whole: bool) -> None:
        bare = rest.strip(" ") if whole else rest.lstrip(" ")
        indent = len(rest) - len(rest.lstrip(" "))
        if not bare:
            return
        if whole and (opening := FENCE.fullmatch(bare)):
            self._open(Fence(opening, indent, self.color))
            self._emit_all(chop(pieces_of([self._dim(bare)]), self._room()))
        elif whole and RULE.fullmatch(bare):
            self._open(None)
            self._rule("─")
        elif heading := HEADING.fullmatch(bare):
            self._heading(heading, whole)
        elif indent >= 4 and whole and not self.leaf and not self._boxes:
            self._open(None)
            self._emit_all(chop(pieces_of([(rest, "")]), self._room()))
        elif whole and "|" in bare:
            self._head = bare
        else:
            self._say(bare, whole)

    def _heading(self, heading: re.Match[str], whole: bool) -> None:
        marks = heading["marks"]
        style = HEADINGS[min(len(marks), len(HEADINGS)) - 1]
        self._open(leaf := Paragraph(self._room(), self.color, style if self.color else "", is_heading=True))
        text = heading["text"] if whole else heading.string[heading.end("marks") :].lstrip(" ")
        leaf.add(text if self.color else f"{marks} {text}")
        if whole:
            self._end_line(leaf)

    def _say(self, text: str, whole: bool) -> None:
        if not isinstance(self.leaf, Paragraph):
            self._open(Paragraph(self._room(), self.color))
        leaf = self.leaf
        assert isinstance(leaf, Paragraph)
        leaf.add(text)
        self._drain()
        if whole:
            self._end_line(leaf)

    def _end_line(self, leaf: Paragraph) -> None:
        if leaf.is_heading:
            self._close_leaf()
            return
        leaf.newline()
        self._drain()

    def _code(self, leaf: Fence, rest: str, whole: bool) -> None:
        if not whole:
            self._emit_all(leaf.part(rest, self._room()))
        elif leaf.is_closed_by(rest):
            self._emit_all(chop(pieces_of([self._dim(rest.strip(" "))]), self._room()))
            self.leaf = None
        else:
            self._emit_all(leaf.line(rest, self._room()))

    def _overflow(self, leaf: Table) -> None:
        row = leaf.take_row(self._room())
        if not leaf.is_shown:
            self._show_gap()
            self._emit_all(leaf.lines(self._room()))
        leaf.is_shown = True
        self._emit_all(row)

    def _open(self, leaf: Paragraph | Fence | None) -> None:
        self._close_leaf()
        self._show_gap()
        self.leaf = leaf

    def _close_leaf(self) -> None:
        leaf, self.leaf = self.leaf, None
        if isinstance(leaf, Paragraph):
            leaf.close()
            self._drain(leaf)
        elif isinstance(leaf, Table) and not leaf.is_shown:
            self._show_gap()
            self._emit_all(leaf.lines(self._room()))
        elif isinstance(leaf, Fence):
            self._emit_all([line for line in leaf.end_part("", self._room()) if line])

    def _leave(self, depth: int) -> None:
        """Closes what does not go on; an item that was empty is shown by its mark."""
        if depth < len(self._boxes) or not isinstance(self.leaf, Paragraph):
            self._close_leaf()
        if not all(box.is_shown or box.is_quote for box in self._boxes[depth:]):
            self._emit([])
        self._boxes = self._boxes[:depth]

    def _drain(self, leaf: Paragraph | None = None) -> None:
        leaf = leaf or (self.leaf if isinstance(self.leaf, Paragraph) else None)
        if leaf:
            lines, leaf.flow.lines = leaf.flow.lines, []
            self._emit_all(lines)

    def _rule(self, line: str) -> None:
        self._emit(pieces_of([self._dim(line * min(self._room(), LONGEST_RULE))]))

    def _dim(self, text: str) -> Run:
        return text, DIM if self.color else ""

    def _show_gap(self) -> None:
        if self._gap:
            self._gap = False
            self._emit([])

    def _room(self) -> int:
        return max(2, self.width - sum(len(box.mark) for box in self._boxes))

    def _emit_all(self, lines: list[list[Piece]]) -> None:
        for line in lines:
            self._emit(line)

    def _emit(self, line: list[Piece]) -> None:
        marks = [
            self._dim(box.mark if box.is_quote or not box.is_shown else " " * len(box.mark)) for box in self._boxes
        ]
        before = pieces_of(marks)[: max(0, self.width - width_of(line))]  # less after the window became narrow
        self.out.append(paint([*before, *line]))
        self._boxes = tuple(replace(box, is_shown=True) for box in self._boxes)
        self._has_begun = True

    def _marked(self, box: Box) -> list[Piece]:
        mark = box.mark.rstrip(" ") if box.is_quote or not box.is_shown else ""
        return pieces_of([self._dim(mark), (" " * (len(box.mark) - len(mark)), "")])


def _begins_block(rest: str) -> bool:
    bare = rest.lstrip(" ")
    return any(begins.match(bare) for begins in (FENCE, HEADING, MARKER)) or bare.startswith(">")
