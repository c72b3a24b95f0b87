"""Server entries of configuration files, as checked tables: TOML [[servers]] and JSON mcpServers. It opens no file.

An entry is what the file says: nothing is expanded and no default is filled in. `config.py` makes its ServerConfig of
them; the one-shot commands take one as it is, because importing dataclasses alone costs 8 ms (measured).
"""

from __future__ import annotations

import json
import sys

from .errors import ConfigError
from .values import DEEPEST, check_dots, check_keys, check_size, check_values, parse, refuse_duplicates, typed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Table = dict[str, Any]
    Entry = tuple[Table, str]
    """A checked table, and its place in the file."""

MOST_SERVERS = 64
NAME_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")

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
"""The keys of an entry, and what they hold: the fields of ServerConfig but for `source` and `is_project`."""

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
    "is_project": False,
}
"""What an entry means by what it does not say: the defaults of ServerConfig."""

ROOT_TABLES = ("chat", "generation", "rkllm", "openai", "policy", "servers")
JSON_KEYS = {"serverUrl": "url", "type": "transport", "httpUrl": "url"}
SHARED_KEYS = ("sandbox", "network")
"""Other programs have tables under these names, and mean something else."""
TRANSPORT_NAMES = {"streamable-http": "http", "streamableHttp": "http", "streamable_http": "http", "ws": "websocket"}


def read_toml_tables(text: str, source: str) -> Table:
    """The tables of a TOML file, of which nothing is checked but their names."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    check_size(text, source)
    check_dots(text, source)
    tables: Table = parse(tomllib.loads, "TOML", text, source)
    check_keys(tables, ROOT_TABLES, source, "")
    return tables


def read_toml_entries(tables: Table, source: str) -> list[Entry]:
    """The [[servers]] among the tables of a TOML file."""
    found = tables.get("servers", [])
    if not isinstance(found, list):
        raise ConfigError(f"{source}: servers must be written as [[servers]].", path=source)
    entries = [(table, f"servers[{i}]") for i, table in enumerate(found)]
    return check_entries(entries, source)


def read_json_entries(text: str, source: str) -> list[Entry]:
    """The servers in a JSON file with the root key mcpServers, as Claude Desktop, Cursor and others write it."""
    check_size(text, source)
    root = parse(lambda text: json.loads(text, object_pairs_hook=refuse_duplicates), "JSON", text, source)
    found = root.get("mcpServers") if isinstance(root, dict) else None
    if not isinstance(found, dict):
        raise ConfigError(f'{source}: no "mcpServers" object.', 'Try {"mcpServers": {"name": {"command": "..."}}}.')
    return check_entries([(adopt(name, table, source), f"mcpServers.{name}") for name, table in found.items()], source)


def adopt(name: str, table: Any, source: str) -> Table:
    """An entry of mcpServers in our own words. Programs that share the file keep keys of their own in it."""
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: mcpServers.{name} must be an object.", path=source)
    table = {JSON_KEYS.get(key, key): value for key, value in table.items()}
    if "disabled" in table:
        table["enabled"] = not typed(table["disabled"], "bool", source, f"mcpServers.{name}.disabled")
    if isinstance(oauth := table.get("oauth"), dict):
        from .oauth import read_other_names

        table["oauth"] = read_other_names(oauth)
    for key in SHARED_KEYS:
        if isinstance(table.get(key), dict):
            del table[key]
    return {**{key: value for key, value in table.items() if key in SERVER_TYPES}, "name": name}


def check_entries(entries: list[Entry], source: str) -> list[Entry]:
    checked = [(check_entry(table, source, place), place) for table, place in entries]
    names = [table["name"] for table, _ in checked]
    if len(names) > MOST_SERVERS:
        raise ConfigError(f"{source}: {len(names)} servers, at most {MOST_SERVERS} are read.", path=source)
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f'{source}: two servers are called "{name}".', path=source)
    return checked


def check_entry(table: Any, source: str, place: str) -> Table:
    """One entry: a name, either a command or a URL, and every value of the right type and within its range."""
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {place} must be a table.", path=source)
    check_depth(table, source, place)
    entry = take(SERVER_TYPES, table, source, place)
    name, command, url = entry.get("name", ""), entry.get("command", ""), entry.get("url", "")
    if len(name) > 32 or not all(part and NAME_LETTERS.issuperset(part) for part in name.split("_")):
        hint = "Use at most 32 letters, digits, - and single _."
        raise ConfigError(f'{source}: {place}.name "{name}" cannot be a server name.', hint, path=source)
    if bool(command.strip()) == bool(url):
        wanted = "needs a command or a url" if not url else "has both a command and a url; keep one"
        raise ConfigError(f'{source}: server "{name}" {wanted}.', path=source)
    if url and (no_use := [key for key in ("sandbox", "write", "network") if key in entry]):
        hint = "It is for servers that are started by a command."
        raise ConfigError(f"{source}: {place}.{no_use[0]} does nothing for a server behind a URL.", hint, path=source)
    if " " in command and "args" not in table:
        hint = "Write the words behind the first one in args; if it is one path with a blank, write args = []."
        raise ConfigError(f'{source}: the command of server "{name}" holds blanks.', hint, path=source)
    if transport := entry.get("transport"):
        entry["transport"] = TRANSPORT_NAMES.get(transport, transport)
    check_values(entry, source, place)
    return {"name": name, **entry, "source": source}


def merge_entry(near: Table, far: Table | None) -> Table:
    """The nearer entry replaces the other, but env and headers are merged key by key."""
    far = far or {}
    merged: Table = {key: {**far[key], **near.get(key, {})} for key in ("env", "headers") if key in far}
    return {**near, **merged}


def check_depth(value: Any, source: str, place: str, depth: int = 0) -> None:
    if depth > DEEPEST:
        raise ConfigError(f"{source}: {place.partition('[')[0]} is nested too deep.", path=source)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            check_depth(item, source, place, depth + 1)


def take(types: Mapping[str, str], table: Any, source: str, place: str, known: Iterable[str] = ()) -> Table:
    """The keys of a table that `types` has, each of the right type; an unknown key or a wrong type is an error."""
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: [{place}] must be a table.", path=source)
    check_keys(table, tuple(known) or tuple(types), source, place)
    return {key: typed(value, types[key], source, f"{place}.{key}") for key, value in table.items()}
