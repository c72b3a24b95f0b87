"""Change servers and settings in a configuration file; all other bytes stay as they are.

The new text is parsed before it is written, so an edit never makes a file invalid.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from ..core.private_files import make_folder
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
from .files import FOREIGN_SUFFIXES, find_origin, find_own_file, find_single_file, list_config_paths, read_servers
from .foreign_entries import ROOTS
from .loader import read_settings
from .servers import (
    YAML_SUFFIXES,
    SkippedServer,
    decode_server,
    load_document,
    make_slug,
    read_json_servers,
    read_toml_servers,
    read_toml_tables,
)
from .settings import ServerConfig, Settings, read_toml
from .source_text import blank_comments, find_member, list_comments
from .trust_rules import Origin

DEFAULT_CONFIG_PATH = Path("mcp_config.toml")
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
    """
    _check_editable(path)
    origin = find_origin(str(path), environment)
    is_json = path.suffix in FOREIGN_SUFFIXES  # whose names other programs read, too
    table = {**entry, **({"name": make_slug(str(entry["name"]))} if is_json else {})}
    server = decode_server(table, str(path), f"server {entry['name']}", origin)
    if path.exists() and _find_configured(str(entry["name"]), path, origin):
        raise ConfigError(f'{path}: there is a server "{server.name}" already.', "Choose another name.", path=str(path))
    if not is_json:
        text = path.read_bytes().decode() if path.exists() else ""
        line_break = "\r\n" if "\r\n" in text else "\n"
        gap = line_break * (bool(text.strip()) + bool(text and not text.endswith("\n")))
        new = text + gap + render_toml_entry(entry).replace("\n", line_break)
    else:
        text = path.read_bytes().decode() if path.exists() else '{\n  "mcpServers": {}\n}\n'
        if not json.loads(blank_comments(text)):
            text = add_json_member(text, (), "mcpServers", {})
        values = {_JSON_KEYS.get(key, key): value for key, value in entry.items() if key != "name"}
        new = add_json_member(text, _find_root(text, path), str(entry["name"]), values)
    _write_checked(path, new, origin, lambda servers: any(found.name == server.name for found in servers))


def remove_server(name: str, path: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Remove a server from a configuration file.

    Raises:
        ConfigError: The file has no such entry, or the entry is not in a table of its own.
    """
    _check_editable(path)
    origin = find_origin(str(path), environment)
    try:
        place, text = _find_place(name, path, origin), path.read_bytes().decode()
        new = remove_json_member(text, place) if isinstance(place, tuple) else remove_toml_entry(text, _index_of(place))
        left = [one for one in _read_all(path, text, origin) if name not in _names_of(one)]
        _write_checked(path, new, origin, lambda servers: [*servers] == left)
    except ConfigError as error:
        text = f'{path}: the entry of server "{name}" cannot be removed: {error.message}'
        raise ConfigError(text, f'Remove "{name}" by hand.', path=str(path)) from None


def set_enabled(name: str, is_enabled: bool, path: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Enable or disable a server in a configuration file.

    Raises:
        ConfigError: The file has no such entry, or it cannot be changed there.
    """
    _check_editable(path)
    origin = find_origin(str(path), environment)
    try:
        place, text = _find_place(name, path, origin), path.read_bytes().decode()
        if isinstance(place, tuple):
            entry = _find_entry(text, place)
            key = next((one for one in ("disabled", "enabled", "isActive") if one in entry), "disabled")
            new = set_json_member(text, (*place, key), is_enabled != (key == "disabled"))
        else:
            new = set_toml_key(text, _index_of(place), "enabled", is_enabled)

        def is_meant(servers: Sequence[ServerConfig]) -> bool:
            return any(name in _names_of(one) and one.enabled is is_enabled for one in servers)

        _write_checked(path, new, origin, is_meant)
    except ConfigError as error:
        verb = "enabled" if is_enabled else "disabled"
        text = f'{path}: server "{name}" cannot be {verb}: {error.message}'
        raise ConfigError(text, "Change its entry by hand.", path=str(path)) from None


def plan_entry(path: Path, root: str, name: str, entry: Mapping[str, Any]) -> tuple[Any, str]:
    """Compute the text of another program's JSON file with an entry; its comments and all else stay.

    Args:
        path: The file; it may be missing.
        root: Key of the object of servers, which is added if it is missing.
        name: Name of the server.
        entry: The entry, in the keys of that program.

    Returns:
        The entry that it replaces, or None, and the text, for `write_text`.

    Raises:
        ConfigError: The file cannot be read, or not be edited without losing something.
    """
    try:
        text = path.read_bytes().decode() if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}.", path=str(path)) from None
    text = text if text.strip() else "{}\n"
    document = load_document(text, str(path), build_object)
    servers = document.get(root, {}) if isinstance(document, dict) else None
    if isinstance(servers, dict):
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


