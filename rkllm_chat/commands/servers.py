"""Commands about the MCP servers: how they are, and what is to become of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..desk import Desk
from ..events import Notice, Table
from . import Stream, command

if TYPE_CHECKING:
    from ..servers.connection import Connection


@command("/mcp", usage="[restart NAME]")
async def show_servers(desk: Desk, argument: str) -> Stream:
    words = desk.words
    connections = desk.servers.connections if desk.servers else {}
    name = argument.removeprefix("restart").strip()
    if argument.startswith("restart") and desk.servers:
        if name not in connections:
            yield Notice(words("commands.no_server", name=name, names=", ".join(connections)))
            return
        await desk.servers.restart(name)
    if not connections:
        yield Notice(words("commands.no_servers"))
        return
    rows = [(one.config.name, words(f"state.{one.state}"), describe(one)) for one in connections.values()]
    yield Table((), tuple(rows))


def describe(connection: Connection) -> str:
    """The tools of an open server and the protocol it speaks, or why it is not open."""
    if connection.error and not connection.is_open:
        return connection.error.message
    return f"{len(connection.tools)} tools, MCP {connection.protocol_version}" if connection.is_open else ""
