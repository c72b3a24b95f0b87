"""Start server processes in their own session, and stop them with all their children.

For each server a guard runs: a shell (0.3 MB, 2 ms to start) that waits for the end of a pipe that only this program
holds, then stops them all, so nothing remains when this program is killed. PR_SET_PDEATHSIG reaches only the first
process and must be set in the child: a `preexec_fn` may deadlock in a program with threads (docs.python.org,
subprocess), and forks a program that holds a model instead of using vfork.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from .process_tree import WatchedProcess
from .start import GUARD_SCRIPT, MARK_VARIABLE, StartPlan
from .system_calls import join_new_keyring


class ProcessGroup(WatchedProcess):
    """A running command. Raises OSError if it cannot be started.

    With pidfd_open(2) the process stays a zombie until `close`, so that its number is not reused.

    Attributes:
        stdin: Descriptor of its input pipe, non-blocking.
        stdout: Descriptor of its output pipe, non-blocking.
        stderr: Descriptor of its error pipe, non-blocking.
        exited: Descriptor that becomes readable when the process ends.
        pid: Process number; in a sandbox, the sandbox's.
    """

    def __init__(self, start: StartPlan) -> None:
        name, value = MARK_VARIABLE, secrets.token_hex(8)
        self._guard = start_guard(f"{name}={value}")
        try:
            self._child = _run_starter(start, {**start.environment, name: value})
        except BaseException:
            self._end_guard()
            raise
        super().__init__(self._child.pid, f"{name}={value}", start.is_sandboxed)
        assert self._guard.stdin and self._child.stdin and self._child.stdout and self._child.stderr
        self._guard.stdin.write(f"{self.pid}\n".encode())
        self._pipes = (self._child.stdin, self._child.stdout, self._child.stderr)
        self.stdin, self.stdout, self.stderr = (pipe.fileno() for pipe in self._pipes)
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)

    def close_stdin(self) -> None:
        """Close the input pipe."""
        self._pipes[0].close()

    def close(self) -> None:
        """Release pipes and guard; the processes must have been stopped."""
        for pipe in self._pipes:
            pipe.close()
        self._watch.close()
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
