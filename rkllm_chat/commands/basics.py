"""Commands about the chat itself: what there is, a new beginning, leaving."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ..desk import Desk
from ..events import Leave, Notice, Page, Table
from . import COMMANDS, Stream, command


async def suggest_commands(_desk: Desk, _typed: str) -> Sequence[str]:
    return list(COMMANDS)


@command("/help", "/?", usage="[COMMAND]", suggest=suggest_commands)
async def show_help(desk: Desk, argument: str) -> Stream:
    """All commands in a line each; with a name, how one is used, with an example."""
    if not argument:
        entries = dict.fromkeys(COMMANDS.values())
        rows = [(" ".join(one.names), desk.words(f"commands.{one.names[0][1:]}")) for one in entries]
        yield Table((), tuple(rows))
        yield Notice(desk.words("help.more"))
        return
    entry = COMMANDS.get(f"/{argument.lower().lstrip('/')}")
    if entry is None:
        yield Notice(desk.words("commands.unknown", name=argument))
        return
    name = entry.names[0]
    usage = f"{name} {entry.usage}".rstrip()
    yield Notice(f"{usage}: {desk.words(f'commands.{name[1:]}')}")
    yield Notice(desk.words("help.example", text=desk.words(f"examples.{name[1:]}")))


@command("/doctor")
async def run_doctor(desk: Desk, _argument: str) -> Stream:
    """What this machine, its model and its configuration need."""
    from .. import doctor

    arguments = ["--model", desk.settings.model] if desk.settings.model else []
    yield Page(await asyncio.to_thread(doctor.describe, arguments))


@command("/quit", "/exit", "/q")
async def leave(_desk: Desk, _argument: str) -> Stream:
    yield Leave()
