"""Server entries of configuration files: TOML [[servers]] and JSON mcpServers, read once for all commands.

A `ServerConfig` contains what its file says, until `prepare_server` expands its variables: the chat prepares all
servers, a one-shot command only the one that it uses.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from ..core.errors import ConfigError, ServerNotFoundError
from ..core.programs import PACKAGE_RUNNERS, PROGRAM_NAME
from ..core.records import field, fields, record, replace
from ..core.strict_json import build_object
from .foreign_entries import Translation, translate_entry
from .foreign_roots import ForeignFile, add_settings, find_entries, find_listed_entries
from .oauth import OAuth, find_oauth_error
from .transports import find_transport_name
from .trust_rules import Decision, Origin, decide, inherits
from .value_checks import (
    MAX_DEPTH,
    LogLevel,
    RepeatedKeys,
    build_marked_object,
    check_choices,
    check_dotted_keys,
    check_keys,
    check_size,
    decode_table,
    expand_variables,
    parse_document,
)

Trust = Literal["off", "ask", "trusted"]
SandboxMode = Literal["auto", "on", "off"]
MAX_SERVERS = 64
_MAX_NAME_LENGTH = 32
NAME_HINT = f"Use at most {_MAX_NAME_LENGTH} letters, digits, - and single _."
RUNNER_CONNECT_S = 120.0
"""Default timeout of the start for a package runner, which may download the server first."""
YAML_SUFFIXES = (".yaml", ".yml")
_ROOT_TABLES = ("chat", "generation", "policy", "servers", "rkllm", "openai", "expert")


@record(frozen=True)
class ServerConfig:
    """Configuration of one MCP server: a command to start, or a URL.

    Fields that may hold secrets are excluded from `repr`.

    Attributes:
        name: Name of the server.
        command: Program to start. A server has either this or `url`.
        args: Arguments of the program.
        env: Environment variables of the program.
        cwd: Folder in which the program is started.
        url: URL of a server that runs already.
        headers: HTTP headers that are sent to the server, such as one with a token.
        allow_insecure: Send headers to another machine also without encryption (http instead of https), or use a Unix
            socket on which another user listens.
        oauth: How to log in to the server.
        transport: How to reach it, such as "sse". Left out: by the URL or the command.
        timeout_s: Give up a call after this many seconds without an answer or a sign of progress.
        tool_timeouts: Seconds for single tools, in place of `timeout_s`: `{ search = 300 }`.
        connect_s: Give up when the server has not started after this many seconds; by default longer for npx, uvx and
            other programs that download the server first.
        ping_s: Ask an unused server every so many seconds whether it is alive; 0 for never.
        idle_s: End a server that was not used for this many seconds until it is needed again; 0 for never.
        log_level: Which log messages the server is asked for: these and more serious ones.
        enabled: Whether the server is used.
        trust: "trusted" runs tools without asking that the server calls read-only; "ask" asks about each; "off" does
            not use the server.
        sandbox: Whether the program runs in a sandbox. "auto" does so where bubblewrap is installed, except for servers
            that ship with this program.
        write: Files and folders that the program may change in the sandbox. Left out: those that `args` and `env` name.
        network: Whether the program may use the network in the sandbox. Left out: only npx, uvx and other programs that
            download the server.
        roots: Folders that are announced to the server as its roots, relative to the file; false for none. Left out:
            those of its arguments, else the folder in which the chat was started.
        instructions: Whether what the server says about its use becomes part of the prompt. Left out: not for models
            that are known to have less than 2 billion parameters, nor for a context window below 8192 tokens.
        tools_allow: Names of the tools to use, or patterns such as "get_*"; empty for all.
        tools_deny: Names of the tools to leave out, or patterns.
        ignored_keys: Keys of another program's entry that are not understood and may be restrictions, in spite of which
            the server is used; `mcp enable` writes them.
        source: File that defines the server.
        origin: Whose file that is. A project's server needs the user's acceptance, and its variables are not expanded
            before (`expand_server`).
        replaces: The file of the user's own server of the same name that a project's server replaces.
        place: Place of the entry in its file, such as "servers[0]".
        original_name: The name as the file has it, if no server can have that name and `name` was made of it.
        not_obeyed: What the entry of another program allows beyond our rules, and what is not understood, as text: it
            is shown and has no effect.
        kept_off: Places of keys that are not understood and may be restrictions: because of them the server is off.
        disabled_by: File with another program's settings that switch the server off.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    allow_insecure: bool = False
    oauth: OAuth = field(default_factory=OAuth)
    transport: str = ""
    timeout_s: float = 60.0
    tool_timeouts: Mapping[str, float] = field(default_factory=dict[str, float])
    connect_s: float = 30.0
    ping_s: float = 30.0
    idle_s: float = 0.0
    log_level: LogLevel = "warning"
    enabled: bool = True
    trust: Trust = "ask"
    sandbox: SandboxMode = "auto"
    write: tuple[str, ...] | None = None
    network: bool | None = None
    roots: tuple[str, ...] | None = None
    instructions: bool | None = None
    tools_allow: tuple[str, ...] = ()
    tools_deny: tuple[str, ...] = ()
    ignored_keys: tuple[str, ...] = ()
    source: str = ""
    origin: Origin = Origin.USER
    replaces: str = ""
    place: str = field(default="", compare=False)
    original_name: str = ""
    not_obeyed: tuple[str, ...] = ()
    kept_off: tuple[str, ...] = ()
    disabled_by: str = ""

    def get_timeout_s(self, tool: str) -> float:
        """Return the timeout of a call of this tool."""
        return self.tool_timeouts.get(tool, self.timeout_s)

    def offers(self, tool: str) -> bool:
        """Return whether a tool is used, by `tools_allow` and `tools_deny`."""
        return (not self.tools_allow or _matches(tool, self.tools_allow)) and not _matches(tool, self.tools_deny)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    if name in patterns or not patterns:
        return bool(patterns)
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name, pattern) for pattern in patterns)


