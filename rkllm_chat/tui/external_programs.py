"""Run other programs in this terminal: the editor, shell commands and the browser."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from ..core.run_module import run_module


async def start_external(command: Sequence[str] | str) -> asyncio.subprocess.Process:
    """Start a program; a string is run by the shell. Raises OSError."""
    if isinstance(command, str):
        return await asyncio.create_subprocess_shell(command)
    return await asyncio.create_subprocess_exec(*command)


async def page_text(text: str, run: Callable[[Sequence[str]], Awaitable[int]]) -> bool:
    """Show a sanitized text in the user's pager (PAGER or less); return False if the pager cannot be started.

    Args:
        text: The text.
        run: Runs the pager in the foreground and returns its exit code.
    """
    code, _ = await _open_text("PAGER", "less", "result.txt", text, run)
    return code not in (126, 127)


def has_desktop() -> bool:
    """Whether a browser can be opened; False over SSH without a display."""
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


async def open_page(url: str) -> None:
    """Open a page in the user's browser, detached from this terminal."""
    nowhere = asyncio.subprocess.DEVNULL
    opening = run_module("webbrowser", url)
    await asyncio.create_subprocess_exec(*opening, stdin=nowhere, stdout=nowhere, stderr=nowhere)


async def edit_text(text: str, run: Callable[[Sequence[str]], Awaitable[int]]) -> str:
    """Edit text in the user's editor.

    Args:
        text: The initial text.
        run: Runs the editor in the foreground and returns its exit code.

    Returns:
        The edited text; the initial text if the editor exits with an error.

    Raises:
        OSError: The file cannot be written or read.
        ValueError: The command of the editor has an open quote.
    """
    variable = "VISUAL" if os.environ.get("VISUAL") else "EDITOR"
    code, edited = await _open_text(variable, "vi", "message.md", text, run)
    return edited.strip("\n") if code == 0 else text


async def _open_text(
    variable: str, default: str, name: str, text: str, run: Callable[[Sequence[str]], Awaitable[int]]
) -> tuple[int, str]:
    """Open a text as a file in the program of an environment variable; return its exit code and the file's text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8", errors="replace")
        code = await run([*shlex.split(os.environ.get(variable) or default), str(path)])
        return code, path.read_text(encoding="utf-8", errors="replace")
