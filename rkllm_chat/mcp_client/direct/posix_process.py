"""Start and stop a server process without `subprocess` (4 ms to import, measured).

`process/process_group.py` does the same for a long-running program with threads: it changes neither folder nor umask.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator

from ...config.servers import ServerConfig
from ...core.errors import ConnectError
from ..process.launch import plan_start
from ..process.process_tree import Guard, WatchedProcess, spawn
from ..process.start import MARK_VARIABLE, Sandbox
from ..roots import find_roots

_GRACE_S = 1.0
_POLL_S = 0.01


def start_program(server: ServerConfig) -> PosixProcess:
    """Start a server's command. Raises ConnectError if it cannot be started."""
    try:
        return PosixProcess(server)
    except OSError as error:
        reason = f'Server "{server.name}": {server.command} cannot be started: {error.strerror}.'
        raise ConnectError(reason, server=server.name, phase="start") from error


class PosixProcess(WatchedProcess):
    """A running command; with pidfd_open(2) it stays a zombie until `stop`.

    Raises ConnectError if the command does not exist, OSError if it cannot be started.

    Attributes:
        stdin: Our end of its input pipe; -1 once closed.
        stdout: Our end of its output pipe.
        stderr: Our end of its error pipe.
        exited: Descriptor that becomes readable when the process ends.
        pid: Process number; in a sandbox, the sandbox's.
        sandbox: Its sandbox; None if none is configured.
    """

    def __init__(self, server: ServerConfig) -> None:
        start = plan_start(server, find_roots(server))
        self.sandbox = start.sandbox
        name, value = MARK_VARIABLE, os.urandom(8).hex()
        environment = {**start.environment, name: value}
        self._guard = Guard(f"{name}={value}")
        (child_stdin, self.stdin), (self.stdout, child_stdout), (self.stderr, child_stderr) = (
            os.pipe() for _ in range(3)
        )
        if start.needs_keyring:
            from ..process.system_calls import join_new_keyring

            join_new_keyring()
        try:
            with start.opened() as (command, files), _working_folder(start.folder):
                pid = spawn(command, environment, (child_stdin, child_stdout, child_stderr), files)
        except OSError:
            self._guard.end()
            raise
        finally:
            for pipe in (child_stdin, child_stdout, child_stderr):
                os.close(pipe)
        super().__init__(pid, f"{name}={value}", start.is_sandboxed)
        for pipe in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(pipe, False)
        self._guard.watch(self.pid)
        self._is_open, self._has_ended = True, False

    @property
    def no_sandbox(self) -> str:
        """Why there is no sandbox although one is configured, else ""."""
        return self.sandbox.unavailable_reason if self.sandbox else ""

    def sandbox_hint(self) -> str:
        """For a server that failed, return what it could not access."""
        return self.sandbox.hint if self.sandbox else ""

    def explain_denial(self, text: str) -> str:
        """Return which sandbox setting would allow what the server complains about, else "".

        Without a text, that is the network if the server has tried to use it.
        """
        if self.sandbox is None or not (text or self._may_offer_network(self.sandbox)):
            return ""
        from ..process.denials import find_denial

        denial = find_denial(self.sandbox, self.list_enclosed(), text)
        return denial.text if denial else ""

    def _may_offer_network(self, sandbox: Sandbox) -> bool:
        return sandbox.may_offer_network and sandbox.may_have_denied_network(self.list_enclosed())

    def close_stdin(self) -> None:
        """Close the input pipe."""
        if self.stdin >= 0:
            os.close(self.stdin)
        self.stdin = -1

    def stop(self, is_patient: bool = True) -> None:
        """Close the input, then send SIGTERM, then SIGKILL to all its processes; the first two steps get 1 s each."""
        if not self._is_open:
            return
        self._is_open = False
        self.close_stdin()
        if is_patient:
            _wait_readable(self.exited, _GRACE_S)
            if self.send_signal(signal.SIGTERM):
                self.send_signal(signal.SIGCONT)  # a stopped process receives no other signal
                self._wait_for_all(_GRACE_S)
        if self.send_signal(signal.SIGKILL):
            _wait_readable(self.exited, _GRACE_S)
        self._watch.close()
        with contextlib.suppress(ChildProcessError):  # the watch has waited for it
            os.waitpid(self.pid, os.WNOHANG)
        for pipe in (self.stdout, self.stderr):
            os.close(pipe)
        self._guard.end()

    def _wait_for_all(self, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        while self.list_running() and time.monotonic() < end:
            time.sleep(_POLL_S)

    def send_signal(self, number: int) -> bool:
        """Signal all running processes; once there were none, skip the search, which takes 1 ms."""
        self._has_ended = self._has_ended or not super().send_signal(number)
        return not self._has_ended


@contextlib.contextmanager
def _working_folder(folder: str | None) -> Iterator[None]:
    """Change to a folder and to a umask without access for others while the context lasts."""
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


def _wait_readable(file: int, limit_s: float) -> bool:
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    return bool(waiting.poll(limit_s * 1000))
