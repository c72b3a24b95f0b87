"""Start server processes in their own session from a program with threads, and stop them with all their children."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from .process_tree import Guard, WatchedProcess
from .start import MARK_VARIABLE, StartPlan
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
        self._guard = Guard(f"{name}={value}")
        try:
            self._child = _run_starter(start, {**start.environment, name: value})
        except BaseException:
            self._guard.end()
            raise
        super().__init__(self._child.pid, f"{name}={value}", start.is_sandboxed)
        assert self._child.stdin and self._child.stdout and self._child.stderr
        self._guard.watch(self.pid)
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
        self._guard.end()


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
