"""Connect to a server that was kept running: find its socket, or start its daemon."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import stat
import tempfile
import time
from typing import Any

from ...config.servers import ServerConfig
from ...core.errors import ConnectError, UsageError
from ..process.launch import make_environment
from ..process.start import SANDBOX_VARIABLE
from .keep_alive_daemon import KeptProgram, fork_daemon, short_path
from .stdio_channel import StdioChannel

_WELCOME_TIMEOUT_S = 0.5
_START_TIMEOUT_S = 10.0
_PIPES = 3
_IRRELEVANT_SETTINGS = ("timeout_s", "connect_s", "source", "place", "trust", "tools_allow", "tools_deny", "enabled")


def connect_kept_server(server: ServerConfig, keep_s: float, max_bytes: int) -> _KeptServerChannel:
    """Return a channel to the kept server for this call, starting it if there is none.

    Raises:
        ConnectError: It cannot be started.
        UsageError: There is no private folder for the socket.
    """
    path = os.path.join(find_socket_folder(), f"{_fingerprint(server)}.sock")
    connection = connect_socket(path)
    welcome = _read_welcome(connection, _WELCOME_TIMEOUT_S) if connection else None
    if connection and welcome is None:  # it is busy with another client, about to end, or of another version
        connection.close()
        connection = None
    if connection is None:
        connection = fork_daemon(server, path, keep_s)
        welcome = _read_welcome(connection, _START_TIMEOUT_S)
    if welcome is None:
        connection.close()
        raise ConnectError(
            f'Server "{server.name}": its keep-alive process does not answer.', server=server.name, phase="start"
        )
    values, pipes = welcome
    if "error" in values:
        connection.close()
        raise ConnectError(values["error"], values["hint"], **values["details"])
    return _KeptServerChannel(server.name, KeptProgram(connection, pipes), values, keep_s, max_bytes)


def find_socket_folder() -> str:
    """Return the folder of this user's sockets, created if missing. Raises UsageError if others can access it."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = (
        os.path.join(base, "rkllm-chat") if base else os.path.join(tempfile.gettempdir(), f"rkllm-chat-{os.getuid()}")
    )
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        hint = "Check XDG_RUNTIME_DIR and TMPDIR, or omit --keep-alive."
        raise UsageError(f"{folder} cannot be created: {error.strerror}.", hint, path=folder) from None
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise UsageError(
            f"{folder} is not a folder that only you can access.", "Remove it, or omit --keep-alive.", path=folder
        )
    return folder


def _fingerprint(server: ServerConfig) -> str:
    """Return a hash of everything that decides how the server is started: entry, folder, environment."""
    entry = {key: value for key, value in vars(server).items() if key not in _IRRELEVANT_SETTINGS}
    identity = [entry, os.getcwd(), make_environment(os.environ, server.env), os.environ.get(SANDBOX_VARIABLE)]
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode(errors="replace")).hexdigest()[:32]


def connect_socket(path: str) -> socket.socket | None:
    """Connect to a daemon; None if there is none. The socket of a killed one is deleted."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_WELCOME_TIMEOUT_S)
    try:
        with short_path(path) as name:
            connection.connect(name)
    except ConnectionRefusedError:
        with contextlib.suppress(OSError):
            os.unlink(path)
    except OSError:
        pass
    else:
        return connection
    connection.close()
    return None


def _read_welcome(connection: socket.socket, limit_s: float) -> tuple[dict[str, Any], list[int]] | None:
    """Read the daemon's first line and nothing after it, and the pipes; None if they do not arrive in time."""
    end, line, pipes = time.monotonic() + limit_s, b"", list[int]()
    while not line.endswith(b"\n"):
        connection.settimeout(max(0.001, end - time.monotonic()))
        try:
            piece, received, _, _ = socket.recv_fds(connection, 1, _PIPES)
        except OSError:
            return None
        pipes += received
        if not piece:
            return None
        line += piece
    for pipe in pipes:
        os.set_inheritable(pipe, False)
    values: dict[str, Any] = json.loads(line)["keeper"]
    return (values, pipes) if "error" in values or len(pipes) == _PIPES else None


class _KeptServerChannel(StdioChannel):
    """A channel to a server that keeps running.

    `negotiated` is what an earlier call negotiated, `first_id` the number after which requests are numbered,
    `no_sandbox` why the process has no sandbox although one is configured.
    """

    exit_s = 1.0  # the daemon reports it

    def __init__(self, name: str, program: KeptProgram, welcome: dict[str, Any], keep_s: float, max_bytes: int) -> None:
        super().__init__(name, program, max_bytes)
        self._kept = program
        self.negotiated, self.first_id = welcome["session"], welcome["first"]
        self.no_sandbox: str = welcome["no_sandbox"]
        program.tell(seconds=keep_s)

    def save_negotiated(self, negotiated: dict[str, Any]) -> None:
        self._kept.tell(session=negotiated)

    def _write(self) -> None:
        self._kept.tell(writing=True)
        super()._write()
        if not self._unwritten:
            self._kept.tell(writing=False)
