"""Commands about MCP servers: status, configuration and lifecycle."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...calls.tool_names import find_tools, shown_names
from ...chat.app import App
from ...chat.event_stream import Emit
from ...chat.server_approval import describe_known, list_config_notices
from ...config import editor as configfile
from ...config.files import find_origin
from ...config.loader import explain_replaced_board
from ...config.policy import exact_pattern
from ...config.servers import ServerConfig, decode_server, find_server
from ...config.tool_pins import diff_accepted_text
from ...config.trust_rules import Origin
from ...core.errors import UsageError
from ...core.events import Notice, Page, Table
from ...core.i18n import Words
from ...core.redact import redact_keys
from ...core.sanitize import escape_visibly, find_lookalikes
from ...mcp_client.acceptance import forget_removed, resolve_path
from ...mcp_client.roots import find_roots
from ..picker import MARKS, Choice, Picker, SwitchFrontend
from .permissions import change_rule
from .registry import RunCommand, command

if TYPE_CHECKING:
    from ...mcp_client.connection import Connection
    from ...mcp_client.process.start import Sandbox


_LOG_BYTES = 4000
_SAVE = " --save"
_FORGET = "forget"
_ACCESS_WORDS = ("write", "network", "reset")
"""What can be allowed, or taken back."""
_ALLOW_USAGE = "Write /mcp allow NAME, and behind it write FOLDER, network or reset."
_USAGE = "[NAME | list | reload | add NAME -- COMMAND ... | add NAME URL | ACTION NAME]"


async def _suggest_arguments(app: App, typed: str) -> Sequence[str]:
    """Return completions for the action, its argument and the words behind that."""
    action, blank, rest = typed.partition(" ")
    if not blank:
        return [*_ACTIONS, *(server.name for server in app.settings.servers)]
    if action == "schema":
        return list(shown_names(app.toolbox.toolbox.tools))
    if " " in rest:
        return _ACCESS_WORDS if action == "allow" and rest.count(" ") == 1 else ()
    return [server.name for server in app.settings.servers]


@command("/mcp", "/servers", usage=_USAGE, example="/mcp restart board", suggest=_suggest_arguments)
async def show_servers(app: App, argument: str, emit: Emit) -> None:
    """List and manage MCP servers."""
    action, _, rest = argument.partition(" ")
    if not action and isinstance(app.frontend, SwitchFrontend) and app.settings.servers:
        await _pick_servers(app, app.frontend, emit)
        return
    if action not in _ACTIONS and not rest and any(server.name == action for server in app.settings.servers):
        await _show_server(app, action, emit)
        return
    if action and action not in _ACTIONS:
        raise UsageError(f'Unknown action "{action}" of /mcp.', f"Available actions: {', '.join(_ACTIONS)}.")
    await _ACTIONS[action or "list"](app, rest.strip(), emit)


async def _list_servers(app: App, _rest: str, emit: Emit) -> None:
    """List the servers with their state, and the tools that are hidden."""
    words = app.words
    if not app.settings.servers and not app.settings.skipped:
        await emit(Notice(words("commands.no_servers")))
        return
    connections = app.servers.connections
    rows: list[tuple[str, ...]] = []
    for server in app.settings.servers:
        connection = connections.get(server.name)
        refusal = None if connection else app.failures.get(server.name)
        state = words(f"state.{connection.lifecycle.state if connection else 'unasked' if refusal else 'off'}")
        description = describe_connection(connection, words) if connection else refusal.message if refusal else ""
        name = _mark_name(server.name)
        name = f"{name} ({server.original_name})" if server.original_name else name
        rows.append((name, state, description, server.source))
    for entry in app.settings.skipped:
        rows.append((entry.original_name or "-", words("state.skipped"), entry.reason, entry.location))
    await emit(Table((), tuple(rows)))
    for server in app.settings.servers:
        if letters := find_lookalikes(server.name):
            text = words("question.lookalike", name=server.name, letters=", ".join(letters))
            await emit(Notice(text, "warning"))
        for freedom in server.not_obeyed:
            await emit(Notice(words("servers.not_obeyed", server=server.name, entry=freedom)))
    for connection in connections.values():
        for tool, why in connection.advertised.hidden.items():
            reason = words(f"hidden.{why}")
            await emit(Notice(words("servers.hidden", server=connection.config.name, tool=tool, reason=reason)))


def _mark_name(name: str) -> str:
    """Return the name of a server, with a mark if it has letters that look like others."""
    return f"! {name}" if find_lookalikes(name) else name


def describe_connection(connection: Connection, words: Words) -> str:
    """Return the tool count, the protocol version and the latency of a server, or its error."""
    life = connection.lifecycle
    if life.error and not life.is_open:
        return life.error.message
    tools = words("status.tools", count=len(connection.advertised.tools))
    version = f", MCP {life.protocol_version}, {life.latency_s * 1000:.0f} ms" if life.is_open else ""
    return f"{tools}{version}{_describe_sandbox(connection, words)}" if life.is_ready else ""


def _describe_sandbox(connection: Connection, words: Words) -> str:
    """Return a short label for the sandbox; "" if there is none."""
    sandbox = connection.sandbox
    if sandbox is None:
        return ""
    kind = "missing" if sandbox.unavailable_reason else "network" if sandbox.has_network else "closed"
    return f", {words(f'sandbox.{kind}')}"


async def _show_status(app: App, _rest: str, emit: Emit) -> None:
    """List the servers and what each sandbox permits."""
    await _list_servers(app, "", emit)
    for name, connection in app.servers.connections.items():
        if connection.sandbox:
            await emit(Notice(_describe_access(name, connection.sandbox, app.words)))


def _describe_access(name: str, sandbox: Sandbox, words: Words) -> str:
    """Return what a sandbox permits, or why there is none."""
    if sandbox.unavailable_reason:
        return words("sandbox.why", server=name, reason=sandbox.unavailable_reason)
    reads, writes = (", ".join(paths) for paths in (sandbox.reads, ("/tmp", *sandbox.writes)))
    network = words("sandbox.let_out" if sandbox.has_network else "sandbox.kept_in")
    network += "" if sandbox.filters_calls else words("sandbox.unfiltered")
    known = f" ({describe_known(sandbox.known_name, sandbox.known_reason, words)})" if sandbox.known_name else ""
    return words("sandbox.lets", server=name, network=network + known, reads=reads or "-", writes=writes)


async def _show_server(app: App, name: str, emit: Emit) -> None:
    """Show a server's configuration, the roots that it learns of, what its sandbox permits, and its instructions."""
    server, words = _find_server(app, name), app.words
    connection = app.servers.connections.get(name)
    rows = {
        "command": shlex.join([server.command, *server.args]) if server.command else "",
        "url": server.url,
        "roots": ", ".join(find_roots(server)) or "false",
        "source": server.source,
    }
    state = ""
    if connection:
        state = f"{words(f'state.{connection.lifecycle.state}')}, {describe_connection(connection, words)}"
    rows = {name: state.removesuffix(", "), **{key: redact_keys(value) for key, value in rows.items()}}
    await emit(Table((), tuple((key, value) for key, value in rows.items() if value)))
    if not connection:
        refusal = app.failures.get(name)
        await emit(Notice(refusal.message if refusal else words("servers.disabled", server=name)))
        return
    if connection.sandbox:
        await emit(Notice(_describe_access(name, connection.sandbox, words)))
    if connection.lifecycle.instructions:
        state = "" if name in app.chat.get_instructions() else "_off" if server.instructions is False else "_small"
        await emit(Notice(words(f"servers.instructions{state}", server=name)))
        await emit(Page(escape_visibly(connection.lifecycle.instructions)))


