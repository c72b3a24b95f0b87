"""The parent's side of the NPU worker: starts it, sends commands, receives results, and reports how it died.

Every wait has a limit.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

from ...core.private_files import make_folder, open_private
from ...core.programs import describe_exit
from ...core.run_module import run_module

_SEND_S = 10.0
_EXIT_WAIT_S = 3.0
_MAX_LOG_BYTES = 1_000_000
_MAX_QUOTED_LINES = 3
_WAKE_UP: dict[str, Any] = {"wake": True}


class WorkerDiedError(Exception):
    """The worker ended without being asked to; the text says how.

    Attributes:
        exit_code: Its exit code, negative for a signal; None if it still exists but does not respond.
    """

    def __init__(self, text: str, exit_code: int | None = None) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class StoppedError(Exception):
    """The waiting thread was asked to stop."""


class WorkerClient:
    """A running worker.

    Attributes:
        log: The file to which the library's output is appended.
    """

    def __init__(self, config: Mapping[str, Any], log: Path) -> None:
        """Start a worker.

        Args:
            config: Its first command.
            log: The file for the library's output.

        Raises:
            WorkerDiedError: It ended at once.
        """
        self.log = log
        self._log_begin = _open_log(log)
        self._results: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._count = 0
        # a socket for the commands, because its writes can have a time limit, which those of a pipe cannot
        self._commands, worker_end = socket.socketpair()
        self._commands.settimeout(_SEND_S)
        results, out = os.pipe()
        with worker_end, open(open_private(log), "ab") as printed:  # noqa: PTH123  # a descriptor
            self._process = subprocess.Popen(
                run_module("rkllm_chat.backends.rkllm.worker", str(worker_end.fileno()), str(out)),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                pass_fds=(worker_end.fileno(), out),
                start_new_session=True,  # Ctrl+C at the terminal must not reach it
                env=_make_environment(),
            )
        # `_read` sees the end of the pipe only when its last writer is closed
        os.close(out)
        Thread(target=self._read, args=(results,), daemon=True).start()
        self._send({"id": 0, **config})

    def send(self, name: str, **values: Any) -> int:
        """Send a command and return its number, which its results carry.

        Raises:
            WorkerDiedError: The worker has ended.
        """
        self._count += 1
        self._log_begin = self.log.stat().st_size  # what an earlier command printed is not the cause of this one's end
        self._send({"id": self._count, "do": name, **values})
        return self._count

    def abort(self, number: int) -> None:
        """Ask a run to end."""
        self._send({"id": number, "do": "abort"})

    def wake(self) -> None:
        """Make a `receive` on another thread check whether to stop."""
        self._results.put(_WAKE_UP)

    def receive(self, limit_s: float, stop: Event | None = None) -> dict[str, Any]:
        """Return the next result.

        Args:
            limit_s: Maximum time to wait.
            stop: Set by another thread to end the wait; see `wake`.

        Raises:
            TimeoutError: No result came within `limit_s`.
            WorkerDiedError: The worker has ended.
            StoppedError: `stop` is set.
        """
        while True:
            if stop and stop.is_set():
                raise StoppedError
            try:
                result = self._results.get(timeout=limit_s)
            except Empty:
                raise TimeoutError from None
            if result is None:
                raise self._make_death_error()
            if result is not _WAKE_UP:
                return result

    def wait_for(self, number: int, limit_s: float, stop: Event | None = None) -> dict[str, Any]:
        """Return the final result of a command; other results are ignored.

        Raises as `receive`; `limit_s` applies to each single result.
        """
        while True:
            result = self.receive(limit_s, stop)
            if result["id"] == number and "piece" not in result:
                return result

    def read_last_lines(self) -> str:
        """Return the first error that the library printed and the last ones; without errors, its last lines.

        Lines of the levels "I" and "W" are left out.
        """
        lines = [line for line in self.read_log().strip().splitlines() if not line.startswith(("I ", "W "))]
        errors = [line for line in lines if line.startswith("E ")]
        return " ".join([*errors[:1], *errors[1:][1 - _MAX_QUOTED_LINES :]] or lines[-_MAX_QUOTED_LINES:])

    def read_log(self) -> str:
        """Return the output of this worker's library since the last command."""
        with self.log.open("rb") as file:
            file.seek(self._log_begin)
            return file.read(_MAX_LOG_BYTES).decode("utf-8", errors="replace")

    def close(self) -> None:
        """End the worker, by force if necessary."""
        self._commands.close()
        try:
            self._process.wait(_EXIT_WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the worker. One that hangs inside the driver cannot be killed; it is left to the kernel."""
        self._process.kill()
        try:
            self._process.wait(_EXIT_WAIT_S)
        except subprocess.TimeoutExpired:
            return
        finally:
            self._commands.close()

    def _send(self, command: Mapping[str, Any]) -> None:
        # without a lock: commands come from one thread, and `wake`, for the others, only fills the queue
        try:
            self._commands.sendall(json.dumps(command).encode() + b"\n")
        except OSError as error:
            raise self._make_death_error() from error

    def _read(self, results: int) -> None:
        with os.fdopen(results, encoding="utf-8") as lines:
            for line in lines:
                self._results.put(json.loads(line))
        self._results.put(None)

    def _make_death_error(self) -> WorkerDiedError:
        """Create the error that says how the worker ended."""
        self._results.put(None)  # the next call of `receive` reports it too
        try:
            code = self._process.wait(_EXIT_WAIT_S)
        except subprocess.TimeoutExpired:
            return WorkerDiedError("no longer responds")
        return WorkerDiedError(describe_exit(code), code)


def _make_environment() -> dict[str, str]:
    """Return the worker's environment, in which it finds this package and imports no module from the current folder."""
    paths = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONSAFEPATH": "1"}


def _open_log(log: Path) -> int:
    """Rotate the log if it is too large; return the offset at which new output will begin."""
    make_folder(log.parent)
    if log.exists() and log.stat().st_size > _MAX_LOG_BYTES:
        log.replace(log.with_suffix(".old.log"))
    return log.stat().st_size if log.exists() else 0
