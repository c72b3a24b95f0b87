"""Write a server.json for the MCP registry for each server that ships: FOLDER/NAME/server.json.

    RKLLM_CHAT_REPOSITORY=https://github.com/OWNER/NAME python packaging/registry.py FOLDER

The format is that of schema 2025-12-11. The names are in the namespace of the repository's owner, who alone can publish
them: `mcp-publisher publish` in each folder, after the package is on PyPI.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from metadata import REPOSITORY_VARIABLE, SERVERS, make_server_name

from rkllm_chat import __version__

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_KEY = "REMOTE_API_KEY"
_FOLDER = {"type": "named", "name": "--folder", "description": "Folder whose files it may read", "format": "filepath"}
DESCRIPTIONS = {
    "board": "Time, temperature, memory, disk and NPU of its machine, sums, and the files of one folder",
    "claude": "Runs the Claude CLI and keeps its conversation",
    "llm": "A model, local or behind a URL: questions, summaries and token counts",
}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "board": [_FOLDER],
    "claude": [
        {
            "type": "named",
            "name": "--permission-mode",
            "description": "What the Claude CLI may do without asking",
            "choices": ["default", "acceptEdits", "plan"],
            "default": "default",
        },
        _FOLDER,
    ],
    "llm": [
        {"type": "named", "name": "--model", "description": "A .gguf or .rkllm file, or a service as URL#MODEL"},
        {"type": "named", "name": "--set", "value": f"key_env={_KEY}"},
        _FOLDER,
    ],
}
"""What a user may set, beside `serve NAME`."""


def describe_server(name: str, home: str) -> dict[str, Any]:
    """Return the description of a server."""
    package: dict[str, Any] = {
        "registryType": "pypi",
        "identifier": "rkllm-chat",
        "version": __version__,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [
            {"type": "positional", "value": "serve"},
            {"type": "positional", "value": name},
            *OPTIONS[name],
        ],
    }
    if name == "llm":
        package["environmentVariables"] = [{"name": _KEY, "description": "Key of a service", "isSecret": True}]
    return {
        "$schema": SCHEMA,
        "name": make_server_name(home, name),
        "title": f"rkllm_chat {name}",
        "description": DESCRIPTIONS[name],
        "repository": {"url": home, "source": "github"},
        "version": __version__,
        "packages": [package],
    }


def main() -> None:
    """Write the files."""
    home = os.environ.get(REPOSITORY_VARIABLE, "").rstrip("/")
    if len(sys.argv) != 2 or not home:
        sys.exit(__doc__)
    for name in SERVERS:
        path = Path(sys.argv[1]) / name / "server.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(describe_server(name, home), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
