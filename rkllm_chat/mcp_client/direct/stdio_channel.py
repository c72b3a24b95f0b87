"""JSON-RPC over a server's standard input and output, one message per line.

Neither blocks nor grows, whatever the server writes: lines are limited, and the last 4 KiB of standard error
are kept.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...core.errors import ConnectError, ProtocolError
from ...core.programs import describe_exit
from ...core.redact import truncate_start
from ..process.process_tree import wait_readable
from ..protocol.cut_result import explain_size
from ..protocol.faults import quote_stderr
from ..protocol.limits import MAX_DISCARDED_BYTES, MAX_RESULT_BYTES, STDERR_TAIL_BYTES, ProgressDeadline
from ..protocol.session import JsonRpcSession
from .client import Channel, make_timeout_error

if TYPE_CHECKING:
    from ..protocol.dialog import Dialog
    from ..protocol.session import Event
    from .posix_process import PosixProcess

_READ_SIZE = 1 << 16
_MAX_UNWRITTEN_BYTES = 1 << 20
_EXIT_S = 0.1
"""How long to wait for the exit of a server that has closed its output."""


class StdioChannel(Channel):
    """A channel to a server process."""

    def __init__(self, name: str, program: PosixProcess, max_bytes: int = MAX_RESULT_BYTES) -> None:
        self._name, self._program, self._max_bytes = name, program, max_bytes
        self.session = JsonRpcSession(max_bytes)
        self._unwritten = bytearray()
        self._events: list[Event] = []
        self._stderr_tail = b""
        self._is_over = False
        self._poll = select.poll()
        self._watched = {program.stdout, program.stderr, program.exited}
        for file in self._watched:
            self._poll.register(file, select.POLLIN)
        self._is_watching_input = False

    def send(self, message: dict[str, Any]) -> None:
        """Send a message as far as the pipe accepts it; `exchange` sends the rest. Raises ValueError."""
        self._unwritten += self.session.send(message) + b"\n"
        self._write()

    def exchange(self, dialog: Dialog, phase: str, limit_s: float) -> None:
        """Wait until `dialog` has its answer, and answer requests of the server meanwhile; progress extends the limit.

        Raises:
            TimeLimitError: The deadline expired.
            ConnectError: The server ended.
            ProtocolError: Its output has a line without an end.
        """
        deadline, progress = ProgressDeadline(limit_s, time.monotonic()), 0
        while not self._pass_events(dialog):
            now = time.monotonic()
            if dialog.progress_count != progress:
                progress = dialog.progress_count
                deadline.extend(now)
            if self._is_over:
                self._events += self.session.end()
                if not self._pass_events(dialog):
                    self._report_end(phase)
                return
            wake_at = self.session.wake_at
            left = min(deadline.end, deadline.end if wake_at is None else wake_at) - now
            ready = {file for file, _ in self._poll.poll(max(0.0, left) * 1000)}
            self._serve(ready)
            # behind the read: what is there when the time is over still counts
            if left <= 0 and not self._pass_events(dialog):
                self._events += self.session.expire()
                if not self._pass_events(dialog) and now >= deadline.end:
                    said, details = quote_stderr(self.stderr_tail()), self._details(phase)
                    raise make_timeout_error(f'Server "{self._name}"', phase, limit_s, said, details)

    def _pass_events(self, dialog: Dialog) -> bool:
        """Pass on what was read, and tell whether `dialog` has its answer."""
        events, self._events = self._events, []
        for reply in dialog.receive(events):
            # a server that asks and does not read its input gets no further answers, else they would fill the memory
            if len(self._unwritten) < _MAX_UNWRITTEN_BYTES:
                self.send(reply)
        return dialog.response is not None

    def _serve(self, ready: set[int]) -> None:
        """Read and write what is ready; the session is over once there is nothing left to read."""
        program = self._program
        if program.stdin in ready:
            self._write()
        if program.stderr in ready:
            self._read_errors()
        if program.stdout in ready:
            self._is_over = not self._read_output()
        # only once nothing is left to read: what a server wrote before its exit counts
        elif program.exited in ready:
            self._is_over = True

    def _read_output(self) -> bool:
        """Read output and parse whole lines; return whether there was any."""
        data = self._read(self._program.stdout)
        self._events += self.session.receive_bytes(data)
        if self.session.discarded > MAX_DISCARDED_BYTES:
            reason = explain_size(self.session.discarded, self._max_bytes)
            if not (cut := self.session.receive_unfinished()):
                raise ProtocolError(f'Server "{self._name}" sent an unusable response: {reason}.', server=self._name)
            self._events += cut
            return False
        return bool(data)

    def _read_errors(self) -> bool:
        data = self._read(self._program.stderr)
        self._stderr_tail = truncate_start(self._stderr_tail + data, STDERR_TAIL_BYTES)
        return bool(data)

    def _read(self, pipe: int) -> bytes:
        """Read from a pipe; at its end, return nothing and stop polling it."""
        try:
            data = os.read(pipe, _READ_SIZE)
        except BlockingIOError:
            return b""
        if not data and pipe in self._watched:
            self._watched.remove(pipe)
            self._poll.unregister(pipe)
        return data

    def _write(self) -> None:
        pipe = self._program.stdin
        with suppress(BrokenPipeError):  # the server is ending; its exit is reported when it is noticed
            while self._unwritten:
                # A signal handler that raises after the write must not cause written data to be written again.
                data, self._unwritten = self._unwritten, bytearray()
                try:
                    self._unwritten = data[os.write(pipe, data) :]
                except BlockingIOError:
                    self._unwritten = data
                    break
        if bool(self._unwritten) != self._is_watching_input:
            self._is_watching_input = not self._is_watching_input
            if self._is_watching_input:
                self._poll.register(pipe, select.POLLOUT)
            else:
                self._poll.unregister(pipe)

    def _report_end(self, phase: str) -> None:
        """Raise ConnectError with the exit code and the last stderr lines."""
        wait_readable(self._program.exited, _EXIT_S)
        code = self._program.exit_code
        # its last words may have come behind its last output
        while self._read_errors():
            pass
        how = describe_exit(code) if code is not None else "closed its standard output"
        when = "before it answered" if phase == "start" else "before the response was complete"
        text = f'Server "{self._name}" ended {when} (it {how}).{quote_stderr(self.stderr_tail())}'
        hint = self._program.explain_end(self.stderr_tail())
        hint = hint or "Run its command in a shell to see more."
        raise ConnectError(text, hint, exit_code=code, **self._details(phase))

    def explain_denial(self, text: str) -> str:
        """Return which sandbox setting would allow what the server complains about, else ""."""
        return self._program.explain_denial(text)

    def _details(self, phase: str) -> dict[str, Any]:
        return {"server": self._name, "phase": phase, "stderr": self.stderr_tail()}

    def stderr_tail(self) -> str:
        """Return the end of the server's standard error."""
        return self._stderr_tail.decode("utf-8", errors="replace").strip()

    def close(self, is_patient: bool = True) -> None:
        """Stop the server."""
        self._program.stop(is_patient)
