"""Inline Markdown: turn paragraph text into styled runs of emphasis, code and links."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from ...core.sanitize import sanitize_for_terminal
from .cells import StyledText, join_styles

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_STYLES = {"strong": "1", "em": "3", "s": "9", "link": "4"}
CODE, DIM = "36", "2"
_OPEN_AUTOLINK = re.compile(r"<[^\s>]*\Z")


@lru_cache(maxsize=1)
def make_parser() -> MarkdownIt:
    """Return the CommonMark parser: HTML shown literally, with ~~strikethrough~~."""
    from markdown_it import MarkdownIt

    class AsWritten(MarkdownIt):
        """Accepts every link target and leaves it unchanged."""

        def validateLink(self, url: str) -> bool:  # noqa: ARG002, N802
            return True

        def normalizeLink(self, url: str) -> str:  # noqa: N802
            return url

        def normalizeLinkText(self, link: str) -> str:  # noqa: N802
            return link

    return AsWritten("commonmark", {"html": False}).enable("strikethrough")


def parse_inline(text: str, color: bool) -> tuple[list[StyledText], bool]:
    r"""Parse inline Markdown.

    Args:
        text: The text of a paragraph.
        color: Whether styles are used; without, the delimiters of emphasis and code are kept.

    Returns:
        The runs, with "\n" for line breaks, and whether they are final, that is, cannot be changed by text that follows
        after white space.
    """
    from markdown_it.rules_inline import StateInline

    inline = make_parser().inline
    tokens: list[Token] = []
    state = StateInline(text, make_parser(), {}, tokens)
    inline.tokenize(state)
    for rule in inline.ruler2.getRules(""):
        rule(state)
    runs = _styled(tokens, color)
    is_open = any(mark.open and mark.end < 0 for mark in state.delimiters) or _OPEN_AUTOLINK.search(text)
    return runs, not (is_open or _is_open("".join(token.content for token in tokens if token.type.startswith("text"))))


def _is_open(literal: str) -> bool:
    """Whether literal text may be the beginning of a code span or a link."""
    return "`" in literal or "](" in literal or literal.count("[") > literal.count("]")


def _styled(tokens: list[Token], color: bool) -> list[StyledText]:
    styling = _Styling(color)
    for token in tokens:
        styling.take(token)
    return [run for run in styling.runs if run[0]]


class _Styling:
    """Converts markdown-it tokens to styled runs."""

    def __init__(self, color: bool) -> None:
        self.runs: list[StyledText] = []
        self._color = color
        self._styles: list[str] = []
        self._links: list[tuple[str, int]] = []  # target, index of the first run of its text

    def take(self, token: Token) -> None:
        """Convert a token."""
        if token.type in ("softbreak", "hardbreak"):
            self.runs.append(("\n", ""))
        elif token.type == "code_inline":
            self._add_text(token.content if self._color else f"{token.markup}{token.content}{token.markup}", CODE)
        elif token.type == "image":
            self.runs += _styled(token.children or [], self._color)
            self._add_text(_target(token), DIM)
        elif token.nesting > 0:
            self._open(token)
        elif token.nesting < 0:
            self._close(token)
        else:
            self._add_text(token.content)

    def _open(self, token: Token) -> None:
        if token.type == "link_open":
            self._links.append((_target(token), len(self.runs)))
        elif not self._color:
            self._add_text(token.markup)
        self._styles.append(_STYLES[token.type.removesuffix("_open")])

    def _close(self, token: Token) -> None:
        self._styles.pop()
        if token.type != "link_close":
            self._add_text("" if self._color else token.markup)
            return
        target, first_run = self._links.pop()
        label = "".join(text for text, _ in self.runs[first_run:])
        if token.markup != "autolink" and target != f" ({label})":  # else the text is the target
            self._add_text(target, DIM)

    def _add_text(self, text: str, style: str = "") -> None:
        before = self.runs[-1][0] if self.runs else ""
        safe = (
            sanitize_for_terminal(text, before).replace("\n", " ").replace("\t", " ")
        )  # entities can decode to control characters
        self.runs.append((safe, join_styles(*self._styles, style) if self._color else ""))


def _target(token: Token) -> str:
    """Return the target of a link or an image as text to append."""
    address = token.attrGet("src" if token.type == "image" else "href")
    title = token.attrGet("title")
    return f" ({address} “{title}”)" if title else f" ({address})"