@record(frozen=True)
class SkippedServer:
    """An entry of a file that cannot be used; the other entries are.

    Attributes:
        name: The name that the server would have.
        original_name: The name as the file has it; "" for a whole file that has no servers.
        source: The file.
        line: Line of what is wrong in it, from 1; 0 if unknown.
        reason: Why it is skipped.
        hint: What the user can try; may be empty.
        origin: Whose file it is.
        place: Place of the entry in the file.
        value_place: Place of what is wrong.
    """

    name: str
    original_name: str
    source: str
    line: int
    reason: str
    hint: str
    origin: Origin = Origin.USER
    place: str = ""
    value_place: str = ""

    @property
    def location(self) -> str:
        """The file and the line."""
        return f"{self.source}:{self.line}" if self.line else self.source

    def make_error(self) -> ConfigError:
        """Build the error of a command that needs the server; its text also serves as a notice."""
        what = f'server "{self.original_name}"' if self.original_name else "the file"
        text = f"{self.location}: {what} is skipped: {self.reason}"
        return ConfigError(text, self.hint, path=self.source, line=self.line or None, server=self.name)


_NOT_WRITTEN = ("source", "origin", "replaces", "place", "original_name", "not_obeyed", "kept_off", "disabled_by")
SERVER_KEYS = tuple(entry.name for entry in fields(ServerConfig) if entry.name not in _NOT_WRITTEN)
"""Keys of an entry."""
_DEFAULT = ServerConfig("")
BOARD_SERVER = ServerConfig(
    "board",
    command=PROGRAM_NAME,
    args=("serve", "board"),
    trust="trusted",
    source="built in",
    origin=Origin.BUILT_IN,
)
"""The board server that ships, used unless an entry has its name or the user's own file lists other servers."""


def read_toml_tables(text: str, source: str) -> dict[str, Any]:
    """Parse a TOML file; only the names of its tables are validated."""
    check_size(text, source)
    tables = load_toml(text, source)
    if "mcp_servers" in tables and "servers" not in tables:
        hint = f"rkllm-chat mcp import {source} adds its servers to your own configuration."
        raise ConfigError(f"{source} is a file of another program.", hint, path=source)
    check_keys(tables, _ROOT_TABLES, source, "")
    return tables


