"""The parent's end of the NPU worker: starts it, sends commands, gives its results, and knows how it died.

Every wait has a limit. It knows no prompt and no chat.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

from ..isolated import run_module
from ..private import make_folder, open_own

SEND_S = 10.0
END_S = 3.0
LARGEST_LOG = 1_000_000
SHOWN_LINES = 3
WAKE: dict[str, Any] = {"wake": True}


class WorkerDiedError(Exception):
    """The worker ended without being asked to; the text says how."""


class StoppedError(Exception):
    """Whoever waits was told to stop."""


class Link:
    """A running worker. `start` is its first command; what the library prints is appended to `log`."""

    def __init__(self, start: Mapping[str, Any], log: Path) -> None:
        self.log = log
        self._log_begin = open_log(log)
        self._results: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._count = 0
        self._commands, theirs = socket.socketpair()
        self._commands.settimeout(SEND_S)
        results, out = os.pipe()
        with theirs, open(open_own(log), "ab") as printed:  # noqa: PTH123  # a descriptor
            self._process = subprocess.Popen(
                run_module("rkllm_chat.backends.rkllm_worker", str(theirs.fileno()), str(out)),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(), out),
                start_new_session=True,  # Ctrl+C at the terminal is for the chat
                env=environment(),
            )
        os.close(out)
        Thread(target=self._read, args=(results,), daemon=True).start()
        self._send({"id": 0, **start})

    def send(self, name: str, **values: Any) -> int:
        """Sends a command; gives its number, which its results carry. Raises WorkerDiedError."""
        self._count += 1
        self._send({"id": self._count, "do": name, **values})
        return self._count

    def abort(self, number: int) -> None:
        """Asks a run to end."""
        self._send({"id": number, "do": "abort"})

    def wake(self) -> None:
        """Makes a `receive` on another thread look whether it is to stop."""
        self._results.put(WAKE)

    def receive(self, limit_s: float, stopping: Event | None = None) -> dict[str, Any]:
        """The next result. Raises TimeoutError, WorkerDiedError, or StoppedError once `stopping` is set."""
        while True:
            if stopping and stopping.is_set():
                raise StoppedError
            try:
                result = self._results.get(timeout=limit_s)
            except Empty:
                raise TimeoutError from None
            if result is None:
                raise WorkerDiedError(self._cause())
            if result is not WAKE:
                return result

    def wait_for(self, number: int, limit_s: float, stopping: Event | None = None) -> dict[str, Any]:
        """The last result of a command; earlier ones are passed over. The limit is for each single one."""
        while True:
            result = self.receive(limit_s, stopping)
            if result["id"] == number and "piece" not in result:
                return result

    def last_words(self) -> str:
        """The last lines that the library printed, errors before others."""
        lines = self.read_log().strip().splitlines()
        errors = [line for line in lines if line.startswith("E ")]
        return " ".join((errors or lines)[-SHOWN_LINES:])

    def read_log(self) -> str:
        """What this worker's library has printed."""
        with self.log.open("rb") as file:
            file.seek(self._log_begin)
            return file.read(LARGEST_LOG).decode("utf-8", errors="replace")

    def close(self) -> None:
        """Ends the worker, by force if need be."""
        self._commands.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends the worker at once. One that hangs inside the driver cannot even be killed; it is left to the kernel."""
        self._process.kill()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return
        finally:
            self._commands.close()

    def _send(self, command: Mapping[str, Any]) -> None:
        try:
            self._commands.sendall(json.dumps(command).encode() + b"\n")
        except OSError as error:
            raise WorkerDiedError(self._cause()) from error

    def _read(self, results: int) -> None:
        with os.fdopen(results, encoding="utf-8") as lines:
            for line in lines:
                self._results.put(json.loads(line))
        self._results.put(None)

    def _cause(self) -> str:
        """How the worker ended, in words."""
        self._results.put(None)  # whoever asks next is told the same
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "does not answer any more"
        return f"ended with {signal.strsignal(-code)} ({signal.Signals(-code).name})" if code < 0 else f"ended ({code})"


def environment() -> dict[str, str]:
    """For the worker: it finds this package wherever it lies, and no module in the current folder is taken for ours."""
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONSAFEPATH": "1"}


def open_log(log: Path) -> int:
    """Makes room for the log; gives where the new part will begin."""
    make_folder(log.parent)
    if log.exists() and log.stat().st_size > LARGEST_LOG:
        log.replace(log.with_suffix(".old.log"))
    return log.stat().st_size if log.exists() else 0
