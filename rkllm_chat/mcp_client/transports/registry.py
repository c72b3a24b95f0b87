"""TRANSPORTS: the ways to reach an MCP server.

A transport is an async context manager that yields a read and a write stream, which is what `mcp.Client` takes. To add
one, write a subclass of Transport and a row; a plugin names what makes one. Each module is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...config.servers import ServerConfig
from ...core.errors import ConfigError, UsageError
from ...core.plugins import find_plugin, find_plugins

if TYPE_CHECKING:
    from .base import Transport

_TransportFactory = Callable[[ServerConfig, Path], "Transport"]


def make_stdio(server: ServerConfig, log: Path) -> Transport:
    """Return the transport for a command, over its standard input and output."""
    from .stdio import StdioTransport

    return StdioTransport(server, log)


def make_http(*kinds: str) -> _TransportFactory:
    """Return what makes the transport for a URL: streamable HTTP, HTTP with server-sent events, or what works first."""

    def make(server: ServerConfig, log: Path) -> Transport:
        from .http import HttpTransport

        return HttpTransport(server, log, kinds)

    return make


def make_websocket(server: ServerConfig, log: Path) -> Transport:
    """Return the transport for a ws:// or wss:// URL."""
    from .websocket import WebSocketTransport

    return WebSocketTransport(server, log)


TRANSPORTS: dict[str, _TransportFactory] = {
    "stdio": make_stdio,
    "http": make_http("http"),
    "sse": make_http("sse"),
    "websocket": make_websocket,
}


def make_transport(server: ServerConfig, log: Path) -> Transport:
    """Return the configured transport, not yet entered; by default the kind follows from command or URL.

    Args:
        server: The server's configuration.
        log: The server's log file.

    Raises:
        ConfigError: The transport is unknown, or does not fit command or URL.
        ConnectError: The command or the working folder does not exist.
    """
    name = server.transport or _guess_name(server)
    if not name:
        return make_http("http", "sse", "http")(server, log)
    if name not in TRANSPORTS:
        try:
            make: _TransportFactory = find_plugin("transports", name, TRANSPORTS)
        except UsageError:
            known = ", ".join((*TRANSPORTS, *find_plugins("transports")))
            text = f'Server "{server.name}": there is no transport "{name}".'
            raise ConfigError(text, f"Use one of {known}.") from None
        return make(server, log)
    wanted = "command" if name == "stdio" else "url"
    if not getattr(server, wanted):
        raise ConfigError(f'Server "{server.name}": the transport "{name}" needs a {wanted}.')
    return TRANSPORTS[name](server, log)


def _guess_name(server: ServerConfig) -> str:
    """Return the transport that a command or a ws:// URL implies; "" for HTTP, where both kinds must be tried."""
    if server.command:
        return "stdio"
    return "websocket" if server.url.startswith(("ws://", "wss://")) else ""