def _find_configured(name: str, path: Path, origin: Origin) -> ServerConfig | SkippedServer | None:
    skipped: list[SkippedServer] = []
    entries: list[ServerConfig | SkippedServer] = [*read_servers(str(path), origin, skipped), *skipped]
    return next((entry for entry in entries if name in (entry.name, entry.original_name)), None)


def _find_place(name: str, path: Path, origin: Origin) -> str | tuple[str, ...]:
    """Return where the entry of a server is: "servers[0]" in TOML, the keys in JSON. Raises ConfigError."""
    entry = _find_configured(name, path, origin)
    if entry is None:
        raise ConfigError("no entry has that name.")
    for root in ROOTS:
        if entry.place.startswith(f"{'.'.join(root)}."):
            return (*root, entry.original_name or entry.name)
    if not entry.place.startswith("servers[") or path.suffix in FOREIGN_SUFFIXES:
        raise ConfigError("the file is written in a way that cannot be edited here.", path=str(path))
    return entry.place


def _check_editable(path: Path) -> None:
    if path.suffix in YAML_SUFFIXES:
        raise ConfigError(f"{path}: YAML files cannot be edited here.", "Change it by hand.", path=str(path))


def _find_root(text: str, path: Path) -> tuple[str, ...]:
    """Return the keys of the object of servers in a JSON file. Raises ConfigError if there is none."""
    plain = blank_comments(text)
    for root in ROOTS:
        if (member := find_member(plain, root)) and plain[member.value_start] == "{":
            return root
    raise ConfigError(f'{path}: no "mcpServers" object.', path=str(path))


def _find_entry(text: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
    entry = json.loads(blank_comments(text))
    for key in keys:
        entry = entry[key]
    return entry if isinstance(entry, dict) else {}


def _read_all(path: Path, text: str, origin: Origin) -> list[ServerConfig]:
    """Return the servers that can be used in a text that is meant for a file."""
    if path.suffix in FOREIGN_SUFFIXES:
        return read_json_servers(text.removeprefix("\ufeff"), str(path), origin, [])
    return read_toml_servers(read_toml_tables(text, str(path)), str(path), origin, [])


def _write_checked(path: Path, text: str, origin: Origin, is_meant: Callable[[Sequence[ServerConfig]], bool]) -> None:
    """Write a file if its servers are as meant. Raises ConfigError."""
    if not is_meant(_read_all(path, text, origin)):
        raise ConfigError("the file is written in a way that cannot be edited here.", path=str(path))
    write_text(path, text)


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
    text = path.read_bytes().decode() if path.exists() and read_settings(path, environment, origin) else ""
    before = read_toml(text, str(path), environment, origin, skips=True)
    part: Any = getattr(before, table, before)
    default = {field.name: field.default for field in fields(part)}[key]
    edited = replace(part, **{key: default if value is None else value})
    expected = edited if part is before else replace(before, **{table: edited})
    for new in _list_edits(text, table, key, value):
        if _parses_to(new, expected, path, environment, origin):
            write_text(path, new)
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


def write_text(path: Path, text: str) -> None:
    """Write a file atomically; it keeps its mode, and a new one can be read by its user alone.

    Raises:
        ConfigError: The file cannot be written.
    """
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        make_folder(path.parent)
        temporary.touch(mode=0o600)
        temporary.write_bytes(text.encode())
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o600)
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", path=str(path)) from None
    finally:
        with suppress(OSError):  # the folder may be on a read-only file system, or no folder
            temporary.unlink(missing_ok=True)
