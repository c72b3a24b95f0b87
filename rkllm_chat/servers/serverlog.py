"""A server's own log file: its standard error, its log messages, what is odd about it. Small, and its owner's only.

Only the beginning and the end of a run are kept, at most 1 MB: the beginning says how it started, the end why it ended.
"""

from __future__ import annotations

import os
from pathlib import Path

LARGEST = 1 << 20
LARGEST_END = 1 << 16
LONGEST_SAID = 4096


class ServerLog:
    """A fresh file; where none can be made, what is written is lost. `said` is the end of the standard error."""

    def __init__(self, path: Path) -> None:
        self.said = b""
        self._file = open_fresh(path)
        self._room = LARGEST - 2 * LARGEST_END
        self._end = bytearray()
        self._lost = 0
        self._noted: set[str] = set()

    def hear(self, data: bytes) -> None:
        """What the server wrote to its standard error."""
        self.said = (self.said + data)[-LONGEST_SAID:]
        self.write(data)

    def write(self, data: bytes) -> None:
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


def open_fresh(path: Path) -> int | None:
    """A new file that only its owner can read; no link is followed."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
