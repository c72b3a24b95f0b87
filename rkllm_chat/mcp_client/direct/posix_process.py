"""Start and stop a server process without `subprocess` (4 ms to import, measured).

`ProcessGroup` in `transports/stdio.py` does the same for a long-running program with threads: it changes neither folder
nor umask.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence

from ...config.servers import ServerConfig
from ...core.errors import ConnectError
from ..process.launch import plan_start
from ..process.process_tree import GRACE_S, ServerProcess, spawn, wait_readable
from ..process.start import Sandbox, StartPlan
from ..roots import find_roots

_POLL_S = 0.01


def start_program(server: ServerConfig) -> PosixProcess:
    """Start a server's command. Raises ConnectError if it cannot be started."""
    try:
        return PosixProcess(server)
    except OSError as error:
        reason = f'Server "{server.name}": {server.command} cannot be started: {error.strerror}.'
        raise ConnectError(reason, server=server.name, phase="start") from error


class PosixProcess(ServerProcess):
    """A running command. Raises ConnectError if it does not exist, OSError if it cannot be started."""

    def __init__(self, server: ServerConfig) -> None:
        self._is_open, self._has_ended = True, False
        super().__init__(plan_start(server, find_roots(server)))

    def _spawn(self, start: StartPlan, pipes: Sequence[int]) -> int:
        if start.needs_keyring:
            from ..process.system_calls import join_new_keyring

            # of this process too, which ends with its command; a chat has a thread for it (transports/stdio.py)
            join_new_keyring()
        with start.opened() as (command, files), _working_folder(start.folder):
            return spawn(command, start.environment, pipes, files)

    @property
    def no_sandbox(self) -> str:
        """Why there is no sandbox although one is configured, else ""."""
        return self.sandbox.unavailable_reason if self.sandbox else ""

    def explain_end(self, stderr: str) -> str:
        """For a server that ended, return what its user can do, from what it wrote last."""
        from ..process.end_hints import explain_end

        return explain_end(stderr, self.exit_code, self.sandbox)

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

    def send_signal(self, number: int) -> bool:
        """Signal all running processes; once there were none, skip the search, which takes 1 ms."""
        self._has_ended = self._has_ended or not super().send_signal(number)
        return not self._has_ended

    def stop(self, is_patient: bool = True) -> None:
        """Close the input, then send SIGTERM, then SIGKILL to all its processes; the first two steps get 1 s each."""
        if not self._is_open:
            return
        self._is_open = False
        for is_for_all in self.stop_steps(is_patient):
            if is_for_all:
                self._wait_for_all(GRACE_S)
            else:
                wait_readable(self.exited, GRACE_S)
        self.send_signal(signal.SIGKILL)
        self.close()

    def _wait_for_all(self, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        # the kernel sends no event for processes that are no children of this one
        while self.list_running() and time.monotonic() < end:
            time.sleep(_POLL_S)


@contextlib.contextmanager
def _working_folder(folder: str | None) -> Iterator[None]:
    """Change to a folder and to a umask without access for others while the context lasts."""
    # of this process, since posix_spawn sets neither; one-shot commands have one thread
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
