"""Commands about the MCP servers: how they are, and what is to become of them."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .. import configfile
from ..config import ServerConfig
from ..desk import Desk
from ..errors import ServerNotFoundError, UsageError
from ..events import Notice, Page, Table
from ..language import Words
from ..names import find_tools, shown_names
from ..places import is_project
from . import Stream, command
from .auth import show_auth
from .review import review

if TYPE_CHECKING:
    from ..servers.connection import Connection

LOG_BYTES = 4000


async def suggest_words(desk: Desk, typed: str) -> Sequence[str]:
    word, blank, _ = typed.partition(" ")
    if not blank:
        return list(ACTIONS)
    if word == "schema":
        return list(shown_names(desk.toolbox.box.tools))
    return [server.name for server in desk.settings.servers]


USAGE = "[list | reload | add NAME -- COMMAND ... | add NAME URL | ACTION NAME]"


@command("/mcp", "/servers", usage=USAGE, suggest=suggest_words)
async def show_servers(desk: Desk, argument: str) -> Stream:
    word, _, rest = argument.partition(" ")
    if word and word not in ACTIONS:
        raise UsageError(f'/mcp does not know "{word}".', f"It knows {', '.join(ACTIONS)}.")
    async for event in ACTIONS[word or "list"](desk, rest.strip()):
        yield event


async def list_servers(desk: Desk, _rest: str) -> Stream:
    words = desk.words
    if not desk.settings.servers:
        yield Notice(words("commands.no_servers"))
        return
    connections: Mapping[str, Connection] = desk.servers.connections if desk.servers else {}
    rows: list[tuple[str, ...]] = []
    for server in desk.settings.servers:
        connection = connections.get(server.name)
        refused = None if connection else desk.failures.get(server.name)
        state = words(f"state.{connection.state if connection else 'unasked' if refused else 'off'}")
        about = describe(connection, words) if connection else refused.message if refused else ""
        rows.append((server.name, state, about, server.source))
    yield Table((), tuple(rows))
    for connection in connections.values():
        for tool, why in connection.hidden.items():
            reason = words(f"hidden.{why}")
            yield Notice(words("servers.hidden", server=connection.config.name, tool=tool, reason=reason))


def describe(connection: Connection, words: Words) -> str:
    """The tools of a server and the protocol it speaks, or why it is not there."""
    if connection.error and not connection.is_open:
        return connection.error.message
    tools = words("status.tools", count=len(connection.tools))
    version = f", MCP {connection.protocol_version}" if connection.is_open else ""
    return f"{tools}{version}{describe_sandbox(connection, words)}" if connection.is_ready else ""


def describe_sandbox(connection: Connection, words: Words) -> str:
    sandbox = connection.sandbox
    if sandbox is None:
        return ""
    kind = "missing" if sandbox.missing else "network" if sandbox.has_network else "closed"
    return f", {words(f'sandbox.{kind}')}"


async def show_status(desk: Desk, _rest: str) -> Stream:
    """The list, and what each sandbox lets in."""
    async for event in list_servers(desk, ""):
        yield event
    words = desk.words
    for name, connection in (desk.servers.connections if desk.servers else {}).items():
        if (sandbox := connection.sandbox) is None:
            continue
        if sandbox.missing:
            yield Notice(words("sandbox.why", server=name, reason=sandbox.missing))
            continue
        reads, writes = (", ".join(map(str, paths)) for paths in (sandbox.reads, ("/tmp", *sandbox.writes)))
        network = words("sandbox.let_out" if sandbox.has_network else "sandbox.kept_in")
        yield Notice(words("sandbox.lets", server=name, network=network, reads=reads or "-", writes=writes))


async def restart(desk: Desk, name: str) -> Stream:
    find_server(desk, name)
    if not desk.servers or name not in desk.servers.connections:
        raise UsageError(f'Server "{name}" is switched off.', f"/mcp enable {name} switches it on.")
    await desk.servers.restart(name)
    async for event in list_servers(desk, ""):
        yield event


async def enable(desk: Desk, name: str) -> Stream:
    desk.gate.reconsider()
    await desk.apply_servers(switched(desk, name, is_on=True))
    async for event in list_servers(desk, ""):
        yield event


async def disable(desk: Desk, name: str) -> Stream:
    await desk.apply_servers(switched(desk, name, is_on=False))
    async for event in list_servers(desk, ""):
        yield event


def switched(desk: Desk, name: str, is_on: bool) -> tuple[ServerConfig, ...]:
    """The servers of the sitting with one of them on or off."""
    find_server(desk, name)
    return tuple(replace(one, enabled=is_on) if one.name == name else one for one in desk.settings.servers)


async def add(desk: Desk, rest: str) -> Stream:
    """`NAME -- command words` or `NAME URL`: written into the configuration of this folder, and opened."""
    server = read_new(rest)
    if any(one.name == server.name for one in desk.settings.servers):
        raise UsageError(f'There is a server "{server.name}" already.', "Take another name.")
    entry = configfile.entry_of(server)
    configfile.add(configfile.plan_addition(entry, server.name))
    yield Notice(desk.words("servers.added", server=server.name, path=configfile.CONFIG))
    path = str(configfile.CONFIG)
    server = replace(server, source=path, is_project=is_project(path, os.environ))
    desk.gate.accepted.accept(server)
    await desk.apply_servers((*desk.settings.servers, server))
    async for event in list_servers(desk, ""):
        yield event


def read_new(text: str) -> ServerConfig:
    """The server that is written. Raises UsageError."""
    try:
        name, *words = shlex.split(text)
    except ValueError:
        name, words = "", []
    match words:
        case ["--", command, *args]:
            return ServerConfig(name, command=command, args=tuple(args))
        case [url] if "://" in url:
            return ServerConfig(name, url=url)
    raise UsageError("Which server?", "Write /mcp add NAME -- command words, or /mcp add NAME URL.")


async def remove(desk: Desk, name: str) -> Stream:
    """Closes a server and takes it out of the configuration that names it."""
    server = find_server(desk, name)
    configfile.remove(name, Path(server.source))
    await desk.apply_servers(tuple(one for one in desk.settings.servers if one.name != name))
    yield Notice(desk.words("servers.removed", server=name, path=server.source))


async def reload(desk: Desk, _rest: str) -> Stream:
    """Reads the configuration again; the servers that it changes are opened and closed, the others run on."""
    touched = await desk.reload()
    for path, name in desk.settings.ignored:
        yield Notice(desk.words("trust.ignored", file=path, name=name))
    yield Notice(desk.words("servers.reloaded", names=", ".join(touched) or "-"))
    async for event in list_servers(desk, ""):
        yield event


async def show_schema(desk: Desk, name: str) -> Stream:
    tools = find_tools(name, desk.toolbox.box.tools)
    if not tools:
        raise UsageError(f'There is no tool "{name}".', "/tools lists them.")
    for tool in tools:
        schema = json.dumps(tool.schema, ensure_ascii=False, indent=2)
        yield Page(f"{tool.full_name}\n{tool.description}\n{schema}")


async def show_log(desk: Desk, name: str) -> Stream:
    find_server(desk, name)
    connection = desk.servers.connections.get(name) if desk.servers else None
    if connection is None or not connection.log_file.is_file():
        yield Notice(desk.words("servers.no_log", server=name))
        return
    text = connection.log_file.read_text(encoding="utf-8", errors="replace")[-LOG_BYTES:]
    yield Page(f"{shorten_home(connection.log_file)}\n{text}")


def shorten_home(path: Path) -> str:
    """A path below the home folder as people write it, with ~."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def find_server(desk: Desk, name: str) -> ServerConfig:
    """The server of a name. Raises ServerNotFoundError, which names those there are."""
    names = [server.name for server in desk.settings.servers]
    if name not in names:
        hint = f"Configured are: {', '.join(names)}." if names else "None is configured."
        what = f'There is no server "{name}".' if name else "Which server?"
        raise ServerNotFoundError(what, hint, available=names)
    return desk.settings.servers[names.index(name)]


ACTIONS: dict[str, Callable[[Desk, str], Stream]] = {
    "list": list_servers,
    "status": show_status,
    "restart": restart,
    "add": add,
    "remove": remove,
    "enable": enable,
    "disable": disable,
    "reload": reload,
    "schema": show_schema,
    "log": show_log,
    "auth": show_auth,
    "review": review,
}
