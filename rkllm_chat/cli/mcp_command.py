"""Manage the configured MCP servers: `rkllm-chat mcp ACTION ...`.

Edits go to the file that is in use and keep all its other bytes. A folder's server is started only after the user has
accepted it; one that this command adds is accepted by that.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from ..config.editor import BOARD_ENTRY, add_server, find_target, remove_server, set_enabled
from ..config.foreign_files import SOURCES, TARGETS, find_files, read_foreign_servers
from ..config.loader import explain_replaced_board, load_settings, state_folder
from ..config.project_trust import TrustStore, is_enabled
from ..config.secrets import is_literal_secret, make_redactor
from ..config.servers import (
    BOARD_SERVER,
    ServerConfig,
    SkippedServer,
    decode_server,
    find_server,
    read_json_servers,
)
from ..config.settings import Settings
from ..config.transports import TRANSPORTS
from ..core.command_line import Parser, get_options, get_subparsers
from ..core.errors import ChatError, UsageError
from ..core.programs import PROGRAM_NAME, find_program
from ..core.sanitize import find_lookalikes, sanitize_line
from ..mcp_client.acceptance import check_start, forget_removed, may_start, review_start
from ..mcp_client.direct.open_server import OpenServer, open_as_chat
from ..mcp_client.process.launch import wants_sandbox
from ..mcp_client.transports.addresses import has_proxy, redact_url
from ..mcp_servers import BUNDLED
from .json_commands.adhoc_server import split_pair
from .json_commands.ask_servers import ServerAnswer, ask_servers, close_servers
from .json_commands.commands import describe_server
from .network_need import find_network_library
from .output import write_result
from .server_entries import add_to_file, describe_entry, format_start
from .trust_command import add_arguments as add_trust_arguments
from .trust_command import confirm, confirm_starts, review_servers

_ACTIONS = {
    "list": "start the servers, or those named, and list state, tools, protocol and latency; this is the default",
    "add": "add a server; with --into, a bundled one to the file of another program",
    "remove": "remove a server from its file",
    "enable": "enable a server in its file",
    "disable": "disable a server in its file",
    "trust": "review how servers are started and how their tools have changed, and approve them",
    "import": "add the servers of another program or of a file; without PROGRAM, list those of all programs",
    "auth": "log in to a server at a URL again, or delete the saved login",
}
_ADD_EXAMPLES = f"""examples:
  {PROGRAM_NAME} mcp add files -- {PROGRAM_NAME} serve board --folder .
  {PROGRAM_NAME} mcp add remote https://tools.example.org/mcp"""
