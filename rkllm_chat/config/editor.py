"""Change servers and settings in a configuration file; all other bytes stay as they are.

The new text is parsed before it is written, so an edit never makes a file invalid. A file is locked, read, checked and
replaced in one step. Your own configuration may be a symbolic link, as into a repository of dotfiles: its target is
edited. A file of a folder may not, and no folder on the way to it: it could lead to any file of yours.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError, UsageError
from ..core.file_writes import FileEdit, LinkError, edit_file
from ..core.strict_json import build_object
from .entry_edits import (
    add_json_member,
    remove_json_member,
    remove_toml_entry,
    render_toml_entry,
    render_toml_value,
    set_json_member,
    set_toml_key,
)
from .files import (
    FOREIGN_SUFFIXES,
    find_origin,
    find_own_file,
    find_single_file,
    find_state_folder,
    list_config_paths,
    parse_servers,
    read_text,
)
from .foreign_roots import ROOTS
from .foreign_switches import list_switches, means_on
from .servers import (
    BOARD_SERVER,
    NAME_HINT,
    YAML_SUFFIXES,
    SkippedServer,
    decode_server,
    is_server_name,
    load_document,
    make_slug,
    read_toml_tables,
)
from .settings import ServerConfig, Settings, read_toml
from .source_text import blank_comments, find_member, list_comments
from .trust_rules import Origin

DEFAULT_CONFIG_PATH = Path("mcp_config.toml")
BOARD_ENTRY: Mapping[str, Any] = {
    **{key: getattr(BOARD_SERVER, key) for key in ("name", "command", "trust")},
    "args": [*BOARD_SERVER.args],
}
"""The board server that ships as an entry of a file."""
_VALUE_END = re.compile(r"(?=[ \t]*#|[ \t\r]*$)", re.MULTILINE)
_MAX_VALUE_LINES = 100
_JSON_KEYS = {"transport": "type"}
"""Our keys -> the keys of JSON files, which other programs read too."""


def find_target(scope: str, named: str = "", environment: Mapping[str, str] = os.environ) -> Path:
    """Return the configuration file that a new server is written to.

    Args:
        scope: "user" for the user's own file; "project" for the nearest file of the current folder, or a new one.
        named: Path of the only file that is read; it is also the one that is written.
        environment: Environment variables.
    """
    if single_file := find_single_file(named, environment):
        return Path(single_file)
    if scope == "user":
        return Path(find_own_file(environment))
    local = [Path(path) for path in list_config_paths(environment) if not Path(path).is_absolute()]
    return next((path for path in reversed(local) if path.is_file()), DEFAULT_CONFIG_PATH)


def add_server(entry: Mapping[str, Any], path: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Add a server to a configuration file, which is created if it is missing.

    Args:
        entry: The entry with our keys, among them `name`; variables are not expanded.
        path: A TOML or JSON file.
        environment: Environment variables.

    Raises:
        ConfigError: The entry or the file is invalid, or it already has such a server.
        UsageError: The name cannot be that of a server; a JSON file may have any.
    """
    _check_editable(path)
    name = str(entry["name"])
    if path.suffix not in FOREIGN_SUFFIXES and not is_server_name(name):
        raise UsageError(f'"{name}" cannot be the name of a server.', NAME_HINT)
    origin = find_origin(str(path), environment)
    with edit_config(path, environment) as edit:
        text = read_edited(edit, path)
        if text and _find_configured(name, text, path, origin):
            problem = f'{path}: there is a server "{name}" already.'
            raise ConfigError(problem, "Choose another name.", path=str(path))
        edit.write(_add_entry(text, entry, path, origin).encode())


def _add_entry(text: str, entry: Mapping[str, Any], path: Path, origin: Origin) -> str:
    """Return the text of a file with another server. Raises ConfigError."""
    is_json = path.suffix in FOREIGN_SUFFIXES  # whose names other programs read, too
    table = {**entry, **({"name": make_slug(str(entry["name"]))} if is_json else {})}
    server = decode_server(table, str(path), f"server {entry['name']}", origin)
    new = _add_to_json(text, entry, path) if is_json else _add_to_toml(text, entry)
    return _check_text(path, new, origin, lambda servers: any(found.name == server.name for found in servers))


