"""Keep a server running between calls: a process that owns it and lends its pipes to one client of this user at a time.

Started only by `--keep-alive SECONDS`; ends with its server when unused for that time. A client gets the pipes with the
first line (SCM_RIGHTS, unix(7)) and uses them itself until it disconnects. Lines are objects with the single key
`keeper`.

    to the client   {"keeper": {"first": 1000000, "session": {...} or null, "no_sandbox": ""}}
                                                                               ready; number requests from there
                    {"keeper": {"error": ..., "hint": ..., "details": {...}}}  the server could not be started
                    {"keeper": {"exit_code": 3}}                               the server has ended
    to the daemon   {"keeper": {"session": {...}}}                             the negotiated session
                    {"keeper": {"seconds": 0}}                                 idle time before it ends, from now on
                    {"keeper": {"writing": true}}                              a message is being written to the server

A client that is killed while it writes leaves half a message, so the server ends with it. What a client has read in
part, or has not read, is no response to the next one, which numbers its requests anew.
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
from collections.abc import Iterator
from typing import Any

from ...config.servers import ServerConfig
from ...core.errors import ChatError
from ..process.process_tree import list_inheritable_fds, wait_readable
from .posix_process import PosixProcess, start_program

_CHUNK_BYTES = 1 << 16
_IDS_PER_CLIENT = 1_000_000


def fork_daemon(server: ServerConfig, path: str, seconds: float) -> socket.socket:
    """Start a daemon with its server in a new session; return the connection of its first client.

    Args:
        server: The server's configuration.
        path: The daemon's socket for later clients.
        seconds: Idle time before it ends.
    """
    own_end, daemon_end = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                own_end.close()
                _Daemon(server, path, seconds).run(daemon_end)
        finally:
            os._exit(0)
    daemon_end.close()
    os.waitpid(child, 0)
    return own_end


class _Daemon:
    """One server and its socket."""

    def __init__(self, server: ServerConfig, path: str, seconds: float) -> None:
        self._server, self._path, self._idle_s = server, path, seconds
        self._session: Any = None
        self._client: socket.socket | None = None
        self._client_count = 0
        self._is_writing = False
        self._received = b""

    def run(self, first: socket.socket) -> None:
        """Serve until the server ends or is unused, detached from terminal and signals."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # the guard then ends the server
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for file in list_inheritable_fds():
            os.close(file)
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        try:
            self._program = start_program(self._server)
        except ChatError as error:
            failure = {"error": error.message, "hint": error.hint, "details": error.details}
            first.sendall(_serialize_control(failure))
            return
        os.chdir("/")
        with contextlib.closing(self._listen()) as self._listener:
            self._welcome(first)
            self._serve(self._program)
        self._program.stop()

    def _listen(self) -> socket.socket:
        """Open the socket for later clients; without one if another daemon was faster."""
        listener = socket.socket(socket.AF_UNIX)
        os.umask(0o177)
        try:
            with short_path(self._path) as path:
                listener.bind(path)
            listener.listen(4)
        except OSError:
            self._path, self._idle_s = "", 0.0
        return listener

    def _serve(self, program: PosixProcess) -> None:
        """Lend the pipes until the server ends, or no client used it for its idle time; drop what it says to none."""
        idle_since, unread = time.monotonic(), {program.stdout, program.stderr}
        is_over = False
        while not is_over:
            limit_s = None if self._client else idle_since + self._idle_s - time.monotonic()
            if limit_s is not None and limit_s <= 0:
                break
            ready = self._wait(unread, limit_s)
            if self._client and self._client.fileno() in ready:
                is_over = not self._receive(self._client) and self._is_writing
                idle_since = time.monotonic()
            elif self._path and self._listener.fileno() in ready:
                self._accept()
            elif program.exited in ready:
                self._report_exit(program)
                is_over = True
            for pipe in ready & unread:
                with contextlib.suppress(BlockingIOError):
                    if not os.read(pipe, _CHUNK_BYTES):
                        unread.remove(pipe)
                        is_over = is_over or pipe == program.stdout
        if self._path:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _wait(self, unread: set[int], limit_s: float | None) -> set[int]:
        poll, listener = select.poll(), [self._listener.fileno()] if self._path else []
        for file in (self._program.exited, *([self._client.fileno()] if self._client else [*unread, *listener])):
            poll.register(file, select.POLLIN)
        return {file for file, _ in poll.poll(None if limit_s is None else limit_s * 1000)}

    def _accept(self) -> None:
        """Accept the next client if it is of this user."""
        client, _ = self._listener.accept()
        if _is_of_this_user(client):
            self._welcome(client)
        else:
            client.close()

    def _welcome(self, client: socket.socket) -> None:
        """Lend the pipes to a client; one that has gone is noticed when it is read."""
        self._client, self._received, self._is_writing = client, b"", False
        self._client_count += 1
        first = self._client_count * _IDS_PER_CLIENT
        welcome = {"first": first, "session": self._session, "no_sandbox": self._program.no_sandbox}
        pipes = [self._program.stdin, self._program.stdout, self._program.stderr]
        with contextlib.suppress(OSError):
            socket.send_fds(client, [_serialize_control(welcome)], pipes)

    def _receive(self, client: socket.socket) -> bool:
        """Apply what the client sent; release it and return False if it has disconnected."""
        data = b""
        with contextlib.suppress(OSError):
            data = client.recv(_CHUNK_BYTES)
        if not data:
            client.close()
            self._client = None
            return False
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._apply_control(line)
        return True

    def _apply_control(self, line: bytes) -> None:
        """Apply a control line of the client; a malformed one is ignored, because the server must outlive it."""
        try:
            command = json.loads(line)["keeper"]
        except (ValueError, RecursionError):
            return
        if not isinstance(command, dict):
            return
        session, seconds = command.get("session"), command.get("seconds")
        self._is_writing = command.get("writing", self._is_writing) is True
        if isinstance(session, dict):
            self._session = session
        if isinstance(seconds, int | float) and self._path:  # without its socket, no later call reaches it
            self._idle_s = seconds

    def _report_exit(self, program: PosixProcess) -> None:
        """Report the server's exit to the client."""
        if self._client:
            self._client.settimeout(1.0)
            with contextlib.suppress(OSError):
                self._client.sendall(_serialize_control({"exit_code": program.exit_code}))