_RENAMED = {
    "get": ("list", "--no-start"),
    "test": ("list",),
    "discover": ("import",),
    "add-json": ("add",),
    "install": ("add",),
}
"""Actions that became parts of others -> what to write now. They are not shown, and go in version 0.3."""
_DESCRIPTION = "Manage the configured MCP servers."
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d+(/.*)?|localhost(/.*)?|[\w-]+(\.[\w-]+)+/.*|\d+(\.\d+){3}")
"""A host with a port or a path."""
_PROBE_S = 3.0
"""How long the address of a new server is waited for."""
_SCOPES = ("project", "user")
_SCOPE_HELP = "the file of this folder, or your own (default: %(default)s)"


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 1 if the user declined or a server failed. Raises ChatError."""
    words = list(arguments)
    at = next((i for i, word in enumerate(words) if word[:1] != "-" and words[i - 1 : i] != ["--config"]), len(words))
    if at == len(words) and not {"-h", "--help"}.intersection(words):
        words.append("list")
    former = words[at] if at < len(words) else ""
    words[at : at + 1] = _RENAMED.get(former, words[at : at + 1])
    words, command = split_server_command(words)
    options = make_parser().parse(words)
    if command is not None and options.action != "add":
        raise UsageError(f"mcp {options.action}: -- is only valid for mcp add.")
    options.config = options.config or ""
    if options.action == "add":
        return _install(options, command or ()) if options.into else _add(options, command)
    if options.action == "import" and options.program:
        return _import(options)
    if options.action == "trust":
        return review_servers(options)
    settings = load_settings(options.config)
    if options.action == "list":
        return _list(settings, options, is_one=former == "get")
    if options.action == "import":
        return _discover(settings)
    return _log_in(settings, options) if options.action == "auth" else _edit(settings, options)


def make_parser() -> Parser:
    """Build the argument parser of the command."""
    parser = Parser(prog="rkllm-chat mcp", description=_DESCRIPTION)
    common = Parser(add_help=False)
    config = "read, and write, only this configuration file"
    common.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help=config)
    parser.add_argument("--config", metavar="FILE", default="", help=config)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    parsers = {
        name: actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", parents=[common])
        for name, text in _ACTIONS.items()
    }
    for name in ("remove", "enable", "disable", "auth"):
        parsers[name].add_argument("name", metavar="NAME", help="a configured server")
    add = parsers["list"].add_argument
    add("names", metavar="NAME", nargs="*", help="only this server, with its tools or its settings")
    add("--json", action="store_true", help="print one JSON document")
    add("--no-start", action="store_true", help="start no server; of those named, show the settings without secrets")
    _describe_add(parsers["add"])
    add_trust_arguments(parsers["trust"])
    add = parsers["import"].add_argument
    add("program", metavar="PROGRAM|FILE", nargs="?", help=f"{', '.join(SOURCES)}, or a file")
    add("--scope", choices=_SCOPES, default="user", help=_SCOPE_HELP)
    add("--dry-run", action="store_true", help=argparse.SUPPRESS)  # goes in version 0.3: the question shows it
    add("-y", "--yes", action="store_true", help="add without asking; of a program's files, only your own")
    parsers["auth"].add_argument("--forget", action="store_true", help="delete the saved login")
    return parser


def _choose_network(entry: Mapping[str, Any], options: argparse.Namespace) -> bool:
    """Return whether the sandbox of a new server gets the network: as the option says, else as its package needs it.

    At a terminal the user decides; the package only proposes the answer.
    """
    if "command" not in entry or entry.get("network") is not None or options.network == "no":
        return False
    if options.network == "yes" or not wants_sandbox(ServerConfig("", entry["command"], tuple(entry.get("args", ())))):
        return bool(options.network == "yes")
    library = find_network_library([entry["command"], *entry.get("args", ())])
    if not library or not sys.stdin or not sys.stdin.isatty():
        return bool(library)
    print(sanitize_line(f"Its package uses {library}. May it use the network?"), end=" [Y/n] ", flush=True)
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _describe_add(parser: Parser) -> None:
    """Add the arguments of `mcp add`, whose words `split_server_command` has ordered."""
    parser.epilog, parser.formatter_class = _ADD_EXAMPLES, argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("name", metavar="NAME", help="name of the new server")
    add("target", metavar="URL|JSON|COMMAND ...", nargs="?", help="its URL, its entry as JSON, or its command")
    add("--url", metavar="URL", help=argparse.SUPPRESS)
    add("-e", "--env", metavar="KEY=VALUE", action="append", default=[], help="variable for the command; repeatable")
    header = "HTTP header for the URL; repeatable"
    add("-H", "--header", metavar="NAME: VALUE", action="append", default=[], help=header)
    add("-t", "--transport", choices=tuple(TRANSPORTS), help="default: by the URL or command")
    add("--network", choices=("yes", "no"), help=argparse.SUPPRESS)  # goes in version 0.3: a key of an entry as JSON
    add("-s", "--scope", choices=(*_SCOPES, "local"), default="user", help=f"{_SCOPE_HELP}; local is project")
    add("--project", dest="scope", action="store_const", const="project", help=argparse.SUPPRESS)
    into = f"write {', '.join(BUNDLED)} into the file of {', '.join(TARGETS)}; options of the server follow --"
    add("--into", metavar="PROGRAM", choices=TARGETS, help=into)
    yes = "do not ask before an entry as JSON is added; with --into: write without asking, also over another entry"
    add("-y", "--yes", action="store_true", help=yes)


def split_server_command(arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Separate the words of a command line from the command of a server in it, which is None without one.

    `mcp add` takes its words in any order, as the manuals of other programs write them: what follows the name and is
    neither a URL nor JSON is the command, with all that follows it; so is everything after --.
    """
    words = list(arguments)
    at = next((place for place, word in enumerate(words) if word in ("add", "--")), len(words))
    if at == len(words) or words[at] == "--":
        return words[:at], words[at + 1 :] if at < len(words) else None
    values = get_options(get_subparsers(make_parser())["add"])
    ordered, positionals, rest = words[: at + 1], list[str](), words[at + 1 :]
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*ordered, *positionals], rest
        if word.startswith("-"):
            ordered.append(word)
            if word in values and values[word].nargs != 0 and rest:
                ordered.append(rest.pop(0))
        elif len(positionals) == 1 and "://" not in word and not word.lstrip().startswith("{"):
            return [*ordered, *positionals], [word, *rest]
        else:
            positionals.append(word)
    return [*ordered, *positionals], None


