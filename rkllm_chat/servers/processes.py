"""Server processes: started in a session of their own, ended with all their children. It knows no protocol.

A child is known by its group and by a mark in its environment, which also a daemon keeps that left the group.
A guard stands by each server: a shell (0.3 MB, 2 ms to start) that waits for the end of a pipe which only this program
holds, and then ends them all. So nothing is left when this program is killed. PR_SET_PDEATHSIG reaches the first
process alone, and must be set in the child: a `preexec_fn` may deadlock where there are threads (docs.python.org,
subprocess), and forks a program that holds a model instead of using vfork.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .programs import GUARD, MARK, Start, read_exit


class Process:
    """A running command. `stdin`, `stdout` and `stderr` are descriptors of its pipes, and do not block.

    `death` is one that becomes readable when it ends. It stays a zombie until `close`, so that its number means no
    other process. In a sandbox `pid` is the sandbox's. Raises OSError if it cannot be started.
    """

    def __init__(self, start: Start) -> None:
        name, value = MARK, secrets.token_hex(8)
        self._is_enclosed = start.is_enclosed
        self._mark = f"{name}={value}".encode()
        self._guard = start_guard(f"{name}={value}")
        try:
            self._child = start_server(start.command, {**start.environment, name: value}, start.folder)
        except BaseException:
            self._end_guard()
            raise
        self.pid = self._child.pid
        assert self._guard.stdin and self._child.stdin and self._child.stdout and self._child.stderr
        self._guard.stdin.write(f"{self.pid}\n".encode())
        self._pipes = (self._child.stdin, self._child.stdout, self._child.stderr)
        self.stdin, self.stdout, self.stderr = (pipe.fileno() for pipe in self._pipes)
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        self.death = os.pidfd_open(self.pid)

    def close_stdin(self) -> None:
        self._pipes[0].close()

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
        return read_exit(code) if self._is_enclosed else code

    def living(self) -> list[int]:
        """Its processes that run: of its group, or with its mark."""
        return find_living(self.pid, self._mark)

    def send(self, number: signal.Signals) -> bool:
        """Signals all that live; whether there were any. A sandbox would end at once, and everything in it."""
        spared = self.pid if self._is_enclosed and number != signal.SIGKILL else 0
        return send_all(self.pid, self._mark, number, spared)

    def close(self) -> None:
        """Lets go of everything; it and its group have been ended."""
        for pipe in self._pipes:
            pipe.close()
        os.close(self.death)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=1)
        self._end_guard()

    def _end_guard(self) -> None:
        self._guard.kill()
        self._guard.communicate()


def start_server(command: Sequence[str], environment: Mapping[str, str], cwd: str | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=cwd,
        env=dict(environment),
        start_new_session=True,
        umask=0o077,
    )


def start_guard(mark: str) -> subprocess.Popen[bytes]:
    """A process that outlives this one just long enough to end whoever carries the mark, and the group it is told."""
    return subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "guard", mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        start_new_session=True,
    )


def send_all(group: int, mark: bytes, number: signal.Signals, spared: int = 0) -> bool:
    """Signals all that live of a group or with a mark, but for one; whether there were any."""
    if not spared:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)  # at once, so that none escapes by forking
    living = [pid for pid in find_living(group, mark) if pid != spared]
    for pid in living:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return bool(living)


def find_living(group: int, mark: bytes) -> list[int]:
    """The processes that run and are of a group or have a mark. A zombie does not run."""
    return [pid for pid in list_processes() if belongs(pid, group, mark)]


def belongs(pid: int, group: int, mark: bytes) -> bool:
    try:
        state, _, its_group = read_stat(pid)[:3]
        if state == "Z":
            return False
        return int(its_group) == group or mark in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has gone, or is another user's
        return False


def list_processes() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def read_stat(pid: int) -> list[str]:
    """A process's state, parent, group and so on (proc(5), behind its name). Raises OSError if it has gone."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