def load_toml(text: str, source: str) -> dict[str, Any]:
    """Parse a TOML file. Raises ConfigError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    check_dotted_keys(text, source)
    tables: dict[str, Any] = parse_document(tomllib.loads, "TOML", text, source)
    return tables


def read_toml_servers(
    tables: Mapping[str, Any], source: str, origin: Origin = Origin.USER, skipped: list[SkippedServer] | None = None
) -> list[ServerConfig]:
    """Decode the [[servers]] among the tables of a TOML file; variables are not expanded.

    Args:
        tables: Tables of the file.
        source: Path of the file.
        origin: Whose file it is.
        skipped: Receives the entries that cannot be used; without it, the first of them is an error.

    Raises:
        ConfigError: An entry is invalid, or the file has no list of them.
    """
    entries = tables.get("servers", [])
    if not isinstance(entries, list):
        raise ConfigError(f"{source}: servers must be written as [[servers]].", path=source)
    decoder = _EntryDecoder(source, origin, skipped, len(entries))
    for i, table in enumerate(entries):
        name = table.get("name") if isinstance(table, dict) else None
        decoder.decode(name if isinstance(name, str) else "", f"servers[{i}]", table)
    return decoder.servers


def read_json_servers(
    text: str,
    source: str,
    origin: Origin = Origin.USER,
    skipped: list[SkippedServer] | None = None,
    settings: Mapping[str, str] = {},
) -> list[ServerConfig]:
    """Decode the servers of a JSON or YAML file of any program, with the root key mcpServers or another of ROOTS.

    JSON may have comments and trailing commas. Arguments and errors are those of `read_toml_servers`; a file that
    other programs write may also be meant for something else, and is then skipped as a whole.
    `settings` are the texts of settings that say which of the servers are off, by their paths.
    """
    check_size(text, source)
    build = build_object if skipped is None else build_marked_object
    root = load_document(text, source, build)
    if root == {}:
        return []
    may_be_bare = origin not in (Origin.PROJECT, Origin.OTHER_PROGRAM)
    file = find_entries(root, may_be_bare) if isinstance(root, dict) else find_listed_entries(root)
    if file is None:
        hint = 'Try {"mcpServers": {"name": {"command": "..."}}}. rkllm-chat mcp import lists files that have servers.'
        error = ConfigError(f'{source}: no "mcpServers" object.', hint, path=source)
        if skipped is None or origin not in (Origin.PROJECT, Origin.OTHER_PROGRAM):
            raise error
        skipped.append(skip_server("", "", source, error, origin, ""))
        return []
    for table in (root, file.entries):
        if isinstance(table, RepeatedKeys):
            text = f'{source}: the key "{table.repeated}" occurs twice in one object.'
            raise ConfigError(text, "The file was not used.", path=source)
    return decode_entries(apply_settings(file, settings), source, origin, skipped)


def apply_settings(file: ForeignFile, settings: Mapping[str, str]) -> ForeignFile:
    """Return the servers of a file without what settings take from them; these are texts by their paths."""
    for path, content in settings.items():
        try:
            file = add_settings(file, path, load_json(content))
        except ValueError:
            file = add_settings(file, path, None)
    return file


def decode_entries(
    file: ForeignFile, source: str, origin: Origin = Origin.USER, skipped: list[SkippedServer] | None = None
) -> list[ServerConfig]:
    """Decode the servers that were found in a file; arguments and errors are those of `read_toml_servers`."""
    decoder = _EntryDecoder(source, origin, skipped, len(file.entries))
    for name, entry in file.entries.items():
        decoder.decode(name, file.place_of(name), entry, file)
    return decoder.servers


def load_document(
    text: str, source: str, build: Callable[[list[tuple[str, Any]]], dict[str, Any]] = build_marked_object
) -> Any:
    """Parse a JSON or YAML file, by its suffix. Raises ConfigError."""
    if source.endswith(YAML_SUFFIXES):
        from ..core.plain_yaml import load_yaml  # 30 ms, which other files need not spend

        return parse_document(load_yaml, "YAML", text, source)
    return parse_document(lambda text: load_json(text, build), "JSON", text, source)


def load_json(text: str, build: Callable[[list[tuple[str, Any]]], dict[str, Any]] = build_marked_object) -> Any:
    """Parse JSON that may have comments, trailing commas and what JSON5 quotes otherwise, with `build` for objects."""
    try:
        return json.loads(text, object_pairs_hook=build)
    except json.JSONDecodeError as error:
        from .source_text import blank_comments, write_as_json  # 2 ms, which plain JSON need not spend

        try:
            return json.loads(blank_comments(text), object_pairs_hook=build)
        except json.JSONDecodeError as second:
            with suppress(json.JSONDecodeError):
                return json.loads(write_as_json(text), object_pairs_hook=build)
            raise (second if second.pos >= error.pos else error) from None


class _EntryDecoder:
    """Decodes the entries of one file, each by itself.

    Attributes:
        servers: The servers that can be used.
    """

    def __init__(self, source: str, origin: Origin, skipped: list[SkippedServer] | None, count: int) -> None:
        self.servers: list[ServerConfig] = []
        self._source, self._origin, self._skipped, self._seen = source, origin, skipped, 0
        if count > MAX_SERVERS:
            error = ConfigError(f"{source}: {count} servers, at most {MAX_SERVERS} are read.", path=source)
            self._skip(f"{count - MAX_SERVERS} more", "", error)

    def decode(self, name: str, place: str, entry: Any, file: ForeignFile | None = None) -> None:
        """Decode an entry; one of a foreign file is translated first."""
        self._seen += 1
        if self._seen > MAX_SERVERS:
            return
        names = {server.name for server in self.servers}
        exact = {name for name in file.entries if is_server_name(name)} if file else set[str]()
        slug = make_slug(name, {*names, *exact}) if file else name
        try:
            if repeated := _find_repeated_key(entry):
                raise ConfigError(f'{self._source}: {place}: the key "{repeated}" occurs twice in one object.')
            translation = translate_entry(name, entry, file, self._source) if file else Translation(entry, ())
            table = translation.table
            if file:
                table = {**{key: value for key, value in table.items() if key in SERVER_KEYS}, "name": slug}
            server = decode_server(table, self._source, place, self._origin)
            server = replace(
                server,
                not_obeyed=translation.not_obeyed,
                kept_off=translation.kept_off,
                disabled_by=translation.disabled_by,
            )
            if server.name in names:
                text = f'{self._source}: two servers have the name "{server.name}".'
                raise ConfigError(text, path=self._source)
        except ConfigError as error:
            self._skip(slug or place, name, error, place)
        else:
            self.servers.append(replace(server, original_name=name) if name != server.name else server)

    def _skip(self, name: str, original_name: str, error: ConfigError, place: str = "") -> None:
        if self._skipped is None:
            raise error
        self._skipped.append(skip_server(name, original_name, self._source, error, self._origin, place))


def skip_server(
    name: str, original_name: str, source: str, error: ConfigError, origin: Origin, place: str
) -> SkippedServer:
    """Describe an entry that an error makes unusable."""
    reason = error.message.removeprefix(f"{source}: ")
    value_place = str(error.details.get("place") or place)
    return SkippedServer(name, original_name or name, source, 0, reason, error.hint, origin, place, value_place)


def locate_skipped(skipped: Iterable[SkippedServer], text: str) -> list[SkippedServer]:
    """Return skipped entries with their lines in the text of their file."""
    from .source_text import find_line  # 2 ms, which files without such entries need not spend

    return [replace(entry, line=find_line(text, entry.value_place)) for entry in skipped]


def _find_repeated_key(value: Any, depth: int = 0) -> str:
    """Return the first key that occurs twice in one object; "" if there is none."""
    if isinstance(value, RepeatedKeys):
        return value.repeated
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    nested = (_find_repeated_key(item, depth + 1) for item in items) if depth < MAX_DEPTH else ()
    return next(filter(None, nested), "")


def make_slug(name: str, taken: Iterable[str] = ()) -> str:
    """Return the name that a server gets for a name of any form: the same one, if a server can have it.

    Args:
        name: Any text.
        taken: Names of other servers; the result differs from them.
    """
    if is_server_name(name) and name == name.strip("-_"):
        return name
    if not (folded := name).isascii():
        from unicodedata import normalize

        folded = normalize("NFKC", name)
    slug = "".join(character if character == "_" or _is_name_character(character) else "-" for character in folded)
    slug = re.sub(r"_{2,}", "_", re.sub(r"-{2,}", "-", slug)).strip("-_")
    if not slug or len(slug) > _MAX_NAME_LENGTH or slug in taken:
        import zlib

        mark = f"{zlib.crc32(name.encode(errors='surrogatepass')):08x}"
        slug = f"{slug[: _MAX_NAME_LENGTH - 9].rstrip('-_') or 'server'}-{mark}"
    return slug


def is_server_name(name: str) -> bool:
    """Tell whether a server can have a name: letters and digits of any script, -, and single _ between them."""
    if not 0 < len(name) <= _MAX_NAME_LENGTH:
        return False
    if not name.isascii():
        from unicodedata import is_normalized

        if not is_normalized("NFKC", name):
            return False
    return all(part and all(map(_is_name_character, part)) for part in name.split("_"))


def _is_name_character(character: str) -> bool:
    """Tell whether a name may have a character: -, or a letter, a mark or a digit of any script."""
    if character.isascii():
        return character == "-" or character.isalnum()
    from unicodedata import category

    return category(character)[0] in "LM" or category(character) == "Nd"


def decode_server(table: Any, source: str, place: str, origin: Origin = Origin.USER) -> ServerConfig:
    """Decode one entry: its name, a command or a URL, and type and range of every value.

    Args:
        table: The entry.
        source: Path of the file.
        place: Place of the entry in it.
        origin: Whose file it is.

    Raises:
        ConfigError: The entry is invalid.
    """
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {place} must be a table.", path=source)
    _check_depth(table, source, place)
    if table.get("roots") is True:
        hint = "Name the folders, or leave the key out for those of the arguments."
        raise ConfigError(f"{source}: {place}.roots must be a list of folders, or false.", hint, path=source)
    if table.get("roots") is False:
        table = {**table, "roots": []}
    values = decode_table(ServerConfig, table, source, place, SERVER_KEYS, is_expanded=False)
    if os.path.basename(values.get("command", "")) in PACKAGE_RUNNERS:
        values = {"connect_s": RUNNER_CONNECT_S, **values}
    server = ServerConfig(**{"name": "", **values}, source=source, place=place, origin=origin)
    if not is_server_name(server.name):
        text = f'{source}: {place}.name "{server.name}" cannot be a server name.'
        raise ConfigError(text, NAME_HINT, path=source, place=f"{place}.name")
    server = _check_server(server)
    _check_command(server, table)
    return server


def _check_command(server: ServerConfig, table: Mapping[str, Any]) -> None:
    """Raise ConfigError for keys, words and variables that a command could not have, or a URL not use."""
    source, place = server.source, server.place
    if server.url and (unused := [key for key in ("sandbox", "write", "network") if key in table]):
        hint = "The key is only valid for servers with a command."
        raise ConfigError(f"{source}: {place}.{unused[0]} has no effect for a server with a URL.", hint, path=source)
    if " " in server.command and "args" not in table:
        hint = "Move the arguments to args; if the command is a path with a space, set args = []."
        raise ConfigError(f'{source}: the command of server "{server.name}" contains spaces.', hint, path=source)
    if unusable := [variable for variable in server.env if not variable or "=" in variable]:
        text = f'{source}: {place}.env contains "{unusable[0]}", which cannot be the name of a variable.'
        raise ConfigError(text, path=source)


def _check_server(server: ServerConfig) -> ServerConfig:
    """Return the server with the usual name of its transport. Raises ConfigError unless it has a command or a URL."""
    if bool(server.command.strip()) == bool(server.url):
        problem = "needs a command or a url" if not server.url else "has both a command and a url; keep one"
        raise ConfigError(f'{server.source}: server "{server.name}" {problem}.', path=server.source)
    transport = find_transport_name(server.transport)
    return replace(server, transport=transport) if transport != server.transport else server


def _check_depth(value: Any, source: str, place: str, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise ConfigError(f"{source}: {place.partition('[')[0]} is nested too deep.", path=source)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, source, place, depth + 1)


def prepare_server(server: ServerConfig, environment: Mapping[str, str] = os.environ) -> ServerConfig:
    """Expand the variables of a server that was just read, unless it is a project's (see `expand_server`).

    Raises:
        ConfigError: A variable without default is not set, or the values do not fit together.
    """
    return _expand(server, environment if server.origin is not Origin.PROJECT else None, server.place)


def expand_server(server: ServerConfig, environment: Mapping[str, str] = os.environ) -> ServerConfig:
    """Expand the variables of a project's server, once the user has accepted it; others were expanded when read.

    Raises:
        ConfigError: A variable without default is not set, or the values do not fit together.
    """
    is_project = server.origin is Origin.PROJECT
    return _expand(server, environment, f'server "{server.name}"') if is_project else server


def _expand(server: ServerConfig, values: Mapping[str, str] | None, place: str) -> ServerConfig:
    """Expand the variables; with None, only check what does not depend on them."""
    source = server.source
    table = {key: getattr(server, key) for key in SERVER_KEYS}
    expanded = expand_variables({**table, "oauth": vars(server.oauth)}, values, source, place)
    server = replace(server, **{**expanded, "oauth": OAuth(**expanded["oauth"])})
    given = {key: value for key, value in expanded.items() if value != getattr(_DEFAULT, key)}
    check_choices(given, ServerConfig, source, place)  # a project's file names no choice by a variable
    if values is not None:
        server = _check_server(server)
    is_complete = "${" not in f"{server.url}{expanded['oauth']}"  # else this runs again when it is expanded
    if is_complete and (error := find_oauth_error(server.oauth, server.url, server.headers)):
        raise ConfigError(f"{source}: {place}.oauth{error[0]}.", error[1], path=source)
    return server


def merge_servers(override: Iterable[ServerConfig], base: Mapping[str, ServerConfig]) -> dict[str, ServerConfig]:
    """Return the servers of two sources by name: the nearer entry wins, with env and headers merged by key.

    An entry of a project gets nothing of the user's own: it would take the values to a command or URL of its choice.
    """
    servers = dict(base)
    for server in override:
        replaced = servers.pop(server.name, None)
        if replaced and not inherits(server.origin, replaced.origin):
            server = replace(server, replaces=replaced.source)
        elif replaced:
            env, headers = {**replaced.env, **server.env}, {**replaced.headers, **server.headers}
            server = replace(server, env=env, headers=headers, replaces=replaced.replaces)
        servers[server.name] = server
    return servers


def find_server(name: str, servers: Iterable[ServerConfig], skipped: Iterable[SkippedServer] = ()) -> ServerConfig:
    """Return a server by its name, or by the name that its file has.

    Raises:
        ConfigError: The entry of the server cannot be used.
        ServerNotFoundError: No file defines the server; the error lists similar names.
    """
    found = {server.name: server for server in servers}
    if name in found:
        return found[name]
    for server in found.values():
        if name and name == server.original_name:
            return server
    for entry in skipped:
        if name and name in (entry.name, entry.original_name):
            raise entry.make_error()
    from difflib import get_close_matches

    similar = get_close_matches(name, found, n=3, cutoff=0.5)
    hint = f"Configured servers: {', '.join(found)}." if found else "No server is configured."
    hint = f"Did you mean {' or '.join(similar)}?" if similar else hint
    if name == BOARD_SERVER.name:
        hint = explain_missing_board([*found.values(), *skipped])
    what = f'There is no server "{name}".' if name else "The name of a server is missing."
    raise ServerNotFoundError(what, hint, available=list(found), closest=similar)


def explain_missing_board(entries: Iterable[ServerConfig | SkippedServer]) -> str:
    """Return why the bundled server is not used, and how to get it back."""
    file = next((entry.source for entry in entries if entry.origin is Origin.COMMAND_LINE), "")
    why = f"The servers in {file} replace the bundled one." if file else "Here are only servers of configuration files."
    only = f" --config {file}" if file else ""
    return f"{why} To add it: rkllm-chat mcp add{only} board -- {PROGRAM_NAME} {' '.join(BOARD_SERVER.args)}"


def add_board(servers: Iterable[ServerConfig], skipped: Iterable[SkippedServer] = ()) -> Iterator[ServerConfig]:
    """Yield the servers, and the board server that ships unless an entry has its name.

    An entry that is skipped counts: it may have restricted the server in a way that could not be read.
    """
    names = {entry.name for entry in skipped}
    for server in servers:
        names.add(server.name)
        yield server
    if BOARD_SERVER.name not in names:
        yield BOARD_SERVER


def names_hidden_by(skipped: Iterable[SkippedServer]) -> set[str]:
    """Return the names of servers that skipped entries would replace: these do not run either, nobody meant them.

    A project's entries hide no server of the user's own.
    """
    return {entry.name for entry in skipped if entry.origin is not Origin.PROJECT}


def is_board(server: ServerConfig) -> bool:
    """Return whether this is the board server that ships, limited to the current directory; it needs no approval."""
    if server.command != PROGRAM_NAME or server.url or server.env or server.cwd:
        return False
    match tuple(server.args):
        case ("serve", "board"):
            return True
        case ("serve", "board", "--folder", folder):
            here, there = (os.path.realpath(os.path.expanduser(path)) for path in (".", folder))
            return "${" not in folder and os.path.commonpath([here, there]) == here
    return False


def restrict_trust(server: ServerConfig) -> tuple[ServerConfig, bool]:
    """Return a server without a claim to be trusted that its origin may not make, and whether it made one."""
    if decide(server.origin, "servers", "trust", server.trust, "ask") is not Decision.REFUSED or is_board(server):
        return server, False
    return replace(server, trust="ask"), True
