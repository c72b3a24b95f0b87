"""Finds the Claude CLI: on the PATH, where installers put it, where CLAUDE_PATH says; on Windows inside WSL."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...errors import StartError

NAME = "claude"
VARIABLE = "CLAUDE_PATH"
PLACES = (
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
INSTALL = "Install it (npm install -g @anthropic-ai/claude-code), or set CLAUDE_PATH to where it is."
WSL_S = 30.0
USER = re.compile(r"[A-Za-z0-9._-]+")
# a login shell, so that a node of nvm is on the PATH; what it runs stands in words of its own and is not parsed
IN_WSL = ("wsl", "-e", "bash", "-lc", 'exec "$0" "$@"')


def find_claude(
    environment: Mapping[str, str], platform: str = sys.platform, root: Path = Path("/")
) -> tuple[str, ...]:
    """The words that start it. Blocks, on Windows for seconds; raises StartError with what to do.

    `root` is where the places that are no one's home lie.
    """
    return find_in_wsl(environment) if platform == "win32" else (find_here(environment, root),)


def find_here(environment: Mapping[str, str], root: Path) -> str:
    """The program on Linux, macOS and inside WSL: the PATH first, CLAUDE_PATH last."""
    if found := shutil.which(NAME, path=environment.get("PATH", os.defpath)):
        return str(Path(found).absolute())
    home = Path(environment.get("HOME") or Path.home())
    for place in PLACES:
        base, pattern = (home, place[2:]) if place.startswith("~") else (root, place[1:])
        for path in newest_first(base.glob(f"{pattern}/{NAME}")):
            if is_program(path):
                return str(path)
    named = Path(environment.get(VARIABLE) or "/nonexistent").expanduser()
    for path in (named / NAME, named):
        if is_program(path):
            return str(path.absolute())
    where = f"the PATH, {', '.join(PLACES)}, {VARIABLE}"
    raise StartError(f"The Claude CLI was not found. Looked at: {where}.", INSTALL)


def is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """v22.1.0 before v20.19.1 before v9.0.0."""
    return sorted(paths, key=lambda path: [int(number) for number in re.findall(r"\d+", str(path))], reverse=True)


def find_in_wsl(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The words that start the program inside WSL; what nvm installed is looked for under the WSL user's name."""
    found = ask_wsl(f"which {NAME}", environment)
    if not found and USER.fullmatch(user := ask_wsl("whoami", environment)):
        listed = ask_wsl(f"ls -1d /home/{user}/.nvm/versions/node/*/bin/{NAME}", environment)
        found = next((str(path.as_posix()) for path in newest_first(map(Path, listed.splitlines()))), "")
    if not found.startswith("/"):
        hint = f"{INSTALL.partition(',')[0]} inside WSL."
        raise StartError(
            f"The Claude CLI was not found in WSL: neither by which {NAME} nor in the folders of nvm.", hint
        )
    return (*IN_WSL, found)


def ask_wsl(line: str, environment: Mapping[str, str]) -> str:
    """What a login shell inside WSL answers; "" where it fails. Raises StartError where there is no WSL."""
    try:
        done = subprocess.run(
            ["wsl", "--", "bash", "-lc", line],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environment),
            timeout=WSL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StartError(f"WSL cannot be asked for the Claude CLI: {error}.", "Is WSL installed?") from None
    return done.stdout.decode("utf-8", errors="replace").strip() if done.returncode == 0 else ""
