"""TRANSPORTS: ways to reach an MCP server. They know nothing of tools.

A transport is an async context manager of a read and a write stream, which is what `mcp.Client` takes. To add one,
write a function of a ServerConfig and a log, and a row.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

from ..config import ServerConfig
from ..errors import ConfigError, ConnectError

OWN_COMMAND = "rkllm-chat"

Transport = Callable[[ServerConfig, TextIO], Any]


def stdio(server: ServerConfig, log: TextIO) -> Any:
    """Starts the server's command; it speaks on its standard input and output, its standard error goes to the log."""
    command, args = find_command(server)
    cwd = Path(server.cwd).expanduser() if server.cwd else None
    if cwd and not cwd.is_dir():
        raise ConnectError(f'Server "{server.name}": there is no folder {cwd}.', "Correct its cwd.")
    return stdio_client(StdioServerParameters(command=command, args=args, env=dict(server.env), cwd=cwd), errlog=log)


def find_command(server: ServerConfig) -> tuple[str, list[str]]:
    """The program to start. Our own is started with this very Python, also where it is not on the PATH."""
    if server.command == OWN_COMMAND:
        return sys.executable, ["-m", "rkllm_chat", *server.args]
    command = Path(server.command).expanduser()
    found = shutil.which(str(command), path=server.env.get("PATH"))
    if found is None:
        hint = "Is it installed and on the PATH? A relative path counts from the current folder."
        raise ConnectError(f'Server "{server.name}": the command "{server.command}" cannot be found.', hint)
    return found, list(server.args)


TRANSPORTS: dict[str, Transport] = {
    "stdio": stdio,
}


def open_transport(server: ServerConfig, log: TextIO) -> Any:
    """The transport that the configuration names; a command means stdio."""
    name = server.transport or ("stdio" if server.command else "http")
    if name not in TRANSPORTS:
        known = ", ".join(TRANSPORTS)
        raise ConfigError(f'Server "{server.name}": the transport "{name}" is not there yet.', f"Known are {known}.")
    return TRANSPORTS[name](server, log)
