"""The commands /mcp auth NAME and /mcp auth NAME forget."""

from __future__ import annotations

from ...chat.app import App
from ...core.events import Notice
from .registry import EventStream

_FORGET = "forget"


async def manage_login(app: App, argument: str) -> EventStream:
    """Log in to a server again, or delete its stored login."""
    words, servers = app.words, app.servers
    name, _, rest = argument.strip().partition(" ")
    names = list(servers.connections) if servers else []
    if servers is None or name not in names or rest.strip() not in ("", _FORGET):
        yield Notice(words("login.usage", names=", ".join(names)))
        return
    if rest:
        had_one = await servers.forget_login(name)
        yield Notice(words("login.forgotten" if had_one else "login.nothing", server=name))
        return
    await servers.log_in(name)
    if error := servers.failures.get(name):
        raise error
    yield Notice(words("login.done" if servers.connections[name].login.has_token else "login.unasked", server=name))
