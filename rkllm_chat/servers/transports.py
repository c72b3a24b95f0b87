"""TRANSPORTS: ways to reach an MCP server. They know nothing of tools.

A transport is an async context manager of a read and a write stream, which is what `mcp.Client` takes. To add one,
write a subclass of Transport, and a row. Each is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import ServerConfig
from ..errors import ConfigError

if TYPE_CHECKING:
    from .transport import Transport

Open = Callable[[ServerConfig, Path], "Transport"]


def stdio(server: ServerConfig, log: Path) -> Transport:
    """A command, spoken to over its standard input and output."""
    from .stdio import Stdio

    return Stdio(server, log)


def http(server: ServerConfig, log: Path) -> Transport:
    """A URL that speaks streamable HTTP."""
    from .http import Web

    return Web(server, log, ("http",))


def sse(server: ServerConfig, log: Path) -> Transport:
    """A URL that speaks HTTP with server-sent events, as the protocol had it in 2024."""
    from .http import Web

    return Web(server, log, ("sse",))


def http_or_sse(server: ServerConfig, log: Path) -> Transport:
    """A URL that speaks one of the two: streamable HTTP is tried first."""
    from .http import Web

    return Web(server, log, ("http", "sse", "http"))


def websocket(server: ServerConfig, log: Path) -> Transport:
    """A ws:// or wss:// URL."""
    from .websocket import WebSocket

    return WebSocket(server, log)


TRANSPORTS: dict[str, Open] = {
    "stdio": stdio,
    "http": http,
    "sse": sse,
    "websocket": websocket,
}


def open_transport(server: ServerConfig, log: Path, *, url_kind: str = "") -> Transport:
    """The transport that the configuration names, not yet entered; where it names none, what command or URL mean.

    `url_kind` is what an earlier connection to the same URL turned out to be (its `kind`). Raises ConfigError for a
    name that is not in TRANSPORTS or does not fit, ConnectError for a command or a folder that is not there.
    """
    name = server.transport or url_kind or guess_name(server)
    if not name:
        return http_or_sse(server, log)
    if name not in TRANSPORTS:
        known = ", ".join(TRANSPORTS)
        raise ConfigError(f'Server "{server.name}": there is no transport "{name}".', f"Known are {known}.")
    wanted = "command" if name == "stdio" else "url"
    if not getattr(server, wanted):
        raise ConfigError(f'Server "{server.name}": the transport "{name}" needs a {wanted}.')
    return TRANSPORTS[name](server, log)


def guess_name(server: ServerConfig) -> str:
    """A command means stdio, ws:// and wss:// websocket; which kind of HTTP a URL speaks, only trying tells."""
    if server.command:
        return "stdio"
    return "websocket" if server.url.startswith(("ws://", "wss://")) else ""
