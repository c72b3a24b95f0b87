"""Commands about the chat itself: what there is, a new beginning, leaving."""

from __future__ import annotations

from ..desk import Desk
from ..events import Leave, Notice, Table
from . import COMMANDS, Stream, command


@command("/help", "/?")
async def show_help(desk: Desk, _argument: str) -> Stream:
    entries = dict.fromkeys(COMMANDS.values())
    rows = [(f"{' '.join(e.names)} {e.usage}", desk.words(f"commands.{e.names[0][1:]}")) for e in entries]
    yield Table((), tuple(rows))


@command("/clear")
async def clear(desk: Desk, _argument: str) -> Stream:
    desk.chat.clear()
    yield Notice(desk.words("commands.cleared"))


@command("/quit", "/exit", "/q")
async def leave(_desk: Desk, _argument: str) -> Stream:
    yield Leave()
