"""Create an MCP server project from `template/` for `rkllm-chat new-server DEST`.

The template is a working server; its name `new-server` is replaced by the name of the project.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from ..config.editor import DEFAULT_CONFIG_PATH, render_entry
from ..config.settings import ServerConfig
from ..core.command_line import Parser
from ..core.errors import ConfigError, UsageError

_TEMPLATE = Path(__file__).with_name("template")
_FILES = ("server.py", "test_server.py", "pyproject.toml")
TEMPLATE_NAME = "new-server"
_LONGEST_NAME = 32


@dataclass(frozen=True)
class Project:
    """A project to create.

    Attributes:
        folder: Where it is created.
        name: The name of the server.
        entry: The configuration entry of the server, as TOML.
    """

    folder: Path
    name: str
    entry: str


def make_parser() -> Parser:
    """Build the argument parser of `new-server`."""
    about = "Create an MCP server project: a server, its test, and its configuration entry."
    parser = Parser(prog="rkllm-chat new-server", description=about)
    parser.add_argument("dest", metavar="DEST", help="new or empty folder; its name becomes the name of the server")
    parser.add_argument("--add", action="store_true", help=f"add the server to ./{DEFAULT_CONFIG_PATH}")
    return parser


def plan_project(dest: str, python: str = sys.executable) -> Project:
    """Return the project for a destination folder. Raises UsageError if it cannot be created."""
    folder = Path(dest).expanduser().resolve()
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"The folder {folder} is not empty.", "Use a new or empty folder.")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file.", "Use a new or empty folder.")
    name = _find_name(folder)
    try:
        entry = render_entry(ServerConfig(name, command=python or "python", args=(str(folder / _FILES[0]),)))
    except ConfigError:
        raise UsageError(
            f"The path {folder} cannot be represented in a configuration.", "Use another folder."
        ) from None
    return Project(folder, name, entry)


def _find_name(folder: Path) -> str:
    """Derive a server name from the folder's name. Raises UsageError if nothing remains.

    Names consist of letters, digits, `-` and single `_`.
    """
    name = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", folder.name))[:_LONGEST_NAME].strip("-_")
    if not name:
        raise UsageError(
            f'"{folder.name}" cannot be the name of a server.', "Use a folder name with letters and digits."
        )
    return name


def create_project(project: Project) -> None:
    """Copy the template into the project folder. Raises UsageError if a file cannot be written."""
    try:
        project.folder.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            text = (_TEMPLATE / name).read_text(encoding="utf-8").replace(TEMPLATE_NAME, project.name)
            with (project.folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"{error.filename or project.folder} cannot be written: {error.strerror}.") from None
