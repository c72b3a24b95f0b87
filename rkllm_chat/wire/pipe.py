"""JSON-RPC over a server's standard input and output, a message a line. It knows no protocol above that.

Whatever the server writes, this side neither blocks nor grows: lines are at most 4 MB, of standard error the last
4 KiB are kept.
"""

from __future__ import annotations

import json
import os
import select
import time

from ..clean import clean_line
from ..errors import ConnectError, ProtocolError
from ..redact import cut, keep_end
from ..servers.lines import LONGEST, MB, MOST_DISCARDED, CutShortError, Lines, read_values
from ..servers.programs import describe_exit
from .silence import explain_silence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .kept import Ends
    from .program import Program
    from .talk import Talk

READ_SIZE = 1 << 16
LAST_WORDS = 4096
SHOWN_LINES = 3
EXIT_S = 0.1
SUSPECT_S = 0.3


class Pipe:
    """A server that is a process."""

    session: dict[str, Any] | None = None
    first = 0

    def __init__(self, name: str, program: Program | Ends) -> None:
        self._name, self._program = name, program
        self._unwritten = bytearray()
        self._values: list[Any] = []
        self._lines = Lines(self._take_line, self._refuse_line)
        self._partial = b""
        self._said = b""
        self._is_over = False
        self._poll = select.poll()
        files = (self._program.stdout, self._program.stderr, self._program.death)
        self._watched = {file for file in files if file >= 0}
        for file in self._watched:
            self._poll.register(file, select.POLLIN)
        self._is_watching_input = False

    def guard(self) -> None:
        self._program.guard()

    def agreed(self, session: dict[str, Any]) -> None:
        """What was agreed on is over with this pipe."""

    def tell(self, message: dict[str, Any]) -> None:
        """Sends a message, or what the pipe takes of it; `exchange` sends the rest."""
        self._unwritten += json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._write()

    def exchange(self, talk: Talk, phase: str, limit_s: float) -> None:
        """Waits until the talk has its answer, and answers what the server asks meanwhile.

        Raises TimeLimitError, ConnectError if the server ends, ProtocolError if the answer cannot be used.
        """
        end = time.monotonic() + limit_s
        while talk.answer is None:
            if self._values:
                if reply := talk.take(self._values.pop(0)):
                    self.tell(reply)
                continue
            if self._is_over:
                self._report_end(phase)
            left = min(end - time.monotonic(), SUSPECT_S if talk.doubt else limit_s)
            if ready := self._poll.poll(max(0.0, left) * 1000):
                self._serve({file for file, _ in ready})
            elif talk.doubt:
                talk.answer = talk.doubt
            else:
                raise explain_silence(f'Server "{self._name}"', phase, limit_s, self._quote(), self._details(phase))

    def _serve(self, ready: set[int]) -> None:
        """Moves what can be moved. It is over once there is nothing left to read."""
        program = self._program
        if program.stdin in ready:
            self._write()
        if program.stderr in ready:
            self._read_errors()
        if program.stdout in ready:
            self._is_over = not self._read_output()
        elif program.death in ready:
            self._is_over = True

    def _read_output(self) -> bool:
        """Whether there was more; lines that are whole become values."""
        data = self._read(self._program.stdout)
        self._lines.feed(data or b"\n")  # what it wrote last may be without a line end
        if self._lines.discarded > MOST_DISCARDED:
            self._refuse_line(b"", self._lines.discarded)
        return bool(data)

    def _read_errors(self) -> bool:
        data = self._read(self._program.stderr)
        self._said = keep_end(self._said + data, LAST_WORDS)
        return bool(data)

    def _read(self, pipe: int) -> bytes:
        """b"" at the end of the pipe, which is not listened to any more."""
        try:
            data = os.read(pipe, READ_SIZE)
        except BlockingIOError:
            return b""
        if not data and pipe in self._watched:
            self._watched.remove(pipe)
            self._poll.unregister(pipe)
        return data

    def _write(self) -> None:
        pipe = self._program.stdin
        try:
            while self._unwritten:
                # a signal that comes behind the write must not leave what is written to be written again
                data, self._unwritten = self._unwritten, bytearray()
                try:
                    self._unwritten = data[os.write(pipe, data) :]
                except BlockingIOError:
                    self._unwritten = data
                    break
        except BrokenPipeError:  # it is ending; what it says at its end is told then
            self._unwritten.clear()
        if bool(self._unwritten) != self._is_watching_input:
            self._is_watching_input = not self._is_watching_input
            if self._is_watching_input:
                self._poll.register(pipe, select.POLLOUT)
            else:
                self._poll.unregister(pipe)

    def _take_line(self, line: bytes) -> None:
        """One line of its output: a message, a part of one that is spread over lines, or something else."""
        text = self._partial + line.strip().removeprefix(b"\xef\xbb\xbf")
        if not text:
            return
        try:
            self._values += read_values(text.decode("utf-8", errors="replace"))
            self._partial = b""
        except CutShortError:
            self._partial = text + b"\n" if len(text) < LONGEST else b""
        except ValueError as error:
            self._partial = b""
            if text[:1] in (b"{", b"[") and b'"jsonrpc"' in text:
                raise self._unusable(str(error)) from None

    def _refuse_line(self, _ends: bytes, size: int) -> None:
        raise self._unusable(f"result too large ({size / MB:.0f} MB), limit {LONGEST // MB} MB")

    def _unusable(self, reason: str) -> ProtocolError:
        return ProtocolError(f'Server "{self._name}" gave an answer that cannot be used: {reason}.', server=self._name)

    def _report_end(self, phase: str) -> None:
        """Raises ConnectError: how it ended, and what it said last."""
        code = self._ended()
        if code is None and self._program.death >= 0:
            waiting = select.poll()
            waiting.register(self._program.death, select.POLLIN)
            waiting.poll(EXIT_S * 1000)
            code = self._ended()
        while self._program.stderr >= 0 and self._read_errors():
            pass
        how = describe_exit(code) if code is not None else "closed its standard output"
        when = "before it answered" if phase == "start" else "in the middle"
        text = f'Server "{self._name}" ended {when} (it {how}).{self._quote()}'
        hint = self._program.hint() or "Run its command by hand to see more."
        raise ConnectError(text, hint, exit_code=code, **self._details(phase))

    def _ended(self) -> int | None:
        """The exit code of the server; None while it runs."""
        return self._program.exit_code()

    def explain_denial(self, text: str) -> str:
        return self._program.explain_denial(text)

    def _details(self, phase: str) -> dict[str, Any]:
        return {"server": self._name, "phase": phase, "stderr": self.last_words()}

    def last_words(self) -> str:
        """The last of what it wrote to its standard error."""
        return self._said.decode("utf-8", errors="replace").strip()

    def _quote(self) -> str:
        lines = [cut(clean_line(line), 300) for line in self.last_words().splitlines() if line.strip()]
        return f" It said: {' / '.join(lines[-SHOWN_LINES:])}" if lines else ""

    def close(self, is_patient: bool = True) -> None:
        self._program.end(is_patient)
