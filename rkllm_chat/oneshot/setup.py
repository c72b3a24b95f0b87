"""`init`: a folder that works at once. It writes into an empty folder alone, and leaves nothing behind if it fails."""

from __future__ import annotations

import os

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONFIGURATION = """\
{
  "mcpServers": {
    "board": {
      "command": "rkllm-chat",
      "args": ["serve", "board", "--folder", "."]
    }
  }
}
"""
IGNORED = "mcp_servers.json"
INSTRUCTIONS = """\
## MCP tools

MCP tools are called from the shell, in this folder. Each command prints one JSON document on standard output,
{"ok": true, "result": ...} or {"ok": false, "error": {"type", "message", "details"}}, and exits with 0 or 1.

    rkllm-chat list-servers
    rkllm-chat list-tools --server board
    rkllm-chat call-tool --server board --tool get_time --args '{"place": "Tokyo"}'

Look at a tool's inputSchema in list-tools before the first call. On an error read details: `available` and `closest`
name what there is, `path` and `expected` what is wrong in the arguments. Large arguments: --args @FILE, or --args - for
standard input. Images and other data: --output-dir FOLDER. The servers are configured in mcp_servers.json; write
${NAME} there for a secret, and set NAME in the environment. A server that was added there is started once its user has
accepted it with rkllm-chat trust NAME, at a terminal.
"""
FILES = {
    "mcp_servers.json": CONFIGURATION,
    "AGENTS.md": f"# Instructions\n\n{INSTRUCTIONS}",
    ".gitignore": f"{IGNORED}\n",
}
"""The configuration may come to hold tokens, so it is kept out of what is shared."""
SHOWN = 5


def lay_out(dest: str) -> dict[str, Any]:
    """Makes the folder; says where it is and what to add elsewhere. Raises UsageError."""
    path = os.path.abspath(os.path.expanduser(dest))
    made = make_empty(path)
    written: list[str] = []
    try:
        for name, text in FILES.items():
            place = os.path.join(path, name)
            with open(place, "x", encoding="utf-8", opener=open_private if name == IGNORED else None) as file:
                written.append(place)
                file.write(text)
    except OSError as error:
        for place in written:
            os.unlink(place)
        if made:
            os.rmdir(path)
        raise refuse(path, error) from None
    return {
        "path": path,
        "files": list(FILES),
        "gitignore_entry": IGNORED,
        "agents_instructions": INSTRUCTIONS,
    }


def make_empty(path: str) -> bool:
    """Sees to it that there is an empty folder; whether it had to be made."""
    try:
        if not os.path.lexists(path):
            os.makedirs(path)
            return True
        found = sorted(os.listdir(path))
    except OSError as error:
        raise refuse(path, error) from None
    if found:
        some = ", ".join(found[:SHOWN]) + (" ..." if len(found) > SHOWN else "")
        raise UsageError(
            f"{path} is not empty: {some}.",
            "Name a folder that is empty or not there yet.",
            path=path,
            got=found[:SHOWN],
        )
    return False


def refuse(path: str, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be used: {error.strerror}.", "Name another folder.", path=path)


def open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