def _add_to_toml(text: str, entry: Mapping[str, Any]) -> str:
    line_break = "\r\n" if "\r\n" in text else "\n"
    gap = line_break * (bool(text.strip()) + bool(text and not text.endswith("\n")))
    return text + gap + render_toml_entry(entry).replace("\n", line_break)


def _add_to_json(text: str, entry: Mapping[str, Any], path: Path) -> str:
    text = text or '{\n  "mcpServers": {}\n}\n'
    if not _parse_json(text, path):
        text = add_json_member(text, (), "mcpServers", {})
    values = {_JSON_KEYS.get(key, key): value for key, value in entry.items() if key != "name"}
    return add_json_member(text, _find_root(text, path), str(entry["name"]), values)


def remove_server(name: str, path: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Remove a server from a configuration file.

    Raises:
        ConfigError: The file has no such entry, or the entry is not in a table of its own.
        UsageError: The server is built in.
    """
    _check_editable(path)
    origin = find_origin(str(path), environment)
    problem = f'{path}: the entry of server "{name}" cannot be removed'
    with _naming(problem, f'Remove "{name}" by hand.', path), edit_config(path, environment) as edit:
        text = read_edited(edit, path)
        place = _find_place(name, text, path, origin)
        if isinstance(place, tuple):
            _parse_json(text, path)
        new = remove_json_member(text, place) if isinstance(place, tuple) else remove_toml_entry(text, _index_of(place))
        left = [document for document in _read_all(path, text, origin) if name not in _names_of(document)]
        edit.write(_check_text(path, new, origin, lambda servers: [*servers] == left).encode())


def set_enabled(name: str, is_enabled: bool, path: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Enable or disable a server in a configuration file.

    Raises:
        ConfigError: The file has no such entry, or it cannot be changed there.
        UsageError: The server is built in.
    """
    _check_editable(path)
    origin = find_origin(str(path), environment)
    verb = "enabled" if is_enabled else "disabled"

    def is_meant(servers: Sequence[ServerConfig]) -> bool:
        return any(name in _names_of(server) and server.enabled is is_enabled for server in servers)

    problem = f'{path}: server "{name}" cannot be {verb}'
    with _naming(problem, "Change its entry by hand.", path), edit_config(path, environment) as edit:
        text = read_edited(edit, path)
        place = _find_place(name, text, path, origin)
        if isinstance(place, tuple):
            entry = _find_entry(text, place, path)
            new = text
            for key in list_switches(entry) or ["disabled"]:
                new = set_json_member(new, (*place, key), is_enabled is means_on(key))
            found = _find_configured(name, new, path, origin) if is_enabled else None
            if isinstance(found, ServerConfig) and found.disabled_by:
                raise ConfigError(f"{found.disabled_by} switches it off.", "Switch it on there.", path=str(path))
            if isinstance(found, ServerConfig) and found.kept_off:  # the user says that they may be ignored
                ignored = [*found.ignored_keys, *found.kept_off]
                new = set_json_member(new, (*place, "ignored_keys"), ignored)
        else:
            new = set_toml_key(text, _index_of(place), "enabled", is_enabled)
        edit.write(_check_text(path, new, origin, is_meant).encode())


@contextmanager
def _naming(problem: str, hint: str, path: Path) -> Iterator[None]:
    """Say of an error in the body what it prevents; a hint of its own stays."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{problem}: {error.message}", error.hint or hint, path=str(path)) from None


@contextmanager
def edit_config(path: Path, environment: Mapping[str, str] = os.environ) -> Iterator[FileEdit]:
    """Open a configuration file, ours or another program's, to read it and write it; meanwhile nobody else edits one.

    Raises:
        ConfigError: It cannot be written, or is a link in a folder.
    """
    try:
        with edit_file(path, find_state_folder(environment), follows_links=_may_be_link(path, environment)) as edit:
            yield edit
    except LinkError as error:
        text = f"{path}: {error.strerror}. Such a file of a folder is not edited: it could lead to any file of yours."
        raise ConfigError(text, "Edit the file that it leads to, or put a copy in its place.", path=str(path)) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", path=str(path)) from None


def _may_be_link(path: Path, environment: Mapping[str, str]) -> bool:
    """Tell whether a file is surely the user's own: at one of the two places for it, or outside of this folder."""
    if str(path) in list_config_paths(environment)[:2] and path.is_absolute():
        return True
    folder = os.path.realpath(path.parent)
    return path.is_absolute() and os.path.commonpath([folder, here := os.path.realpath(".")]) != here


def read_edited(edit: FileEdit, path: Path) -> str:
    """Return the text of a file that is being edited, with its byte order mark; "" if there is none yet."""
    return read_text(str(path), edit.open, "utf-8") if edit.exists() else ""


def plan_entry(text: str, path: Path, root: str, name: str, entry: Mapping[str, Any]) -> tuple[Any, str]:
    """Compute the text of another program's JSON file with an entry; its comments and all else stay.

    Args:
        text: The text of the file; "" if it is missing.
        path: The file, for errors.
        root: Key of the object of servers, which is added if it is missing.
        name: Name of the server.
        entry: The entry, in the keys of that program.

    Returns:
        The entry that it replaces, or None, and the new text.

    Raises:
        ConfigError: The file cannot be edited without losing something.
    """
    text = text if text.strip() else "{}\n"
    document = load_document(text, str(path), build_object)
    servers = document.get(root, {}) if isinstance(document, dict) else None
    if isinstance(servers, dict):
        with suppress(ConfigError, ValueError):  # JSON5, such as names without quotes, is read but not edited
            whole = text if root in document else add_json_member(text, (), root, {})
            new = set_json_member(whole, (root, name), entry)
            expected = {**document, root: {**servers, name: entry}}
            is_whole = list_comments(new) == list_comments(text)
            if is_whole and load_document(new, str(path), build_object) == expected:
                return servers.get(name), new
    text = f'{path}: an entry "{name}" cannot be written into it without losing something, such as a comment.'
    raise ConfigError(text, f"Write it by hand: {json.dumps({name: entry}, ensure_ascii=False)}", path=str(path))


def _names_of(server: ServerConfig) -> tuple[str, str]:
    return server.name, server.original_name


def _index_of(place: str) -> int:
    return int(place.removeprefix("servers[").removesuffix("]"))


def _find_configured(name: str, text: str, path: Path, origin: Origin) -> ServerConfig | SkippedServer | None:
    skipped: list[SkippedServer] = []
    entries: list[ServerConfig | SkippedServer] = [*parse_servers(text, str(path), origin, skipped), *skipped]
    return next((entry for entry in entries if name in (entry.name, entry.original_name)), None)


def _find_place(name: str, text: str, path: Path, origin: Origin) -> str | tuple[str, ...]:
    """Return where the entry of a server is: "servers[0]" in TOML, the keys in JSON. Raises ConfigError."""
    entry = _find_configured(name, text, path, origin)
    if entry is None:
        raise ConfigError("no entry has that name.")
    for root in ROOTS:
        if entry.place.startswith(f"{'.'.join(root)}."):
            return (*root, entry.original_name or entry.name)
    if not entry.place.startswith("servers[") or path.suffix in FOREIGN_SUFFIXES:
        raise ConfigError("the file is written in a way that cannot be edited here.", path=str(path))
    return entry.place


def _check_editable(path: Path) -> None:
    if str(path) == BOARD_SERVER.source:
        hint = f"To switch it off: rkllm-chat mcp disable {BOARD_SERVER.name}"
        raise UsageError("The board server is built in and has no entry.", hint)
    if path.suffix in YAML_SUFFIXES:
        raise ConfigError(f"{path}: YAML files cannot be edited here.", "Change it by hand.", path=str(path))


def _find_root(text: str, path: Path) -> tuple[str, ...]:
    """Return the keys of the object of servers in a JSON file. Raises ConfigError if there is none."""
    _parse_json(text, path)
    plain = blank_comments(text)
    for root in ROOTS:
        if (member := find_member(plain, root)) and plain[member.value_start] == "{":
            return root
    raise ConfigError(f'{path}: no "mcpServers" object.', path=str(path))


def _parse_json(text: str, path: Path) -> Any:
    """Return the content of a JSON file, which may have comments. Raises ConfigError for JSON5."""
    try:
        return json.loads(blank_comments(text))
    except json.JSONDecodeError:  # what is no JSON5 either was refused when the file was read
        raise ConfigError("JSON5 cannot be edited here.", path=str(path)) from None


def _find_entry(text: str, keys: tuple[str, ...], path: Path) -> Mapping[str, Any]:
    entry = _parse_json(text, path)
    for key in keys:
        entry = entry[key]
    return entry if isinstance(entry, dict) else {}


def _read_all(path: Path, text: str, origin: Origin) -> list[ServerConfig]:
    """Return the servers that can be used in a text that is meant for a file."""
    return parse_servers(text, str(path), origin, [])


def _check_text(path: Path, text: str, origin: Origin, is_meant: Callable[[Sequence[ServerConfig]], bool]) -> str:
    """Return a text for a file if its servers are as meant. Raises ConfigError."""
    if not is_meant(_read_all(path, text, origin)):
        raise ConfigError("the file is written in a way that cannot be edited here.", path=str(path))
    return text


def save_setting(table: str, key: str, value: Any, path: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Write one setting into a TOML file, which is created if it is missing.

    Args:
        table: "chat", "expert" or a table of SETTINGS_TABLES.
        key: Key of the table.
        value: A checked value; None, which TOML has not, removes the key.
        path: The file.
        environment: Values for `${VAR}` references.

    Raises:
        ConfigError: The file is invalid or cannot be written, or the value cannot be represented.
    """
    hint, origin = f"Set {key} in [{table}] by hand.", find_origin(str(path), environment)
    if path.suffix in FOREIGN_SUFFIXES:
        raise ConfigError(f"{path}: only TOML files can be edited.", hint, path=str(path))
    with edit_config(path, environment) as edit:
        text = read_edited(edit, path)
        before = read_toml(text, str(path), environment, origin, skips=True)
        part: Any = getattr(before, table, before)
        default = {field.name: field.default for field in fields(part)}[key]
        edited = replace(part, **{key: default if value is None else value})
        expected = edited if part is before else replace(before, **{table: edited})
        for new in _list_edits(text, table, key, value):
            if _parses_to(new, expected, path, environment, origin):
                edit.write(new.encode())
                return
    raise ConfigError(f"{path}: {table}.{key} cannot be changed.", hint, path=str(path))


def _list_edits(text: str, table: str, key: str, value: Any) -> Iterator[str]:
    """Yield the text with the key replaced or removed, added to its table, or added with its table."""
    line = "" if value is None else f"{key} = {render_toml_value(value)}"
    for found in re.finditer(rf"^[ \t]*{key}[ \t]*=", text, re.MULTILINE):
        for end in islice(_VALUE_END.finditer(text, found.end()), _MAX_VALUE_LINES):
            if not _is_value(text[found.end() : end.start()]):
                continue
            rest = text[end.start() :]
            yield text[: found.start()] + (line + rest if line else rest.lstrip(" \t\r").removeprefix("\n"))
    if not line:
        yield text
        return
    for found in re.finditer(rf"^[ \t]*\[[ \t]*{table}[ \t]*\].*", text, re.MULTILINE):
        rest = text[found.end() :]
        yield f"{text[: found.end()]}\n{line}" + (rest or "\n")
    yield f"{text.rstrip()}\n\n[{table}]\n{line}\n".lstrip("\n")


def _is_value(text: str) -> bool:
    """Return whether a text is a whole TOML value, not a part of one that has a line break or a `#`."""
    try:
        return bool(read_toml_tables(f"chat = {text}", ""))
    except ConfigError:
        return False


def _parses_to(text: str, expected: Settings, path: Path, environment: Mapping[str, str], origin: Origin) -> bool:
    try:
        return read_toml(text, str(path), environment, origin, skips=True) == expected
    except ConfigError:
        return False
