"""Entries of servers that commands add to a configuration file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..config.editor import add_server
from ..config.files import find_origin
from ..config.loader import load_settings, state_folder
from ..config.project_trust import TrustStore
from ..config.secrets import make_redactor
from ..config.servers import BOARD_SERVER, RUNNER_CONNECT_S, SERVER_KEYS, ServerConfig, SkippedServer
from ..config.settings import Settings
from ..config.trust_rules import Origin
from ..core.errors import ChatError, ConfigError
from ..mcp_client.acceptance import accept, review_start


def add_to_file(entry: Mapping[str, Any], path: Path, settings: Settings) -> None:
    """Add a server to a file and accept it.

    Args:
        entry: The entry, with its name.
        path: The file.
        settings: The settings in use.

    Raises:
        ConfigError: The entry or a file is invalid, or there is such a server already.
    """
    known: list[ServerConfig | SkippedServer] = [*settings.servers, *settings.skipped]
    for server in known:
        if entry["name"] in (server.name, server.original_name) and server != BOARD_SERVER:
            hint = f"Choose another name, or remove it first: rkllm-chat mcp remove {server.name}"
            text = f'There is a server "{entry["name"]}" already, in {server.source}.'
            raise ConfigError(text, hint, path=server.source)
    add_server(entry, path)
    if find_origin(str(path), os.environ) is Origin.PROJECT:
        _accept(str(entry["name"]), str(path))


def _accept(name: str, path: str) -> None:
    """Accept a server that the user has just added to a file of the folder."""
    trust_store = TrustStore(str(state_folder()))
    with suppress(ChatError):  # what is wrong with it is said when it is used
        for server in load_settings().servers:
            if name in (server.name, server.original_name) and server.source == path:
                accept(trust_store, review_start(server))


def describe_entry(server: ServerConfig) -> dict[str, Any]:
    """Return the entry that defines a server as it was read: what is no default, without its name."""
    default = ServerConfig("")
    values = {key: getattr(server, key) for key in SERVER_KEYS if key not in ("name", "oauth")}
    if server.command and server.connect_s == RUNNER_CONNECT_S:
        del values["connect_s"]  # the default of package runners
    entry = {key: _to_plain(value) for key, value in values.items() if value != getattr(default, key)}
    oauth = {key: value for key, value in asdict(server.oauth).items() if value != getattr(default.oauth, key)}
    return {**entry, **({"oauth": oauth} if oauth else {})}


def format_start(server: ServerConfig) -> str:
    """Return what a server runs or contacts, with its secrets hidden."""
    names = [*server.env, *server.headers]
    what = " ".join([server.command, *server.args]) if server.command else server.url
    shown = ("command", "args", "url", "env", "headers", "oauth", "transport")
    others = [f"{key} = {json.dumps(value)}" for key, value in describe_entry(server).items() if key not in shown]
    text = "; ".join([what, *([f"sets {', '.join(names)}"] if names else ()), *others])
    return str(make_redactor(server).redact_all(text))


def _to_plain(value: Any) -> Any:
    return [*value] if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value
