"""Create projects: `init`, a folder from which agents call tools, and `new-server`, an MCP server of the user's own.

Both write only into an empty folder, and remove what they have written if they fail. The template of a server is a
working server; its name `new-server` is replaced by the name of the project.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import ChatError, UsageError
from ..core.file_writes import create_file
from ..core.user_paths import expand_home

if TYPE_CHECKING:
    from ..core.command_line import Parser

_CONFIGURATION = """\
{
  "mcpServers": {
    "board": {
      "command": "rkllm-chat",
      "args": ["serve", "board", "--folder", "."],
      "trust": "trusted"
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
    _CONFIGURATION_FILE: _CONFIGURATION,
    "AGENTS.md": f"# Instructions\n\n{_INSTRUCTIONS}",
    ".gitignore": f"{_CONFIGURATION_FILE}\n",
}
"""The configuration is ignored by git because users may write tokens into it."""
_MAX_SHOWN_NAMES = 5
_TEMPLATE = Path(__file__).parents[1] / "mcp_servers" / "template"
_TEMPLATE_NAME = "new-server"
_SERVER_FILES = ("server.py", "test_server.py", "pyproject.toml")


def create_project(dest: str) -> dict[str, Any]:
    """Create the files of `init`.

    Args:
        dest: An empty folder, or one that does not exist yet.

    Returns:
        The folder's path, its files, and the texts to add to an existing .gitignore and AGENTS.md.

    Raises:
        UsageError: The folder is not empty or cannot be written.
    """
    folder = expand_home(dest).resolve()
    with _new_files(folder, _FILES):
        return {
            "path": str(folder),
            "files": list(_FILES),
            "gitignore_entry": _CONFIGURATION_FILE,
            "agents_instructions": _INSTRUCTIONS,
        }


def make_parser() -> Parser:
    """Build the argument parser of `new-server`."""
    import argparse

    from ..core.command_line import Parser

    about = "Create an MCP server project: a server, its test, and its configuration entry."
    parser = Parser(prog="rkllm-chat new-server", description=about)
    parser.add_argument("dest", metavar="DEST", help="new or empty folder; its name becomes the name of the server")
    parser.add_argument("--add", action="store_true", help=argparse.SUPPRESS)  # goes in version 0.3: mcp add does it
    return parser


def main(arguments: Sequence[str]) -> int:
    """Create the project of a server and return the exit code.

    The configuration entry is printed to standard output or, with `--add`, written to the configuration file.
    """
    from ..config.editor import find_target
    from ..config.entry_edits import render_toml_entry
    from ..config.loader import load_settings
    from ..config.servers import make_slug
    from ..core.sanitize import sanitize_for_terminal
    from .server_entries import add_to_file

    options = make_parser().parse(arguments)
    folder = expand_home(options.dest).resolve()
    name, path = make_slug(folder.name), find_target("project")
    server = str(folder / _SERVER_FILES[0])
    if "${" in server or server != server.encode(errors="replace").decode():
        raise UsageError(f"The path {folder} cannot be represented in a configuration.", "Use another folder.")
    entry = {"name": name, "command": sys.executable or "python", "args": [server]}
    texts = {file: (_TEMPLATE / file).read_text(encoding="utf-8") for file in _SERVER_FILES}
    with _new_files(folder, {file: text.replace(_TEMPLATE_NAME, name) for file, text in texts.items()}):
        if options.add:
            add_to_file(entry, path, load_settings())
    message = f"Created the server {name} in {folder}. Run its tests there with pytest."
    then = f"It is configured in {path}." if options.add else f"Add this to {path}:\n"
    print(sanitize_for_terminal(f"{message} {then}"), file=sys.stderr, flush=True)
    if not options.add:
        print(render_toml_entry(entry), end="")
    return 0


@contextmanager
def _new_files(folder: Path, texts: Mapping[str, str]) -> Iterator[None]:
    """Write files into an empty folder; they are removed if the context fails.

    Raises:
        UsageError: The folder is not empty or cannot be written.
    """
    is_new = not os.path.lexists(folder)
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if names := sorted(entry.name for entry in folder.iterdir())[: _MAX_SHOWN_NAMES + 1]:
            shown = ", ".join(names[:_MAX_SHOWN_NAMES]) + (" ..." if len(names) > _MAX_SHOWN_NAMES else "")
            hint = "Name an empty folder, or one that does not exist yet."
            raise UsageError(f"{folder} is not empty: {shown}.", hint, path=str(folder), got=names[:_MAX_SHOWN_NAMES])
        for name, text in texts.items():
            create_file(folder / name, text.encode(), 0o600 if name == _CONFIGURATION_FILE else None)
            written.append(folder / name)
        yield
    except (OSError, ChatError) as error:
        with suppress(OSError):
            for path in written:
                path.unlink(missing_ok=True)
            if is_new:
                folder.rmdir()
        if isinstance(error, ChatError):
            raise
        text = f"{folder} cannot be used: {error.strerror}."
        raise UsageError(text, "Name another folder.", path=str(folder)) from None