def _add(options: argparse.Namespace, command: Sequence[str] | None) -> int:
    """Add a server to the file in use and accept it."""
    path = find_target("project" if options.scope == "local" else options.scope, options.config)
    settings = load_settings(options.config) if path.exists() or not options.config else Settings()
    entry = make_entry(options, command)
    if needs_network := _choose_network(entry, options):
        entry["network"] = True
    if is_json(options.target) and not options.yes and sys.stdin and sys.stdin.isatty():
        # nobody typed this entry word by word: the values in it are shown as those of another program's file are
        review = review_start(decode_server(entry, str(path), "mcp add"))
        if not confirm_starts([review], sanitize_line(f"Add it to {path}? [y/N]") + " ", confirm):
            return 1
    add_to_file(entry, path, settings)
    for warning in _find_warnings(entry, path):
        print(sanitize_line(f"{PROGRAM_NAME}: {warning}"), file=sys.stderr)
    if options.scope != "user" and path.resolve().is_relative_to(Path.cwd()):
        _report_secrets(entry, path)
    if needs_network:
        print(sanitize_line(f"Its sandbox has the network: network = true in {path}."))
    print(sanitize_line(f'Server "{options.name}" was added to {path}. rkllm-chat mcp list {options.name} tries it.'))
    _report_replaced_board(settings, options.config)
    return 0


def _find_warnings(entry: Mapping[str, Any], path: Path) -> Iterator[str]:
    """Yield why a new server cannot be started now, and what in it is found in this folder alone."""
    server = decode_server(entry, str(path), f"server {entry['name']}")
    if problem := review_start(server).problem:
        yield f"It cannot be started now. {problem}"
    elif reason := _find_silence(server.url):
        yield f"Nothing answers at {redact_url(server.url)} now: {reason}."
    elif not path.resolve().is_relative_to(Path.cwd()) and not server.cwd:
        words = [server.command if "/" in server.command else "", *server.args]
        for word in (word for word in words if word not in ("", ".", "..") and not word.startswith(("/", "~", "-"))):
            if Path(word).exists():
                where = f'"{word}" is found in this folder alone, and {path} is for all folders.'
                yield f"{where} Write {Path(word).resolve()}, or add it with --scope project."


def _find_silence(url: str) -> str:
    """Return why no connection to an address can be made now; "" if one can, or a proxy makes it. Nothing is sent."""
    parts = urlsplit(url)
    if not parts.hostname or has_proxy(url):
        return ""
    reasons = [f"no connection within {_PROBE_S:g} s"]

    def probe() -> None:
        try:
            port = parts.port or (443 if parts.scheme in ("https", "wss") else 80)
            socket.create_connection((str(parts.hostname), port), _PROBE_S).close()
            reasons[0] = ""
        except OSError as error:
            reasons[0] = error.strerror or str(error)
        except ValueError as error:  # the port
            reasons[0] = str(error)

    thread = Thread(target=probe, daemon=True)  # looking up a name has no limit of its own
    thread.start()
    thread.join(_PROBE_S)
    return reasons[0]


def _report_replaced_board(before: Settings, named: str) -> None:
    """Say if the bundled server is not used beside what was added to the only file that is read."""
    if text := explain_replaced_board(before, named):
        print(sanitize_line(text))


def _report_secrets(entry: Mapping[str, Any], path: Path) -> None:
    """Say which secrets a file of the folder has now, and where they would be better kept."""
    for table in ("env", "headers"):
        for name, value in (entry.get(table) or {}).items():
            if is_literal_secret(name, str(value), table):
                variable = re.sub(r"\W", "_", name).upper()
                given = f"--env {name}='${{{variable}}}'" if table == "env" else f"--header '{name}: ${{{variable}}}'"
                text = f"The value of {name} is in {path} now, which a commit of the folder would contain."
                hint = f"Add it with {given} to read it from your environment, or with --scope user to your own file."
                print(sanitize_line(f"{text} {hint}"), file=sys.stderr)


def is_json(target: str | None) -> bool:
    """Tell whether what is to be added is an entry as JSON."""
    return bool(target) and str(target).lstrip().startswith("{")


