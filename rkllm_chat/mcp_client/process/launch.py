"""Plan the start of a server: command, folder, environment, sandbox. Starts nothing.

One-shot commands import this first, so it imports little (measured: pathlib 3 ms, shutil 2 ms).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ...config.servers import ServerConfig
from ...core.errors import ConnectError
from ...core.programs import CONTAINER_PROGRAMS, PROGRAM_NAME, find_program, is_installed
from ...core.run_module import run_module
from ..roots import configured_roots
from .network_variables import find_network_variables
from .start import SANDBOX_VARIABLE, StartPlan

_SANDBOXING_COMMANDS = (*CONTAINER_PROGRAMS, "bwrap", "firejail", "flatpak", "srt")
# programs that start many servers -> how to get them
_HOW_TO_INSTALL = {"uvx": "To get it: pip install uv", "npx": "It is part of Node.js; on Debian: sudo apt install npm"}
_CHECK = "Check that it is installed and on the PATH. A relative path starts here."
# what programs need to run; the other variables of a user may be keys and tokens
_INHERITED = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")


def plan_start(server: ServerConfig, roots: Sequence[str] = ()) -> StartPlan:
    """Return how to start a server, in its sandbox.

    Args:
        server: The server's configuration.
        roots: Folders that the server learns of and may read.

    Raises:
        ConnectError: Command, a folder or a required sandbox is missing.
    """
    for root in configured_roots(server):
        if not os.path.isdir(root):
            text = f'Server "{server.name}": there is no folder {root}.'
            raise ConnectError(text, "Correct its roots.", server=server.name, phase="start")
    start = StartPlan(find_command(server), find_server_folder(server), make_environment(os.environ, server.env))
    if os.path.isabs(os.path.expanduser(server.command)):  # npx starts the node beside it by its name
        folders = start.environment.get("PATH", os.defpath)
        start.environment["PATH"] = f"{folders}{os.pathsep}{os.path.dirname(os.path.expanduser(server.command))}"
    if wants_sandbox(server):
        from .sandbox import wrap_in_sandbox

        wrap_in_sandbox(server, start, roots)
    if start.sandbox is None or start.sandbox.has_network:
        start.passed = {
            name: value
            for name, value in find_network_variables(os.environ, start.program).items()
            if name not in start.environment
        }
        start.environment |= start.passed
    return start


def wants_sandbox(server: ServerConfig) -> bool:
    """Tell whether a server runs in a sandbox.

    The configuration decides, else RKLLM_CHAT_SANDBOX; else only bundled servers run without one. Those need what
    sandboxes remove (a board's sensors, the Claude CLI's home folder, a service's address), and their code is trusted
    already. Docker and similar commands are sandboxes themselves and do not work inside one; only an installed program
    is believed to be one of them.
    """
    mode = server.sandbox if server.sandbox != "auto" else os.environ.get(SANDBOX_VARIABLE, "auto")
    if mode in ("on", "off"):
        return mode == "on"
    is_bundled = server.command == PROGRAM_NAME and server.args[:1] == ("serve",)
    return not is_bundled and not _is_sandbox(server)


def _is_sandbox(server: ServerConfig) -> bool:
    """Tell whether a server's program is a sandbox itself."""
    program = find_program(os.path.expanduser(server.command), server.env.get("PATH"))
    return program is not None and os.path.basename(program) in _SANDBOXING_COMMANDS and is_installed(program)


def find_command(server: ServerConfig) -> list[str]:
    """Return program, as an absolute path, and arguments. Raises ConnectError if the program does not exist.

    A relative path is that of the current folder, also for a server that is started in another one. The bundled
    servers are started with this Python, because `rkllm-chat` may not be on the PATH.
    """
    if server.command == PROGRAM_NAME:
        return run_module("rkllm_chat", *server.args)
    command = os.path.expanduser(server.command)
    found = find_program(command, server.env.get("PATH"))
    if found is None:
        from .end_hints import explain_windows_command

        raise ConnectError(
            f'Server "{server.name}": the command "{server.command}" {_explain_missing(command)}.',
            explain_windows_command(server.command, server.args) or _HOW_TO_INSTALL.get(command, _CHECK),
            server=server.name,
        )
    return [os.path.abspath(found), *server.args]


def _explain_missing(command: str) -> str:
    if os.path.isdir(command):
        return "is a folder"
    is_file = os.path.dirname(command) and os.path.exists(command)
    return "is not executable" if is_file else "cannot be found"


def find_server_folder(server: ServerConfig) -> str | None:
    """Return the working folder; None for the current one. Raises ConnectError if it does not exist."""
    cwd = os.path.expanduser(server.cwd) if server.cwd else None
    if cwd and not os.path.isdir(cwd):
        raise ConnectError(f'Server "{server.name}": there is no folder {cwd}.', "Correct its cwd.", server=server.name)
    return cwd


def make_environment(own: Mapping[str, str], configured: Mapping[str, str]) -> dict[str, str]:
    """Return a server's environment: a few variables of this program, and those of its configuration.

    Args:
        own: The environment of this program.
        configured: The variables of the configuration.
    """
    inherited = {name: value for name, value in own.items() if name in _INHERITED or name.startswith("LC_")}
    # "()" begins a function that a shell exports, which another shell would run (CVE-2014-6271)
    return {**{name: value for name, value in inherited.items() if not value.startswith("()")}, **configured}
