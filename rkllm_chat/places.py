"""Where configuration and state of this user are, and the server entries found there, read as quickly as can be.

`discover.py` reads the same files for the chat, whole. Here only the servers count: nothing else in the files is
checked, and only the server that is asked for has its variables expanded.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

from .entries import SERVER_DEFAULTS, merge_entry, read_json_entries, read_toml_entries, read_toml_tables
from .errors import ConfigError, ServerNotFoundError
from .values import expand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .config import ServerConfig

HOME_FILES = (".mcp.json", ".config/rkllm-chat/config.toml")
FOLDER_FILES = (".claude/mcp.json", "mcp.json", "mcp_servers.json", "mcp_config.toml")
CONFIG_VARIABLE = "RKLLM_CHAT_CONFIG"
LOGINS = "logins"
"""The folder of what is kept of them, beside that of the servers' logs."""
BOARD: dict[str, Any] = {
    "name": "board",
    "command": "rkllm-chat",
    "args": ("serve", "board"),
    "trust": "trusted",
    "source": "built in",
}
"""The server that ships, used where no file names one."""


class Found:
    """The servers of the files: name -> entry and its place. `searched` are the files that were looked for."""

    def __init__(self, searched: list[str]) -> None:
        self.searched = searched
        self.entries: dict[str, tuple[dict[str, Any], str]] = {}

    def get(self, name: str) -> tuple[dict[str, Any], str]:
        """An entry and its place. Raises ServerNotFoundError."""
        if name in self.entries:
            return self.entries[name]
        from difflib import get_close_matches

        names = list(self.entries)
        near = get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(names)}."
        raise ServerNotFoundError(
            f'There is no server "{name}".', hint, available=names, closest=near, searched=self.searched
        )


def find_entries(named: str = "", environment: Mapping[str, str] = os.environ) -> Found:
    """The server entries of all files that are there, or of the one that is named. Raises ConfigError."""
    alone = named or environment.get(CONFIG_VARIABLE, "")
    paths = [os.path.expanduser(alone)] if alone else list_places(environment)
    found = Found(paths)
    for path in paths:
        if alone or os.path.isfile(path):
            for table, place in read_entries(path):
                far = found.entries.pop(table["name"], None)
                found.entries[table["name"]] = (merge_entry(table, far[0] if far else None), place)
    if not found.entries:
        found.entries["board"] = (BOARD, "")
    return found


def list_places(environment: Mapping[str, str]) -> list[str]:
    """Where configuration is looked for, the farthest first."""
    home = environment.get("HOME") or "/nonexistent"
    return [*(os.path.join(home, name) for name in HOME_FILES), *FOLDER_FILES]


def read_entries(path: str) -> list[tuple[dict[str, Any], str]]:
    text = read_text(path)
    if path.endswith(".json"):
        return read_json_entries(text, path)
    return read_toml_entries(read_toml_tables(text, path), path)


def read_text(path: str) -> str:
    """A configuration file's text. Raises ConfigError."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}.", "Is the path right?", path=path) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start}).", "Save it as UTF-8.", path=path) from None


def make_server(table: Mapping[str, Any], place: str, environment: Mapping[str, str] = os.environ) -> ServerConfig:
    """The server that an entry means: expanded, with its defaults. It has the fields of a ServerConfig, and is none."""
    source = table["source"]
    made: Any = SimpleNamespace(**{**SERVER_DEFAULTS, **expand(dict(table), environment, source, place)})
    made.source = source
    server: ServerConfig = made
    return server


def find_state(environment: Mapping[str, str] = os.environ) -> str:
    """Where this program keeps what it writes: `$XDG_STATE_HOME/rkllm-chat`, by default below ~/.local/state."""
    base, home = environment.get("XDG_STATE_HOME"), environment.get("HOME")
    if not base and not home:
        from tempfile import gettempdir

        home = gettempdir()
    return os.path.join(base or os.path.join(home or "", ".local/state"), "rkllm-chat")


def has_logins(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether somebody has logged in to any server."""
    folder = os.path.join(find_state(environment), LOGINS)
    return os.path.isdir(folder) and bool(os.listdir(folder))
