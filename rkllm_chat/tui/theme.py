"""Colours of the screen: one style for each meaning of a line, for dark and light terminals.

Styles are parameters of an SGR sequence. They use the sixteen colours that the user's terminal defines.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ..core.events import CallUnreadable, Event, Notice, ToolFinished, TurnEnded

AUTO = "auto"
PLAIN = "\x1b[0m"
_LIGHT_BACKGROUNDS = ("7", "15")
_SPINNER, _SPINNER_S = "⠋⠙⠴⠦", 0.2


@dataclass(frozen=True)
class Theme:
    """SGR parameters by meaning; "" is plain text.

    Attributes:
        system: Lines of the program.
        error: Failures; never dim.
        warning: Warnings, and calls that did not run.
        own: What the user typed.
        added: Lines that a change adds to a file.
        removed: Lines that it removes.
    """

    system: str = ""
    error: str = ""
    warning: str = ""
    own: str = ""
    added: str = ""
    removed: str = ""

    @property
    def has_color(self) -> bool:
        """Whether anything is styled."""
        return bool(self.system)

    def style_of(self, event: Event) -> str:
        """Return the style of the line about an event."""
        match event:
            case Notice(level="error"):
                return self.error
            case ToolFinished(result) if result.status == "failed":
                return self.error
            case Notice(level="warning") | CallUnreadable() | TurnEnded():
                return self.warning
            case ToolFinished(result) if result.status != "completed":
                return self.warning
            case _:
                return self.system


THEMES: Mapping[str, Theme] = {
    "dark": Theme(system="2", error="91", warning="93", own="1;96", added="92", removed="91"),
    "light": Theme(system="2", error="31", warning="35", own="1;34", added="32", removed="31"),
    "none": Theme(),
}


def choose_theme(name: str, variables: Mapping[str, str]) -> Theme:
    """Return the theme of a name; for "auto", light if the terminal says that its background is light, else dark.

    Args:
        name: A key of THEMES, or "auto".
        variables: Environment variables; COLORFGBG has the background last, as in "0;15" (rxvt, Konsole, others).
    """
    if name == AUTO:
        name = "light" if variables.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_BACKGROUNDS else "dark"
    return THEMES[name]


def paint(line: str, style: str) -> str:
    """Return the line in a style; "" leaves it as it is."""
    return f"\x1b[{style}m{line}{PLAIN}" if style and line else line


def spin(line: str) -> str:
    """Return a line behind a mark that moves with the time."""
    return f"{_SPINNER[int(time.monotonic() / _SPINNER_S) % len(_SPINNER)]} {line}"
