"""Paths of configuration and state files, and the servers that the configuration files define.

One-shot commands use this module alone: only the requested server has its variables expanded. `loader` reads the same
files completely for the chat.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping

from ..core.errors import ConfigError, ServerNotFoundError
from .servers import (
    YAML_SUFFIXES,
    ServerConfig,
    SkippedServer,
    add_board,
    find_server,
    locate_skipped,
    merge_servers,
    names_hidden_by,
    read_json_servers,
    read_toml_servers,
    read_toml_tables,
    restrict_trust,
)
from .trust_rules import Origin
from .value_checks import MAX_FILE_BYTES, check_size

_SHARED_FILE = ".mcp.json"
"""File that other programs write too, in a home and in a project."""
_FOLDER_FILES = (".claude/mcp.json", _SHARED_FILE, "mcp.json", "mcp_servers.json", "mcp_config.toml")
FOREIGN_SUFFIXES = (".json", ".jsonc", ".json5", *YAML_SUFFIXES)
"""Suffixes of files in the forms of other programs."""
_SETTINGS_FILES = ("settings.json", "settings.local.json")
"""Files of Claude Code that say which servers of a .mcp.json are off, in .claude of the home and of the project."""
CONFIG_VARIABLE = "RKLLM_CHAT_CONFIG"
TRUST_VARIABLE = "RKLLM_CHAT_TRUST_PROJECT"
"""If set, project files of every directory are treated as the user's own; for dedicated build machines."""
LOGINS_FOLDER = "logins"
"""Name of the directory with stored OAuth logins, inside the state directory."""


class FoundServers:
    """Servers of the configuration files, as these define them: variables are not expanded.

    Attributes:
        searched: Paths that were looked for.
        servers: The servers by name.
        skipped: Entries that cannot be used.
    """

    def __init__(
        self, searched: list[str], servers: dict[str, ServerConfig], skipped: Iterable[SkippedServer] = ()
    ) -> None:
        self.searched, self.servers, self.skipped = searched, servers, tuple(skipped)

    def get(self, name: str) -> ServerConfig:
        """Return a server by its name, or by the name that its file has.

        Raises:
            ConfigError: The entry of the server cannot be used.
            ServerNotFoundError: No file defines the server; the error lists similar names.
        """
        try:
            return find_server(name, self.servers.values(), self.skipped)
        except ServerNotFoundError as error:
            error.details["searched"] = self.searched
            raise


def find_servers(named: str = "", environment: Mapping[str, str] = os.environ) -> FoundServers:
    """Read the servers of all configuration files, or of the given one, and the board server that ships.

    An entry with its name replaces that one, and the servers of the only file that is read do.

    Args:
        named: Path of the only file to read; "" reads RKLLM_CHAT_CONFIG or all default places.
        environment: Environment variables.

    Raises:
        ConfigError: A file is unreadable or invalid.
    """
    servers: dict[str, ServerConfig] = {}
    skipped: list[SkippedServer] = []
    has_list = False
    for path, origin in find_config_files(named, environment):
        unusable: list[SkippedServer] = []
        read = read_servers(path, origin, unusable)
        hidden = names_hidden_by(unusable)
        kept = {name: server for name, server in servers.items() if name not in hidden}
        servers = merge_servers([restrict_trust(server)[0] for server in read], kept)
        skipped += unusable
        has_list |= bool(read or unusable) and origin is Origin.COMMAND_LINE
    single_file = find_single_file(named, environment)
    searched = [single_file] if single_file else list_config_paths(environment)
    if not has_list:
        servers = {server.name: server for server in add_board(servers.values(), skipped)}
    return FoundServers(searched, servers, skipped)


def read_servers(path: str, origin: Origin, skipped: list[SkippedServer] | None = None) -> list[ServerConfig]:
    """Read the servers of one file.

    Args:
        path: The file.
        origin: Whose file it is.
        skipped: Receives the entries that cannot be used; without it, the first of them is an error.

    Raises:
        ConfigError: The file is unreadable or invalid.
    """
    return parse_servers(read_text(path), path, origin, skipped)


