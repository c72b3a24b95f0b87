"""An MCP server that runs the Claude CLI and keeps its conversation.

`server.py` defines the MCP tools, `session.py` runs the CLI. What the CLI may do is up to its own permissions; by
default all of them are skipped, see `--permission-mode`.
"""

from __future__ import annotations

import argparse
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...config.loader import state_folder
from ...core.errors import UsageError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_HISTORY = "claude/history.json"
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


def build_server(options: argparse.Namespace) -> MCPServer:
    """Return the server. Raises UsageError for a missing folder or an invalid mode."""
    folders = [Path(folder).expanduser().absolute() for folder in options.folder or ["."]]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder}.")
    if options.permission_mode and not PERMISSION_MODE.fullmatch(options.permission_mode):
        raise UsageError(f'"{options.permission_mode}" is not a permission mode.', "claude --help lists them.")
    from . import server
    from .find_cli import find_claude
    from .history import RunHistory
    from .session import ClaudeSession

    find, history = partial(find_claude, os.environ), RunHistory(state_folder() / _HISTORY)
    return server.build_server(ClaudeSession(find, folders, history, options.permission_mode))
