"""JSON-RPC over a server's standard input and output, one message per line.

Neither blocks nor grows, whatever the server writes: lines are limited, and the last 4 KiB of standard error
are kept.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...core.errors import ConnectError, ProtocolError
from ...core.programs import describe_exit
from ...core.redact import truncate_at_word, truncate_start
from ..process.network_variables import find_network_hint
from ..protocol.framing import (
    IncompleteJsonError,
    LineSplitter,
    PartialJson,
    begins_message,
    looks_like_response,
    parse_values,
)
from ..protocol.limits import MAX_DISCARDED_BYTES, MAX_RESULT_BYTES, MB, STDERR_TAIL_BYTES
from .client import ProgressDeadline, make_timeout_error

if TYPE_CHECKING:
    from .jsonrpc_dialog import JsonRpcDialog
    from .keep_alive_pipe import SocketPipes
    from .posix_process import PosixProcess

_READ_SIZE = 1 << 16
_SHOWN_LINES = 3
_MAX_UNWRITTEN_BYTES = 1 << 20
_EXIT_S = 0.1
_DOUBT_S = 0.3


class StdioChannel:
    """A channel to a server process.

    Attributes:
        session: A session negotiated by an earlier call; None for a new process.
        first_id: Number after which requests are numbered; 0 for the default.
    """

    session: dict[str, Any] | None = None
    first_id = 0

    def __init__(self, name: str, program: PosixProcess | SocketPipes, max_bytes: int = MAX_RESULT_BYTES) -> None:
        self._name, self._program, self._max_bytes = name, program, max_bytes
        self._unwritten = bytearray()
        self._values: deque[Any] = deque()
        self._lines = LineSplitter(self._receive_line, self._reject_line, max_bytes)
        self._partial: PartialJson | None = None
        self._unusable: ProtocolError | None = None
        self._stderr_tail = b""
        self._is_over = False
        self._poll = select.poll()
        files = (self._program.stdout, self._program.stderr, self._program.exited)
        self._watched = {file for file in files if file >= 0}
        for file in self._watched:
            self._poll.register(file, select.POLLIN)
        self._is_watching_input = False

    def save_session(self, session: dict[str, Any]) -> None:
        """Do nothing; the session ends with this process."""

    def send(self, message: dict[str, Any]) -> None:
        """Send a message as far as the pipe accepts it; `exchange` sends the rest."""
        self._unwritten += json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._write()

    def exchange(self, dialog: JsonRpcDialog, phase: str, limit_s: float) -> None:
        """Wait until `dialog` has its answer, and answer requests of the server meanwhile; progress extends the limit.

        Raises:
            TimeLimitError: The deadline expired.
            ConnectError: The server ended.
            ProtocolError: The response is unusable.
        """
        self._unusable = None
        deadline = ProgressDeadline(limit_s)
        doubt_end: float | None = None
        while not self._receive_values(dialog):
            end = deadline.find_end(dialog.progress_count)
            has_doubt = dialog.doubtful_response or self._unusable
            doubt_end = doubt_end if has_doubt and doubt_end else time.monotonic() + _DOUBT_S
            left = (min(end, doubt_end) if has_doubt or self._partial else end) - time.monotonic()
            if not self._is_over and (ready := self._poll.poll(max(0.0, left) * 1000)):
                self._serve({file for file, _ in ready})
                if left > 0 or self._receive_values(dialog):
                    continue
            self._settle(dialog, phase, limit_s, is_late=time.monotonic() >= end)

    def _receive_values(self, dialog: JsonRpcDialog) -> bool:
        """Pass on what was read, and tell whether `dialog` has its answer."""
        while self._values and dialog.response is None:
            for reply in dialog.receive(self._values.popleft()):
                if len(self._unwritten) < _MAX_UNWRITTEN_BYTES:
                    self.send(reply)
        return dialog.response is not None

    def _settle(self, dialog: JsonRpcDialog, phase: str, limit_s: float, is_late: bool) -> None:
        """Decide what the answer is, after the time for a better one has passed or the server has ended."""
        if self._partial and not self._is_over:
            self._drop_partial()
        if dialog.doubtful_response:
            dialog.response = dialog.doubtful_response
        elif self._unusable:
            raise self._unusable
        elif self._is_over:
            self._report_end(phase)
        elif is_late:
            raise make_timeout_error(
                f'Server "{self._name}"', phase, limit_s, self._quote_stderr(), self._details(phase)
            )

    def _serve(self, ready: set[int]) -> None:
        """Read and write what is ready; the session is over once there is nothing left to read."""
        program = self._program
        if program.stdin in ready:
            self._write()
        if program.stderr in ready:
            self._read_errors()
        if program.stdout in ready:
            self._is_over = not self._read_output()
        elif program.exited in ready:
            self._is_over = True

    def _read_output(self) -> bool:
        """Read output and parse whole lines; return whether there was any."""
        data = self._read(self._program.stdout)
        self._lines.feed(data or b"\n")  # the last line may have no newline
        if self._lines.discarded > MAX_DISCARDED_BYTES:
            self._reject_line(b"", self._lines.discarded)
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

    def _receive_line(self, line: bytearray) -> None:
        """Process a line of output: a message, part of a multi-line message, or other text.

        A message may be as large as the limit of a result, so that at most two copies of it exist at a time.
        """
        if self._partial and not begins_message(line):
            self._continue_partial(self._partial, bytes(line.rstrip()))
            return
        if self._partial:
            self._drop_partial()
        text = line.decode("utf-8", errors="replace")
        line.clear()
        if not (text := text.strip().removeprefix("\ufeff")):
            return
        try:
            self._values += parse_values(text)
        except IncompleteJsonError:
            self._partial = PartialJson(text.encode(), self._max_bytes)
        except ValueError as error:
            self._suspect(text.encode(), str(error))

    def _continue_partial(self, partial: PartialJson, line: bytes) -> None:
        try:
            values = partial.add(line)
        except ValueError:
            self._drop_partial()
            return
        if values is not None:
            self._partial = None
            self._values += values

    def _drop_partial(self) -> None:
        text, self._partial = self._partial.text if self._partial else b"", None
        self._suspect(text, "it is incomplete")

    def _suspect(self, text: bytes, reason: str) -> None:
        """Remember what was probably meant as a response; it is reported unless a usable one arrives soon."""
        if looks_like_response(text):
            self._unusable = self._unusable_error(reason)

    def _reject_line(self, _ends: bytes, size: int) -> None:
        raise self._unusable_error(f"result too large ({size / MB:.0f} MB), limit {self._max_bytes // MB} MB")

    def _unusable_error(self, reason: str) -> ProtocolError:
        return ProtocolError(f'Server "{self._name}" sent an unusable response: {reason}.', server=self._name)

    def _report_end(self, phase: str) -> None:
        """Raise ConnectError with the exit code and the last stderr lines."""
        code = self._get_exit_code()
        if code is None and self._program.exited >= 0:
            waiting = select.poll()
            waiting.register(self._program.exited, select.POLLIN)
            waiting.poll(_EXIT_S * 1000)
            code = self._get_exit_code()
        while self._program.stderr >= 0 and self._read_errors():
            pass
        how = describe_exit(code) if code is not None else "closed its standard output"
        when = "before it answered" if phase == "start" else "before the response was complete"
        text = f'Server "{self._name}" ended {when} (it {how}).{self._quote_stderr()}'
        hint = find_network_hint(self.stderr_tail()) or self._program.sandbox_hint()
        hint = hint or "Run its command in a shell to see more."
        raise ConnectError(text, hint, exit_code=code, **self._details(phase))

    def _get_exit_code(self) -> int | None:
        """Return the exit code of the server; None while it runs."""
        return self._program.exit_code

    def explain_denial(self, text: str) -> str:
        """Return which sandbox setting would allow what the server complains about, else ""."""
        return self._program.explain_denial(text)

    def _details(self, phase: str) -> dict[str, Any]:
        return {"server": self._name, "phase": phase, "stderr": self.stderr_tail()}

    def stderr_tail(self) -> str:
        """Return the end of the server's standard error."""
        return self._stderr_tail.decode("utf-8", errors="replace").strip()

    def _quote_stderr(self) -> str:
        from ...core.sanitize import sanitize_line

        lines = [truncate_at_word(sanitize_line(line), 300) for line in self.stderr_tail().splitlines() if line.strip()]
        return f" Its last output: {' / '.join(lines[-_SHOWN_LINES:])}" if lines else ""

    def close(self, is_patient: bool = True) -> None:
        """Stop the server."""
        self._program.stop(is_patient)
