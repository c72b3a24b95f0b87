"""Paths of configuration and state files, and a fast reader of the server entries in them.

One-shot commands use this module: only server entries are validated, and only the requested server has its variables
expanded. `loader` reads the same files completely for the chat.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

from ..core.errors import ConfigError, ServerNotFoundError
from .server_entries import (
    SERVER_DEFAULTS,
    merge_entry,
    read_json_entries,
    read_toml_entries,
    read_toml_tables,
)
from .trust_rules import Decision, Origin, decide
from .value_checks import MAX_FILE_BYTES, check_size, expand_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .settings import ServerConfig

_HOME_FILES = (".mcp.json", ".config/rkllm-chat/config.toml")
_FOLDER_FILES = (".claude/mcp.json", "mcp.json", "mcp_servers.json", "mcp_config.toml")
CONFIG_VARIABLE = "RKLLM_CHAT_CONFIG"
TRUST_VARIABLE = "RKLLM_CHAT_TRUST_PROJECT"
"""If set, project files of every directory are treated as the user's own; for dedicated build machines."""
LOGINS_FOLDER = "logins"
"""Name of the directory with stored OAuth logins, inside the state directory."""
BOARD_ENTRY: dict[str, Any] = {
    "name": "board",
    "command": "rkllm-chat",
    "args": ("serve", "board"),
    "trust": "trusted",
    "source": "built in",
    "origin": Origin.BUILT_IN,
}
"""The board server that ships, used if no file defines a server."""


class ServerEntries:
    """Server entries of the configuration files.

    Attributes:
        searched: Paths that were looked for.
        entries: Entry and its place in the file, by server name.
    """

    def __init__(self, searched: list[str]) -> None:
        self.searched = searched
        self.entries: dict[str, tuple[dict[str, Any], str]] = {}

    def get(self, name: str) -> tuple[dict[str, Any], str]:
        """Return an entry and its place in the file.

        Raises:
            ServerNotFoundError: No file defines the server; the error lists similar names.
        """
        if name in self.entries:
            return self.entries[name]
        from difflib import get_close_matches

        names = list(self.entries)
        similar = get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(similar)}?" if similar else f"Known servers: {', '.join(names)}."
        raise ServerNotFoundError(
            f'There is no server "{name}".', hint, available=names, closest=similar, searched=self.searched
        )


def find_entries(named: str = "", environment: Mapping[str, str] = os.environ) -> ServerEntries:
    """Read the server entries of all configuration files, or of the given one.

    Args:
        named: Path of the only file to read; "" reads RKLLM_CHAT_CONFIG or all default places.
        environment: Environment variables.

    Raises:
        ConfigError: A file is unreadable or invalid.
    """
    single_file = named or environment.get(CONFIG_VARIABLE, "")
    paths = [os.path.expanduser(single_file)] if single_file else list_config_paths(environment)
    server_entries = ServerEntries(paths)
    for path in paths:
        if single_file or os.path.isfile(path):
            for table, place in _read_entries(path):
                table = _mark_origin(table, find_origin(path, environment, is_named=bool(single_file)))
                base_entry = server_entries.entries.pop(table["name"], None)
                server_entries.entries[table["name"]] = (
                    merge_entry(table, base_entry[0] if base_entry else None),
                    place,
                )
    if not server_entries.entries:
        server_entries.entries["board"] = (BOARD_ENTRY, "")
    return server_entries


def list_config_paths(environment: Mapping[str, str]) -> list[str]:
    """Return the paths where configuration files are looked for, farthest first."""
    home = environment.get("HOME") or "/nonexistent"
    return [*(os.path.join(home, name) for name in _HOME_FILES), *_FOLDER_FILES]


def find_origin(path: str, environment: Mapping[str, str], is_named: bool = False) -> Origin:
    """Return the origin of a configuration file's values.

    Args:
        path: Path as in `list_config_paths`.
        environment: Environment variables.
        is_named: The user named the file by `--config` or RKLLM_CHAT_CONFIG.
    """
    if is_named:
        return Origin.COMMAND_LINE
    if path in _FOLDER_FILES:
        return Origin.PROJECT if environment.get(TRUST_VARIABLE, "") in ("", "0") else Origin.USER
    return Origin.OTHER_PROGRAM if path.endswith(_HOME_FILES[0]) else Origin.USER


def _mark_origin(table: dict[str, Any], origin: Origin) -> dict[str, Any]:
    """Store the origin of an entry and remove a claim to be trusted that this origin may not make."""
    trust = table.get("trust", "ask")
    reduced = {"trust": "ask"} if decide(origin, "servers", "trust", trust, "ask") is Decision.REFUSED else {}
    return {**table, **reduced, "origin": origin}


