"""What the configured MCP servers need to start. It starts none of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..bundled.claude.search import find_claude
from ..config import ServerConfig
from ..errors import StartError
from ..servers.programs import OWN_COMMAND, make_environment, wants_sandbox
from .board import Board, Line, State

KEY_OPTION = "--key-env"


def check_servers(board: Board) -> Iterator[Line]:
    for server in board.settings.servers:
        name = f"server {server.name}"
        if not server.enabled:
            yield Line(name, "ok", "switched off")
        elif server.url:
            yield Line(name, "ok", "behind a URL, not asked")
        elif server.cwd and not board.place(server.cwd).is_dir():
            yield Line(name, "wrong", f"there is no folder {server.cwd}", "Correct its cwd.")
        elif server.command == OWN_COMMAND:
            yield check_own(board, server, name)
        elif found := find_program(board, server):
            yield Line(name, "ok", found)
        else:
            advice = "Is it installed and on the PATH? A relative path counts from the current folder."
            yield Line(name, "wrong", f"the command {server.command} cannot be found", advice)


def check_sandbox(board: Board) -> Iterator[Line]:
    """Whether there is what sandboxes are made of, where a server is to be in one. Nothing is started to try it."""
    wanting = [one for one in board.settings.servers if one.enabled and one.command and wants_sandbox(one)]
    if not board.is_here or not wanting:
        return
    if found := shutil.which("bwrap"):
        yield Line("sandbox", "ok", f"bubblewrap is {found}; /mcp status says what it lets in")
    else:
        state: State = "wrong" if any(one.sandbox == "on" for one in wanting) else "look"
        yield Line("sandbox", state, "bubblewrap is not installed: servers run without one", "apt install bubblewrap")


def check_own(board: Board, server: ServerConfig, name: str) -> Line:
    """A server that ships, and what it needs besides us."""
    ours = f"{OWN_COMMAND} itself"
    match server.args:
        case ["serve", "claude", *_] if board.is_here:
            try:
                found = find_claude(make_environment(board.environment, server.env))
            except StartError as error:
                return Line(name, "wrong", f"{ours}, but no Claude CLI: {error.message}", error.hint)
            return Line(name, "ok", f"{ours}, with {found[-1]}")
        case ["serve", "remote", *options] if missing := find_missing_key(server, options):
            advice = f'A server sees little of your environment: env = {{ {missing} = "${{{missing}}}" }}.'
            return Line(name, "wrong", f"{ours}, but its env has no {missing}", advice)
    return Line(name, "ok", ours)


def find_missing_key(server: ServerConfig, options: list[str]) -> str:
    """The variable that is to hold a key and does not."""
    words = [word for option in options for word in option.split("=", 1)]
    variable = words[words.index(KEY_OPTION) + 1] if KEY_OPTION in words[:-1] else ""
    return "" if server.env.get(variable) else variable


def find_program(board: Board, server: ServerConfig) -> str:
    """The program of a server as it would be started; "" where there is none."""
    path = server.env.get("PATH") or board.environment.get("PATH", os.defpath)
    folders = os.pathsep.join(str(board.place(folder)) for folder in path.split(os.pathsep) if folder)
    command = Path(server.command).expanduser()
    found = shutil.which(str(board.place(command)) if command.is_absolute() else str(command), path=folders)
    return board.show(Path(found)) if found else ""
