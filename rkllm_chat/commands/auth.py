"""/mcp auth NAME: logs in to a server again; /mcp auth NAME forget: forgets its login."""

from __future__ import annotations

from ..desk import Desk
from ..events import Notice
from . import Stream

FORGET = "forget"


async def show_auth(desk: Desk, argument: str) -> Stream:
    """`argument` is what follows /mcp auth. The login itself is between the server and the person."""
    words, servers = desk.words, desk.servers
    name, _, rest = argument.strip().partition(" ")
    names = list(servers.connections) if servers else []
    if servers is None or name not in names or rest.strip() not in ("", FORGET):
        yield Notice(words("login.usage", names=", ".join(names)))
        return
    if rest:
        had_one = await servers.forget_login(name)
        yield Notice(words("login.forgotten" if had_one else "login.nothing", server=name))
        return
    await servers.log_in(name)
    if error := servers.failures.get(name):
        raise error
    yield Notice(words("login.done" if servers.connections[name].login.is_used else "login.unasked", server=name))
