"""Wrap styled text into lines of terminal cells.

A style is the parameters of an SGR sequence: "1;4" for bold and underlined, "" for plain. Widths are those of rich.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby

StyledText = tuple[str, str]  # text, style
Cluster = tuple[str, str, int]  # one cluster, style, cells

# Kinsoku (JIS X 4051): characters that may not begin or end a line; those common in chats
NO_START = frozenset(
    "、。，．・：；！？）］｝〕〉》」』】〙〗…‥ー々ゝゞぁぃぅぇぉっゃゅょァィゥェォッャュョ,.:;!?)]}%”’"
)
NO_END = frozenset("「『（［｛〔〈《【〘〖([{“‘")
# in a word that is wider than a line, such as a path or an address
_BREAKS_BEHIND = frozenset("/\\-_.,;:&=?")
_MAX_CLUSTER_LENGTH, _MAX_CLUSTER_CELLS = 32, 2


def join_styles(*styles: str) -> str:
    """Combine SGR parameters; empty ones are skipped."""
    return ";".join(filter(None, styles))


@lru_cache(maxsize=8192)
def _cells_of(text: str) -> int:
    """Return the width of the text in terminal cells."""
    from rich.cells import cell_len

    return cell_len(text)


def is_one_cluster(before: str, after: str) -> bool:
    """Whether a terminal draws both in the same cells: combining marks, variation selectors, ZWJ sequences."""
    if before in (" ", "\n") or after in (" ", "\n") or len(before) >= _MAX_CLUSTER_LENGTH:
        return False
    return (before[-1] == "\u200d" or not _cells_of(after)) and _cells_of(before + after) <= _MAX_CLUSTER_CELLS


def split_clusters(runs: Iterable[StyledText]) -> list[Cluster]:
    """Split styled text into clusters with their widths."""
    pieces: list[Cluster] = []
    for text, style in runs:
        for cluster in text:
            if pieces and is_one_cluster(pieces[-1][0], cluster):
                before, style, _ = pieces.pop()
                cluster = before + cluster
            pieces.append((cluster, style, _cells_of(cluster)))
    return pieces


def count_cells(pieces: Iterable[Cluster]) -> int:
    """Return the width of the pieces in cells."""
    return sum(cells for _, _, cells in pieces)


def break_anywhere(pieces: Iterable[Cluster], width: int) -> list[list[Cluster]]:
    """Break pieces into lines of at most `width` cells at any cluster, as code is; at least one line."""
    lines: list[list[Cluster]] = [[]]
    used = 0
    for piece in pieces:
        if used + piece[2] > width and lines[-1]:
            lines.append([])
            used = 0
        lines[-1].append(piece)
        used += piece[2]
    return lines


def break_text(text: str, width: int) -> list[str]:
    """Break plain text into lines of at most `width` cells at any cluster; tabs become spaces."""
    return [render_line(line) for line in break_anywhere(split_clusters([(text.expandtabs(4), "")]), max(2, width))]


def break_words(text: str, width: int) -> list[str]:
    """Break plain text, but behind a space in the second half of a line, or where wide characters permit it.

    All spaces are kept.
    """
    lines: list[list[Cluster]] = []
    line: list[Cluster] = []
    for piece in split_clusters([(text.expandtabs(4), "")]):
        is_gap = piece[0] == " " and line[-1:] != [piece]  # one at the end of a line is not seen
        if line and not is_gap and count_cells(line) + piece[2] > max(2, width):
            ends = (i + 1 for i in reversed(range(len(line) // 2, len(line))) if line[i][0] == " " and piece[0] != " ")
            end = next(ends, 0) or _find_wide_break([*line, piece])
            lines.append(line[:end])
            line = line[end:]
        line.append(piece)
    return [render_line(cells) for cells in (*lines, line)]


def _find_wide_break(line: Sequence[Cluster]) -> int:
    """Return the last index in the second half before which a line may break beside a wide character; else its last."""
    last = len(line) - 1
    return next((i for i in range(last, last // 2, -1) if _may_break(line[i - 1][0], line[i][0])), last)


def wrap_text(text: str, width: int) -> list[str]:
    """Wrap plain text into lines of at most `width` cells, between words if possible; at least one line."""
    wrapper = LineWrapper(max(2, width))
    wrapper.put(text)
    wrapper.finish()
    return [render_line(line) for line in wrapper.lines] or [""]


def wrap_phrases(phrases: Iterable[str], width: int) -> list[str]:
    """Wrap phrases into lines of at most `width` cells, between phrases where each of them fits into a line."""
    lines: list[str] = []
    for phrase in phrases:
        longer = f"{lines[-1]} {phrase}" if lines else phrase
        if lines and _cells_of(longer) <= width:
            lines[-1] = longer
        else:
            lines += wrap_text(phrase, width)
    return lines


def cut_text(text: str, width: int) -> str:
    """Return plain text as one line of at most `width` cells; one that is cut ends in an ellipsis."""
    line, *rest = break_text(text, width)
    return f"{break_text(text, width - 1)[0]}…" if rest else line


def render_line(pieces: Iterable[Cluster]) -> str:
    """Return the pieces as a terminal line; every style is reset on the same line."""
    rendered = ""
    for style, group in groupby(pieces, key=lambda piece: piece[1]):
        text = "".join(cluster for cluster, _, _ in group)
        rendered += f"\x1b[{style}m{text}\x1b[0m" if style else text
    return rendered.rstrip(" ")


def _may_break(before: str, after: str) -> bool:
    """Whether a line may break between two clusters without a space: next to wide ones, subject to kinsoku."""
    if _cells_of(before) < 2 and _cells_of(after) < 2:
        return False
    return bool(_cells_of(after)) and after[0] not in NO_START and before[-1] not in NO_END


class LineWrapper:
    """Incremental line wrapping: `put` text, read finished `lines`, and `finish` the last one.

    A word wider than a line is broken behind a sign in its second half (a path behind a slash), or anywhere.
    White space at a break is dropped.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[list[Cluster]] = []
        self._line: list[Cluster] = []
        self._gap: list[Cluster] = []
        self._word: list[Cluster] = []
        self._line_cells = self._word_cells = 0

    def copy(self) -> LineWrapper:
        clone = copy.copy(self)
        for name in ("lines", "_line", "_gap", "_word"):
            setattr(clone, name, getattr(self, name)[:])
        return clone

    def put(self, text: str, style: str = "") -> None:
        """Add text; a newline ends the line."""
        for cluster in text:
            if cluster == "\n":
                self.newline()
            elif cluster == " ":
                self._space(style)
            else:
                self._add(cluster, style)

    def newline(self) -> None:
        """End the current line."""
        self._commit()
        self._end_line()

    def finish(self) -> None:
        """End the current line unless it is empty."""
        self._commit()
        if self._line:
            self._end_line()

    def resize(self, width: int) -> None:
        """Wrap the unfinished line again to the new width; finished lines are unchanged."""
        pending = [*self._line, *self._gap, *self._word]
        lines = self.lines
        LineWrapper.__init__(self, width)
        self.lines = lines
        for cluster, style, _ in pending:
            self.put(cluster, style)

    def _space(self, style: str) -> None:
        self._commit()
        if len(self._gap) < self.width:
            self._gap.append((" ", style, 1))

    def _add(self, cluster: str, style: str) -> None:
        if self._word and is_one_cluster(self._word[-1][0], cluster):
            before, style, cells = self._word.pop()
            self._word_cells -= cells
            cluster = before + cluster
        elif self._word and _may_break(self._word[-1][0], cluster):
            self._commit()
        cells = _cells_of(cluster)
        if self._word and self._word_cells + cells > self.width:
            self._spill()
        self._word.append((cluster, style, cells))
        self._word_cells += cells

    def _spill(self) -> None:
        """Emit the part of a word that fills a line."""
        if self._line:
            self._end_line()
        word, last = self._word, len(self._word)
        end = next((i for i in range(last, last // 2, -1) if word[i - 1][0] in _BREAKS_BEHIND), last)
        self.lines.append(word[:end])
        self._word, self._gap, self._word_cells = word[end:], [], count_cells(word[end:])

    def _commit(self) -> None:
        """Place the finished word on this line or on the next one."""
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
