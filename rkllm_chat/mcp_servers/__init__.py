"""Registry of the bundled MCP servers, which `rkllm-chat serve NAME` runs.

Each server package defines `add_options(parser)`, its command line options besides the common ones, and
`build_server(options)`, which returns an `MCPServer` or raises a ChatError. Servers do not depend on the transport.
The MCP SDK is slow to import, so packages import it in `build_server`. The first line of a package's docstring is
its help text.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING

from ..core.command_line import Parser
from ..core.errors import UsageError
from ..core.plugins import find_plugin

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

__all__ = ["BUNDLED", "RENAMED", "add_servers", "build_server", "check_options", "parse_port"]

BUNDLED: dict[str, str] = {
    "board": "rkllm_chat.mcp_servers.board",
    "claude": "rkllm_chat.mcp_servers.claude",
    "llm": "rkllm_chat.mcp_servers.llm",
}
RENAMED = {"remote": "llm"}
"""Servers that became parts of others, whose names and options go in version 0.3."""


def check_options(options: argparse.Namespace) -> None:
    """Raise UsageError if options of a bundled server contradict each other."""
    if options.http is None and (options.host or options.token_env or options.no_token):
        hint = "Without --http the server uses standard input and output."
        raise UsageError("--host, --token-env and --no-token require --http.", hint)
    if options.no_token and (options.host or options.token_env):
        reason = "With --host other machines can reach the server, so it requires a token."
        raise UsageError(reason if options.host else "--token-env and --no-token exclude each other.")


def add_servers(names: argparse._SubParsersAction[Parser], plugin: str = "") -> None:
    """Add a parser for each bundled server to the subcommands of `serve`.

    A server's options are `name`, `package`, `http`, `host`, `token_env`, `no_token` and its own.

    Args:
        names: The subcommands.
        plugin: Name of a plugin to add, too; "" for none.

    Raises:
        UsageError: There is no plugin with that name.
        ConfigError: The plugin cannot be loaded.
    """
    packages = {name: import_module(module) for name, module in BUNDLED.items()}
    if plugin:
        packages[plugin] = find_plugin("servers", plugin, [*names.choices, *BUNDLED])
    for name, package in packages.items():
        about = (package.__doc__ or "").partition("\n")[0]
        own = names.add_parser(name, help=about, description=about)
        package.add_options(own)
        _add_http_options(own)
        own.set_defaults(package=package)


def _add_http_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the HTTP transport."""
    add = parser.add_argument
    add(
        "--http",
        metavar="PORT",
        type=parse_port,
        help="serve streamable HTTP on loopback instead of stdio; 0 selects a free port",
    )
    add("--host", metavar="ADDRESS", default="", help="address to listen on instead of 127.0.0.1")
    add(
        "--token-env",
        metavar="VAR",
        default="",
        help="environment variable with the token that requests must send (default: one that is made and stored)",
    )
    add("--no-token", action="store_true", help="let every program and user of this machine call the server")


def parse_port(text: str) -> int:
    """Parse a port number, 0 to 65535."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f'"{text}" is no port: a number from 0 to 65535, such as 8080')
    return int(text)


def build_server(options: argparse.Namespace) -> MCPServer:
    """Return the server that the command line names. Raises ChatError."""
    server: MCPServer = options.package.build_server(options)
    return server
