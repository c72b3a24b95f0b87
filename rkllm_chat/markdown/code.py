"""Lines of code get their colours one by one, as they come. It knows no Markdown."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import TYPE_CHECKING

from .cells import Run

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from pygments.token import _TokenType

WINDOW_LINES, WINDOW_CHARACTERS, LONGEST_LINE = 24, 1500, 300


class Highlighter:
    """Colours each line as pygments does behind the lines before it, of which it remembers a few.

    What is remembered is bounded, so the cost of a line is. Where a string or a comment is longer than that, the line
    that opened it is kept and those between are forgotten.
    """

    def __init__(self, language: str) -> None:
        self._lexer = lexer_of(language.lower())
        self._window: list[tuple[str, bool]] = []  # a line, and whether it begins outside of strings and comments

    def copy(self) -> Highlighter:
        return copy.deepcopy(self, {id(self._lexer): self._lexer})

    def colored(self, line: str) -> list[Run]:
        if self._lexer is None:
            return [(line, "")]
        runs, outside = [(line, "")], bool(self._window and not line.strip() and self._window[-1][1])
        if line.strip() and len(line) <= LONGEST_LINE:
            runs, outside = self._lexed(self._lexer, line)
        self._window.append((line[:LONGEST_LINE], outside))
        while len(self._window) > WINDOW_LINES or sum(len(line) for line, _ in self._window) > WINDOW_CHARACTERS:
            del self._window[0 if self._window[1][1] else 1]
        return runs

    def _lexed(self, lexer: Lexer, line: str) -> tuple[list[Run], bool]:
        from pygments.token import Comment, String

        before = "".join(f"{line}\n" for line, _ in self._window)
        runs: list[Run] = []
        at, outside = -len(before), True
        for kind, text in lexer.get_tokens(f"{before}{line}\n"):
            if at <= 0 < at + len(text):
                outside = at == 0 and kind not in String and kind not in Comment
            if at + len(text) > 0:
                runs.append((text[max(0, -at) :].rstrip("\n"), sgr_of(kind)))
            at += len(text)
        whole = "".join(text for text, _ in runs) == line  # a lexer may drop what it does not expect
        return (runs if whole else [(line, "")]), outside


@lru_cache(maxsize=64)
def lexer_of(language: str) -> Lexer | None:
    if not language:
        return None
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=256)
def sgr_of(kind: _TokenType) -> str:
    """The style that rich gives a token of pygments, in the sixteen colours that belong to the user's terminal."""
    from rich.color import ColorSystem
    from rich.syntax import Syntax

    style = Syntax.get_theme("ansi_dark").get_style_for_token(kind)
    return style.render("x", color_system=ColorSystem.STANDARD).partition("x")[0][2:-1]
