"""Parse and validate server entries: TOML [[servers]] and JSON mcpServers. Opens no file.

An entry contains what the file says: variables are not expanded and defaults are not filled in. `settings` builds
ServerConfig objects from entries; one-shot commands use them directly, because importing dataclasses costs 8 ms
(measured).
"""

from __future__ import annotations

import json
import sys

from ..core.errors import ConfigError
from .trust_rules import Origin, inherits
from .value_checks import (
    MAX_DEPTH,
    build_unique_object,
    check_dotted_keys,
    check_keys,
    check_size,
    check_values,
    convert_value,
    parse_document,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Table = dict[str, Any]
    Entry = tuple[Table, str]
    """A validated table and its place in the file, such as "servers[0]"."""

MAX_SERVERS = 64
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")

SERVER_TYPES = {
    "name": "str",
    "command": "str",
    "args": "tuple[str, ...]",
    "env": "Mapping[str, str]",
    "cwd": "str",
    "url": "str",
    "headers": "Mapping[str, str]",
    "allow_insecure": "bool",
    "oauth": "OAuth",
    "transport": "str",
    "timeout_s": "float",
    "connect_s": "float",
    "ping_s": "float",
    "idle_s": "float",
    "log_level": "LogLevel",
    "enabled": "bool",
    "trust": "str",
    "sandbox": "str",
    "write": "tuple[str, ...] | None",
    "network": "bool | None",
    "tools_allow": "tuple[str, ...]",
    "tools_deny": "tuple[str, ...]",
}
"""Keys of an entry and their types: the fields of ServerConfig except `source`, `origin` and `replaces`."""

SERVER_DEFAULTS: Table = {
    **{name: () if kind.startswith("tuple") else "" for name, kind in SERVER_TYPES.items()},
    "env": {},
    "headers": {},
    "allow_insecure": False,
    "oauth": {},
    "timeout_s": 60.0,
    "connect_s": 30.0,
    "ping_s": 30.0,
    "idle_s": 0.0,
    "log_level": "warning",
    "enabled": True,
    "trust": "ask",
    "sandbox": "auto",
    "write": None,
    "network": None,
    "source": "",
    "origin": Origin.USER,
    "replaces": "",
}
"""Defaults of missing keys, equal to those of ServerConfig."""

_ROOT_TABLES = ("chat", "generation", "rkllm", "openai", "policy", "servers")
_JSON_KEYS = {"serverUrl": "url", "type": "transport", "httpUrl": "url"}
"""Keys of other programs in mcpServers -> our keys."""
_FOREIGN_TABLES = ("sandbox", "network")
"""Keys under which other programs keep tables with another meaning; these are ignored."""
_TRANSPORT_ALIASES = {"streamable-http": "http", "streamableHttp": "http", "streamable_http": "http", "ws": "websocket"}


def read_toml_tables(text: str, source: str) -> Table:
    """Parse a TOML file; only the names of its tables are validated."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    check_size(text, source)
    check_dotted_keys(text, source)
    tables: Table = parse_document(tomllib.loads, "TOML", text, source)
    check_keys(tables, _ROOT_TABLES, source, "")
    return tables


def read_toml_entries(tables: Table, source: str) -> list[Entry]:
    """Validate the [[servers]] among the tables of a TOML file."""
    tables_found = tables.get("servers", [])
    if not isinstance(tables_found, list):
        raise ConfigError(f"{source}: servers must be written as [[servers]].", path=source)
    entries = [(table, f"servers[{i}]") for i, table in enumerate(tables_found)]
    return _check_entries(entries, source)


def read_json_entries(text: str, source: str) -> list[Entry]:
    """Parse the servers of a JSON file with the root key mcpServers (Claude Desktop, Cursor and others)."""
    check_size(text, source)
    root = parse_document(lambda text: json.loads(text, object_pairs_hook=build_unique_object), "JSON", text, source)
    servers = root.get("mcpServers") if isinstance(root, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f'{source}: no "mcpServers" object.', 'Try {"mcpServers": {"name": {"command": "..."}}}.')
    return _check_entries(
        [(_from_json_entry(name, table, source), f"mcpServers.{name}") for name, table in servers.items()], source
    )


def _from_json_entry(name: str, table: Any, source: str) -> Table:
    """Translate an mcpServers entry to our keys; unknown keys belong to other programs and are dropped."""
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: mcpServers.{name} must be an object.", path=source)
    table = {_JSON_KEYS.get(key, key): value for key, value in table.items()}
    if "disabled" in table:
        table["enabled"] = not convert_value(table["disabled"], "bool", source, f"mcpServers.{name}.disabled")
    if isinstance(oauth := table.get("oauth"), dict):
        from .oauth import translate_keys

        table["oauth"] = translate_keys(oauth)
    for key in _FOREIGN_TABLES:
        if isinstance(table.get(key), dict):
            del table[key]
    return {**{key: value for key, value in table.items() if key in SERVER_TYPES}, "name": name}


def _check_entries(entries: list[Entry], source: str) -> list[Entry]:
    checked = [(check_entry(table, source, place), place) for table, place in entries]
    names = [table["name"] for table, _ in checked]
    if len(names) > MAX_SERVERS:
        raise ConfigError(f"{source}: {len(names)} servers, at most {MAX_SERVERS} are read.", path=source)
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f'{source}: two servers have the name "{name}".', path=source)
    return checked


def check_entry(table: Any, source: str, place: str) -> Table:
    """Validate one entry: its name, a command or a URL, and type and range of every value.

    Returns:
        The validated entry with `name` and `source`.

    Raises:
        ConfigError: The entry is invalid.
    """
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {place} must be a table.", path=source)
    _check_depth(table, source, place)
    entry = select_keys(SERVER_TYPES, table, source, place)
    name, command, url = entry.get("name", ""), entry.get("command", ""), entry.get("url", "")
    if len(name) > 32 or not all(part and _NAME_CHARACTERS.issuperset(part) for part in name.split("_")):
        hint = "Use at most 32 letters, digits, - and single _."
        raise ConfigError(f'{source}: {place}.name "{name}" cannot be a server name.', hint, path=source)
    if bool(command.strip()) == bool(url):
        problem = "needs a command or a url" if not url else "has both a command and a url; keep one"
        raise ConfigError(f'{source}: server "{name}" {problem}.', path=source)
    if url and (unused := [key for key in ("sandbox", "write", "network") if key in entry]):
        hint = "The key is only valid for servers with a command."
        raise ConfigError(f"{source}: {place}.{unused[0]} has no effect for a server with a URL.", hint, path=source)
    if " " in command and "args" not in table:
        hint = "Move the arguments to args; if the command is a path with a space, set args = []."
        raise ConfigError(f'{source}: the command of server "{name}" contains spaces.', hint, path=source)
    if unusable := [variable for variable in entry.get("env", {}) if not variable or "=" in variable]:
        text = f'{source}: {place}.env contains "{unusable[0]}", which cannot be the name of a variable.'
        raise ConfigError(text, path=source)
    if transport := entry.get("transport"):
        entry["transport"] = _TRANSPORT_ALIASES.get(transport, transport)
    check_values(entry, source, place)
    return {"name": name, **entry, "source": source}


def merge_entry(override: Table, base: Table | None) -> Table:
    """Return the nearer entry with env and headers merged by key into those of the farther one.

    An entry of a project gets nothing of the user's own: it would take the values to a command or URL of its choice.
    """
    base = base if base and inherits(override.get("origin", Origin.USER), base.get("origin", Origin.USER)) else {}
    merged: Table = {key: {**base[key], **override.get(key, {})} for key in ("env", "headers") if key in base}
    return {**override, **merged}


def _check_depth(value: Any, source: str, place: str, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise ConfigError(f"{source}: {place.partition('[')[0]} is nested too deep.", path=source)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, source, place, depth + 1)


def select_keys(types: Mapping[str, str], table: Any, source: str, place: str, known: Iterable[str] = ()) -> Table:
    """Select the keys of a table that `types` has, with validated types.

    Args:
        types: Type by key.
        table: Table of the file.
        source: Path of the file for error messages.
        place: Place of the table for error messages.
        known: Accepted keys; those of `types` if empty.

    Raises:
        ConfigError: A key is unknown or has the wrong type.
    """
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: [{place}] must be a table.", path=source)
    check_keys(table, tuple(known) or tuple(types), source, place)
    return {key: convert_value(value, types[key], source, f"{place}.{key}") for key, value in table.items()}