def _read_entries(path: str) -> list[tuple[dict[str, Any], str]]:
    text = read_text(path)
    if path.endswith(".json"):
        return read_json_entries(text, path)
    return read_toml_entries(read_toml_tables(text, path), path)


def read_text(path: str) -> str:
    """Read a configuration file, up to the size limit.

    Raises:
        ConfigError: The file is missing, too large, not UTF-8, or writable by other users.
    """
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            _check_owner(os.fstat(file.fileno()), path)
            data = file.read(MAX_FILE_BYTES + 1) or b""
        check_size(data, path)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}.", "Check the path.", path=path) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start}).", "Save it as UTF-8.", path=path) from None


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; wait for no content of a regular one, such as /proc/kmsg, to which a link of a folder may lead."""
    return os.open(path, flags | (os.O_NONBLOCK if os.path.isfile(path) else 0))


def _check_owner(status: os.stat_result, path: str) -> None:
    """Raise ConfigError for a file that other users can write: its commands run as this user."""
    if status.st_uid not in (os.geteuid(), 0):
        hint = f"Its commands would run as you. Make it your own: sudo chown $USER {path}"
        raise ConfigError(f"{path} belongs to another user (uid {status.st_uid}); it is not used.", hint, path=path)
    if status.st_mode & 0o002:
        hint = f"Its commands would run as you. Remove the permission: chmod o-w {path}"
        raise ConfigError(f"{path} is writable by everybody; it is not used.", hint, path=path)


def find_exposed_secrets(path: str) -> list[str]:
    """Return the keys of literal secrets in a file that other users can read.

    Raises:
        ConfigError: The file is invalid.
    """
    if not os.stat(path).st_mode & 0o044:
        return []
    from .secrets import find_literal_secrets

    return find_literal_secrets((place, entry) for entry, place in _read_entries(path))


def make_server(
    table: Mapping[str, Any], place: str, environment: Mapping[str, str] | None = os.environ
) -> ServerConfig:
    """Fill in the defaults of an entry and expand its variables, unless it is a project's (see `expand_server`).

    Args:
        table: The entry.
        place: Its place in the file.
        environment: Values of the variables; None leaves the references as they are.

    Returns:
        An object with the fields of ServerConfig; the class itself would import dataclasses.
    """
    source = table["source"]
    values = environment if table.get("origin") is not Origin.PROJECT else None
    made: Any = SimpleNamespace(**{**SERVER_DEFAULTS, **expand_variables(dict(table), values, source, place)})
    made.source = source
    server: ServerConfig = made
    return server


def expand_server(server: ServerConfig, environment: Mapping[str, str] = os.environ) -> ServerConfig:
    """Expand the variables of a project's server, once the user has accepted it; others are expanded when read.

    Raises:
        ConfigError: A variable without default is not set, or the values do not fit together.
    """
    if server.origin is not Origin.PROJECT:
        return server
    place = f'server "{server.name}"'
    oauth: Any = server.oauth
    table = {**vars(server), "oauth": oauth if isinstance(oauth, dict) else vars(oauth)}
    values: Any = expand_variables(table, environment, server.source, place)
    if isinstance(server, SimpleNamespace):
        expanded: Any = SimpleNamespace(**values)
    else:
        from .settings import make_server as make_config

        expanded = make_config(values, place)
    accepted: ServerConfig = expanded
    return accepted


def find_state_folder(environment: Mapping[str, str] = os.environ) -> str:
    """Return the state directory: `$XDG_STATE_HOME/rkllm-chat`, by default below ~/.local/state.

    A relative path is ignored (XDG Base Directory Specification 0.8, Basics): any folder could bring its own records.
    """
    base, home = environment.get("XDG_STATE_HOME", ""), environment.get("HOME")
    if not os.path.isabs(base):
        base = os.path.join(home or _find_home(), ".local/state")
    return os.path.join(base, "rkllm-chat")


def _find_home() -> str:
    """Return the user's home by the user database; for a user without one, a temporary folder of this user."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        from tempfile import gettempdir

        return os.path.join(gettempdir(), f"rkllm-chat-{os.getuid()}")


def has_logins(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether an OAuth login for any server is stored."""
    folder = os.path.join(find_state_folder(environment), LOGINS_FOLDER)
    return os.path.isdir(folder) and bool(os.listdir(folder))
