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
from .project_trust import is_board
from .settings import ServerConfig, Settings, merge_settings, read_json, read_toml
from .trust_rules import MODEL_SUFFIXES, Decision, Origin, decide

BOARD_SERVER = ServerConfig(**files.BOARD_ENTRY)
"""The board server that ships, used if no file defines a server."""


def load_settings(named: str = "", environment: Mapping[str, str] = os.environ) -> Settings:
    """Load and merge all configuration files, or only the one given by an option or RKLLM_CHAT_CONFIG.

    If no file defines a server, the board server that ships is used.

    Raises:
        ConfigError: A file is missing, unreadable or invalid.
    """
    single_file = named or environment.get(files.CONFIG_VARIABLE, "")
    if single_file:
        settings = read_settings(Path(single_file).expanduser(), environment, Origin.COMMAND_LINE)
    else:
        settings = Settings()
        for path in list_config_paths(environment):
            if path.is_file():
                override = read_settings(path, environment, files.find_origin(str(path), environment))
                settings = merge_settings(override=_restrict(override, settings, str(path)), base=settings)
    return settings if settings.servers else replace(settings, servers=(BOARD_SERVER,))


def _restrict(override: Settings, base: Settings, path: str) -> Settings:
    """Remove from the settings of one file what RULES refuses to its origin; the rest is merged into `base`."""
    servers, ignored = [], []
    for server in override.servers:
        decision = decide(server.origin, "servers", "trust", server.trust, "ask")
        if decision is Decision.REFUSED and not is_board(server):
            ignored.append(f'servers "{server.name}" trust')
            server = replace(server, trust="ask")
        servers.append(server)
    refused = [key for key in override.origins if _decide(override, base, key) is Decision.REFUSED]
    origins = {key: origin for key, origin in override.origins.items() if key not in refused}
    ignored_keys = tuple((path, key) for key in (*ignored, *refused))
    return replace(override, servers=tuple(servers), origins=origins, ignored=ignored_keys)


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
            exposed += [(path, key) for key in files.find_exposed_secrets(path)]
    return exposed


def list_config_paths(environment: Mapping[str, str]) -> list[Path]:
    """Return the paths where configuration files are looked for, farthest first."""
    return [Path(place) for place in files.list_config_paths(environment)]


def read_modification_times(named: str = "", environment: Mapping[str, str] = os.environ) -> dict[str, int]:
    """Return the files that `load_settings` reads with their modification times in nanoseconds."""
    single_file = named or environment.get("RKLLM_CHAT_CONFIG", "")
    paths = [Path(single_file).expanduser()] if single_file else list_config_paths(environment)
    return {str(path): path.stat().st_mtime_ns for path in paths if path.is_file()}


def read_settings(path: Path, environment: Mapping[str, str], origin: Origin = Origin.USER) -> Settings:
    """Read one configuration file, as TOML or JSON by its suffix.

    Raises:
        ConfigError: The file is missing, unreadable or invalid.
    """
    read = read_json if path.suffix == ".json" else read_toml
    return read(files.read_text(str(path)), str(path), environment, origin)


def find_models(current: str = "") -> list[Path]:
    """Return the model files in ./models, in ~/models and next to the current model, sorted by name."""
    folders = [Path("models"), Path.home() / "models", *([Path(current).parent] if current else [])]
    by_path = {
        path.resolve(): path for folder in folders for path in folder.glob("**/*") if path.suffix in MODEL_SUFFIXES
    }
    return sorted(by_path.values(), key=lambda path: path.name)


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory for logs, sessions and input history.

    It is `$XDG_STATE_HOME/rkllm-chat`, by default below ~/.local/state.
    """
    return Path(files.find_state_folder(environment))
