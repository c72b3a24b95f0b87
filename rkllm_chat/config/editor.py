"""Add servers to and remove them from a configuration file; all other bytes stay as they are.

The new text is parsed before it is written, so an edit never makes a file invalid.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from ..core.errors import ConfigError
from .files import find_origin
from .loader import read_settings
from .settings import ServerConfig, Settings, read_toml
from .trust_rules import Origin

DEFAULT_CONFIG_PATH = Path("mcp_config.toml")
BOARD_ENTRY = '[[servers]]\nname = "board"\ncommand = "rkllm-chat"\nargs = ["serve", "board"]\ntrust = "trusted"\n'
"""Entry of the board server that ships, which is used without an entry only if no file defines a server."""
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
    before, text = read_settings(path, environment, origin), path.read_text(encoding="utf-8")
    expected = replace(before, servers=tuple(server for server in before.servers if server.name != name))
    table_starts = [match.start() for match in _TABLE_HEADER.finditer(text)] + [len(text)]
    for start, end in combinations(table_starts, 2):  # subtables of the entry may follow it
        rest = text[:start] + text[end:]
        if text[start:end].lstrip().startswith("[[servers]]") and _parses_to(rest, expected, path, environment, origin):
            _replace(path, rest)
            return
    raise ConfigError(f'{path}: the entry of server "{name}" was not found.', hint, path=str(path))


def _parses_to(text: str, expected: Settings, path: Path, environment: Mapping[str, str], origin: Origin) -> bool:
    try:
        return read_toml(text, str(path), environment, origin) == expected
    except ConfigError:
        return False


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically and keep its mode.

    Raises:
        ConfigError: The file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", path=str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
