"""Locate the Claude CLI: PATH, usual install folders, CLAUDE_PATH; on Windows inside WSL."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
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
_WSL_S = 30.0
USER_NAME = re.compile(r"[A-Za-z0-9._-]+")
# a login shell, so that nvm's node is on the PATH; the command is passed as arguments and not parsed
_IN_WSL = ("wsl", "-e", "bash", "-lc", 'exec "$0" "$@"')


def find_claude(
    environment: Mapping[str, str], platform: str = sys.platform, root: Path = Path("/")
) -> tuple[str, ...]:
    """Return the command that starts the CLI.

    Blocks; on Windows for seconds.

    Args:
        environment: The environment variables.
        platform: As `sys.platform`.
        root: Root of the system folders; for tests.

    Raises:
        StartError: The CLI was not found; the hint says what to do.
    """
    return _find_in_wsl(environment) if platform == "win32" else (_find_here(environment, root),)


def _find_here(environment: Mapping[str, str], root: Path) -> str:
    """Return the program on Linux, macOS and inside WSL; PATH first, CLAUDE_PATH last."""
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


def _find_in_wsl(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command inside WSL; nvm folders of the WSL user are searched too."""
    program = _ask_wsl(f"which {PROGRAM_NAME}", environment)
    if not program and USER_NAME.fullmatch(user := _ask_wsl("whoami", environment)):
        listed = _ask_wsl(f"ls -1d /home/{user}/.nvm/versions/node/*/bin/{PROGRAM_NAME}", environment)
        program = next((str(path.as_posix()) for path in _newest_first(map(Path, listed.splitlines()))), "")
    if not program.startswith("/"):
        hint = f"{_INSTALL_HINT.partition(',')[0]} inside WSL."
        raise StartError(
            f"The Claude CLI was not found in WSL: neither by which {PROGRAM_NAME} nor in the folders of nvm.", hint
        )
    return (*_IN_WSL, program)


def _ask_wsl(line: str, environment: Mapping[str, str]) -> str:
    """Return the output of a login shell inside WSL; "" if the command fails.

    Raises:
        StartError: WSL is not available.
    """
    try:
        result = subprocess.run(
            ["wsl", "--", "bash", "-lc", line],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environment),
            timeout=_WSL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StartError(
            f"The Claude CLI cannot be searched in WSL: {error}.", "Check that WSL is installed."
        ) from None
    return result.stdout.decode("utf-8", errors="replace").strip() if result.returncode == 0 else ""
