"""What is started as a server, and what it sees of this program: command, folder, environment. It starts nothing.

It is read before anything else by the one-shot commands, which is why it imports so little (measured: pathlib 3 ms,
shutil 2 ms, typing 2 ms).
"""

from __future__ import annotations

import os
import sys

from ..errors import ConnectError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..config import ServerConfig

OWN_COMMAND = "rkllm-chat"
KEPT = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
MARK = "RKLLM_CHAT_SERVER"
GUARD = """
send() {
    for file in $(grep -lsF "$mark" /proc/[0-9]*/environ); do
        pid=${file#/proc/}
        kill "-$1" "${pid%/environ}"
    done
    kill "-$1" "-$group"
}
mark=$1
read -r group
read -r _
send TERM
sleep 0.5
send KILL
"""
"""What stands by a server: it waits for the end of a pipe that only this program holds, and then ends them all."""


def find_command(server: ServerConfig) -> list[str]:
    """The program to start, and its arguments. Our own is started with this Python; it may not be on the PATH."""
    if server.command == OWN_COMMAND:
        return [sys.executable, "-m", "rkllm_chat", *server.args]
    command = os.path.expanduser(server.command)
    found = find_program(command, server.env.get("PATH"))
    if found is None:
        raise ConnectError(
            f'Server "{server.name}": the command "{server.command}" {explain_missing(command)}.',
            "Is it installed and on the PATH? A relative path counts from the current folder.",
            server=server.name,
        )
    return [found, *server.args]


def find_program(command: str, path: str | None) -> str | None:
    """Where a command is, as a shell would find it; `path` is instead of this program's own PATH."""
    folders = [""] if os.path.dirname(command) else (path or os.environ.get("PATH", os.defpath)).split(os.pathsep)
    for folder in folders:
        place = os.path.join(folder, command)
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    return None


def explain_missing(command: str) -> str:
    if os.path.isdir(command):
        return "is a folder"
    if os.path.dirname(command) and os.path.exists(command):
        return "is not executable"
    return "cannot be found"


def find_folder(server: ServerConfig) -> str | None:
    cwd = os.path.expanduser(server.cwd) if server.cwd else None
    if cwd and not os.path.isdir(cwd):
        raise ConnectError(f'Server "{server.name}": there is no folder {cwd}.', "Correct its cwd.", server=server.name)
    return cwd


def make_environment(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What a server sees of this program's environment, which is little, and what its configuration gives it."""
    kept = {name: value for name, value in own.items() if name in KEPT or name.startswith("LC_")}
    return {**{name: value for name, value in kept.items() if not value.startswith("()")}, **given}


def describe_exit(code: int) -> str:
    """An exit code in words that follow "it": "exited with 3", "was ended by SIGSEGV"."""
    if code >= 0:
        return f"exited with {code}"
    import signal

    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
