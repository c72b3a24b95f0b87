"""Starts other programs in the terminal of this one. It waits for none."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Sequence


async def start(command: Sequence[str] | str) -> asyncio.subprocess.Process:
    """A program with its arguments; a text is for the shell. Raises OSError."""
    if isinstance(command, str):
        return await asyncio.create_subprocess_shell(command)
    return await asyncio.create_subprocess_exec(*command)


def find_editor() -> list[str]:
    """The words of the person's editor."""
    return shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")


def has_desktop() -> bool:
    """Whether a browser can be opened; over SSH there is none."""
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


async def open_page(url: str) -> None:
    """Opens a page in the person's browser, apart from this terminal."""
    nowhere = asyncio.subprocess.DEVNULL
    opening = (sys.executable, "-m", "webbrowser", url)
    await asyncio.create_subprocess_exec(*opening, stdin=nowhere, stdout=nowhere, stderr=nowhere)