async def restart_server(app: App, name: str, emit: Emit) -> None:
    """Restart a server."""
    _find_server(app, name)
    if name not in app.servers.connections:
        raise UsageError(f'Server "{name}" is disabled.', f"/mcp enable {name} enables it.")
    await app.servers.restart(name)
    await app.sandbox_access.offer()
    await _list_servers(app, "", emit)


async def _switch_server(is_on: bool, app: App, rest: str, emit: Emit) -> None:
    """Enable or disable a server for this session; with `--save` also in its file."""
    if is_on:
        app.server_approval.forget_declined()
    name = rest.removesuffix(_SAVE).rstrip()
    server = _find_server(app, name)
    if name != rest:
        configfile.set_enabled(name, is_on, Path(server.source))
        _acknowledge_edit(app)
        await emit(Notice(app.words("set.saved", name=name, path=server.source)))
    servers = app.settings.servers
    await app.apply_servers(
        tuple(replace(config, enabled=is_on) if config.name == name else config for config in servers)
    )
    await _list_servers(app, "", emit)


async def _pick_servers(app: App, frontend: SwitchFrontend, emit: Emit) -> None:
    """Let the user switch servers in a list, for this session."""
    choices = []
    for server in app.settings.servers:
        connection = app.servers.connections.get(server.name)
        state = app.words(f"state.{connection.lifecycle.state if connection else 'off'}")
        about = describe_connection(connection, app.words) if connection else ""
        choices.append(Choice(server.name, (MARKS[server.enabled], _mark_name(server.name), state, about)))
    switched = await frontend.switch(Picker(app.words("picker.servers"), choices, app.words, can_switch=True))
    if switched:
        app.server_approval.forget_declined()
        servers = app.settings.servers
        await app.apply_servers(
            tuple(replace(config, enabled=config.enabled ^ (config.name in switched)) for config in servers)
        )
    await _list_servers(app, "", emit)


