"""The command /mcp review [NAME]: approve changed tools and texts of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...chat.app import App
from ...chat.event_stream import Emit
from ...config.policy import exact_pattern
from ...config.tool_pins import diff_accepted_text
from ...core.events import Notice, Page
from ...core.sanitize import escape_visibly
from .permissions import change_rule

if TYPE_CHECKING:
    from ...mcp_client.connection import Connection


async def review_tools(app: App, name: str, emit: Emit) -> None:
    """Show the changed tools and texts of all servers, or of the named one, and ask whether to accept them.

    If the server changes them again while the user decides, nothing is accepted.
    """
    words = app.words
    pending = [
        connection
        for connection in app.servers.connections.values()
        if connection.advertised.quarantined_tools or connection.advertised.texts.withheld
        if name in ("", connection.config.name)
    ]
    if not pending:
        await emit(Notice(words("review.nothing")))
    for connection in pending:
        server = connection.config.name
        advertised = connection.advertised
        listing, texts = advertised.last_listing, dict(advertised.texts.current)
        for tool in advertised.quarantined_tools:
            reason = words(f"hidden.{advertised.hidden[tool.name]}")
            await emit(Notice(words("servers.hidden", server=server, tool=tool.name, reason=reason)))
            await emit(Page("\n".join(_describe_change(connection, tool.name))))
        for key, why in advertised.texts.withheld.items():
            section, text = key
            await emit(Notice(words(f"review.{section}", server=server, name=text, reason=words(f"hidden.{why}"))))
            await emit(Page("\n".join(map(escape_visibly, advertised.texts.diff_accepted(key)))))
        if app.frontend is None or not await app.frontend.confirm(words("review.accept", server=server)):
            continue
        if (advertised.last_listing.descriptions, advertised.texts.current) != (listing.descriptions, texts):
            await emit(Notice(words("review.again", server=server)))
            continue
        _forget_rules(app, [exact_pattern(tool) for tool in advertised.quarantined_tools])
        advertised.accept_tools()
        await emit(Notice(words("review.accepted", server=server)))


def _describe_change(connection: Connection, tool: str) -> list[str]:
    """Return the diff of a tool description, with hidden characters escaped."""
    advertised = connection.advertised
    lines = diff_accepted_text(advertised.pins.accepted_text(tool), advertised.last_listing.descriptions[tool])
    return [escape_visibly(line) for line in lines]


def _forget_rules(app: App, patterns: list[str]) -> None:
    """Delete the rules that allow the tools, so that the user is asked again."""
    for pattern in patterns:
        if pattern in app.chat.effective_policy.allow:
            change_rule(app, "forget", pattern)
