"""An MCP server about the machine it runs on: time, gauges, sums, and the files of one folder.

All tools are read-only. `server.py` defines the MCP tools; the other modules do not depend on MCP.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import UsageError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command line options of this server."""
    parser.add_argument("--folder", default=".", help="folder whose files it may read (default: the current one)")


def build_server(options: argparse.Namespace) -> MCPServer:
    """Return the server. Raises UsageError if the folder does not exist."""
    folder = Path(options.folder).expanduser()
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}.")
    from . import server

    return server.build_server(folder)
