"""Renderer that finds the top of the screen again after the terminal has wrapped its lines anew."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout import Layout
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output import Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle

_TRUNCATING_TERMS = re.compile(r"xterm|(linux|dumb|putty|screen|rxvt(?!-unicode))\b.*")
"""What TERM is in terminals that truncate lines. xterm and PuTTY say "xterm", those that wrap "xterm-256color"."""


class ReflowRenderer(Renderer):
    """Renderer for a narrowed terminal.

    A terminal that becomes narrower wraps the lines on its screen, so that the first of them stands higher above the
    cursor than where prompt_toolkit 3.0.52 has drawn it: a copy of the lines above the cursor would remain.
    """

    def __init__(self, style: BaseStyle, output: Output, rewraps: bool) -> None:
        super().__init__(style, output)
        self._rewraps = rewraps

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Erase all that was drawn and put the cursor at its start."""
        self._follow_cursor()
        super().erase(leave_alternate_screen)

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        """Draw what has changed since the last time."""
        self._follow_cursor()
        super().render(app, layout, is_done)

    def _follow_cursor(self) -> None:
        """Correct the known position of the cursor if the terminal has become narrower since the last drawing."""
        drawn, size = self._last_screen, self._last_size
        columns = self.output.get_size().columns
        if not (self._rewraps and drawn and size and 0 < columns < size.columns):
            return
        x, y = self._cursor_pos
        rows = sum(_count_rows(drawn.data_buffer[row], columns) for row in range(y))
        self._cursor_pos = Point(x=x % columns, y=rows + x // columns)
        self._last_size = size._replace(columns=columns)
        self._last_screen = None


def _count_rows(line: Mapping[int, Char], columns: int) -> int:
    """Return how many rows a drawn line takes in a terminal of that width."""
    end = max((x for x, char in line.items() if char.char != " "), default=-1) + 1
    rows = 1
    used = 0
    for width in (line[x].width if x in line else 1 for x in range(end)):
        if used + width > columns:
            rows += 1
            used = 0
        used += width
    return rows


def rewraps_lines(environment: Mapping[str, str]) -> bool:
    """Whether the terminal is expected to wrap its lines anew when it becomes narrower, and not to truncate them.

    Moving up too far would erase output, so a terminal that may truncate is taken for one that does.
    """
    if "TMUX" in environment:
        return True
    truncates = _TRUNCATING_TERMS.fullmatch(environment.get("TERM", "dumb"))
    return not (truncates or "XTERM_VERSION" in environment or "STY" in environment)
