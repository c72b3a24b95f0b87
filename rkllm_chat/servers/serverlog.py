"""A server's own log file: its standard error, its log messages, what is odd about it. Small, and its owner's only.

Only the beginning and the end of a run are kept, at most 1 MB: the beginning says how it started, the end why it ended.
Secrets are taken out of it line by line, so a line is written when it has ended.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ..private import make_folder, open_folder
from ..redact import Redacted, Redactor

LARGEST = 1 << 20
LARGEST_END = 1 << 16
LONGEST_SAID = 4096
FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ServerLog:
    """A fresh file; where none can be made, what is written is lost, and `trouble` says why."""

    def __init__(self, path: Path, secrets: Redactor) -> None:
        self.trouble = ""
        self._file: int | None = None
        try:
            self._file = open_fresh(path)
        except OSError as error:
            self.trouble = f"{path}: {error.strerror}"
        self._said = b""
        self._heard, self._lines = Redacted(secrets), Redacted(secrets)
        self._room = LARGEST - 2 * LARGEST_END
        self._end = bytearray()
        self._lost = 0
        self._noted: set[str] = set()

    @property
    def said(self) -> bytes:
        """The end of the standard error."""
        return (self._said + self._heard.rest())[-LONGEST_SAID:]

    def hear(self, data: bytes) -> None:
        """What the server wrote to its standard error."""
        lines = self._heard.feed(data)
        self._said = (self._said + lines)[-LONGEST_SAID:]
        self._add(lines)

    def write(self, data: bytes) -> None:
        """Whole lines from elsewhere."""
        self._add(self._lines.feed(data))

    def _add(self, data: bytes) -> None:
        self._put(data[: self._room])
        rest = data[self._room :]
        self._room -= len(data) - len(rest)
        self._end += rest
        if (over := len(self._end) - LARGEST_END) > LARGEST_END:
            self._lost += over
            del self._end[:over]

    def has_noted(self, kind: str) -> bool:
        return kind in self._noted

    def note(self, kind: str, text: str) -> None:
        """A line of ours, once per kind."""
        if kind not in self._noted:
            self._noted.add(kind)
            self.write(f"[rkllm-chat] {text}\n".encode(errors="replace"))

    def finish(self) -> None:
        """Writes the end of the run down."""
        self._said = self.said
        self._add(self._heard.close() + self._lines.close())
        if self._lost:
            self._put(f"\n[rkllm-chat] {self._lost} bytes are left out here\n".encode())
        self._put(bytes(self._end))
        self._end.clear()
        self._lost = 0

    def close(self) -> None:
        self.finish()
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _put(self, data: bytes) -> None:
        if self._file is not None and data:
            try:
                os.write(self._file, data)
            except OSError:  # the disk is full
                self._room = 0


def open_fresh(path: Path) -> int:
    """A new file that only its owner can read; no link is followed, neither to the file nor to its folder."""
    make_folder(path.parent)
    with open_folder(path.parent) as folder:
        with suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=folder)
        return os.open(path.name, FRESH, 0o600, dir_fd=folder)
