"""What is started as a server, and what it sees of this program: command, folder, environment. It starts no server.

It is read before anything else by the one-shot commands, which is why it imports so little (measured: pathlib 3 ms,
shutil 2 ms, typing 2 ms).
"""

from __future__ import annotations

import os

from ..errors import ConnectError
from ..isolated import run_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..config import ServerConfig
    from .sandbox import Sandbox

OWN_COMMAND = "rkllm-chat"
SANDBOX_VARIABLE = "RKLLM_CHAT_SANDBOX"
BRING_THEIR_OWN = ("docker", "podman", "bwrap", "firejail", "flatpak", "srt")
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


class Start:
    """How a server is started. `sandbox` is None where it is to have none; `folder` None is the current one."""

    def __init__(self, command: list[str], folder: str | None, environment: dict[str, str]) -> None:
        self.command, self.folder, self.environment = command, folder, environment
        self.sandbox: Sandbox | None = None

    @property
    def is_enclosed(self) -> bool:
        return self.sandbox is not None and not self.sandbox.missing


def plan_start(server: ServerConfig, roots: Sequence[str] = ()) -> Start:
    """How a server is to be started, in its sandbox. Raises ConnectError where that cannot be.

    `roots` are the folders that it is told of, which it may read.
    """
    start = Start(find_command(server), find_folder(server), make_environment(os.environ, server.env))
    if wants_sandbox(server):
        from .sandbox import enclose

        enclose(server, start, roots)
    return start


def wants_sandbox(server: ServerConfig) -> bool:
    """Whether a server is to be in a sandbox: by its configuration, else by RKLLM_CHAT_SANDBOX, else if it is others'.

    Ours need what sandboxes take away (a board's sensors, the Claude CLI's home, a service's address), and whoever
    starts them trusts this program already. Docker and its like are a sandbox themselves, and work in none.
    """
    mode = server.sandbox if server.sandbox != "auto" else os.environ.get(SANDBOX_VARIABLE, "auto")
    if mode in ("on", "off"):
        return mode == "on"
    is_ours = server.command == OWN_COMMAND and server.args[:1] == ("serve",)
    return not is_ours and os.path.basename(server.command) not in BRING_THEIR_OWN


def find_command(server: ServerConfig) -> list[str]:
    """The program to start, and its arguments. Our own is started with this Python; it may not be on the PATH."""
    if server.command == OWN_COMMAND:
        return run_module("rkllm_chat", *server.args)
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


def read_exit(code: int | None) -> int | None:
    """A server's exit code from its sandbox's, which is 128 and the number of the signal that ended the server."""
    return 128 - code if code is not None and 128 < code <= 128 + 64 else code


def describe_exit(code: int) -> str:
    """An exit code in words that follow "it": "exited with 3", "was ended by SIGSEGV"."""
    if code >= 0:
        return f"exited with {code}"
    import signal

    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
