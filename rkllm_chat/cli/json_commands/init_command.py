"""Create a ready-to-use project folder (`init`).

It writes only into an empty folder and removes what it has written if it fails.
"""

from __future__ import annotations

import os
from typing import Any

from ...core.errors import UsageError

_CONFIGURATION = """\
{
  "mcpServers": {
    "board": {
      "command": "rkllm-chat",
      "args": ["serve", "board", "--folder", "."]
    }
  }
}
"""
_CONFIGURATION_FILE = "mcp_servers.json"
_INSTRUCTIONS = """\
## MCP tools

MCP tools are called from the shell, in this folder. Each command prints one JSON document on standard output,
{"ok": true, "result": ...} or {"ok": false, "error": {"type", "message", "details"}}, and exits with 0 or 1.

    rkllm-chat mcp list --json --no-start
    rkllm-chat list-tools --server board
    rkllm-chat call-tool --server board --tool get_time --args '{"place": "Tokyo"}'

Look at a tool's inputSchema in list-tools before the first call. On an error read details: `available` and `closest`
name what there is, `path` and `expected` what is wrong in the arguments. Large arguments: --args @FILE, or --args - for
standard input. Images and other data: --output-dir FOLDER. The servers are configured in mcp_servers.json; write
${NAME} there for a secret, and set NAME in the environment. A server that was added there is started once its user has
accepted it with rkllm-chat mcp trust NAME, at a terminal.
"""
_FILES = {
    "mcp_servers.json": _CONFIGURATION,
    "AGENTS.md": f"# Instructions\n\n{_INSTRUCTIONS}",
    ".gitignore": f"{_CONFIGURATION_FILE}\n",
}
"""The configuration is ignored by git because users may write tokens into it."""
_MAX_SHOWN_NAMES = 5


def create_project(dest: str) -> dict[str, Any]:
    """Create the files of a new project.

    Args:
        dest: An empty folder, or one that does not exist yet.

    Returns:
        The folder's path, its files, and the texts to add to an existing .gitignore and AGENTS.md.

    Raises:
        UsageError: The folder is not empty or cannot be written.
    """
    path = os.path.abspath(os.path.expanduser(dest))
    is_new = _make_empty_folder(path)
    written: list[str] = []
    try:
        for name, text in _FILES.items():
            file_path = os.path.join(path, name)
            with open(
                file_path, "x", encoding="utf-8", opener=_open_private if name == _CONFIGURATION_FILE else None
            ) as file:
                written.append(file_path)
                file.write(text)
    except OSError as error:
        for file_path in written:
            os.unlink(file_path)
        if is_new:
            os.rmdir(path)
        raise _folder_error(path, error) from None
    return {
        "path": path,
        "files": list(_FILES),
        "gitignore_entry": _CONFIGURATION_FILE,
        "agents_instructions": _INSTRUCTIONS,
    }


def _make_empty_folder(path: str) -> bool:
    """Ensure that an empty folder exists; return whether it was created. Raises UsageError."""
    try:
        if not os.path.lexists(path):
            os.makedirs(path)
            return True
        names = sorted(os.listdir(path))
    except OSError as error:
        raise _folder_error(path, error) from None
    if names:
        shown = ", ".join(names[:_MAX_SHOWN_NAMES]) + (" ..." if len(names) > _MAX_SHOWN_NAMES else "")
        raise UsageError(
            f"{path} is not empty: {shown}.",
            "Name an empty folder, or one that does not exist yet.",
            path=path,
            got=names[:_MAX_SHOWN_NAMES],
        )
    return False


def _folder_error(path: str, error: OSError) -> UsageError:
    """Build the error of a folder that cannot be used."""
    return UsageError(f"{path} cannot be used: {error.strerror}.", "Name another folder.", path=path)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
