"""The client's side of a server that is kept: which socket is its own, and a pipe through the keeper."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import stat
import tempfile
import time

from ..errors import ConnectError, UsageError
from ..servers.programs import SANDBOX_VARIABLE, make_environment
from .keeper import fork_keeper, short_path
from .pipe import Pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..config import ServerConfig

WELCOME_S = 0.5
STARTED_S = 10.0
UNCOUNTED = ("timeout_s", "connect_s", "source", "trust", "tools_allow", "tools_deny", "enabled")


def reach_kept(server: ServerConfig, seconds: float) -> KeptPipe:
    """A pipe to the server that is kept for such a call, which is started first if there is none.

    Raises ConnectError if it cannot be started, UsageError where there is no private place for the socket.
    """
    path = os.path.join(find_folder(), f"{fingerprint(server)}.sock")
    connection = connect(path)
    welcome = read_welcome(connection, WELCOME_S) if connection else None
    if connection and welcome is None:  # it is busy with another client, or about to leave
        connection.close()
        connection = None
    if connection is None:
        connection = fork_keeper(server, path, seconds)
        welcome = read_welcome(connection, STARTED_S)
    if welcome is None:
        connection.close()
        raise ConnectError(f'Server "{server.name}": its keeper does not answer.', server=server.name, phase="start")
    if "error" in welcome:
        connection.close()
        raise ConnectError(welcome["error"], welcome["hint"], **welcome["details"])
    return KeptPipe(server.name, connection, welcome, seconds)


def find_folder() -> str:
    """The folder of our sockets, which nobody else can enter."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = (
        os.path.join(base, "rkllm-chat") if base else os.path.join(tempfile.gettempdir(), f"rkllm-chat-{os.getuid()}")
    )
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise UsageError(
            f"{folder} is not a private folder of yours.", "Remove it, or leave --keep-alive out.", path=folder
        )
    return folder


def fingerprint(server: ServerConfig) -> str:
    """What must be equal for two calls to mean one server: how it is started, where, and in which environment."""
    entry = {key: value for key, value in vars(server).items() if key not in UNCOUNTED}
    told = [entry, os.getcwd(), make_environment(os.environ, server.env), os.environ.get(SANDBOX_VARIABLE)]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode(errors="replace")).hexdigest()[:32]


def connect(path: str) -> socket.socket | None:
    """A connection to a keeper; what is left of one that was killed is removed."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(WELCOME_S)
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


def read_welcome(connection: socket.socket, limit_s: float) -> dict[str, Any] | None:
    """The keeper's first line; None if it does not come. Nothing is read behind it."""
    end, line = time.monotonic() + limit_s, b""
    while not line.endswith(b"\n"):
        connection.settimeout(max(0.001, end - time.monotonic()))
        try:
            piece = connection.recv(1)
        except OSError:
            return None
        if not piece:
            return None
        line += piece
    welcome: dict[str, Any] = json.loads(line)["keeper"]
    return welcome


class Ends:
    """What a pipe needs of a program, of which only a connection is here."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.stdout = connection.detach()
        self.stdin = os.dup(self.stdout)
        self.stderr = self.death = -1
        self._is_open = True

    def guard(self) -> None:
        """The keeper has done it."""

    def exit_code(self) -> int | None:
        return None

    def hint(self) -> str:
        return ""

    def explain_denial(self, text: str) -> str:  # noqa: ARG002 - its processes are the keeper's
        return ""

    def end(self, is_patient: bool = True) -> None:  # noqa: ARG002 - the server is not ended
        if self._is_open:
            os.close(self.stdin)
            os.close(self.stdout)
        self._is_open = False


class KeptPipe(Pipe):
    """A pipe to a server that stays. `session` is what another call agreed on with it, `first` where to count from."""

    def __init__(self, name: str, connection: socket.socket, welcome: dict[str, Any], seconds: float) -> None:
        super().__init__(name, Ends(connection))
        self.session, self.first = welcome["session"], welcome["first"]
        self._end: dict[str, Any] = {}
        self.tell({"keeper": {"seconds": seconds}})

    def agreed(self, session: dict[str, Any]) -> None:
        self.tell({"keeper": {"session": session}})

    def _take_line(self, line: bytes) -> None:
        super()._take_line(line)
        for value in self._values:
            if isinstance(value, dict) and "keeper" in value:
                self._end = value["keeper"]
                self._said = str(self._end.get("stderr", "")).encode()

    def _ended(self) -> int | None:
        code: int | None = self._end.get("exit_code")
        return code
