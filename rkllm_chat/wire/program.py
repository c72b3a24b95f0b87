"""A server's process, without `subprocess` (4 ms to import, measured): started in a session of its own, ended whole.

`servers/processes.py` is the same for a program that runs on and has threads: it changes neither folder nor umask.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from ..errors import ConnectError
from ..servers.programs import GUARD, MARK, plan_start, read_exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..config import ServerConfig

GRACE_S = 1.0
POLL_S = 0.01
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start(server: ServerConfig) -> Program:
    """Starts a server's command. Raises ConnectError if it cannot be started."""
    try:
        return Program(server)
    except OSError as error:
        reason = f'Server "{server.name}": {server.command} cannot be started: {error.strerror}.'
        raise ConnectError(reason, server=server.name, phase="start") from error


class Program:
    """A running command. `stdin`, `stdout`, `stderr` are our ends of its pipes; `death` is readable when it ends.

    It stays a zombie until `end`. Raises ConnectError if there is no such command, OSError if it cannot be started.
    """

    def __init__(self, server: ServerConfig) -> None:
        start = plan_start(server)
        self.sandbox, self._is_enclosed = start.sandbox, start.is_enclosed
        self._mark = f"{MARK}={os.urandom(8).hex()}"
        name, _, value = self._mark.partition("=")
        environment = {**start.environment, name: value}
        (theirs_in, self.stdin), (self.stdout, theirs_out), (self.stderr, theirs_err) = (os.pipe() for _ in range(3))
        try:
            with standing_in(start.folder):
                self.pid = spawn(start.command, environment, (theirs_in, theirs_out, theirs_err))
        finally:
            for pipe in (theirs_in, theirs_out, theirs_err):
                os.close(pipe)
        for pipe in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(pipe, False)
        self.death = os.pidfd_open(self.pid)
        self._is_open, self._is_empty, self._guard, self._leash = True, False, 0, -1

    def guard(self) -> None:
        """Has a shell stand by that ends the server if this program is killed."""
        held, self._leash = os.pipe()
        nowhere = os.open(os.devnull, os.O_RDWR)
        command = ["/bin/sh", "-c", GUARD, "guard", self._mark]
        self._guard = spawn(command, {"PATH": "/usr/bin:/bin"}, (held, nowhere, nowhere))
        os.write(self._leash, f"{self.pid}\n".encode())
        os.close(held)
        os.close(nowhere)

    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
        return read_exit(code) if self._is_enclosed else code

    def hint(self) -> str:
        """For a server that has died: what it could not reach."""
        return self.sandbox.hint if self.sandbox else ""

    def explain_denial(self, text: str) -> str:
        """Whether its sandbox is why it complains in a text, and what allows it; else ""."""
        inner = [pid for pid in self._living() if pid != self.pid]  # bubblewrap's first process has our network
        return self.sandbox.explain_denial(inner, text) if self.sandbox else ""

    def close_stdin(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
        self.stdin = -1

    def end(self, is_patient: bool = True) -> None:
        """Its input ends, then it is asked to end, then it is made to; each step has GRACE_S, and children the same."""
        if not self._is_open:
            return
        self._is_open = False
        self.close_stdin()
        if is_patient:
            wait_readable(self.death, GRACE_S)
            if self._send(signal.SIGTERM):
                self._send(signal.SIGCONT)  # one that is stopped hears nothing else
                self._wait_for_all(GRACE_S)
        if self._send(signal.SIGKILL):
            wait_readable(self.death, GRACE_S)
        os.waitpid(self.pid, os.WNOHANG)
        for pipe in (self.stdout, self.stderr, self.death):
            os.close(pipe)
        self._end_guard()

    def _wait_for_all(self, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        while self._living() and time.monotonic() < end:
            time.sleep(POLL_S)

    def _send(self, number: int) -> bool:
        """Signals all that live; whether there were any. Once there are none, nobody looks again: it takes 1 ms."""
        if self._is_empty:
            return False
        is_spared = self._is_enclosed and number != signal.SIGKILL  # a sandbox would end at once, with all in it
        if not is_spared:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)  # at once, so that none escapes by forking
        living = [pid for pid in self._living() if not is_spared or pid != self.pid]
        for pid in living:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        self._is_empty = not living
        return bool(living)

    def _living(self) -> list[int]:
        """Its processes that run: of its group, or with its mark in their environment, which a daemon keeps."""
        mark = self._mark.encode()
        found = []
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            with contextlib.suppress(OSError):  # it has gone, or is another user's
                state, _, group = read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:3]
                if state != b"Z" and (int(group) == self.pid or mark in read_file(f"/proc/{pid}/environ")):
                    found.append(pid)
        return found

    def _end_guard(self) -> None:
        if self._guard:
            os.kill(self._guard, signal.SIGKILL)
            os.waitpid(self._guard, 0)
            os.close(self._leash)


def spawn(command: list[str], environment: Mapping[str, str], pipes: Sequence[int]) -> int:
    """Starts a command with its standard input, output and error; gives its process number. Raises OSError."""
    moves: list[tuple[int, ...]] = [(os.POSIX_SPAWN_DUP2, pipe, number) for number, pipe in enumerate(pipes)]
    moves += [(os.POSIX_SPAWN_CLOSE, file) for file in list_inheritable()]
    return os.posix_spawn(
        command[0], command, environment, file_actions=moves, setsid=True, setsigdef=RESTORED, setsigmask=()
    )


def list_inheritable() -> list[int]:
    """What this program was itself handed open, beside the first three, and no server is to have."""
    found = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]
    inheritable = []
    for file in found:
        with contextlib.suppress(OSError):  # the one that the list was read through
            if os.get_inheritable(file):
                inheritable.append(file)
    return inheritable


@contextlib.contextmanager
def standing_in(folder: str | None) -> Iterator[None]:
    """What is started in here stands in that folder, and makes files that only their owner can read."""
    here = os.open(".", os.O_RDONLY) if folder else -1
    mask = os.umask(0o077)
    try:
        if folder:
            os.chdir(folder)
        yield
    finally:
        os.umask(mask)
        if folder:
            os.fchdir(here)
            os.close(here)


def wait_readable(file: int, limit_s: float) -> bool:
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    return bool(waiting.poll(limit_s * 1000))


def read_file(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
