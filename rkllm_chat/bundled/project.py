"""`rkllm-chat new-server DEST`: a server project of the user's own, copied from template/. It runs nothing of it.

The template is a server that works as it stands; in the copy, its name `new-server` becomes that of the folder.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..config import ServerConfig
from ..configfile import CONFIG, entry_of
from ..errors import ConfigError, UsageError

TEMPLATE = Path(__file__).with_name("template")
FILES = ("server.py", "test_server.py", "pyproject.toml")
NAME = "new-server"
LONGEST_NAME = 32


@dataclass(frozen=True)
class Project:
    """What is to be made: a folder, the server's name, and its entry in a configuration, as TOML."""

    folder: Path
    name: str
    entry: str


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    about = "Make an MCP server project of your own: a server, its test, and what to write into the configuration."
    parser = argparse.ArgumentParser(prog="rkllm-chat new-server", description=about)
    parser.add_argument("dest", metavar="DEST", help="a folder that is new or empty; the server is called as it is")
    parser.add_argument("--add", action="store_true", help=f"add the server to ./{CONFIG}")
    return parser.parse_args(arguments)


def plan(dest: str, python: str = sys.executable) -> Project:
    """Raises UsageError where nothing can be made."""
    folder = Path(dest).expanduser().resolve()
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"The folder {folder} is not empty.", "Name one that is new or empty.")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file.", "Name a folder that is new or empty.")
    name = find_name(folder)
    try:
        entry = entry_of(ServerConfig(name, command=python or "python", args=(str(folder / FILES[0]),)))
    except ConfigError:
        raise UsageError(f"The path {folder} cannot be written in a configuration.", "Name another folder.") from None
    return Project(folder, name, entry)


def find_name(folder: Path) -> str:
    """The folder's name as far as a server may have it: letters, digits, - and single _. Raises UsageError."""
    name = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", folder.name))[:LONGEST_NAME].strip("-_")
    if not name:
        raise UsageError(f'No server can be called "{folder.name}".', "Name the folder with letters and digits.")
    return name


def make(project: Project) -> None:
    """Copies the template. Raises UsageError where that cannot be done."""
    try:
        project.folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            text = (TEMPLATE / name).read_text(encoding="utf-8").replace(NAME, project.name)
            with (project.folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"{error.filename or project.folder} cannot be written: {error.strerror}.") from None
