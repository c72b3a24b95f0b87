"""Change servers and settings in a configuration file; all other bytes stay as they are.

The new text is parsed before it is written, so an edit never makes a file invalid.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from ..core.private_files import make_folder
from .files import find_origin
from .loader import read_settings
from .servers import read_toml_tables
from .settings import ServerConfig, Settings, read_toml
from .trust_rules import Origin

DEFAULT_CONFIG_PATH = Path("mcp_config.toml")
BOARD_ENTRY = '[[servers]]\nname = "board"\ncommand = "rkllm-chat"\nargs = ["serve", "board"]\ntrust = "trusted"\n'
"""Entry of the board server that ships, which is used without an entry only if no file defines a server."""
_VALUE_END = re.compile(r"(?=[ \t]*#|[ \t\r]*$)", re.MULTILINE)
_MAX_VALUE_LINES = 100
_TABLE_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def render_entry(server: ServerConfig) -> str:
    """Render the TOML entry of a server with a name and either a command or a URL.

    Raises:
        ConfigError: The server cannot be represented.
    """
    lines = ["[[servers]]", f"name = {_quote(server.name)}"]
    if server.url:
        lines.append(f"url = {_quote(server.url)}")
    else:
        lines.append(f"command = {_quote(server.command)}")
        lines += [f"args = [{', '.join(map(_quote, server.args))}]"] if server.args else []
    entry = "\n".join(lines) + "\n"
    try:
        parsed = read_toml(entry.encode().decode(), "", {}).servers
    except UnicodeError:
        parsed = ()
    if [replace(parsed_server, source="") for parsed_server in parsed] != [replace(server, source="")]:
        raise ConfigError(
            f'Server "{server.name}" cannot be written to a configuration file.',
            "Its values contain characters that TOML cannot represent.",
        )
    return entry


def _quote(text: str) -> str:
    """Quote a TOML string: like JSON, but DEL is escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def plan_addition(
    entry: str, name: str, path: Path = DEFAULT_CONFIG_PATH, environment: Mapping[str, str] = os.environ
) -> str:
    """Return the text to append to a configuration file so that it defines the server.

    Args:
        entry: TOML entry, from `render_entry`.
        name: Name of the server.
        path: Configuration file; may be missing.
        environment: Values for `${VAR}` references.

    Raises:
        ConfigError: The file is invalid, already has such a server, or does not use [[servers]].
    """
    servers: tuple[ServerConfig, ...] = ()
    text = ""
    if path.exists():
        settings = read_settings(path, environment, find_origin(str(path), environment))
        servers, text = settings.servers, path.read_text(encoding="utf-8-sig")
    if any(server.name == name for server in servers):
        raise ConfigError(f'{path}: there is a server "{name}" already.', "Choose another name.", path=str(path))
    addition = "\n" * bool(text and not text.endswith("\n")) + "\n" * bool(text) + entry
    try:
        read_toml(text + addition, str(path), environment, find_origin(str(path), environment))
    except ConfigError as error:
        hint = f"Add this entry by hand:\n\n{entry}"
        raise ConfigError(f"{path}: no server can be added ({error.message})", hint, path=str(path)) from None
    return addition


def append_entry(addition: str, path: Path = DEFAULT_CONFIG_PATH) -> None:
    """Append text to the configuration file; raise ConfigError if it cannot be written."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(addition)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", path=str(path)) from None


def remove_server(name: str, path: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Remove the table of a server from a TOML file.

    Raises:
        ConfigError: The file is not TOML, or the entry cannot be located unambiguously.
    """
    hint, origin = f'Remove "{name}" by hand.', find_origin(str(path), environment)
    if path.suffix == ".json" or not path.is_file():
        raise ConfigError(f"{path}: only TOML files can be edited.", hint, path=str(path))
    before, text = read_settings(path, environment, origin), path.read_bytes().decode()
    expected = replace(before, servers=tuple(server for server in before.servers if server.name != name))
    table_starts = [match.start() for match in _TABLE_HEADER.finditer(text)] + [len(text)]
    for start, end in combinations(table_starts, 2):  # subtables of the entry may follow it
        rest = text[:start] + text[end:]
        if text[start:end].lstrip().startswith("[[servers]]") and _parses_to(rest, expected, path, environment, origin):
            _write(path, rest)
            return
    raise ConfigError(f'{path}: the entry of server "{name}" was not found.', hint, path=str(path))


def save_setting(table: str, key: str, value: Any, path: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Write one setting into a TOML file, which is created if it is missing.

    Args:
        table: "chat" or a table of SETTINGS_TABLES.
        key: Key of the table.
        value: A checked value; None, which TOML has not, removes the key.
        path: The file.
        environment: Values for `${VAR}` references.

    Raises:
        ConfigError: The file is invalid or cannot be written, or the value cannot be represented.
    """
    hint, origin = f"Set {key} in [{table}] by hand.", find_origin(str(path), environment)
    if path.suffix == ".json":
        raise ConfigError(f"{path}: only TOML files can be edited.", hint, path=str(path))
    text = path.read_bytes().decode() if path.exists() and read_settings(path, environment, origin) else ""
    before = read_toml(text, str(path), environment, origin)
    part: Any = before if table == "chat" else getattr(before, table)
    default = {field.name: field.default for field in fields(part)}[key]
    changes: dict[str, Any] = {key: default if value is None else value}
    if table != "chat":
        changes = {table: replace(part, **changes)}
    expected = replace(before, **changes)
    for new in _list_edits(text, table, key, value):
        if _parses_to(new, expected, path, environment, origin):
            _write(path, new)
            return
    raise ConfigError(f"{path}: {table}.{key} cannot be changed.", hint, path=str(path))


def _list_edits(text: str, table: str, key: str, value: Any) -> Iterator[str]:
    """Yield the text with the key replaced or removed, added to its table, or added with its table."""
    line = "" if value is None else f"{key} = {_render_value(value)}"
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


def _render_value(value: Any) -> str:
    """Render a TOML value."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_quote, value))}]"
    return _quote(value) if isinstance(value, str) else json.dumps(value)


def _parses_to(text: str, expected: Settings, path: Path, environment: Mapping[str, str], origin: Origin) -> bool:
    try:
        return read_toml(text, str(path), environment, origin) == expected
    except ConfigError:
        return False


def _write(path: Path, text: str) -> None:
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
        temporary.unlink(missing_ok=True)
