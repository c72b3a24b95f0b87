"""An MCP server that runs the Claude CLI and keeps its conversation.

`server.py` speaks MCP; `session.py` runs the command and knows no MCP. What the command may do is the CLI's affair:
by default it is told to ask for no permission at all, see `--permission-mode`.
"""

from __future__ import annotations

import argparse
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...discover import state_folder
from ...errors import UsageError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

HISTORY = "claude/history.json"
MODE = re.compile(r"[A-Za-z][A-Za-z-]*")


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--folder",
        metavar="DIR",
        action="append",
        help="files of it may go with a prompt; may be repeated; Claude works in the first (default: the current one)",
    )
    add(
        "--permission-mode",
        metavar="MODE",
        default="",
        help="the CLI's own mode, such as default, plan or acceptEdits"
        " (default: --dangerously-skip-permissions, which lets Claude do anything you may do)",
    )
    add("--history", metavar="FILE", help=f"where the runs are kept (default: {HISTORY} in the state folder)")


def build_server(options: argparse.Namespace) -> MCPServer:
    """Raises UsageError where there is no such folder."""
    folders = [Path(folder).expanduser().absolute() for folder in options.folder or ["."]]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder}.")
    if options.permission_mode and not MODE.fullmatch(options.permission_mode):
        raise UsageError(f'"{options.permission_mode}" is no permission mode.', "claude --help names them.")
    from . import server
    from .history import History
    from .search import find_claude
    from .session import ClaudeSession

    path = Path(options.history).expanduser() if options.history else state_folder() / HISTORY
    find = partial(find_claude, os.environ)
    return server.build_server(ClaudeSession(find, folders, History(path), options.permission_mode))
