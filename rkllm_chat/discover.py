"""Finds the configuration files of this user and folder and joins them. It reads; `config.py` understands.

The nearer file wins, and within one place the TOML of this program wins over the JSON that programs share.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from . import places as files
from .config import ServerConfig, Settings, merge, read_json, read_toml

MODEL_ENDINGS = (".gguf", ".rkllm")

BOARD = ServerConfig(**files.BOARD)


def find_settings(named: str = "", environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of all files that are there, or of the one file named by an option or RKLLM_CHAT_CONFIG.

    Where no file names a server, the board server that ships is used. Raises ConfigError.
    """
    alone = named or environment.get(files.CONFIG_VARIABLE, "")
    if alone:
        settings = read_settings(Path(alone).expanduser(), environment)
    else:
        settings = Settings()
        for path in places(environment):
            if path.is_file():
                settings = merge(near=read_settings(path, environment), far=settings)
    return settings if settings.servers else replace(settings, servers=(BOARD,))


def places(environment: Mapping[str, str]) -> list[Path]:
    """Where configuration is looked for, the farthest first."""
    return [Path(place) for place in files.list_places(environment)]


def when_changed(named: str = "", environment: Mapping[str, str] = os.environ) -> dict[str, int]:
    """The files that `find_settings` reads, and when each was last written, in nanoseconds."""
    alone = named or environment.get("RKLLM_CHAT_CONFIG", "")
    paths = [Path(alone).expanduser()] if alone else places(environment)
    return {str(path): path.stat().st_mtime_ns for path in paths if path.is_file()}


def read_settings(path: Path, environment: Mapping[str, str]) -> Settings:
    """The settings in one file, by its ending. Raises ConfigError."""
    read = read_json if path.suffix == ".json" else read_toml
    return read(files.read_text(str(path)), str(path), environment)


def find_models(current: str = "") -> list[Path]:
    """The models at hand: in ./models, in ~/models, and beside the current one; each once, by name."""
    folders = [Path("models"), Path.home() / "models", *([Path(current).parent] if current else [])]
    found = {path.resolve(): path for folder in folders for path in folder.glob("**/*") if path.suffix in MODEL_ENDINGS}
    return sorted(found.values(), key=lambda path: path.name)


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where logs and the line history are kept: `$XDG_STATE_HOME/rkllm-chat`, by default below ~/.local/state."""
    return Path(files.find_state(environment))
