"""Writes into a configuration file: a server is put behind what is there, or taken out. The rest stays to the byte.

What has been written is read before it is kept, so a file never becomes one that cannot be read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from .config import ServerConfig, Settings, read_toml
from .discover import read_settings
from .errors import ConfigError

CONFIG = Path("mcp_config.toml")
HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def entry_of(server: ServerConfig) -> str:
    """The entry of a server that has a name and a command, or a URL. Raises ConfigError if it cannot be written."""
    lines = ["[[servers]]", f"name = {quote(server.name)}"]
    if server.url:
        lines.append(f"url = {quote(server.url)}")
    else:
        lines.append(f"command = {quote(server.command)}")
        lines += [f"args = [{', '.join(map(quote, server.args))}]"] if server.args else []
    entry = "\n".join(lines) + "\n"
    try:
        found = read_toml(entry.encode().decode(), "", {}).servers
    except UnicodeError:
        found = ()
    if [replace(one, source="") for one in found] != [replace(server, source="")]:
        raise ConfigError(f'Server "{server.name}" cannot be written in a configuration.', "It holds odd characters.")
    return entry


def quote(text: str) -> str:
    """A TOML string: as in JSON, but that DEL is escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def plan_addition(entry: str, name: str, path: Path = CONFIG, environment: Mapping[str, str] = os.environ) -> str:
    """What is to be put behind a configuration's text, so that it names the server too.

    Raises ConfigError where that cannot be: the file is wrong, has such a server, or does not use [[servers]].
    """
    servers: tuple[ServerConfig, ...] = ()
    text = ""
    if path.exists():
        servers, text = read_settings(path, environment).servers, path.read_text(encoding="utf-8-sig")
    if any(server.name == name for server in servers):
        raise ConfigError(f'{path}: there is a server "{name}" already.', "Take another name.", path=str(path))
    addition = "\n" * bool(text and not text.endswith("\n")) + "\n" * bool(text) + entry
    try:
        read_toml(text + addition, str(path), environment)
    except ConfigError as error:
        hint = f"Put it there by hand:\n\n{entry}"
        raise ConfigError(f"{path}: no server can be added ({error.message})", hint, path=str(path)) from None
    return addition


def add(addition: str, path: Path = CONFIG) -> None:
    """Writes it behind what is there. Raises ConfigError."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(addition)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", path=str(path)) from None


def remove(name: str, path: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Takes the table of a server out of a TOML file. Raises ConfigError where it is not plainly there."""
    hint = f'Take "{name}" out by hand.'
    if path.suffix == ".json" or not path.is_file():
        raise ConfigError(f"{path}: only a TOML file is written by this program.", hint, path=str(path))
    before, text = read_settings(path, environment), path.read_text(encoding="utf-8")
    wanted = replace(before, servers=tuple(one for one in before.servers if one.name != name))
    starts = [match.start() for match in HEADER.finditer(text)] + [len(text)]
    for start, end in combinations(starts, 2):  # the entry may have tables of its own behind it
        rest = text[:start] + text[end:]
        if text[start:end].lstrip().startswith("[[servers]]") and reads_as(rest, wanted, path, environment):
            write(path, rest)
            return
    raise ConfigError(f'{path}: the entry of server "{name}" was not found.', hint, path=str(path))


def reads_as(text: str, wanted: Settings, path: Path, environment: Mapping[str, str]) -> bool:
    try:
        return read_toml(text, str(path), environment) == wanted
    except ConfigError:
        return False


def write(path: Path, text: str) -> None:
    """Replaces a file in one step, with the rights it has. Raises ConfigError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.chmod(path.stat().st_mode & 0o777)
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", path=str(path)) from None
    finally:
        beside.unlink(missing_ok=True)
