"""Server entries of configuration files, as checked tables: TOML [[servers]] and JSON mcpServers. It opens no file.

An entry is what the file says: nothing is expanded and no default is filled in. `config.py` makes its ServerConfig of
them; the one-shot commands take one as it is, because importing dataclasses alone costs 8 ms (measured).
"""

from __future__ import annotations

import json
import re
import sys

from .errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Table = dict[str, Any]
    Entry = tuple[Table, str]
    """A checked table, and its place in the file."""

LARGEST_FILE = 256 * 1024
MOST_SERVERS = 64
MOST_DOTS = 16
DEEPEST = 32
NAME_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
VARIABLE = r"\$\{(\w+)(?::-([^}]*))?\}"

SERVER_TYPES = {
    "name": "str",
    "command": "str",
    "args": "tuple[str, ...]",
    "env": "Mapping[str, str]",
    "cwd": "str",
    "url": "str",
    "headers": "Mapping[str, str]",
    "oauth": "OAuth",
    "transport": "str",
    "timeout_s": "float",
    "connect_s": "float",
    "ping_s": "float",
    "idle_s": "float",
    "log_level": "LogLevel",
    "enabled": "bool",
    "trust": "str",
    "tools_allow": "tuple[str, ...]",
    "tools_deny": "tuple[str, ...]",
}
"""The keys of an entry, and what they hold: the fields of ServerConfig but for `source`."""

SERVER_DEFAULTS: Table = {
    **{name: () if kind.startswith("tuple") else "" for name, kind in SERVER_TYPES.items()},
    "env": {},
    "headers": {},
    "oauth": {},
    "timeout_s": 60.0,
    "connect_s": 30.0,
    "ping_s": 30.0,
    "idle_s": 0.0,
    "log_level": "warning",
    "enabled": True,
    "trust": "ask",
    "source": "",
}
"""What an entry means by what it does not say: the defaults of ServerConfig."""

ROOT_TABLES = ("chat", "generation", "rkllm", "policy", "servers")
JSON_KEYS = {"serverUrl": "url", "type": "transport", "httpUrl": "url"}
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


def expand(value: Any, environment: Mapping[str, str], source: str, place: str, depth: int = 0) -> Any:
    """`${VAR}` and `${VAR:-default}` in every text of a value; a missing variable is an error that names it."""
    if depth > DEEPEST:
        raise ConfigError(f"{source}: {place.partition('[')[0]} is nested too deep.", path=source)
    if isinstance(value, dict):
        return {
            key: expand(item, environment, source, f"{place}.{key}".lstrip("."), depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(
            expand(item, environment, source, f"{place}[{i}]", depth + 1) for i, item in enumerate(value)
        )
    if not isinstance(value, str):
        return value
    if "\0" in value:
        raise ConfigError(f"{source}: {place} holds a NUL character.", path=source)

    def fill(match: re.Match[str]) -> str:
        found = environment.get(match[1]) or match[2]
        if found is None:
            hint = f"Set it, or write ${{{match[1]}:-default}}."
            raise ConfigError(f"{source}: {place} needs the variable {match[1]}, which is not set.", hint, path=source)
        return found

    return re.sub(VARIABLE, fill, value) if "${" in value else value


READERS: dict[str, tuple[str, Callable[[Any], bool], Callable[[Any], Any]]] = {
    "str": ("a text", lambda value: isinstance(value, str), str),
    "LogLevel": ("a text", lambda value: isinstance(value, str), str),
    "Mode": ("a text", lambda value: isinstance(value, str), str),
    "bool": ("true or false", lambda value: isinstance(value, bool), bool),
    "int": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool), int),
    "float": ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool), float),
    "tuple[str, ...]": (
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
        tuple,
    ),
    "Mapping[str, str]": (
        "a table of texts",
        lambda value: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
        dict,
    ),
    "OAuth": ("a table", lambda value: isinstance(value, dict), dict),
}


