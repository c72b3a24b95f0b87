"""Locate the Claude CLI: PATH, usual install folders, CLAUDE_PATH."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...core.errors import StartError

PROGRAM_NAME = "claude"
_VARIABLE = "CLAUDE_PATH"
INSTALL_FOLDERS = (
    "/usr/local/bin",
    "/usr/bin",
    "~/.npm-global/bin",
    "~/.yarn/bin",
    "~/.volta/bin",
    "~/.nvm/versions/node/*/bin",
    "~/.asdf/installs/nodejs/*/bin",
    "~/.local/bin",
    "~/.claude/local",
)
_INSTALL_HINT = (
    "Install it (npm install -g @anthropic-ai/claude-code), or name its path in the entry of this server, which sees "
    f'few other variables: env = {{ {_VARIABLE} = "/path/to/claude" }}.'
)


def find_claude(environment: Mapping[str, str], root: Path = Path("/")) -> str:
    """Return the program; PATH first, CLAUDE_PATH last.

    Args:
        environment: The environment variables.
        root: Root of the system folders; for tests.

    Raises:
        StartError: The CLI was not found; the hint says what to do.
    """
    if on_path := shutil.which(PROGRAM_NAME, path=environment.get("PATH", os.defpath)):
        return str(Path(on_path).absolute())
    home = Path(environment.get("HOME") or Path.home())
    for place in INSTALL_FOLDERS:
        base, pattern = (home, place[2:]) if place.startswith("~") else (root, place[1:])
        for path in _newest_first(base.glob(f"{pattern}/{PROGRAM_NAME}")):
            if is_executable(path):
                return str(path)
    configured = Path(environment.get(_VARIABLE) or "/nonexistent").expanduser()
    for path in (configured / PROGRAM_NAME, configured):
        if is_executable(path):
            return str(path.absolute())
    where = f"the PATH, {', '.join(INSTALL_FOLDERS)}, {_VARIABLE}"
    raise StartError(f"The Claude CLI was not found. Looked at: {where}.", _INSTALL_HINT)


def is_executable(path: Path) -> bool:
    """Whether the path is an executable file."""
    return path.is_file() and os.access(path, os.X_OK)


def _newest_first(paths: Iterable[Path]) -> list[Path]:
    """Sort paths by the numbers in them, descending: v22.1.0, v20.19.1, v9.0.0."""
    return sorted(paths, key=lambda path: [int(number) for number in re.findall(r"\d+", str(path))], reverse=True)
