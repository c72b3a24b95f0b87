"""Incremental Markdown renderer for terminals: text in, finished lines out.

Finished lines are emitted once and never change, so a line is emitted only when no later text can alter it. Source
lines are processed whole; long ones in parts of fixed size, so that the output does not depend on how the text was
split into chunks. Buffers and the cost per chunk are bounded.
"""

from __future__ import annotations

import re

from ...core.sanitize import sanitize_for_terminal
from .blocks import BlockRenderer
from .leaves import CodeBlock
from .tables import MarkdownTable

__all__ = ["Growing"]

_LINE_START, _LINE_PART, _CODE_PART, _ROW = 160, 64, 1000, 4000  # characters buffered before output

_LAST_MARK = re.compile(r"(?<!\\)[*_~](?=[*_~]{0,5}\Z)")  # may be half of a delimiter


class Growing:
    """Renders one answer while it grows.

    Lines have no newline, contain SGR sequences only, each reset on its line, and are at most `width` cells wide (at
    least 2). Without colour there are no sequences, and the markers of emphasis, code and headings are kept. Link
    targets are always shown.

    With `wraps_code=False`, a complete line of code of at most 1000 characters is one line, however wide: the terminal
    wraps it, and whoever copies it gets no line break.
    """

    def __init__(self, width: int, color: bool, wraps_code: bool = True) -> None:
        self._blocks = BlockRenderer(max(2, width), color, wraps_code)
        self._part = ""
        self._is_long = False  # part of the source line has been emitted
        self._return = ""  # a CR whose LF may be in the next chunk
        self._context = ""

    def feed(self, text: str) -> list[str]:
        """Add text and return the lines that are finished now."""
        text = self._return + text
        self._return = "\r" if text.endswith("\r") else ""
        complete = text.removesuffix("\r")
        text, self._context = sanitize_for_terminal(complete, self._context), (self._context + complete)[-2:]
        while text:
            text = self._consume(text)
        return self._take_finished()

    def tail(self, width: int | None = None) -> list[str]:
        """Return the lines of the unfinished part, as `close` would render it, at a width (None: the current one).

        Except: an unfinished table row is left out, and an emphasis marker at the end is shown literally.
        """
        clone = self._blocks.copy()
        clone.wraps_code = True
        if width is not None:
            clone.resize(max(2, width))
        in_code = isinstance(clone.leaf, CodeBlock)
        part = self._part if in_code else _LAST_MARK.sub(r"\\\g<0>", self._part)
        if self._is_long:
            clone.continue_line(part)
        elif part and not isinstance(clone.leaf, MarkdownTable):
            clone.begin_line(part, whole=in_code)
        clone.close()
        return clone.out

    def close(self) -> list[str]:
        """Finish the answer and return its remaining lines."""
        if self._part or self._is_long:
            self._end_line()
        self._blocks.close()
        return self._take_finished()

    def resize(self, width: int) -> None:
        """Change the width of lines that are not finished yet."""
        self._blocks.resize(max(2, width))

    def _consume(self, text: str) -> str:
        """Consume text up to the end of the line or the buffer limit; return the rest."""
        room = self._buffer_limit() - len(self._part)
        line, newline, _ = text[:room].partition("\n")
        self._part += line
        if newline:
            self._end_line()
        elif len(self._part) >= self._buffer_limit():
            self._show_part()
        return text[len(line) + len(newline) :]

    def _buffer_limit(self) -> int:
        if isinstance(self._blocks.leaf, CodeBlock):
            return _CODE_PART
        if self._is_long:
            return _LINE_PART
        is_row = isinstance(self._blocks.leaf, MarkdownTable) or self._part.lstrip(" >").startswith("|")
        return _ROW if is_row else _LINE_START

    def _show_part(self) -> None:
        if self._is_long:
            self._blocks.continue_line(self._part)
        else:
            self._blocks.begin_line(self._part, whole=False)
        self._part, self._is_long = "", True

    def _end_line(self) -> None:
        if self._is_long:
            self._blocks.end_line(self._part)
        else:
            self._blocks.begin_line(self._part)
        self._part, self._is_long = "", False

    def _take_finished(self) -> list[str]:
        finished, self._blocks.out = self._blocks.out, []
        return finished
