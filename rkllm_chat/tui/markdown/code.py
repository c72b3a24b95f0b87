"""Highlight code line by line with pygments."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import TYPE_CHECKING

from .cells import StyledText

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from pygments.token import _TokenType

_WINDOW_LINES, _WINDOW_CHARACTERS, _MAX_LINE_LENGTH = 24, 1500, 300


class Highlighter:
    """Highlights each line in the context of a window of preceding lines.

    The window is bounded, so the cost per line is. Within a longer string or comment, the line that opened it is kept
    and the lines after it are dropped.
    """

    def __init__(self, language: str) -> None:
        self._lexer = _lexer_of(language.lower())
        self._window: list[tuple[str, bool]] = []  # line, whether it begins outside of strings and comments

    def copy(self) -> Highlighter:
        """Return an independent copy that shares the lexer."""
        return copy.deepcopy(self, {id(self._lexer): self._lexer})

    def highlight_line(self, line: str) -> list[StyledText]:
        """Return the styled runs of the next line."""
        if self._lexer is None:
            return [(line, "")]
        runs, outside = [(line, "")], bool(self._window and not line.strip() and self._window[-1][1])
        if line.strip() and len(line) <= _MAX_LINE_LENGTH:
            runs, outside = self._lex(self._lexer, line)
        self._window.append((line[:_MAX_LINE_LENGTH], outside))
        while len(self._window) > _WINDOW_LINES or sum(len(line) for line, _ in self._window) > _WINDOW_CHARACTERS:
            del self._window[0 if self._window[1][1] else 1]
        return runs

    def _lex(self, lexer: Lexer, line: str) -> tuple[list[StyledText], bool]:
        from pygments.token import Comment, String

        before = "".join(f"{line}\n" for line, _ in self._window)
        runs: list[StyledText] = []
        position, outside = -len(before), True
        for kind, text in lexer.get_tokens(f"{before}{line}\n"):
            if position <= 0 < position + len(text):
                outside = position == 0 and kind not in String and kind not in Comment
            if position + len(text) > 0:
                runs.append((text[max(0, -position) :].rstrip("\n"), _sgr_of(kind)))
            position += len(text)
        is_lossless = "".join(text for text, _ in runs) == line  # a lexer may drop unexpected characters
        return (runs if is_lossless else [(line, "")]), outside


@lru_cache(maxsize=64)
def _lexer_of(language: str) -> Lexer | None:
    """Return the pygments lexer of a language; None if it is unknown."""
    if not language:
        return None
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=256)
def _sgr_of(kind: _TokenType) -> str:
    """Return the SGR parameters of a token type.

    The theme uses the sixteen colours that the user's terminal defines.
    """
    from rich.color import ColorSystem
    from rich.syntax import Syntax

    style = Syntax.get_theme("ansi_dark").get_style_for_token(kind)
    return style.render("x", color_system=ColorSystem.STANDARD).partition("x")[0][2:-1]