def make_entry(options: argparse.Namespace, command: Sequence[str] | None) -> dict[str, Any]:
    """Build the entry of a server from the command line. Raises UsageError."""
    name, given = options.name, [value for value in (options.target, options.url, command) if value is not None]
    if len(given) != 1 or command == []:
        what = "more than one server is given" if len(given) > 1 else "the server is missing"
        raise UsageError(f"mcp add: {what}.", "Write mcp add NAME -- COMMAND ..., or mcp add NAME URL.")
    target = options.target or options.url
    env = dict(split_pair(pair, "=", "--env") for pair in options.env)
    headers = dict(split_pair(pair, ":", "--header") for pair in options.header)
    if command is not None:
        _check_command(name, command)
        entry: dict[str, Any] = {"command": command[0], "args": [*command[1:]]}
    elif is_json(target):
        entry = _parse_json_entry(name, target)
    elif "://" in target:
        entry = {"url": target}
    else:
        raise UsageError(f'mcp add: "{target}" is no URL.', f"A command follows --: mcp add {name} -- {target}")
    if env and "url" in entry:
        raise UsageError("mcp add: --env is only valid for a command.", "A URL takes --header.")
    if headers and "url" not in entry:
        raise UsageError("mcp add: --header is only valid for a URL.", "A command takes --env.")
    added = {"env": {**entry.get("env", {}), **env}, "headers": {**entry.get("headers", {}), **headers}}
    entry |= {key: values for key, values in added.items() if values}
    return {"name": name, **entry, **({"transport": options.transport} if options.transport else {})}


def _check_command(name: str, command: Sequence[str]) -> None:
    """Raise UsageError for an address in the place of a command."""
    if len(command) == 1 and _ADDRESS.fullmatch(command[0]) and not find_program(command[0], None):
        raise UsageError(
            f'mcp add: there is no program "{command[0]}", and a URL begins with http:// or https://.',
            f"For a server at that address: {PROGRAM_NAME} mcp add {name} http://{command[0]}",
        )


def _parse_json_entry(name: str, text: str) -> dict[str, Any]:
    """Read an entry of any program from the command line."""
    source = "mcp add"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"mcp add: the entry is not valid JSON: {error}.") from None
    [server] = read_json_servers(json.dumps({"mcpServers": {name: value}}), source)
    return describe_entry(server)


def _edit(settings: Settings, options: argparse.Namespace) -> int:
    """Remove, enable or disable a server in the file that defines it."""
    found: ServerConfig | SkippedServer | None = next(
        (entry for entry in settings.skipped if options.name in (entry.name, entry.original_name)), None
    )
    found = found or find_server(options.name, settings.servers)
    path = Path(found.source)
    if found == BOARD_SERVER and options.action == "disable":
        path = find_target("user", options.config)
        add_server({**BOARD_ENTRY, "enabled": False}, path)
    elif options.action == "remove":
        remove_server(found.name, path)
        forget_removed(TrustStore(str(state_folder())), found.name, found.source)
    else:
        set_enabled(found.name, options.action == "enable", path)
    done = "removed from" if options.action == "remove" else f"{options.action}d in"
    print(sanitize_line(f'Server "{found.original_name or found.name}" was {done} {path}.'))
    is_board_entry = options.action == "remove" and found.name == BOARD_SERVER.name
    if is_board_entry and BOARD_SERVER in load_settings(options.config).servers:
        print(f"The bundled server is used again. To switch it off: {PROGRAM_NAME} mcp disable {BOARD_SERVER.name}")
    return 0


def _describe(server: ServerConfig) -> dict[str, Any]:
    """Return the settings of a server that are set, without secrets."""
    said = make_redactor(server).redact_named({**describe_server(server), "args": [*server.args] or None})
    return {key: value for key, value in said.items() if value is not None}


def _list(settings: Settings, options: argparse.Namespace, is_one: bool) -> int:
    """Print a line for each server, or for those named with more; those that may start are started side by side.

    Returns:
        Of servers that were named, the exit code of an error; else 1 if one has failed.
    """
    named = [find_server(name, settings.servers, settings.skipped) for name in options.names]
    if named and options.no_start and not options.json:
        _print_settings(map(_describe, named))
        return 0
    servers = named or settings.servers
    answers = {} if options.no_start else _ask(named or filter(is_enabled, servers))
    rows = [
        {
            **(answers.get(server.name) or _make_row(server, "configured" if is_enabled(server) else "disabled")),
            "not_obeyed": [*server.not_obeyed],
            **({"disabled_by": server.disabled_by} if server.disabled_by else {}),
        }
        for server in servers
    ]
    for entry in () if named else settings.skipped:
        name = entry.original_name or "-"
        rows.append({**_make_row(ServerConfig(name, source=entry.location), "skipped"), "error": entry.reason})
    codes = [row.pop("code", int(row["state"] == "skipped")) for row in rows]
    if options.json:
        described = {_name_of(server): _describe(server) for server in servers}
        result = [{**described.get(row["name"], {}), **row} for row in rows]
        write_result(described[rows[0]["name"]] if is_one else result)
    else:
        _print_rows(rows, with_tools=bool(named))
    return max(codes, default=0) if named else int(any(codes))


