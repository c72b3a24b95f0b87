"""A server that stays for the next call: a process holds its pipes, and lets one client of this user at a time talk.

It is started by `--keep-alive SECONDS` alone, and ends with its server when nobody has called for so long. It knows of
JSON-RPC only that messages are lines; its own lines are objects with the one key `keeper`.

    to the client   {"keeper": {"first": 1000000, "session": {...} or null}}   you may talk; count requests from there
                    {"keeper": {"error": ..., "hint": ..., "details": {...}}}  the server could not be started
                    {"keeper": {"exit_code": 3, "stderr": "..."}}              the server has ended
    to the keeper   {"keeper": {"session": {...}}}                             what was agreed on with the server
                    {"keeper": {"seconds": 0}}                                 how long to stay from now on
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import time

from ..errors import ChatError
from ..redact import keep_end
from .program import Program, list_inheritable, start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..config import ServerConfig

PIECE = 1 << 16
MOST_HELD = 32 << 20
LAST_WORDS = 4096
IDS_EACH = 1_000_000
OWN = b'{"keeper":'


def fork_keeper(server: ServerConfig, path: str, seconds: float) -> socket.socket:
    """Starts a keeper in a session of its own, and the server in it; gives the connection of its first client."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                ours.close()
                Keeper(server, path, seconds).run(theirs)
        finally:
            os._exit(0)
    theirs.close()
    os.waitpid(child, 0)
    return ours


class Keeper:
    """One server and its socket."""

    def __init__(self, server: ServerConfig, path: str, seconds: float) -> None:
        self._server, self._path, self._seconds = server, path, seconds
        self._session: Any = None
        self._client: socket.socket | None = None
        self._clients = 0
        self._from_client, self._to_client, self._to_server = bytearray(), bytearray(), bytearray()
        self._said = b""
        self._is_within_line = self._skips_line = self._is_over = False

    def run(self, first: socket.socket) -> None:
        """Serves until it is over. Nobody sees what it writes, and no key stops it."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # the guard then ends the server
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for file in list_inheritable():
            os.close(file)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
        self._client = first
        try:
            self._program = start(self._server)
        except ChatError as error:
            said = {"error": error.message, "hint": error.hint, "details": error.details}
            first.sendall(dump(said))
            return
        self._program.guard()
        os.chdir("/")
        with contextlib.closing(self._listen()) as self._listener:
            self._welcome(first)
            self._serve(self._program)
        self._program.end()

    def _listen(self) -> socket.socket:
        """The socket for later clients; where another keeper was quicker, there will be none."""
        listener = socket.socket(socket.AF_UNIX)
        os.umask(0o177)
        try:
            with short_path(self._path) as path:
                listener.bind(path)
            listener.listen(4)
        except OSError:
            self._path, self._seconds = "", 0.0
        return listener

    def _serve(self, program: Program) -> None:
        idle_since = time.monotonic()
        while not self._is_over:
            limit_s = None if self._client else idle_since + self._seconds - time.monotonic()
            if limit_s is not None and limit_s <= 0:
                break
            ready = self._wait(limit_s)
            if program.stdout in ready:
                self._take_output()
            if program.stderr in ready:
                self._said = keep_end(self._said + (read(program.stderr) or b""), LAST_WORDS)
            if program.stdin in ready:
                self._flush(program.stdin, self._to_server)
            if self._client and self._client.fileno() in ready:
                self._talk()
                idle_since = time.monotonic()
            if self._path and self._listener.fileno() in ready:
                self._accept()
            if program.death in ready and program.stdout not in ready:
                self._report_end()
        if self._path:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _wait(self, limit_s: float | None) -> set[int]:
        poll, program = select.poll(), self._program
        for file in (program.stderr, program.death, *([program.stdout] if len(self._to_client) < MOST_HELD else ())):
            poll.register(file, select.POLLIN)
        if self._to_server:
            poll.register(program.stdin, select.POLLOUT)
        if self._client:
            reads = select.POLLIN if len(self._to_server) < MOST_HELD else 0
            poll.register(self._client, reads | (select.POLLOUT if self._to_client else 0))
        elif self._path:
            poll.register(self._listener, select.POLLIN)
        return {file for file, _ in poll.poll(None if limit_s is None else limit_s * 1000)}

    def _accept(self) -> None:
        """Takes the next client, if it is of this user."""
        client, _ = self._listener.accept()
        size = struct.calcsize("3i")
        _, user, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        if user == os.getuid():
            self._welcome(client)
        else:
            client.close()

    def _welcome(self, client: socket.socket) -> None:
        client.setblocking(False)
        self._client, self._skips_line = client, self._is_within_line
        self._clients += 1
        self._to_client = bytearray(dump({"first": self._clients * IDS_EACH, "session": self._session}))

    def _take_output(self) -> None:
        """What the server writes goes to the client, whole lines; without one it is lost, as its question was."""
        data = read(self._program.stdout)
        if not data:
            self._report_end()
            return
        self._is_within_line = not data.endswith(b"\n")
        if self._skips_line:
            _, line_end, data = data.partition(b"\n")
            self._skips_line = not line_end
        if self._client:
            self._to_client += data

    def _talk(self) -> None:
        """Reads from the client and writes to it; it may have left."""
        assert self._client
        if not self._hear(self._client) or not self._flush(self._client.fileno(), self._to_client):
            self._client.close()
            self._client = None
            self._from_client.clear()
            return
        *lines, rest = self._from_client.split(b"\n")
        self._from_client = rest
        for line in lines:
            if line.lstrip().startswith(OWN):
                told = json.loads(line)["keeper"]
                self._session, self._seconds = told.get("session", self._session), told.get("seconds", self._seconds)
            else:
                self._to_server += line + b"\n"
        self._flush(self._program.stdin, self._to_server)

    def _hear(self, client: socket.socket) -> bool:
        """Takes what the client sent; False if it has left."""
        if len(self._to_server) >= MOST_HELD:
            return True
        try:
            data = client.recv(PIECE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._from_client += data
        return bool(data)

    def _flush(self, file: int, data: bytearray) -> bool:
        """Writes what is taken; False if nobody is there."""
        try:
            while data:
                del data[: os.write(file, data)]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def _report_end(self) -> None:
        """The server has ended: whoever talks with it is told how, and then it is over here too."""
        program = self._program
        poll = select.poll()
        poll.register(program.death, select.POLLIN)
        poll.poll(100)
        self._said = keep_end(self._said + (read(program.stderr) or b""), LAST_WORDS)
        words = self._said.decode("utf-8", errors="replace").strip()
        if self._client:
            self._client.setblocking(True)
            self._client.settimeout(1.0)
            with contextlib.suppress(OSError):
                self._client.sendall(self._to_client + dump({"exit_code": program.exit_code(), "stderr": words}))
            self._client.close()
        self._is_over = True


@contextlib.contextmanager
def short_path(path: str) -> Iterator[str]:
    """Another name of the same file: a socket's may have 107 bytes at most (unix(7))."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def dump(said: dict[str, Any]) -> bytes:
    return json.dumps({"keeper": said}, separators=(",", ":"), default=str).encode() + b"\n"


def read(file: int) -> bytes:
    try:
        return os.read(file, PIECE)
    except BlockingIOError:
        return b""
