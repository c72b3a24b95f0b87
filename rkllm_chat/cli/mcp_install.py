"""Write a bundled server into the file of another program: `rkllm-chat mcp add NAME --into PROGRAM`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ..config.editor import edit_config, plan_entry
from ..config.foreign_files import MAX_FOREIGN_BYTES, find_target_file, read_foreign_servers
from ..core.errors import ConfigError, UsageError
from ..core.file_writes import FileEdit
from ..core.i18n import load
from ..core.programs import PROGRAM_NAME, find_program
from ..core.run_module import run_module
from ..core.sanitize import sanitize_for_terminal, sanitize_line
from ..mcp_servers import BUNDLED
from .serve_command import make_parser as make_serve_parser
from .server_entries import format_start
from .trust_command import confirm

_FURTHER_KEYS = {"vscode": {"type": "stdio"}}
"""Programs -> what their entries have beside command and arguments."""


def install_server(options: argparse.Namespace, serve_options: Sequence[str]) -> int:
    """Show the entry, ask, and write it; returns 1 if the user declined. Raises ChatError.

    Args:
        options: `name`, `into` and `yes`.
        serve_options: Options of `rkllm-chat serve NAME`.
    """
    name, words = options.name, ["serve", options.name, *serve_options]
    if name not in BUNDLED:
        raise UsageError(f'--into writes a bundled server, not "{name}".', f"Known are {', '.join(BUNDLED)}.")
    make_serve_parser().parse(words[1:])
    script = find_program(str(Path(sys.executable).with_name(PROGRAM_NAME)), None)
    command, *args = [script, *words] if script else run_module("rkllm_chat", *words)
    entry = {**_FURTHER_KEYS.get(options.into, {}), "command": command, "args": args}
    path, root = find_target_file(options.into)
    with edit_config(path) as edit:
        found, _ = plan_entry(_read(edit), path, root, name, entry)
    if found == entry:
        print(sanitize_line(f'"{name}" is in {path} already.'))
        return 0
    shown = json.dumps({name: entry}, ensure_ascii=False, indent=2)
    print(sanitize_for_terminal(f"{path}, below {root}:\n{shown}"))
    if name == "claude" and "--permission-mode" not in serve_options:
        print(load()("trust.claude"))
    if found is not None:
        print(sanitize_line(f"It replaces: {_describe_found(path, name)}"))
    if not options.yes and not confirm("Write it? [y/N] ", "Add --yes."):
        return 1
    with edit_config(path) as edit:
        current, text = plan_entry(_read(edit), path, root, name, entry)
        if current != found:
            raise ConfigError(f"{path} has changed meanwhile.", "Try again.", path=str(path))
        edit.write(text.encode())
    print(sanitize_line(f"Written. Restart {options.into} to use it."))
    return 0


def _read(edit: FileEdit) -> str:
    """Return the text of another program's file, which may have its history too."""
    try:
        return edit.read(MAX_FOREIGN_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{edit.path}: cannot be read: {error}.", path=edit.path) from None


def _describe_found(path: Path, name: str) -> str:
    servers, _ = read_foreign_servers(str(path))
    found = [format_start(server) for server in servers if name in (server.name, server.original_name)]
    return found[0] if found else "an entry that cannot be read here"