async def add_server(app: App, rest: str, emit: Emit) -> None:
    """Add a server to the configuration of this folder, or to the only file that is read, and start it.

    `rest` is `NAME -- COMMAND ARGUMENTS` or `NAME URL`.
    """
    server = _parse_server(rest)
    if any(existing.name == server.name for existing in app.settings.servers):
        raise UsageError(f'A server "{server.name}" already exists.', "Choose another name.")
    only_file = app.source.only_file if app.source else ""
    path = configfile.find_target("project", only_file)
    configfile.add_server(_make_entry(server), path)
    await emit(Notice(app.words("servers.added", server=server.name, path=path)))
    if only_file and (replaced := explain_replaced_board(app.settings, only_file)):
        await emit(Notice(replaced))
    origin = Origin.COMMAND_LINE if only_file else find_origin(str(path), os.environ)
    server = replace(server, source=str(path), origin=origin)
    app.server_approval.accept_server(server)
    _acknowledge_edit(app)
    # before the board that ships, as at the next start: the evaluated prompt that is kept then has the same tools
    own = [config for config in app.settings.servers if config.origin is not Origin.BUILT_IN]
    shipped = [config for config in app.settings.servers if config.origin is Origin.BUILT_IN]
    await app.apply_servers((*own, server, *shipped))
    await _list_servers(app, "", emit)


def _make_entry(server: ServerConfig) -> dict[str, Any]:
    """Return the entry of a server that has only a command or a URL."""
    what = {"url": server.url} if server.url else {"command": server.command, "args": [*server.args]}
    return {"name": server.name, **what}


def _acknowledge_edit(app: App) -> None:
    """Keep an edit of ours from being reported as a change of the configuration."""
    if app.source:
        app.source.has_changed()


def _parse_server(text: str) -> ServerConfig:
    """Parse the definition of a server. Raises UsageError, or ConfigError for a name that no server can have."""
    try:
        name, *words = shlex.split(text)
    except ValueError:
        name, words = "", []
    source = str(configfile.DEFAULT_CONFIG_PATH)
    match words:
        case ["--", command, *args]:
            return decode_server({"name": name, "command": command, "args": args}, source, "servers")
        case [url] if "://" in url:
            return decode_server({"name": name, "url": url}, source, "servers")
        case [address] if (":" in address or "/" in address) and not address.startswith(("/", ".", "~")):
            raise UsageError(f'"{address}" is no URL.', f"Write /mcp add {name} http://{address}")
        case [first, *_] if first != "--":
            raise UsageError(f'"{first}" is no URL.', f"A command follows --: /mcp add {name} -- {shlex.join(words)}")
    raise UsageError(
        "The server definition is incomplete.", "Write /mcp add NAME -- COMMAND ..., or /mcp add NAME URL."
    )