def parse_servers(
    text: str, path: str, origin: Origin, skipped: list[SkippedServer] | None = None
) -> list[ServerConfig]:
    """Return the servers of a text that a file has or will have, as `read_servers`."""
    text = text.removeprefix("\ufeff")
    unusable: list[SkippedServer] | None = None if skipped is None else []
    if path.endswith(FOREIGN_SUFFIXES):
        servers = read_json_servers(text, path, origin, unusable, read_settings_beside(path))
    else:
        servers = read_toml_servers(read_toml_tables(text, path), path, origin, unusable)
    if skipped is not None and unusable:
        skipped += locate_skipped(unusable, text)
    return servers


def find_settings_beside(path: str) -> list[str]:
    """Return the paths of Claude Code's settings that hold for a .mcp.json, farthest first."""
    if os.path.basename(path) != _SHARED_FILE:
        return []
    folders = (os.path.expanduser("~/.claude"), os.path.join(os.path.dirname(path), ".claude"))
    places = dict.fromkeys(os.path.join(folder, name) for folder in folders for name in _SETTINGS_FILES)
    return [*filter(os.path.isfile, places)]


def read_settings_beside(path: str) -> dict[str, str]:
    """Return the texts of these settings by their paths; "" for one that cannot be read."""
    settings: dict[str, str] = {}
    for place in find_settings_beside(path):
        try:
            settings[place] = read_text(place)
        except ConfigError:
            settings[place] = ""
    return settings


def find_config_files(named: str = "", environment: Mapping[str, str] = os.environ) -> list[tuple[str, Origin]]:
    """Return the configuration files that are read, farthest first, and whose they are.

    Args:
        named: Path of the only file; "" uses RKLLM_CHAT_CONFIG, or all default places that have a file.
        environment: Environment variables.
    """
    if single_file := find_single_file(named, environment):
        return [(single_file, Origin.COMMAND_LINE)]
    paths = list_config_paths(environment)
    home_file, own_file, *_ = paths  # in the home folder, the first one is the folder's too
    found = [
        (path, find_origin(path, environment))
        for path in paths
        if os.path.isfile(path) or (path == own_file and _hides_content(path))
    ]
    if os.path.isfile(home_file) and os.path.isfile(_SHARED_FILE) and os.path.samefile(_SHARED_FILE, home_file):
        found = [(path, origin) for path, origin in found if path != _SHARED_FILE]
    return found


def _hides_content(path: str) -> bool:
    """Return whether something that cannot be read has the name of a file, whose reader is to say so.

    What it forbids would be allowed if it were passed over: a link to nothing, or a folder that may not be searched.
    """
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return os.path.islink(path)
    except OSError:
        return True


def find_single_file(named: str, environment: Mapping[str, str]) -> str:
    """Return the only configuration file, from an option or RKLLM_CHAT_CONFIG; "" if all default places are read."""
    return os.path.expanduser(named or environment.get(CONFIG_VARIABLE, ""))


def find_own_config(named: str = "", environment: Mapping[str, str] = os.environ) -> str:
    """Return the configuration file of the user: the only one that is read, or the one of the home folder."""
    return find_single_file(named, environment) or list_config_paths(environment)[1]


def list_config_paths(environment: Mapping[str, str]) -> list[str]:
    """Return the paths where configuration files are looked for, farthest first."""
    home = environment.get("HOME") or "/nonexistent"
    return [os.path.join(home, _SHARED_FILE), find_own_file(environment), *_FOLDER_FILES]


def find_own_file(environment: Mapping[str, str]) -> str:
    """Return the user's own configuration file: `$XDG_CONFIG_HOME/rkllm-chat/config.toml`, by default in ~/.config.

    A relative path is ignored, as by `find_state_folder`.
    """
    base = environment.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(environment.get("HOME") or "/nonexistent", ".config")
    return os.path.join(base, "rkllm-chat", "config.toml")


