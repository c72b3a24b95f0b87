"""An MCP server that rolls dice."""

from __future__ import annotations

import argparse
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command line options of this server."""
    parser.add_argument("--sides", metavar="N", type=int, default=6, help="sides of a die (default: 6)")


def build_server(options: argparse.Namespace) -> MCPServer:
    """Return the server."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("dice")

    @server.tool()
    def roll(count: int) -> list[int]:
        """Roll some dice."""
        return [random.randint(1, options.sides) for _ in range(count)]

    return server
