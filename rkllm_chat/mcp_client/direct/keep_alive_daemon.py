"""Keep a server running between calls: a process that owns its pipes and serves one client of this user at a time.

Started only by `--keep-alive SECONDS`; ends with its server when unused for that time. It forwards JSON-RPC lines
without parsing them; its own lines are objects with the single key `keeper`.

    to the client   {"keeper": {"first": 1000000, "session": {...} or null, "no_sandbox": ""}}
                                                                               ready; number requests from there
                    {"keeper": {"error": ..., "hint": ..., "details": {...}}}  the server could not be started
                    {"keeper": {"exit_code": 3, "stderr": "..."}}              the server has ended
    to the daemon   {"keeper": {"session": {...}}}                             the negotiated session
                    {"keeper": {"seconds": 0}}                                 idle time before it ends, from now on
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
from ...core.redact import truncate_start
from ..process.process_tree import list_inheritable_fds, read_available, wait_readable
from ..protocol.limits import STDERR_TAIL_BYTES
from .posix_process import PosixProcess, start_program

CHUNK_BYTES = 1 << 16
_MAX_BUFFER_BYTES = 32 << 20
_IDS_PER_CLIENT = 1_000_000
CONTROL_PREFIX = b'{"keeper":'


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
        self._from_client, self._to_client, self._to_server = bytearray(), bytearray(), bytearray()
        self._stderr_tail = b""
        self._is_within_line = self._skips_line = self._is_over = False
        self._is_stderr_open = True

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
        self._client = first
        try:
            self._program = start_program(self._server)
        except ChatError as error:
            failure = {"error": error.message, "hint": error.hint, "details": error.details}
            first.sendall(serialize_control(failure))
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
        """Forward messages until the server ends, or no client used it for its idle time."""
        idle_since = time.monotonic()
        while not self._is_over:
            limit_s = None if self._client else idle_since + self._idle_s - time.monotonic()
            if limit_s is not None and limit_s <= 0:
                break
            ready = self._wait(limit_s)
            self._serve_program(program, ready)
            if self._client and self._client.fileno() in ready:
                self._serve_client(self._client)
                idle_since = time.monotonic()
            if self._path and self._listener.fileno() in ready:
                self._accept()
            if program.exited in ready and program.stdout not in ready:
                self._report_exit()
        if self._path:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _serve_program(self, program: PosixProcess, ready: set[int]) -> None:
        """Read and write the pipes of the server that are ready."""
        if program.stdout in ready:
            self._forward_output()
        if program.stderr in ready:
            self._is_stderr_open = self._read_stderr()
        if program.stdin in ready:
            self._flush(program.stdin, self._to_server)

    def _read_stderr(self) -> bool:
        data = read_available(self._program.stderr)
        self._stderr_tail = truncate_start(self._stderr_tail + data, STDERR_TAIL_BYTES)
        return bool(data)

    def _wait(self, limit_s: float | None) -> set[int]:
        poll, program = select.poll(), self._program
        for file in (
            program.exited,
            *([program.stderr] if self._is_stderr_open else ()),  # else it is always ready
            *([program.stdout] if len(self._to_client) < _MAX_BUFFER_BYTES else ()),
        ):
            poll.register(file, select.POLLIN)
        if self._to_server:
            poll.register(program.stdin, select.POLLOUT)
        if self._client:
            reads = select.POLLIN if len(self._to_server) < _MAX_BUFFER_BYTES else 0
            poll.register(self._client, reads | (select.POLLOUT if self._to_client else 0))
        elif self._path:
            poll.register(self._listener, select.POLLIN)
        return {file for file, _ in poll.poll(None if limit_s is None else limit_s * 1000)}

    def _accept(self) -> None:
        """Accept the next client if it is of this user."""
        client, _ = self._listener.accept()
        if _is_of_this_user(client):
            self._welcome(client)
        else:
            client.close()

    def _welcome(self, client: socket.socket) -> None:
        client.setblocking(False)
        self._client, self._skips_line = client, self._is_within_line
        self._client_count += 1
        first = self._client_count * _IDS_PER_CLIENT
        welcome = {"first": first, "session": self._session, "no_sandbox": self._program.no_sandbox}
        self._to_client = bytearray(serialize_control(welcome))

    def _forward_output(self) -> None:
        """Forward server output to the client in whole lines; dropped if there is none."""
        data = read_available(self._program.stdout)
        if not data:
            self._report_exit()
            return
        self._is_within_line = not data.endswith(b"\n")
        if self._skips_line:
            _, line_end, data = data.partition(b"\n")
            self._skips_line = not line_end
        if self._client:
            self._to_client += data

    def _serve_client(self, client: socket.socket) -> None:
        """Read from the client and write to it; release it if it has disconnected."""
        if not self._receive(client) or not self._flush(client.fileno(), self._to_client):
            client.close()
            self._client = None
            self._from_client.clear()
            return
        *lines, rest = self._from_client.split(b"\n")
        self._from_client = rest
        for line in lines:
            if line.lstrip().startswith(CONTROL_PREFIX):
                self._apply_control(line)
            else:
                self._to_server += line + b"\n"
        self._flush(self._program.stdin, self._to_server)

    def _apply_control(self, line: bytes | bytearray) -> None:
        """Apply a control line of the client; a malformed one is ignored, because the server must outlive it."""
        try:
            command = json.loads(line)["keeper"]
        except (ValueError, RecursionError):
            return
        if not isinstance(command, dict):
            return
        session, seconds = command.get("session"), command.get("seconds")
        if isinstance(session, dict):
            self._session = session
        if isinstance(seconds, int | float) and self._path:  # without its socket, no later call reaches it
            self._idle_s = seconds

    def _receive(self, client: socket.socket) -> bool:
        """Read what the client sent; return False if it has disconnected."""
        if len(self._to_server) >= _MAX_BUFFER_BYTES:
            return True
        try:
            data = client.recv(CHUNK_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._from_client += data
        return bool(data)

    def _flush(self, file: int, data: bytearray) -> bool:
        """Write what the file accepts; return False if its reader has closed it."""
        try:
            while data:
                del data[: os.write(file, data)]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def _report_exit(self) -> None:
        """Report the server's exit to the client and stop serving."""
        program = self._program
        wait_readable(program.exited, 0.1)
        self._read_stderr()
        stderr = self._stderr_tail.decode("utf-8", errors="replace").strip()
        if self._client:
            self._client.setblocking(True)
            self._client.settimeout(1.0)
            with contextlib.suppress(OSError):
                self._client.sendall(
                    self._to_client + serialize_control({"exit_code": program.exit_code, "stderr": stderr})
                )
            self._client.close()
        self._is_over = True


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


def serialize_control(value: dict[str, Any]) -> bytes:
    """Serialize a control line."""
    return json.dumps({"keeper": value}, separators=(",", ":"), default=str).encode() + b"\n"
