"""Find, read and merge the configuration files of the user and of the current directory.

The nearer file wins; within one directory, this program's TOML wins over the JSON files shared with other programs.
Parsing is in `settings`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ..core.errors import ChatError
from . import files
from .servers import BOARD_SERVER, SkippedServer, add_board, explain_missing_board, restrict_trust
from .settings import ServerConfig, Settings, merge_settings, read_json, read_toml
from .trust_rules import Decision, Origin, decide


def load_settings(named: str = "", environment: Mapping[str, str] = os.environ) -> Settings:
    """Load and merge all configuration files, or only the one given by an option or RKLLM_CHAT_CONFIG.

    The board server that ships is among the servers unless an entry has its name, or the only file lists others.
    Entries of servers that cannot be used are `skipped`.

    Raises:
        ConfigError: A file is missing, unreadable or invalid.
    """
    settings, has_list = Settings(), False
    for path, origin in files.find_config_files(named, environment):
        override = read_settings(Path(path), environment, origin)
        settings = merge_settings(override=_restrict(override, settings, path), base=settings)
        has_list |= bool(override.servers or override.skipped) and origin is Origin.COMMAND_LINE
    return settings if has_list else replace(settings, servers=(*add_board(settings.servers, settings.skipped),))


def explain_replaced_board(before: Settings, named: str) -> str:
    """Return that the bundled server is no longer used, beside the first servers of the only file; "" if it is.

    Args:
        before: The settings before the servers were added; without servers, if the file is new.
        named: The only file that is read; "" if all are.
    """
    settings = load_settings(named)
    entries: list[ServerConfig | SkippedServer] = [*settings.servers, *settings.skipped]
    if before.servers and BOARD_SERVER not in before.servers:
        return ""
    return "" if any(entry.name == BOARD_SERVER.name for entry in entries) else explain_missing_board(entries)


def _restrict(override: Settings, base: Settings, path: str) -> Settings:
    """Remove from the settings of one file what RULES refuses to its origin; the rest is merged into `base`."""
    checked = [restrict_trust(server) for server in override.servers]
    ignored = [f'servers "{server.name}" trust' for server, is_restricted in checked if is_restricted]
    refused = [key for key in override.origins if _decide(override, base, key) is Decision.REFUSED]
    origins = {key: origin for key, origin in override.origins.items() if key not in refused}
    ignored_keys = tuple((path, key) for key in (*ignored, *refused))
    return replace(override, servers=tuple(server for server, _ in checked), origins=origins, ignored=ignored_keys)


def _decide(override: Settings, base: Settings, key: str) -> Decision:
    """Decide about a key of `origins`, such as "model" or "policy.approve"."""
    table, _, name = key.rpartition(".")
    parts = [getattr(settings, table) if table else settings for settings in (override, base)]
    value, current = (getattr(part, name) for part in parts)
    return decide(override.origins[key], table or "chat", name, value, current)


def find_exposed_secrets(named: str = "", environment: Mapping[str, str] = os.environ) -> list[tuple[str, str]]:
    """Return (file, key) of each literal secret in a configuration file that other users can read."""
    exposed: list[tuple[str, str]] = []
    for path in read_modification_times(named, environment):
        with suppress(ChatError, OSError):  # `load_settings` reports these errors
            exposed += [(path, key) for key in files.find_secrets_in_file(path)]
    return exposed


def read_modification_times(named: str = "", environment: Mapping[str, str] = os.environ) -> dict[str, int]:
    """Return the files that `load_settings` reads with their modification times in nanoseconds."""
    found = [path for path, _ in files.find_config_files(named, environment) if Path(path).is_file()]
    paths = [*found, *(place for path in found for place in files.find_settings_beside(path))]
    return {path: Path(path).stat().st_mtime_ns for path in paths}


def read_settings(path: Path, environment: Mapping[str, str], origin: Origin = Origin.USER) -> Settings:
    """Read one configuration file, as TOML or JSON by its suffix. Entries that cannot be used are `skipped`.

    Raises:
        ConfigError: The file is missing, unreadable or invalid.
    """
    name, text = str(path), files.read_text(str(path))
    if path.suffix in files.FOREIGN_SUFFIXES:
        return read_json(text, name, environment, origin, skips=True, beside=files.read_settings_beside(name))
    return read_toml(text, name, environment, origin, skips=True)


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory for logs, sessions and input history.

    It is `$XDG_STATE_HOME/rkllm-chat`, by default below ~/.local/state.
    """
    return Path(files.find_state_folder(environment))
