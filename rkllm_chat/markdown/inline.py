"""The text of a paragraph becomes styled runs: emphasis, code, links. It knows no lines and no blocks."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from ..clean import clean
from .cells import Run, joined

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

STYLES = {"strong": "1", "em": "3", "s": "9", "link": "4"}
CODE, DIM = "36", "2"
OPEN_AUTOLINK = re.compile(r"<[^\s>]*\Z")


@lru_cache(maxsize=1)
def parser() -> MarkdownIt:
    """CommonMark without HTML, which is shown as it was written; with ~~strikethrough~~."""
    from markdown_it import MarkdownIt

    class AsWritten(MarkdownIt):
        """Shows where a link leads exactly as it was written, whatever it is."""

        def validateLink(self, url: str) -> bool:  # noqa: ARG002, N802
            return True

        def normalizeLink(self, url: str) -> str:  # noqa: N802
            return url

        def normalizeLinkText(self, link: str) -> str:  # noqa: N802
            return link

    return AsWritten("commonmark", {"html": False}).enable("strikethrough")


def spans(text: str, color: bool) -> tuple[list[Run], bool]:
    """The runs of the text, a break being "\\n"; and whether they are settled.

    They are settled when nothing that follows behind white space could change them. Without colour the marks of
    emphasis and code stay, for nothing else would show what was meant.
    """
    from markdown_it.rules_inline import StateInline

    inline = parser().inline
    tokens: list[Token] = []
    state = StateInline(text, parser(), {}, tokens)
    inline.tokenize(state)
    for rule in inline.ruler2.getRules(""):
        rule(state)
    runs = _styled(tokens, color)
    waits = any(mark.open and mark.end < 0 for mark in state.delimiters) or OPEN_AUTOLINK.search(text)
    return runs, not (waits or _is_open("".join(token.content for token in tokens if token.type.startswith("text"))))


def _is_open(literal: str) -> bool:
    """Whether text that came out as text may be the beginning of code or of a link."""
    return "`" in literal or "](" in literal or literal.count("[") > literal.count("]")


def _styled(tokens: list[Token], color: bool) -> list[Run]:
    styling = Styling(color)
    for token in tokens:
        styling.take(token)
    return [run for run in styling.runs if run[0]]


class Styling:
    """Tokens of markdown-it in, runs out."""

    def __init__(self, color: bool) -> None:
        self.runs: list[Run] = []
        self._color = color
        self._styles: list[str] = []
        self._links: list[tuple[str, int]] = []  # where it leads, and the run that its text begins with

    def take(self, token: Token) -> None:
        if token.type in ("softbreak", "hardbreak"):
            self.runs.append(("\n", ""))
        elif token.type == "code_inline":
            self._say(token.content if self._color else f"{token.markup}{token.content}{token.markup}", CODE)
        elif token.type == "image":
            self.runs += _styled(token.children or [], self._color)
            self._say(_target(token), DIM)
        elif token.nesting > 0:
            self._open(token)
        elif token.nesting < 0:
            self._close(token)
        else:
            self._say(token.content)

    def _open(self, token: Token) -> None:
        if token.type == "link_open":
            self._links.append((_target(token), len(self.runs)))
        elif not self._color:
            self._say(token.markup)
        self._styles.append(STYLES[token.type.removesuffix("_open")])

    def _close(self, token: Token) -> None:
        self._styles.pop()
        if token.type != "link_close":
            self._say("" if self._color else token.markup)
            return
        target, begun = self._links.pop()
        said = "".join(text for text, _ in self.runs[begun:])
        if token.markup != "autolink" and target != f" ({said})":  # then the text is where it leads
            self._say(target, DIM)

    def _say(self, text: str, style: str = "") -> None:
        before = self.runs[-1][0] if self.runs else ""
        safe = clean(text, before).replace("\n", " ").replace("\t", " ")  # an entity may have brought anything
        self.runs.append((safe, joined(*self._styles, style) if self._color else ""))


def _target(token: Token) -> str:
    """Where a link or an image leads, to be shown behind its text."""
    address = token.attrGet("src" if token.type == "image" else "href")
    title = token.attrGet("title")
    return f" ({address} “{title}”)" if title else f" ({address})"
