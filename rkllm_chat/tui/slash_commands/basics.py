"""Commands about the program itself: help, diagnosis and quitting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ...chat.app import App
from ...core.events import Leave, Notice, Page, Table
from .registry import COMMANDS, EventStream, command


async def _suggest_commands(_app: App, _typed: str) -> Sequence[str]:
    """Return the names of all commands."""
    return list(COMMANDS)


@command("/help", "/?", usage="[COMMAND]", suggest=_suggest_commands)
async def show_help(app: App, argument: str) -> EventStream:
    """List all commands, or show usage and example of one."""
    if not argument:
        entries = dict.fromkeys(COMMANDS.values())
        rows = [(" ".join(one.names), app.words(f"commands.{one.names[0][1:]}")) for one in entries]
        yield Table((), tuple(rows))
        yield Notice(app.words("help.more"))
        return
    entry = COMMANDS.get(f"/{argument.lower().lstrip('/')}")
    if entry is None:
        yield Notice(app.words("commands.unknown", name=argument))
        return
    name = entry.names[0]
    usage = f"{name} {entry.usage}".rstrip()
    yield Notice(f"{usage}: {app.words(f'commands.{name[1:]}')}")
    yield Notice(app.words("help.example", text=app.words(f"examples.{name[1:]}")))


@command("/doctor")
async def run_doctor(app: App, _argument: str) -> EventStream:
    """Show the diagnosis of the machine, the model and the configuration."""
    if app.source is None or app.source.diagnose is None:
        yield Notice(app.words("commands.unknown", name="/doctor"))
        return
    arguments = ["--model", app.settings.model] if app.settings.model else []
    yield Page(await asyncio.to_thread(app.source.diagnose, arguments))


@command("/quit", "/exit", "/q")
async def quit_chat(_app: App, _argument: str) -> EventStream:
    """Quit the chat."""
    yield Leave()
