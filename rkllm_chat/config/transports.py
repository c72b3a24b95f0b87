"""TRANSPORTS: the ways to reach an MCP server, a row each. Configurations, commands and the client all read it.

What opens one is in `mcp_client.transports`, imported on first use. One-shot commands import this module.
"""

from __future__ import annotations

from typing import NamedTuple


class TransportRow(NamedTuple):
    """One way to reach a server.

    Attributes:
        opener: What opens it, as "module:name": `(server: ServerConfig, log: Path) -> Transport`.
        schemes: Schemes of the URLs that imply it; empty if only its name, or a command, means it.
        aliases: Further names that configurations of other programs give it.
    """

    opener: str
    schemes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


_PACKAGE = "rkllm_chat.mcp_client.transports"
COMMAND_TRANSPORT = "stdio"
"""The transport of a command; all others need a URL."""
TRANSPORTS: dict[str, TransportRow] = {
    COMMAND_TRANSPORT: TransportRow(f"{_PACKAGE}.stdio:StdioTransport"),
    "http": TransportRow(
        f"{_PACKAGE}.http:open_http",
        schemes=("http", "https"),
        aliases=("streamable-http", "streamableHttp", "streamable_http", "streamablehttp"),
    ),
    "sse": TransportRow(f"{_PACKAGE}.http:open_sse"),
    "websocket": TransportRow(f"{_PACKAGE}.websocket:WebSocketTransport", ("ws", "wss"), ("ws",)),
    "unix": TransportRow(f"{_PACKAGE}.unix_socket:UnixSocketTransport", ("unix",)),
}
URL_PREFIXES = tuple(f"{scheme}://" for row in TRANSPORTS.values() for scheme in row.schemes)
"""The beginnings of the URLs of servers."""
_ALIASES = {alias: name for name, row in TRANSPORTS.items() for alias in row.aliases}


def find_transport_name(name: str) -> str:
    """Return the usual name of a transport; an unknown one, such as that of a plugin, as it is."""
    return _ALIASES.get(name, name)


def guess_transport(url: str) -> str:
    """Return the transport that a URL implies, or without a URL that of a command."""
    scheme = url.partition("://")[0].lower()
    implied = (name for name, row in TRANSPORTS.items() if scheme in row.schemes)
    return next(implied, "http") if url else COMMAND_TRANSPORT