def _print_settings(descriptions: Iterable[Mapping[str, Any]]) -> None:
    for description in descriptions:
        width = max(map(len, description))
        for key, value in description.items():
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            print(f"{key:<{width}}  {sanitize_line(shown)}")


def _make_row(server: ServerConfig, state: str) -> dict[str, Any]:
    """Return the entry of a server that was not contacted."""
    empty = {"tools": [], "protocol": "", "start_s": 0.0, "latency_s": 0.0, "error": ""}
    return {"name": _name_of(server), "state": state, "source": server.source, **empty}


def _ask(servers: Iterable[ServerConfig]) -> dict[str, dict[str, Any]]:
    """Start servers, ask them side by side, and end them; return a row for each by its name.

    They are connected as in the chat: some list other tools, or use another version of the protocol, for a client that
    offers less.
    """
    trust_store, all_opened, refused = TrustStore(str(state_folder())), list[OpenServer](), set[str]()
    named = {server.name: server for server in servers}

    def open_for_listing(server: ServerConfig) -> OpenServer:
        all_opened.append(opened := open_as_chat(server))
        return opened

    def check(name: str) -> ServerConfig:
        if not may_start(trust_store, named[name]):
            refused.add(name)
        return check_start(trust_store, named[name])

    answers = ask_servers(named, check, open_for_listing)
    close_servers(all_opened)
    return {answer.name: _describe_answer(named[answer.name], answer, answer.name in refused) for answer in answers}


def _describe_answer(server: ServerConfig, answer: ServerAnswer, is_refused: bool) -> dict[str, Any]:
    """Return the row of a server: its answer, its error, or that the user has not accepted it."""
    row = _make_row(server, "not accepted" if is_refused else "failed" if answer.error else "connected")
    if answer.error:
        redacted = make_redactor(server, server, os.environ).redact_error(answer.error)
        return {**row, "error": str(redacted), "code": answer.error.exit_code}
    figures = {key: getattr(answer, key) for key in ("protocol", "start_s", "latency_s")}
    return {**row, "tools": [str(tool["name"]) for tool in answer.tools], **figures, "code": 0}


def _name_of(server: ServerConfig) -> str:
    return f"{server.name} ({server.original_name})" if server.original_name else server.name


def _print_rows(rows: Sequence[dict[str, Any]], with_tools: bool) -> None:
    """Print what servers answered."""
    lines = [(sanitize_line(row["name"]), row["state"], _measure(row), sanitize_line(row["source"])) for row in rows]
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(3)]
    for row, line in zip(rows, lines, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False) if width]
        print("  ".join([*cells, line[3]]).rstrip())
        if letters := find_lookalikes(row["name"]):
            print(f"  ! the name has letters that look like others: {', '.join(letters)}")
        if row["error"]:
            print(f"  {sanitize_line(row['error'])}")
        if row.get("disabled_by"):
            print(f"  switched off by {sanitize_line(row['disabled_by'])}")
        for entry in row.get("not_obeyed", ()):
            print(f"  without effect here: {sanitize_line(entry)}")
        for tool in row["tools"] if with_tools else ():
            print(f"  {sanitize_line(tool)}")
    if not rows:
        print("No server is configured.", file=sys.stderr)


def _measure(row: Mapping[str, Any]) -> str:
    if row["state"] != "connected":
        return ""
    count = f"{len(row['tools'])} {'tool' if len(row['tools']) == 1 else 'tools'}"
    return f"{count}, MCP {row['protocol']}, started in {row['start_s']:.2f} s, {row['latency_s'] * 1000:.0f} ms"


