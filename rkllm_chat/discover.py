"""Finds the configuration files of this user and folder and joins them. It reads; `config.py` understands.

The nearer file wins, and within one place the TOML of this program wins over the JSON that programs share.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from . import places as files
from .config import ServerConfig, Settings, merge, read_json, read_toml
from .errors import ChatError
from .policy import is_stricter
from .trust import is_board

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
                near = read_settings(path, environment)
                if files.is_project(str(path), environment):
                    near = restrain(near, settings, str(path))
                settings = merge(near=near, far=settings)
    return settings if settings.servers else replace(settings, servers=(BOARD,))


def restrain(near: Settings, far: Settings, path: str) -> Settings:
    """What a project's file may say. It raises no trust: it lets nothing run without a question, starts nothing that
    the user has not accepted, loads no library, and gets no key sent to a model that it names itself."""
    servers = tuple(replace(one, is_project=True) for one in near.servers)
    raised = {one.name for one in servers if one.trust == "trusted" and not is_board(one)}
    servers = tuple(replace(one, trust="ask") if one.name in raised else one for one in servers)
    ignored = [f'servers "{name}" trust' for name in sorted(raised)]
    unsaid = {
        "policy.allow": bool(near.policy.allow),
        "policy.approve": "policy.approve" in near.written and is_stricter(far.policy.approve, near.policy.approve),
        "policy.max_calls": near.policy.max_calls > far.policy.max_calls,
        "rkllm.library": bool(near.rkllm.library),
        "openai.key_env": bool(near.openai.key_env),
        "keep_secrets": near.keep_secrets,
    }
    denied = [key for key, is_so in unsaid.items() if is_so]
    openai, written = near.openai, near.written.difference(denied)
    if "://" in near.model:
        openai, written = replace(openai, key_env=""), written | {"openai.key_env"}
    told = tuple((path, key) for key in (*ignored, *denied))
    return replace(near, servers=servers, openai=openai, written=written, ignored=told)


def find_exposed(named: str = "", environment: Mapping[str, str] = os.environ) -> list[tuple[str, str]]:
    """(file, key) of each secret that others can read in a file that `find_settings` reads. The value is not told."""
    found: list[tuple[str, str]] = []
    for path in when_changed(named, environment):
        with suppress(ChatError, OSError):  # whoever reads the settings is told
            found += [(path, key) for key in files.find_exposed(path)]
    return found


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
