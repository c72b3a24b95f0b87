"""An MCP server about the machine it runs on: time, gauges, sums, and the files of one folder.

Everything it does is read-only. `server.py` speaks MCP; the other files know nothing of it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UsageError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", default=".", help="the folder whose files it may read (default: the current one)")


def build_server(options: argparse.Namespace) -> MCPServer:
    """Raises UsageError where there is no such folder."""
    folder = Path(options.folder).expanduser()
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}.")
    from . import server

    return server.build_server(folder)