def _import(options: argparse.Namespace) -> int:
    """Show the servers of another program, ask, and add them to the file in use."""
    path = find_target(options.scope, options.config)
    before = settings = load_settings(options.config) if path.exists() or not options.config else Settings()
    servers, skipped = read_foreign_servers(options.program)
    if options.yes and options.program in SOURCES:
        servers = [*_leave_out_folder_servers(servers)]
    new = _show_foreign(servers, skipped, settings)
    if not new:
        print(sanitize_line(f"Nothing was added: {_explain_nothing(options.program, servers, skipped)}"))
        return 1
    if options.scope == "user":
        new = [*map(_keep_folder, new)]

    def answer(question: str) -> bool:
        return not options.dry_run and (options.yes or confirm(question, "Add --yes."))

    question = sanitize_line(f"Add {len(new)} to {path}? [y/N]") + " "
    if not confirm_starts(map(review_start, new), question, answer):
        print("Nothing was added.")
        return 0 if options.dry_run else 1
    for server in new:
        is_toml = path.suffix == ".toml"
        name = server.name if is_toml else server.original_name or server.name
        add_to_file({"name": name, **describe_entry(server)}, path, settings)
        settings = load_settings(options.config)
    print(sanitize_line(f"{len(new)} added to {path}."))
    _report_replaced_board(before, options.config)
    return 0


def _discover(settings: Settings) -> int:
    """List the servers of all programs on this machine."""
    importable = list[str]()
    for program in SOURCES:
        try:
            servers, skipped = read_foreign_servers(program)
        except UsageError:  # it has no file here
            continue
        except ChatError as error:
            print(sanitize_line(f"{program}: {error}"))
            continue
        if servers or skipped:
            print(f"{program}:")
        if new := _show_foreign(servers, skipped, settings):
            importable.append(program)
        for server in new:
            _show_line("new", server)
    nothing = "No other program on this machine has a server that is not configured here."
    print(f"rkllm-chat mcp import PROGRAM copies the new ones: {', '.join(importable)}." if importable else nothing)
    return 0


def _show_foreign(
    servers: Sequence[ServerConfig], skipped: Sequence[SkippedServer], settings: Settings
) -> list[ServerConfig]:
    """Print the entries of another program that are not new here; return the servers that are."""
    known = {name for server in settings.servers for name in (server.name, server.original_name)}
    for entry in skipped:
        print("skipped ", sanitize_line(f"{entry.original_name}: {entry.reason} [{entry.location}]"))
    for server in servers:
        if server.name in known:
            _show_line("present", server)
    return [server for server in servers if server.name not in known]


def _show_line(mark: str, server: ServerConfig) -> None:
    """Print a server of another program on one line, and what of its entry has no effect here."""
    print(f"{mark:<8}", sanitize_line(f"{_name_of(server)}: {format_start(server)} [{server.source}]"))
    for freedom in server.not_obeyed:
        print(f"         without effect here: {sanitize_line(freedom)}")


def _keep_folder(server: ServerConfig) -> ServerConfig:
    """Return a server of this folder's file with the folder, if its command names files of it.

    In a file of the user, the same words would run another folder's files wherever the program is started.
    """
    words = (server.command, *server.args, *server.env.values())
    is_of_folder = Path(server.source).resolve().is_relative_to(Path.cwd())
    names_files = any(word and not Path(word).is_absolute() and _is_path(word) for word in words)
    if not (server.command and is_of_folder and names_files) or Path(server.cwd).expanduser().is_absolute():
        return server
    return replace(server, cwd=str(Path.cwd() / server.cwd))


def _is_path(word: str) -> bool:
    try:
        return word.startswith(("./", "../")) or Path(word).exists()
    except (OSError, ValueError):
        return False


def _leave_out_folder_servers(servers: Sequence[ServerConfig]) -> Iterator[ServerConfig]:
    """Yield the servers of the user's own files: what a folder brings along is not added unseen."""
    for server in servers:
        if Path(server.source).is_absolute():
            yield server
        else:
            text = f"{_name_of(server)}: --yes adds nothing from a file of this folder, unless it is named"
            print("skipped ", sanitize_line(f"{text} [{server.source}]"))


def _explain_nothing(program: str, servers: Sequence[ServerConfig], skipped: Sequence[SkippedServer]) -> str:
    """Return why an import has added nothing."""
    if servers:
        return "all of them are present."
    if skipped:
        return "no entry can be used; the reasons stand above."
    files = ", ".join(str(path) for path in find_files(program))
    return f"{files} names no server that could be added here."


def _log_in(settings: Settings, options: argparse.Namespace) -> int:
    from .mcp_login import log_in

    return log_in(find_server(options.name, settings.servers, settings.skipped), options.forget)


def _install(options: argparse.Namespace, serve_options: Sequence[str]) -> int:
    from .mcp_install import install_server

    return install_server(options, serve_options)
