"""Start server processes in their own session, and stop them with all their children.

A child is recognized by its process group, or by a mark in its environment, which a daemon that left the group retains.
For each server a guard runs: a shell (0.3 MB, 2 ms to start) that waits for the end of a pipe that only this program
holds, then stops them all, so nothing remains when this program is killed. PR_SET_PDEATHSIG reaches only the first
process and must be set in the child: a `preexec_fn` may deadlock in a program with threads (docs.python.org,
subprocess), and forks a program that holds a model instead of using vfork.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from .start import GUARD_SCRIPT, MARK_VARIABLE, StartPlan, decode_exit_code
from .system_calls import join_new_keyring


class ProcessGroup:
    """A running command. Raises OSError if it cannot be started.

    The process stays a zombie until `close`, so that its number is not reused.

    Attributes:
        stdin: Descriptor of its input pipe, non-blocking.
        stdout: Descriptor of its output pipe, non-blocking.
        stderr: Descriptor of its error pipe, non-blocking.
        pidfd: Descriptor that becomes readable when the process ends.
        pid: Process number; in a sandbox, the sandbox's.
    """

    def __init__(self, start: StartPlan) -> None:
        name, value = MARK_VARIABLE, secrets.token_hex(8)
        self._is_sandboxed = start.is_sandboxed
        self._mark = f"{name}={value}".encode()
        self._guard = start_guard(f"{name}={value}")
        try:
            self._child = _run_starter(start, {**start.environment, name: value})
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
        self.pidfd = os.pidfd_open(self.pid)

    def close_stdin(self) -> None:
        """Close the input pipe."""
        self._pipes[0].close()

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
        return decode_exit_code(code) if self._is_sandboxed else code

    def list_running(self) -> list[int]:
        """Return the running processes of its group or with its mark."""
        return find_processes(self.pid, self._mark)

    def send_signal(self, number: signal.Signals) -> bool:
        """Signal all its running processes; return whether there were any.

        The process of a sandbox only receives SIGKILL, because it would end with everything inside it.
        """
        spared = self.pid if self._is_sandboxed and number != signal.SIGKILL else 0
        return signal_processes(self.pid, self._mark, number, spared)

    def close(self) -> None:
        """Release pipes and guard; the processes must have been stopped."""
        for pipe in self._pipes:
            pipe.close()
        os.close(self.pidfd)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=1)
        self._end_guard()

    def _end_guard(self) -> None:
        self._guard.kill()
        self._guard.communicate()


def _run_starter(start: StartPlan, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a server; one that needs a keyring by a thread that leaves this program's.

    The thread never ends, because a sandbox ends with the thread that started it (PR_SET_PDEATHSIG, prctl(2)).
    """
    if not start.needs_keyring:
        return _start_server(start, environment)
    return _keyring_thread().submit(_start_with_keyring, start, environment).result()


@cache
def _keyring_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="servers")


def _start_with_keyring(start: StartPlan, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    join_new_keyring()
    return _start_server(start, environment)


def _start_server(start: StartPlan, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a command in a new session, with pipes."""
    with start.opened() as (command, files):
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=start.folder,
            env=dict(environment),
            start_new_session=True,
            umask=0o077,
            pass_fds=files,
        )


def start_guard(mark: str) -> subprocess.Popen[bytes]:
    """Start the guard, which outlives this program until it has stopped the processes with the mark and their group."""
    return subprocess.Popen(
        ["/bin/sh", "-c", GUARD_SCRIPT, "guard", mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        start_new_session=True,
    )


def signal_processes(group: int, mark: bytes, number: signal.Signals, spared: int = 0) -> bool:
    """Signal all running processes of a group or with a mark, except `spared`; return whether there were any."""
    if not spared:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)  # atomically, so that none escapes by forking
    running = [pid for pid in find_processes(group, mark) if pid != spared]
    for pid in running:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return bool(running)


def find_processes(group: int, mark: bytes) -> list[int]:
    """Return the running processes of a group or with a mark; zombies do not count."""
    return [pid for pid in list_pids() if _belongs(pid, group, mark)]


def _belongs(pid: int, group: int, mark: bytes) -> bool:
    try:
        state, _, its_group = read_stat(pid)[:3]
        if state == "Z":
            return False
        return int(its_group) == group or mark in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or belongs to another user
        return False


def list_pids() -> list[int]:
    """Return the numbers of all processes."""
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def read_stat(pid: int) -> list[str]:
    """Return a process's state, parent, group and so on (proc(5), after its name). Raises OSError if it has ended."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
