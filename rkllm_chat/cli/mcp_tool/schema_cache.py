"""Cache the tools of servers for shell completion only; calls never use the cache.

There is one file for each server, readable by its owner only. Its name holds a checksum of the configuration entry,
before variables are expanded and without the values of `env` and `headers`: it contains no secret, and a changed entry
gets a new file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...config.servers import ServerConfig

_MAX_CACHE_BYTES = 4 * 1024 * 1024
_SECRET_KEYS = ("env", "headers")


def cache_path(server: ServerConfig, environment: Mapping[str, str] = os.environ) -> str:
    """Return the cache file of a server as its file defines it, below `$XDG_CACHE_HOME` or `~/.cache`."""
    from zlib import crc32

    identity = {key: sorted(value) if key in _SECRET_KEYS else value for key, value in vars(server).items()}
    base = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME") or "/nonexistent", ".cache")
    checksum = crc32(json.dumps(identity, sort_keys=True, default=str).encode())
    return os.path.join(base, "rkllm-chat", "tools", f"{server.name}-{checksum:08x}.json")


def save_tools(path: str, tools: Sequence[Mapping[str, Any]]) -> None:
    """Save the names and schemas of a server's tools, unless they are unchanged.

    Errors of the file system are ignored: completion then has no suggestions.
    """
    cached = [{"name": tool["name"], "inputSchema": tool.get("inputSchema")} for tool in tools]
    data = json.dumps(cached, ensure_ascii=False).encode("utf-8", errors="replace")
    if len(data) > _MAX_CACHE_BYTES or _read_bytes(path) == data:
        return
    from ...core.file_writes import replace_file
    from ...core.private_files import make_folder

    try:
        make_folder(os.path.dirname(path))
        replace_file(path, data, is_durable=False)
    except OSError:
        return


def load_tools(path: str) -> list[dict[str, Any]]:
    """Return the cached tools; empty if the file is missing or invalid."""
    try:
        tools = json.loads(_read_bytes(path) or b"[]")
    except (ValueError, RecursionError):
        return []
    objects = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return [tool for tool in objects if isinstance(tool.get("name"), str)]


def _read_bytes(path: str) -> bytes:
    """Read a file up to the size limit; empty if it cannot be read."""
    from ...core.private_files import read_private

    try:
        return read_private(path, _MAX_CACHE_BYTES + 1)
    except OSError:
        return b""
