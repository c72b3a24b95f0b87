"""Starts other programs in the terminal of this one, and has a text edited by one of them."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from .isolated import run_module


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
    opening = run_module("webbrowser", url)
    await asyncio.create_subprocess_exec(*opening, stdin=nowhere, stdout=nowhere, stderr=nowhere)


async def edit_text(text: str, run: Callable[[Sequence[str]], Awaitable[int]]) -> str:
    """The text as the person's editor leaves it; as it was where the editor fails. `run` gives it the terminal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "message.md"
        path.write_text(text, encoding="utf-8")
        code = await run([*find_editor(), str(path)])
        return path.read_text(encoding="utf-8", errors="replace").strip("\n") if code == 0 else text
