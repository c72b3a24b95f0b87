"""The log file of one server: its standard error, its log messages, protocol oddities. Readable by its owner only.

Only the beginning and the end of a run are kept, at most 1 MB together: they show how it started and why it ended.
Secrets are masked line by line, so a line is written when it is complete.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ...core.private_files import make_folder, open_folder
from ...core.redact import Redactor, StreamRedactor
from ..protocol.limits import STDERR_TAIL_BYTES

MAX_LOG_BYTES = 1 << 20
_MAX_END_BYTES = 1 << 16
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ServerLog:
    """A new log file; if it cannot be created, output is dropped.

    Attributes:
        open_error: Why the file could not be created, or "".
    """

    def __init__(self, path: Path, secrets: Redactor) -> None:
        self.open_error = ""
        self._file: int | None = None
        try:
            self._file = _create_file(path)
        except OSError as error:
            self.open_error = f"{path}: {error.strerror}"
        self._stderr_end = b""
        self._stderr_lines, self._lines = StreamRedactor(secrets), StreamRedactor(secrets)
        self._remaining_bytes = MAX_LOG_BYTES - 2 * _MAX_END_BYTES
        self._end = bytearray()
        self._omitted_bytes = 0
        self._note_kinds: set[str] = set()

    @property
    def stderr_tail(self) -> bytes:
        """The end of the standard error, at most 4096 bytes."""
        return (self._stderr_end + self._stderr_lines.peek_rest())[-STDERR_TAIL_BYTES:]

    def write_stderr(self, data: bytes) -> None:
        """Add output of the server's standard error."""
        lines = self._stderr_lines.feed(data)
        self._stderr_end = (self._stderr_end + lines)[-STDERR_TAIL_BYTES:]
        self._add(lines)

    def write(self, data: bytes) -> None:
        """Add lines from other sources."""
        self._add(self._lines.feed(data))

    def _add(self, data: bytes) -> None:
        self._put(data[: self._remaining_bytes])
        rest = data[self._remaining_bytes :]
        self._remaining_bytes -= len(data) - len(rest)
        self._end += rest
        if (over := len(self._end) - _MAX_END_BYTES) > _MAX_END_BYTES:
            self._omitted_bytes += over
            del self._end[:over]

    def has_note(self, kind: str) -> bool:
        """Tell whether a line of this kind was written."""
        return kind in self._note_kinds

    def write_note(self, kind: str, text: str) -> None:
        """Write a line of this program, once per kind."""
        if kind not in self._note_kinds:
            self._note_kinds.add(kind)
            self.write(f"[rkllm-chat] {text}\n".encode(errors="replace"))

    def finish(self) -> None:
        """Write the end of the run to the file."""
        self._stderr_end = self.stderr_tail
        self._add(self._stderr_lines.close() + self._lines.close())
        if self._omitted_bytes:
            self._put(f"\n[rkllm-chat] {self._omitted_bytes} bytes are omitted here\n".encode())
        self._put(bytes(self._end))
        self._end.clear()
        self._omitted_bytes = 0

    def close(self) -> None:
        """Write the end and close the file."""
        self.finish()
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _put(self, data: bytes) -> None:
        if self._file is not None and data:
            try:
                os.write(self._file, data)
            except OSError:  # the disk is full
                self._remaining_bytes = 0


def _create_file(path: Path) -> int:
    """Create a new file that only its owner can read, following no symbolic link."""
    make_folder(path.parent)
    with open_folder(path.parent) as folder:
        with suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=folder)
        return os.open(path.name, _CREATE_FLAGS, 0o600, dir_fd=folder)
