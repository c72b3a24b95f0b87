"""The command /mcp allow NAME: widen the sandbox of a server."""

from __future__ import annotations

import shlex

from ...chat.app import App
from ...config.sandbox_rules import find_own_rules
from ...config.servers import find_server
from ...core.errors import UsageError
from ...core.events import Notice
from ...mcp_client.acceptance import resolve_path
from .registry import EventStream

ACCESS_WORDS = ("write", "network", "reset")
"""What can be allowed, or taken back."""
_USAGE = "Write /mcp allow NAME, and behind it write FOLDER, network or reset."


async def allow_access(app: App, rest: str) -> EventStream:
    """Allow a server to write a folder or to use the network, or take back or show what was allowed."""
    try:
        name, *words = shlex.split(rest)
    except ValueError:
        raise UsageError("The name of a server is missing, or a quotation mark.", _USAGE) from None
    find_server(name, app.settings.servers, app.settings.skipped)
    access = app.sandbox_access
    match words:
        case []:
            pass
        case ["network"]:
            await access.allow(name)
        case ["write", path]:
            await access.allow(name, resolve_path(path))
        case ["reset"]:
            await access.reset(name)
        case _:
            raise UsageError(f'"{" ".join(words)}" cannot be allowed.', _USAGE)
    allowed, file = access.list_allowed(name), find_own_rules()
    for path in allowed.write:
        yield Notice(app.words("sandbox.may_write", server=name, path=path, file=file))
    if allowed.network:
        yield Notice(app.words("sandbox.may_connect", server=name, file=file))
    if not (allowed.write or allowed.network):
        yield Notice(app.words("sandbox.nothing", server=name))
