"""What tools a server had when it was last asked, for the completion of a shell alone: nothing is sent by it.

One file a server, readable by its owner alone. Its name is made of the entry as the file has it, before any variable is
put in, and without the values of env and headers; so no secret is in it, and a changed entry has a file of its own.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

LARGEST = 4 * 1024 * 1024
SECRET = ("env", "headers")


def cache_path(entry: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> str:
    """Where the tools of a server entry are kept: below `$XDG_CACHE_HOME`, else `~/.cache`."""
    from zlib import crc32

    told = {key: sorted(value) if key in SECRET else value for key, value in entry.items()}
    base = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME") or "/nonexistent", ".cache")
    mark = crc32(json.dumps(told, sort_keys=True).encode())
    return os.path.join(base, "rkllm-chat", "tools", f"{entry['name']}-{mark:08x}.json")


def remember(path: str, tools: Sequence[Mapping[str, Any]]) -> None:
    """Keeps the names and schemas of a server's tools, if they are not kept already. A full or read-only disk is no
    reason to fail: then there is nothing to complete from."""
    kept = [{"name": tool["name"], "inputSchema": tool.get("inputSchema")} for tool in tools]
    data = json.dumps(kept, ensure_ascii=False).encode("utf-8", errors="replace")
    if len(data) > LARGEST or read_bytes(path) == data:
        return
    from pathlib import Path

    from ..private import make_folder

    draft = f"{path}.{os.getpid()}"
    try:
        make_folder(Path(path).parent)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as opened:
            opened.write(data)
        os.replace(draft, path)
    except OSError:
        return


def recall(path: str) -> list[dict[str, Any]]:
    """The tools that were kept; none where there is no such file, or it is not ours."""
    try:
        tools = json.loads(read_bytes(path) or b"[]")
    except (ValueError, RecursionError):
        return []
    known = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return [tool for tool in known if isinstance(tool.get("name"), str)]


def read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST + 1)
    except OSError:
        return b""