def typed(value: Any, kind: str, source: str, place: str) -> Any:
    wanted, fits, convert = READERS[kind.removesuffix(" | None")]
    if not fits(value):
        raise ConfigError(
            f"{source}: {place} must be {wanted}{show(value, kind, place)}.", path=source, expected=wanted
        )
    try:
        return convert(value)
    except OverflowError:
        raise ConfigError(f"{source}: {place} is too large a number.", path=source) from None


def show(value: Any, kind: str, place: str) -> str:
    """A wrong value for an error; nothing where there may be a secret in it."""
    from .oauth import SECRETS

    is_safe = kind not in ("Mapping[str, str]", "OAuth") and not place.endswith(SECRETS)
    return f", not {value!r}" if is_safe and not isinstance(value, dict | list) else ""


def check_keys(table: Mapping[str, Any], known: tuple[str, ...], source: str, place: str) -> None:
    for key in table:
        if key not in known:
            from difflib import get_close_matches

            near = get_close_matches(key, known, n=1)
            hint = f'Did you mean "{near[0]}"?' if near else f"Known are {', '.join(known)}."
            where = f"{place}.{key}" if place else key
            raise ConfigError(f'{source}: unknown key "{where}".', hint, path=source)


# What a number may be, both ends included.
RANGES: dict[str, tuple[float, float]] = {
    "timeout_s": (0.001, 86_400),
    "connect_s": (0.001, 86_400),
    "ping_s": (0, 86_400),
    "idle_s": (0, 86_400),
    "max_steps": (1, 1000),
    "context_tokens": (0, 1_000_000),
    "max_tokens": (1, 1_000_000),
    "temperature": (0, 100),
    "top_k": (0, 1_000_000),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repeat_penalty": (0, 100),
    "base_domain_id": (0, 15),
    "lora_scale": (0, 100),
}


# What a text may be.
CHOICES: dict[str, tuple[str, ...]] = {
    "approve": ("ask", "read-only", "all", "none"),
    "log_level": ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"),
    "history": ("auto", "client", "runtime"),
    "thinking": ("auto", "on", "off"),
    "trust": ("off", "ask", "trusted"),
}


def check_values(table: Mapping[str, Any], source: str, place: str) -> None:
    """Numbers within their ranges, texts among their choices."""
    for key, known in CHOICES.items():
        if key in table and table[key] not in known:
            raise ConfigError(
                f'{source}: {place}.{key} is "{table[key]}".', f"Known are {', '.join(known)}.", path=source
            )
    for key, (least, most) in RANGES.items():
        if key in table and not least <= table[key] <= most:
            raise ConfigError(f"{source}: {place}.{key} must be from {least:g} to {most:g}.", path=source)


def parse(loads: Callable[[str], Any], language: str, text: str, source: str) -> Any:
    try:
        return loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ConfigError(f"{source}: not valid {language}: nested too deep.", path=source) from None
    except ValueError as error:
        raise ConfigError(f"{source}: not valid {language}: {error}.", "Nothing of it was used.", path=source) from None


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    for key in value:
        if len(value) < len(pairs) and [name for name, _ in pairs].count(key) > 1:
            raise ValueError(f'the key "{key}" stands twice in one object')
    return value


def check_size(text: str, source: str) -> None:
    if len(text) > LARGEST_FILE:
        raise ConfigError(f"{source}: larger than {LARGEST_FILE // 1024} KiB.", path=source)


def check_dots(text: str, source: str) -> None:
    """Bounds what tomllib is given: it takes 13.8 s for a dotted key of 40 kB (measured). Values are not looked at."""
    if text.count(".") <= MOST_DOTS:
        return
    value_or_comment = r""""{3}(?:\\.|[^\\])*?"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*"""
    bare = re.sub(value_or_comment, "x", text, flags=re.DOTALL)
    if any(part.count(".") > MOST_DOTS for part in re.split(r"[=,\[\]{}\n]", bare)):
        raise ConfigError(f"{source}: a key has more than {MOST_DOTS} dots.", path=source)
