"""Where configuration and state of this user are, and the server entries found there, read as quickly as can be.

`discover.py` reads the same files for the chat, whole. Here only the servers count: nothing else in the files is
checked, and only the server that is asked for has its variables expanded.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

from .entries import SERVER_DEFAULTS, merge_entry, read_json_entries, read_toml_entries, read_toml_tables
from .errors import ConfigError, ServerNotFoundError
from .values import LARGEST_FILE, check_size, expand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .config import ServerConfig

HOME_FILES = (".mcp.json", ".config/rkllm-chat/config.toml")
FOLDER_FILES = (".claude/mcp.json", "mcp.json", "mcp_servers.json", "mcp_config.toml")
CONFIG_VARIABLE = "RKLLM_CHAT_CONFIG"
TRUST_VARIABLE = "RKLLM_CHAT_TRUST_PROJECT"
"""Set: the files of every folder are the user's own, as on a machine that builds and nothing else."""
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
                if not alone and is_project(path, environment):
                    table = own_nothing(table)
                far = found.entries.pop(table["name"], None)
                found.entries[table["name"]] = (merge_entry(table, far[0] if far else None), place)
    if not found.entries:
        found.entries["board"] = (BOARD, "")
    return found


def list_places(environment: Mapping[str, str]) -> list[str]:
    """Where configuration is looked for, the farthest first."""
    home = environment.get("HOME") or "/nonexistent"
    return [*(os.path.join(home, name) for name in HOME_FILES), *FOLDER_FILES]


def is_project(path: str, environment: Mapping[str, str]) -> bool:
    """Whether a file belongs to a folder, whoever made that, and not to the user."""
    return path in FOLDER_FILES and environment.get(TRUST_VARIABLE, "") in ("", "0")


def own_nothing(table: dict[str, Any]) -> dict[str, Any]:
    """An entry of a project's file, which cannot raise the trust in its server."""
    lowered = {"trust": "ask"} if table.get("trust") == "trusted" else {}
    return {**table, **lowered, "is_project": True}


def read_entries(path: str) -> list[tuple[dict[str, Any], str]]:
    text = read_text(path)
    if path.endswith(".json"):
        return read_json_entries(text, path)
    return read_toml_entries(read_toml_tables(text, path), path)


def read_text(path: str) -> str:
    """A configuration file's text, of which no more is read than may be in it. Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            check_owner(os.fstat(file.fileno()), path)
            data = file.read(LARGEST_FILE + 1)
        check_size(data, path)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}.", "Is the path right?", path=path) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start}).", "Save it as UTF-8.", path=path) from None


def check_owner(found: os.stat_result, path: str) -> None:
    """Raises ConfigError for a file that others may write: what it names is started as this user."""
    if found.st_uid not in (os.geteuid(), 0):
        hint = f"What it names would be started as you. Make it yours: sudo chown $USER {path}"
        raise ConfigError(f"{path} belongs to another user (number {found.st_uid}); it is not used.", hint, path=path)
    if found.st_mode & 0o002:
        hint = f"What it names would be started as you. Close it: chmod o-w {path}"
        raise ConfigError(f"{path} can be written by everybody; it is not used.", hint, path=path)


def find_exposed(path: str) -> list[str]:
    """The keys of a file that hold a secret which others can read. Raises ConfigError."""
    if not os.stat(path).st_mode & 0o044:
        return []
    from .redact import find_literals

    return find_literals((place, entry) for entry, place in read_entries(path))


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