async def remove_server(app: App, name: str, emit: Emit) -> None:
    """Stop a server and delete it from the configuration that defines it."""
    server = _find_server(app, name)
    configfile.remove_server(name, Path(server.source))
    forget_removed(app.server_approval.trust_store, name, server.source)
    _acknowledge_edit(app)
    await app.apply_servers(tuple(other for other in app.settings.servers if other.name != name))
    await emit(Notice(app.words("servers.removed", server=name, path=server.source)))


async def _reload(app: App, _rest: str, emit: Emit) -> None:
    """Read the configuration again; only servers that changed are started or stopped."""
    changed = await app.reload()
    for notice in list_config_notices(app.settings, app.words):
        await emit(Notice(notice, "warning"))
    await emit(Notice(app.words("servers.reloaded", names=", ".join(changed) or "-")))
    await _list_servers(app, "", emit)


async def _show_schema(app: App, name: str, emit: Emit) -> None:
    """Show the description and the input schema of a tool."""
    tools = find_tools(name, app.toolbox.toolbox.tools)
    if not tools:
        raise UsageError(f'There is no tool "{name}".', "/tools lists the tools.")
    for tool in tools:
        schema = json.dumps(tool.schema, ensure_ascii=False, indent=2)
        await emit(Page(f"{tool.full_name}\n{tool.description}\n{schema}"))


async def _show_log(app: App, name: str, emit: Emit) -> None:
    """Show the end of a server's log."""
    _find_server(app, name)
    connection = app.servers.connections.get(name)
    if connection is None or not connection.lifecycle.log_file.is_file():
        await emit(Notice(app.words("servers.no_log", server=name)))
        return
    text = connection.lifecycle.log_file.read_text(encoding="utf-8", errors="replace")[-_LOG_BYTES:]
    await emit(Page(f"{connection.lifecycle.log_file}\n{text}"))


async def _manage_login(app: App, argument: str, emit: Emit) -> None:
    """Log in to a server again, or with `forget` behind its name delete its stored login."""
    words, servers = app.words, app.servers
    name, _, rest = argument.strip().partition(" ")
    names = list(servers.connections)
    if name not in names or rest.strip() not in ("", _FORGET):
        await emit(Notice(words("login.usage", names=", ".join(names))))
        return
    if rest:
        had_one = await servers.forget_login(name)
        await emit(Notice(words("login.forgotten" if had_one else "login.nothing", server=name)))
        return
    await servers.log_in(name)
    if error := servers.failures.get(name):
        raise error
    login = servers.connections[name].lifecycle.login
    await emit(Notice(words("login.done" if login.has_token else "login.unasked", server=name)))


async def _allow_access(app: App, rest: str, emit: Emit) -> None:
    """Allow a server to write a folder or to use the network, or take back or show what was allowed."""
    try:
        name, *words = shlex.split(rest)
    except ValueError:
        raise UsageError("The name of a server is missing, or a quotation mark.", _ALLOW_USAGE) from None
    _find_server(app, name)
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
            raise UsageError(f'"{" ".join(words)}" cannot be allowed.', _ALLOW_USAGE)
    allowed = access.list_allowed(name)
    for path in allowed.write:
        await emit(Notice(app.words("sandbox.may_write", server=name, path=path)))
    if allowed.network:
        await emit(Notice(app.words("sandbox.may_connect", server=name)))
    if not (allowed.write or allowed.network):
        await emit(Notice(app.words("sandbox.nothing", server=name)))


def _find_server(app: App, name: str) -> ServerConfig:
    """Return the configured server of a name. Raises ServerNotFoundError, or ConfigError for a skipped entry."""
    return find_server(name, app.settings.servers, app.settings.skipped)


async def _review_tools(app: App, name: str, emit: Emit) -> None:
    """Show the changed tools and texts of all servers, or of the named one, and ask whether to accept them.

    If the server changes them again while the user decides, nothing is accepted.
    """
    words = app.words
    if name:
        _find_server(app, name)
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


_ACTIONS: dict[str, RunCommand] = {
    "list": _list_servers,
    "get": _show_server,
    "status": _show_status,
    "restart": restart_server,
    "add": add_server,
    "remove": remove_server,
    "enable": partial(_switch_server, True),
    "disable": partial(_switch_server, False),
    "reload": _reload,
    "schema": _show_schema,
    "log": _show_log,
    "auth": _manage_login,
    "review": _review_tools,
    "allow": _allow_access,
}
