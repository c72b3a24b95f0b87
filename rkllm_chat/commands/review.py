"""/mcp review [NAME]: shows how a server's tools have changed since they were accepted, and asks about that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clean import reveal
from ..desk import Desk
from ..events import Notice, Page
from ..pins import show_change
from . import Stream
from .permissions import change

if TYPE_CHECKING:
    from ..servers.connection import Connection


async def review(desk: Desk, name: str) -> Stream:
    """All servers with tools that are held back, or the one of the name."""
    words = desk.words
    connections = desk.servers.connections.values() if desk.servers else ()
    waiting = [one for one in connections if one.held and name in ("", one.config.name)]
    if not waiting:
        yield Notice(words("review.nothing"))
    for connection in waiting:
        server = connection.config.name
        shown = connection.listing
        for tool in connection.held:
            why = words(f"hidden.{connection.hidden[tool.name]}")
            yield Notice(words("servers.hidden", server=server, tool=tool.name, reason=why))
            yield Page("\n".join(describe_change(connection, tool.name)))
        if desk.person is None or not await desk.person.agree(words("review.accept", server=server)):
            continue
        if connection.listing.told != shown.told:
            yield Notice(words("review.again", server=server))
            continue
        forget_rules(desk, [tool.full_name for tool in connection.held])
        connection.accept_tools()
        yield Notice(words("review.accepted", server=server))


def describe_change(connection: Connection, tool: str) -> list[str]:
    """The lines that differ, with what is hidden in them made visible."""
    lines = show_change(connection.pins.text_of(tool), connection.listing.told[tool])
    return [reveal(line) for line in lines]


def forget_rules(desk: Desk, tools: list[str]) -> None:
    """A tool that has changed is asked about again, also where the answer was "always"."""
    for tool in tools:
        if tool in desk.chat.settings.policy.allow:
            change(desk, "forget", tool)
