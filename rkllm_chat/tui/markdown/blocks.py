"""Block structure of Markdown, rendered line by line.

CommonMark blocks and GitHub tables, with deviations for growing chat answers: line breaks of the model are kept, list
items keep their numbers, and dashes below a paragraph are a rule, because the paragraph may be printed already.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, replace
from itertools import takewhile

from .cells import Cluster, StyledText, break_anywhere, count_cells, render_line, split_clusters
from .inline import DIM
from .leaves import CodeBlock, Paragraph
from .tables import MarkdownTable, is_table

FENCE_PATTERN = re.compile(r"(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)")
_HEADING = re.compile(r"(?P<marks>#{1,6}) +(?P<text>.*?)(?: +#+)? *")
_RULE = re.compile(r"(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,}")
_UNDERLINE = re.compile(r"(?P<mark>=|-)(?P=mark)+ *")
_MARKER = re.compile(r"(?P<mark>[-+*•]|\d{1,9}[.)])(?P<space> +|$)")
_HEADINGS = ("1;4", "1", "1;3")
_QUOTE_MARK, _BULLET = "│ ", "• "
_MAX_CONTAINERS, _MAX_RULE_WIDTH = 16, 40


@dataclass(frozen=True)
class Container:
    """A container block: a quote, or a list item with its columns in the source."""

    mark: str
    marker: int = 0
    content: int = 0
    is_shown: bool = False

    @property
    def is_quote(self) -> bool:
        return self.mark == _QUOTE_MARK


def find_code_blocks(text: str) -> list[str]:
    """Return the code in the fences of a text, without their indentation; an open fence ends with the text."""
    blocks: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        if opening := FENCE_PATTERN.fullmatch(line.lstrip(" >-*")):
            leaf = CodeBlock(opening, indent, color=False)
            code = takewhile(lambda line: not leaf.is_closed_by(line), lines)  # noqa: B023  # consumed at once
            blocks.append("\n".join(line[min(indent, len(line) - len(line.lstrip(" "))) :] for line in code))
    return blocks


class BlockRenderer:
    """Block parser and renderer.

    A source line is passed to `begin_line`; a line that is too long is passed in parts to `begin_line`, `continue_line`
    and `end_line`.

    Attributes:
        width: Width in cells.
        color: Whether SGR sequences are used.
        wraps_code: Whether lines of code are broken at the width; else the terminal wraps them.
        out: The finished lines.
        leaf: The open leaf block.
    """

    def __init__(self, width: int, color: bool, wraps_code: bool = True) -> None:
        self.width = width
        self.color = color
        self.wraps_code = wraps_code
        self.out: list[str] = []
        self.leaf: Paragraph | CodeBlock | MarkdownTable | None = None
        self._containers: tuple[Container, ...] = ()
        self._head = ""  # a line that is a table header if a delimiter row follows
        self._has_begun = False
        self._has_gap = False

    def copy(self) -> BlockRenderer:
        """Return an independent copy without finished lines, for a preview."""
        clone = copy.copy(self)
        clone.out = []
        if not isinstance(self.leaf, MarkdownTable):  # a table is not modified here: partial rows are never rendered
            clone.leaf = self.leaf and self.leaf.copy()
        return clone

    def resize(self, width: int) -> None:
        """Change the width; an open paragraph is wrapped again."""
        if width == self.width:
            return
        self.width = width
        if isinstance(self.leaf, Paragraph):
            self.leaf.flow.resize(self._room())

    def begin_line(self, line: str, whole: bool = True) -> None:
        """Process a line, or with `whole=False` the first part of a long one."""
        line = line.expandtabs(4)
        rest, depth = self._strip_containers(line)
        stays = depth == len(self._containers)
        if self._head and self._begins_table(rest, stays and whole):
            return
        if stays and self._continues_leaf(rest, whole):
            return
        if whole and not rest.strip(" "):
            self._close_leaf()
            self._close_containers(depth)
            self._has_gap = self._has_begun
            return
        if stays or not isinstance(self.leaf, Paragraph) or _begins_block(rest):
            self._close_containers(depth)
            rest = self._open_containers(rest, whole)
        self._open_leaf(rest, whole)

    def continue_line(self, part: str) -> None:
        """Process a further part of a long line."""
        if isinstance(self.leaf, Paragraph):
            self.leaf.add(part.replace("\t", " "))
            self._drain()
        elif isinstance(self.leaf, CodeBlock):
            self._emit_all(self.leaf.part(part.expandtabs(4), self._room()))

    def end_line(self, part: str) -> None:
        """Process the last part of a long line."""
        self.continue_line(part)
        if isinstance(self.leaf, Paragraph):
            self._end_line(self.leaf)
        elif isinstance(self.leaf, CodeBlock):
            self._emit_all(self.leaf.end_part("", self._room()))

    def close(self) -> None:
        """Finish all open blocks."""
        if self._head:
            self._add_text(self._head, whole=True)
        self._close_leaf()
        self._close_containers(0)

    def _strip_containers(self, line: str) -> tuple[str, int]:
        """Return the line without its container prefixes and how many open containers it continues."""
        for depth, container in enumerate(self._containers):
            bare = line.lstrip(" ")
            indent = len(line) - len(bare)
            if container.is_quote:
                if not bare.startswith(">"):
                    return line, depth
                line = bare[1:].removeprefix(" ")
            elif (
                not bare
                or indent >= container.content
                or isinstance(self.leaf, CodeBlock)
                or (indent >= container.marker + 2 and _MARKER.match(bare))
            ):
                line = line[min(indent, container.content) :]
            else:
                return line, depth
        return line, len(self._containers)

    def _begins_table(self, below: str, is_possible: bool) -> bool:
        head, self._head = self._head, ""
        if is_possible and is_table(head, below):
            self._close_leaf()
            self.leaf = MarkdownTable(head, below, self.color)
            return True
        self._add_text(head, whole=True)
        return False

    def _continues_leaf(self, rest: str, whole: bool) -> bool:
        leaf = self.leaf
        if isinstance(leaf, CodeBlock):
            self._code(leaf, rest, whole)
            return True
        if isinstance(leaf, MarkdownTable) and whole and "|" in rest:
            leaf.add(rest)
            if leaf.is_overfull:
                self._overflow(leaf)
            return True
        if isinstance(leaf, Paragraph) and whole and (underline := _UNDERLINE.fullmatch(rest.strip(" "))):
            self._close_leaf()
            self._rule("═" if underline["mark"] == "=" else "─")
            return True
        return False

    def _open_containers(self, rest: str, whole: bool) -> str:
        """Open the containers that begin on this line; return the rest of it."""
        is_first = True
        while container := self._container_at(rest, whole):
            if is_first:
                self._close_leaf()
                self._show_gap()
            is_first = False
            bare = rest.lstrip(" ")
            rest = bare[1:].removeprefix(" ") if container.is_quote else rest[container.content :]
            self._containers = (*self._containers, container)
        return rest

    def _container_at(self, rest: str, whole: bool) -> Container | None:
        bare = rest.lstrip(" ")
        if bare.startswith(">"):
            return self._fit_container(Container(_QUOTE_MARK))
        marker = _MARKER.match(bare)
        if not marker or (whole and _RULE.fullmatch(bare)) or not (whole or marker["space"]):
            return None
        mark, spaces = marker["mark"], len(marker["space"])
        is_number = mark[0].isdigit()
        if isinstance(self.leaf, Paragraph) and (marker.end() == len(bare) or (is_number and mark[:-1] != "1")):
            return None
        column = len(rest) - len(bare)
        content = column + len(mark) + (spaces if 1 <= spaces <= 4 else 1)
        return self._fit_container(Container(f"{mark} " if is_number else _BULLET, column, content))

    def _fit_container(self, container: Container) -> Container | None:
        """Return the container; None if too little width would remain, and its marker is text."""
        taken = sum(len(other.mark) for other in (*self._containers, container))
        return container if taken <= self.width // 2 and len(self._containers) < _MAX_CONTAINERS else None

    def _open_leaf(self, rest: str, whole: bool) -> None:
        bare = rest.strip(" ") if whole else rest.lstrip(" ")
        indent = len(rest) - len(rest.lstrip(" "))
        if not bare:
            return
        if whole and (opening := FENCE_PATTERN.fullmatch(bare)):
            self._open(CodeBlock(opening, indent, self.color))
            self._emit_all(break_anywhere(split_clusters([self._dim(bare)]), self._room()))
        elif whole and _RULE.fullmatch(bare):
            self._open(None)
            self._rule("─")
        elif heading := _HEADING.fullmatch(bare):
            self._heading(heading, whole)
        elif indent >= 4 and whole and not self.leaf and not self._containers:
            self._open(None)
            self._emit_all(break_anywhere(split_clusters([(rest, "")]), self._room()))
        elif whole and "|" in bare:
            self._head = bare
        else:
            self._add_text(bare, whole)

    def _heading(self, heading: re.Match[str], whole: bool) -> None:
        marks = heading["marks"]
        style = _HEADINGS[min(len(marks), len(_HEADINGS)) - 1]
        self._open(leaf := Paragraph(self._room(), self.color, style if self.color else "", is_heading=True))
        text = heading["text"] if whole else heading.string[heading.end("marks") :].lstrip(" ")
        leaf.add(text if self.color else f"{marks} {text}")
        if whole:
            self._end_line(leaf)

    def _add_text(self, text: str, whole: bool) -> None:
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

    def _code(self, leaf: CodeBlock, rest: str, whole: bool) -> None:
        if not whole:
            self._emit_all(leaf.part(rest, self._room()))
        elif leaf.is_closed_by(rest):
            self._emit_all(break_anywhere(split_clusters([self._dim(rest.strip(" "))]), self._room()))
            self.leaf = None
        else:
            self._emit_all(leaf.line(rest, self._room() if self.wraps_code else None))

    def _overflow(self, leaf: MarkdownTable) -> None:
        row = leaf.take_row(self._room())
        if not leaf.is_shown:
            self._show_gap()
            self._emit_all(leaf.lines(self._room()))
        leaf.is_shown = True
        self._emit_all(row)

    def _open(self, leaf: Paragraph | CodeBlock | None) -> None:
        self._close_leaf()
        self._show_gap()
        self.leaf = leaf

    def _close_leaf(self) -> None:
        leaf, self.leaf = self.leaf, None
        if isinstance(leaf, Paragraph):
            leaf.close()
            self._drain(leaf)
        elif isinstance(leaf, MarkdownTable) and not leaf.is_shown:
            self._show_gap()
            self._emit_all(leaf.lines(self._room()))
        elif isinstance(leaf, CodeBlock):
            self._emit_all([line for line in leaf.end_part("", self._room()) if line])

    def _close_containers(self, depth: int) -> None:
        """Close containers deeper than `depth`; an empty item is shown by its marker."""
        if depth < len(self._containers) or not isinstance(self.leaf, Paragraph):
            self._close_leaf()
        if not all(container.is_shown or container.is_quote for container in self._containers[depth:]):
            self._emit([])
        self._containers = self._containers[:depth]

    def _drain(self, leaf: Paragraph | None = None) -> None:
        leaf = leaf or (self.leaf if isinstance(self.leaf, Paragraph) else None)
        if leaf:
            lines, leaf.flow.lines = leaf.flow.lines, []
            self._emit_all(lines)

    def _rule(self, line: str) -> None:
        self._emit(split_clusters([self._dim(line * min(self._room(), _MAX_RULE_WIDTH))]))

    def _dim(self, text: str) -> StyledText:
        return text, DIM if self.color else ""

    def _show_gap(self) -> None:
        if self._has_gap:
            self._has_gap = False
            self._emit([])

    def _room(self) -> int:
        return max(2, self.width - sum(len(container.mark) for container in self._containers))

    def _emit_all(self, lines: list[list[Cluster]]) -> None:
        for line in lines:
            self._emit(line)

    def _emit(self, line: list[Cluster]) -> None:
        marks = [
            self._dim(container.mark if container.is_quote or not container.is_shown else " " * len(container.mark))
            for container in self._containers
        ]
        room = self.width - count_cells(line)
        before = split_clusters(marks)
        if room >= 0 or self.wraps_code:
            before = before[: max(0, room)]  # fewer after the window became narrower
        self.out.append(render_line([*before, *line]))
        self._containers = tuple(replace(container, is_shown=True) for container in self._containers)
        self._has_begun = True


def _begins_block(rest: str) -> bool:
    bare = rest.lstrip(" ")
    return any(begins.match(bare) for begins in (FENCE_PATTERN, _HEADING, _MARKER)) or bare.startswith(">")