class KeptProgram:
    """The pipes of a kept server and the connection to its daemon, with the members of a `PosixProcess` that are used.

    The server's processes and its sandbox belong to the daemon.
    """

    def __init__(self, connection: socket.socket, pipes: list[int]) -> None:
        self.connection = connection
        self.stdin, self.stdout, self.stderr = self._pipes = pipes
        self.exited = connection.fileno()
        self._exit_code: int | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code that the daemon reports; None while the server runs."""
        if self._exit_code is None and wait_readable(self.exited, 0):
            with contextlib.suppress(OSError, ValueError):  # the daemon itself may have been killed
                self._exit_code = json.loads(self.connection.recv(_CHUNK_BYTES))["keeper"]["exit_code"]
        return self._exit_code

    def tell(self, **command: Any) -> None:
        """Send a control line to the daemon; one that has been killed needs none."""
        with contextlib.suppress(OSError):
            self.connection.sendall(_serialize_control(command))

    def sandbox_hint(self) -> str:
        """Return ""."""
        return ""

    def explain_denial(self, text: str) -> str:  # noqa: ARG002 - nothing is known
        """Return ""."""
        return ""

    def stop(self, is_patient: bool = True) -> None:  # noqa: ARG002 - the server is not ended
        """Disconnect; the server keeps running."""
        while self._pipes:
            os.close(self._pipes.pop())
        self.connection.close()


def _is_of_this_user(client: socket.socket) -> bool:
    """Tell whether a client runs as this user; macOS does not say, where only the socket's private folder decides."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(user == os.getuid())


@contextlib.contextmanager
def short_path(path: str) -> Iterator[str]:
    """Yield a short alias of a path, since a socket's may have at most 103 bytes on macOS, 107 on Linux (unix(7)).

    Without /proc, it is relative to the working folder, which changes while the context lasts.
    """
    folder_path, name = os.path.split(path)
    has_proc = os.path.isdir("/proc/self/fd")
    folder = os.open(folder_path if has_proc else ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not has_proc:
            os.chdir(folder_path)
        yield f"/proc/self/fd/{folder}/{name}" if has_proc else name
    finally:
        if not has_proc:
            os.fchdir(folder)
        os.close(folder)


def _serialize_control(value: dict[str, Any]) -> bytes:
    """Serialize a control line."""
    return json.dumps({"keeper": value}, separators=(",", ":"), default=str).encode() + b"\n"
