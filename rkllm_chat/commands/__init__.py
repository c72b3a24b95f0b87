"""COMMANDS: what a line beginning with / does. A command yields events, as a turn does; it prints nothing.

To add one, write an async generator under `@command`; its word in the help is `commands.NAME` of the language file.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import prompt
from ..desk import Desk
from ..events import Event, Leave, Notice, Table
from ..names import shown_names

if TYPE_CHECKING:
    from ..servers.connection import Connection

Stream = AsyncGenerator[Event, None]


@dataclass(frozen=True)
class Command:
    """`names`: the first is the one that the help shows. `run` takes the desk and what follows the name."""

    names: tuple[str, ...]
    usage: str
    run: Callable[[Desk, str], Stream]


COMMANDS: dict[str, Command] = {}


def command(*names: str, usage: str = "") -> Callable[[Callable[[Desk, str], Stream]], Callable[[Desk, str], Stream]]:
    """Puts the decorated function into COMMANDS under all its names."""

    def enter(run: Callable[[Desk, str], Stream]) -> Callable[[Desk, str], Stream]:
        entry = Command(names, usage, run)
        COMMANDS.update(dict.fromkeys(names, entry))
        return run

    return enter


def run(desk: Desk, line: str) -> Stream:
    """The stream of a line that begins with /; an unknown name is a notice."""
    name, _, argument = line.strip().partition(" ")
    entry = COMMANDS.get(name.lower())
    return entry.run(desk, argument.strip()) if entry else unknown(desk, name)


def leaves(line: str) -> bool:
    """Whether a line is the command that ends the chat; it need not wait for anything."""
    entry = COMMANDS.get(line.strip().lower())
    return entry is not None and entry.run is leave


async def unknown(desk: Desk, name: str) -> Stream:
    yield Notice(desk.words("commands.unknown", name=name))


@command("/help", "/?")
async def show_help(desk: Desk, _argument: str) -> Stream:
    entries = dict.fromkeys(COMMANDS.values())
    rows = [(f"{' '.join(e.names)} {e.usage}", desk.words(f"commands.{e.names[0][1:]}")) for e in entries]
    yield Table((), tuple(rows))


@command("/tools")
async def show_tools(desk: Desk, _argument: str) -> Stream:
    tools = shown_names(desk.toolbox.tools)
    if not tools:
        yield Notice(desk.words("commands.no_tools"))
        return
    rows = [(tool.server, name, prompt.first_line(tool.description)) for name, tool in tools.items()]
    yield Table((), tuple(rows))


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


@command("/clear")
async def clear(desk: Desk, _argument: str) -> Stream:
    desk.chat.clear()
    yield Notice(desk.words("commands.cleared"))


@command("/quit", "/exit", "/q")
async def leave(_desk: Desk, _argument: str) -> Stream:
    yield Leave()
