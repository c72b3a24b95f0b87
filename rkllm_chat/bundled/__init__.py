"""BUNDLED: the MCP servers that ship. `rkllm-chat serve NAME` runs one; a row names its package and nothing more.

Each package has `add_options(parser)`, for what its command line takes besides the options of all, and
`build_server(options)`, which gives an `MCPServer` or raises a ChatError. How it is reached, over stdio or HTTP, is
not its affair. The MCP SDK is heavy: a package imports it when it builds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

BUNDLED: dict[str, str] = {
    "board": "rkllm_chat.bundled.board",
    "claude": "rkllm_chat.bundled.claude",
    "llm": "rkllm_chat.bundled.llm",
    "remote": "rkllm_chat.bundled.remote",
}


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line behind `serve`: name, http, host, token_env, and what the server has of its own.

    Raises UsageError for options that do not go together; leaves with exit code 2 for those that are unknown.
    """
    parser = argparse.ArgumentParser(prog="rkllm-chat serve", description="Run a bundled MCP server.")
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, module in BUNDLED.items():
        package = import_module(module)
        about = (package.__doc__ or "").partition("\n")[0]
        own = names.add_parser(name, help=about, description=about)
        package.add_options(own)
        add_http_options(own)
    options = parser.parse_args(arguments)
    if options.http is None and (options.host or options.token_env):
        raise UsageError("--host and --token-env are for --http.", "Without it the server speaks on stdio.")
    if options.host and not options.token_env:
        hint = "Name the environment variable that holds it: --token-env VAR."
        raise UsageError("With --host others can reach the server, so it needs a token.", hint)
    return options


def add_http_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--http", metavar="PORT", type=port, help="speak streamable HTTP on loopback, not stdio; 0 takes a free port")
    add("--host", metavar="ADDRESS", default="", help="listen there and not on 127.0.0.1; needs --token-env")
    add("--token-env", metavar="VAR", default="", help="the variable with the token that every request must bring")


def port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError("must be from 0 to 65535")
    return number


def build_server(options: argparse.Namespace) -> MCPServer:
    """The server that the command line names. Raises ChatError."""
    server: MCPServer = import_module(BUNDLED[options.name]).build_server(options)
    return server
