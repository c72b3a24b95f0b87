"""An MCP server that runs the Claude CLI and keeps its conversation.

`server.py` defines the MCP tools, `session.py` runs the CLI. What the CLI may do is up to its own permissions; by
default all of them are skipped, see `--permission-mode`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import UsageError
from ...core.private_files import make_folder

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_HISTORY = "claude/history.json"
_EMPTY_FOLDER = "claude/empty"
PERMISSION_MODE = re.compile(r"[A-Za-z][A-Za-z-]*")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command line options of this server."""
    add = parser.add_argument
    add(
        "--folder",
        metavar="DIR",
        action="append",
        help="folder whose files may be added to a prompt; may be repeated;"
        " Claude runs in the first (default: the current one)",
    )
    add(
        "--permission-mode",
        metavar="MODE",
        default="",
        help="permission mode of the CLI, such as default, plan or acceptEdits"
        " (default: --dangerously-skip-permissions, which allows Claude everything that you may do)",
    )
    add(
        "--empty-folder",
        action="store_true",
        help="run Claude in an empty folder, where no settings, hooks and servers of a project are",
    )


def build_server(options: argparse.Namespace) -> MCPServer:
    """Return the server. Raises UsageError for a missing folder or an invalid mode."""
    folders = [Path(folder).expanduser().absolute() for folder in options.folder or ["."]]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder}.")
    if options.permission_mode and not PERMISSION_MODE.fullmatch(options.permission_mode):
        raise UsageError(f'"{options.permission_mode}" is not a permission mode.', "claude --help lists them.")
    from ...config.files import find_state_folder
    from . import server
    from .find_cli import find_claude
    from .history import RunHistory
    from .session import ClaudeSession

    state = Path(find_state_folder())
    find, history = partial(find_claude, os.environ), RunHistory(state / _HISTORY)
    work = _make_empty_folder(state / _EMPTY_FOLDER) if options.empty_folder else folders[0]
    return server.build_server(ClaudeSession(find, folders, history, options.permission_mode, work=work))


def _make_empty_folder(folder: Path) -> Path:
    """Return the folder without what an earlier run has left in it; its path stays, to which the CLI's sessions belong.

    Raises:
        UsageError: It cannot be emptied.
    """
    try:
        if folder.is_symlink():
            raise OSError("it is a link")
        if folder.exists():
            shutil.rmtree(folder)
        make_folder(folder)
    except OSError as error:
        text = f"The folder {folder} cannot be emptied: {error.strerror or error}."
        raise UsageError(text, "Remove it, or leave out --empty-folder.") from None
    return folder
