"""Open leaf blocks: paragraphs, whose inline markup may be incomplete, and fenced code."""

from __future__ import annotations

import copy
import re

from .cells import Cluster, LineWrapper, StyledText, break_anywhere, join_styles, split_clusters
from .code import Highlighter
from .inline import parse_inline

_MIN_PARSED, _MAX_BUFFERED, _MAX_BUFFERED_LINES = 48, 800, 4
MARKUP_PATTERN = re.compile(r"[*_`~\[<]")
_LETTER = "[\u3041-\u30fa\u30fc-\u30ff\u3400-\u9fff\uac00-\ud7a3]"  # of scripts written without spaces
_BREAKS = re.compile(rf"\s|(?<={_LETTER})(?={_LETTER})")
_MAX_TRIES = 3


class Paragraph:
    """A paragraph or heading. Final text is wrapped; text after an open delimiter is buffered.

    At most _MAX_BUFFERED characters and _MAX_BUFFERED_LINES lines are buffered; text beyond that is emitted without its
    emphasis.
    """

    def __init__(self, width: int, color: bool, style: str = "", is_heading: bool = False) -> None:
        self.flow = LineWrapper(width)
        self.is_heading = is_heading
        self._color = color
        self._style = style
        self._pending = ""
        self._parse_length = 0

    def copy(self) -> Paragraph:
        clone = copy.copy(self)
        clone.flow = self.flow.copy()
        return clone

    def add(self, text: str) -> None:
        self._pending += text
        if len(self._pending) >= max(_MIN_PARSED, self._parse_length):
            self._release()

    def newline(self) -> None:
        """End a source line; line breaks are kept as the model wrote them."""
        self._pending = self._pending.rstrip(" ")
        is_full = len(self._pending) > _MAX_BUFFERED or self._pending.count("\n") >= _MAX_BUFFERED_LINES
        if is_full or len(self._pending) >= self._parse_length:
            runs, is_final = parse_inline(self._pending, self._color)
            if is_final or is_full:
                self._wrap(runs, rest="")
                self.flow.newline()
                return
            self._postpone_parsing()
        self._pending += "\n"

    def close(self) -> None:
        """Emit the buffered text and finish the last line."""
        self._wrap(parse_inline(self._pending.rstrip(), self._color)[0], rest="")
        self.flow.finish()

    def _release(self) -> None:
        """Emit the buffered text up to the last break before which the markup is final."""
        pending = self._pending
        marks = [mark.start() for mark in MARKUP_PATTERN.finditer(pending)]
        breaks = [match.start() for match in _BREAKS.finditer(pending) if match.start()]
        for limit in dict.fromkeys((len(pending), *reversed(marks[-_MAX_TRIES:]), *marks[:1])):
            position = max((position for position in breaks if position < limit), default=0)
            runs, is_final = parse_inline(pending[:position], self._color) if position else ([], False)
            if is_final:
                return self._wrap(runs, rest=pending[position:])
        if len(pending) > _MAX_BUFFERED:
            position = breaks[-1] if breaks else len(pending)
            return self._wrap(parse_inline(pending[:position], self._color)[0], rest=pending[position:])
        return self._postpone_parsing()

    def _wrap(self, runs: list[StyledText], rest: str) -> None:
        for text, style in runs:
            self.flow.put(text, join_styles(self._style, style))
        self._pending = rest
        self._parse_length = 0

    def _postpone_parsing(self) -> None:
        """Postpone parsing until the text has grown by half, which keeps the total cost linear."""
        self._parse_length = min(len(self._pending) * 3 // 2, _MAX_BUFFERED + 1)


class CodeBlock:
    """A fenced code block; complete lines are highlighted."""

    def __init__(self, opening: re.Match[str], indent: int, color: bool) -> None:
        mark = opening["mark"]
        self._closing = re.compile(rf" *{re.escape(mark[0])}{{{len(mark)},}} *")
        self._indent = indent
        language = opening["info"].split()[:1]
        self.highlighter = Highlighter(language[0] if language and color else "")
        self._rest: list[Cluster] = []

    def copy(self) -> CodeBlock:
        clone = copy.copy(self)
        clone.highlighter = self.highlighter.copy()
        return clone

    def is_closed_by(self, line: str) -> bool:
        """Whether the line is the closing fence."""
        return bool(self._closing.fullmatch(line))

    def line(self, line: str, width: int | None) -> list[list[Cluster]]:
        """Render a complete line of code, broken at a width or in one piece."""
        spaces = len(line) - len(line.lstrip(" "))
        clusters = split_clusters(self.highlighter.highlight_line(line[min(spaces, self._indent) :]))
        return [clusters] if width is None else break_anywhere(clusters, width)

    def part(self, text: str, width: int) -> list[list[Cluster]]:
        """Render a part of a long line; the last, incomplete line is buffered."""
        *full, self._rest = break_anywhere([*self._rest, *split_clusters([(text, "")])], width)
        return full

    def end_part(self, text: str, width: int) -> list[list[Cluster]]:
        """Render the end of a long line."""
        lines = break_anywhere([*self._rest, *split_clusters([(text, "")])], width)
        self._rest = []
        return lines