def find_origin(path: str, environment: Mapping[str, str]) -> Origin:
    """Return the origin of the values in a configuration file.

    Args:
        path: Path as in `list_config_paths`.
        environment: Environment variables.
    """
    if path in _FOLDER_FILES:
        return Origin.PROJECT if environment.get(TRUST_VARIABLE, "") in ("", "0") else Origin.USER
    return Origin.OTHER_PROGRAM if path.endswith(_SHARED_FILE) else Origin.USER


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; wait for no content of a regular one, such as /proc/kmsg, to which a link of a folder may lead."""
    return os.open(path, flags | (os.O_NONBLOCK if os.path.isfile(path) else 0))


def read_text(path: str, opener: Callable[[str, int], int] = _open_without_waiting, encoding: str = "utf-8-sig") -> str:
    """Read a configuration file, up to the size limit.

    Args:
        path: The file.
        opener: Opens it, as for the built-in `open`.
        encoding: "utf-8" keeps a byte order mark.

    Raises:
        ConfigError: The file is missing, too large, not UTF-8, or writable by other users.
    """
    try:
        with open(path, "rb", opener=opener) as file:
            _check_owner(os.fstat(file.fileno()), path)
            data = file.read(MAX_FILE_BYTES + 1) or b""
        check_size(data, path)
        return data.decode(encoding)
    except OSError as error:
        leads_nowhere = isinstance(error, FileNotFoundError) and os.path.islink(path)
        reason = "it is a link to nothing" if leads_nowhere else error.strerror
        raise ConfigError(f"{path}: {reason}.", "Check the path.", path=path) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start}).", "Save it as UTF-8.", path=path) from None


def _check_owner(status: os.stat_result, path: str) -> None:
    """Raise ConfigError for a file that other users can write: its commands run as this user."""
    if status.st_uid not in (os.geteuid(), 0):
        hint = f"Its commands would run as you. Make it your own: sudo chown $USER {path}"
        raise ConfigError(f"{path} belongs to another user (uid {status.st_uid}); it is not used.", hint, path=path)
    if status.st_mode & 0o002:
        hint = f"Its commands would run as you. Remove the permission: chmod o-w {path}"
        raise ConfigError(f"{path} is writable by everybody; it is not used.", hint, path=path)


def find_secrets_in_file(path: str) -> list[str]:
    """Return the keys of literal secrets in a file that other users can read.

    Raises:
        ConfigError: The file is invalid.
    """
    if not os.stat(path).st_mode & 0o044:
        return []
    from .secrets import find_literal_secrets

    return find_literal_secrets(read_servers(path, Origin.OTHER_PROGRAM, []))


def find_own_folder(environment: Mapping[str, str] = os.environ) -> str:
    """Return the directory of the user's own configuration."""
    return os.path.dirname(find_own_file(environment))


def find_state_folder(environment: Mapping[str, str] = os.environ) -> str:
    """Return the state directory: `$XDG_STATE_HOME/rkllm-chat`, by default below ~/.local/state.

    A relative path is ignored (XDG Base Directory Specification 0.8, Basics): any folder could bring its own records.
    """
    return _find_folder(environment, "XDG_STATE_HOME", ".local/state")


def find_data_folder(environment: Mapping[str, str] = os.environ) -> str:
    """Return the directory of the user's data, such as models: `$XDG_DATA_HOME/rkllm-chat`, by default ~/.local/share.

    A relative path is ignored, as by `find_state_folder`.
    """
    return _find_folder(environment, "XDG_DATA_HOME", ".local/share")


def _find_folder(environment: Mapping[str, str], variable: str, default: str) -> str:
    base, home = environment.get(variable, ""), environment.get("HOME")
    if not os.path.isabs(base):
        base = os.path.join(home or _find_home(), default)
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
