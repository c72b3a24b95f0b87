"""Check what the configured MCP servers need to start, without starting any."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ...config.loader import state_folder
from ...config.project_trust import TrustStore
from ...config.settings import ServerConfig
from ...core.errors import ConfigError, StartError
from ...core.programs import PROGRAM_NAME
from ...core.user_paths import expand_home
from ...mcp_client.acceptance import check_start
from ...mcp_client.process.launch import make_environment, wants_sandbox
from ...mcp_client.process.sandbox import find_bubblewrap
from ...mcp_client.process.start import IS_MACOS, SANDBOX_VARIABLE
from ...mcp_servers.claude.find_cli import find_claude
from .board import Board, Finding, ok, untried, warn, wrong


def check_servers(board: Board) -> Iterator[Finding]:
    """Report for each server whether it is accepted, and whether its program and working directory exist."""
    for entry in board.settings.skipped:
        value = f"{entry.location}: the {'entry' if entry.original_name else 'file'} is skipped: {entry.reason}"
        report = wrong if entry.original_name else warn
        yield report(value, entry.hint, f"server {entry.original_name}".strip())
    trust_store = TrustStore(str(state_folder(board.environment)))
    for server in board.settings.servers:
        for freedom in server.not_obeyed:
            advice = "See docs/mcp-files.md. Which calls run without a question, [policy] and trust decide."
            yield warn(f'"{freedom}" of {server.source} has no effect here', advice, f"server {server.name}")
        yield replace(_check_server(board, server, trust_store), name=f"server {server.name}")


def _check_server(board: Board, server: ServerConfig, trust_store: TrustStore) -> Finding:
    try:
        server = check_start(trust_store, server) if board.is_this_machine else server
    except ConfigError as error:
        return warn(error.message, error.hint)
    if not server.enabled:
        by = f"disabled by {server.disabled_by}" if server.disabled_by else "disabled"
        return warn(by, f"rkllm-chat mcp enable {server.name}") if server.kept_off else ok(by)
    if server.url:
        return ok("remote, not contacted")
    if server.cwd and not board.map_path(server.cwd).is_dir():
        return wrong(f"its folder {server.cwd} does not exist", "Correct its cwd.")
    if server.command == PROGRAM_NAME:
        return _check_bundled(board, server)
    if found := _find_program(board, server):
        return untried(found)
    advice = "Install it or add it to the PATH. Relative paths start at the current folder."
    return wrong(f"its command {server.command} was not found", advice)


def check_sandbox(board: Board) -> Iterator[Finding]:
    """Run bubblewrap as a server's sandbox does, unless no sandbox is wanted."""
    commands = [server for server in board.settings.servers if server.enabled and server.command]
    sandboxed = [server for server in commands if wants_sandbox(server)]
    is_off = os.environ.get(SANDBOX_VARIABLE) == "off" or any(server.command != PROGRAM_NAME for server in commands)
    advice = "A container encloses them." if IS_MACOS else "sudo apt install bubblewrap"
    if not board.is_this_machine or (is_off and not sandboxed):
        return
    bubblewrap, problem = find_bubblewrap()
    if bubblewrap:
        yield ok(f"{bubblewrap.program} works; /mcp status shows what it allows")
    elif sandboxed:
        report = wrong if any(server.sandbox == "on" for server in sandboxed) else warn
        yield report(f"{problem}: servers run without a sandbox", advice)
    else:
        yield Finding("", "ok", f"{problem}: servers that you add will run without a sandbox", advice)


def _check_bundled(board: Board, server: ServerConfig) -> Finding:
    """Check a bundled server and its requirements: the Claude CLI, or an API key."""
    description = f"{PROGRAM_NAME} itself"
    match server.args:
        case ["serve", "claude", *_] if board.is_this_machine:
            try:
                return untried(f"{description}, with {find_claude(make_environment(board.environment, server.env))}")
            except StartError as error:
                return wrong(f"{description}, but the Claude CLI is missing: {error.message}", error.hint)
        case ["serve", "llm" | "remote", *options] if missing := _find_missing_key(server, options):
            advice = f'Servers do not inherit your environment; pass it on: env = {{ {missing} = "${{{missing}}}" }}.'
            return wrong(f"{description}, but its env does not set {missing}", advice)
    return untried(description)


def _find_missing_key(server: ServerConfig, options: list[str]) -> str:
    """Return the environment variable of `--set key_env=` that the server's `env` does not set, or ""."""
    found = re.search(r"key.env[= ](\S+)", " ".join(options))  # --key-env VAR was an option of its own
    variable = found[1] if found else ""
    return "" if server.env.get(variable) else variable


def _find_program(board: Board, server: ServerConfig) -> str:
    """Return the path of a server's program, searched as at its start; "" if there is none."""
    path = server.env.get("PATH") or board.environment.get("PATH", os.defpath)
    folders = os.pathsep.join(str(board.map_path(folder)) for folder in path.split(os.pathsep) if folder)
    command = expand_home(server.command)
    program = shutil.which(str(board.map_path(command)) if command.is_absolute() else str(command), path=folders)
    return board.unmap_path(Path(program)) if program else ""
