"""The program's own log: a file of JSON lines that stays small, is its owner's alone, and holds no secret.

A line is one object, in this order:

    time      when, in UTC: 2026-11-20T20:26:00.123Z
    level     debug, info, warning, error, critical
    event     start, stop, fault or call of a server; log for anything else that is said
    pid       of the program: several may write into one file
    server    its name; in the four events of a server
    tool      its name; in a call
    message   in words; in all but calls
    seconds   how long a start, a call or a whole run took
    protocol  which revision of MCP is spoken, and
    tools     how many tools there are; in a start
    kind      of a fault: the type word of errors.py
    outcome   completed or failed, and
    sent_bytes, received_bytes  of the arguments as JSON and of the text of the result, and
    arguments_sha256  of the arguments as JSON with sorted names; in a call
    arguments, text   of a call; with --log-bodies alone, without secrets
    source    which part of the program says it, and
    trace     of an exception; in a log

A file that has grown to LARGEST becomes FILE.1, that FILE.2, and so on up to OLD; what is older is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import traceback
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .private import explain, open_own
from .redact import Redactor, cut

LARGEST = 4 << 20
OLD = 3
LONGEST_TEXT = 1 << 16


class LogFile(logging.Handler):
    """Writes to a file. When that fails, `say` is told why, once until it works again, and nothing else happens.

    Raises OSError where the file cannot be opened, or is a link, a pipe or another user's.
    """

    def __init__(self, path: Path, secrets: Redactor, *, bodies: bool = False) -> None:
        super().__init__()
        self._path, self._secrets, self._bodies = path, secrets, bodies
        self._is_torn = self._in_trouble = False
        self._file = self._open()
        self._untold = ""
        self._say: Callable[[str], None] | None = None

    def tell(self, say: Callable[[str], None] | None) -> None:
        """Who is told of trouble from now on; what he has missed, he is told now."""
        self._say = say
        if say and self._untold:
            say(self._untold)
            self._untold = ""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(make_line(record, self._secrets, self._bodies))
        except OSError as error:
            self._fail(error.strerror or str(error))
        except Exception as error:  # a log record that cannot be written down must not end the talk
            self._fail(f"{type(error).__name__}: {error}")
        else:
            self._in_trouble = False

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        super().close()

    def _fail(self, reason: str) -> None:
        if not self._in_trouble:
            self._in_trouble = True
            self._untold = f"{self._path}: {reason}"
            self.tell(self._say)

    def _write(self, line: bytes) -> None:
        """One write a line, so that programs that share the file do not mix theirs."""
        if self._file < 0:
            return
        self._follow()
        data = b"\n" + line if self._is_torn else line
        written = os.write(self._file, data)
        self._is_torn = written < len(data)
        if self._is_torn:
            raise OSError(f"only {written} of {len(data)} bytes could be written")
        if os.fstat(self._file).st_size >= LARGEST:
            self._rotate()

    def _follow(self) -> None:
        """Where another program has begun a new file, or somebody took it away, goes on with the one that is there."""
        ours = os.fstat(self._file)
        try:
            there = self._path.lstat()
        except FileNotFoundError:
            there = None
        if there is None or (there.st_ino, there.st_dev) != (ours.st_ino, ours.st_dev):
            fresh = self._open()
            os.close(self._file)
            self._file = fresh

    def _open(self) -> int:
        """The file, made where it is not there; the half line that a full disk left at its end is ended first."""
        file = open_own(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        size = os.fstat(file).st_size
        self._is_torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        return file

    def _rotate(self) -> None:
        """One of those that share the file does it: whoever has its lock."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        if self._path.lstat().st_ino == os.fstat(self._file).st_ino:
            names = [self._path, *(self._path.with_name(f"{self._path.name}.{number + 1}") for number in range(OLD))]
            for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
                with contextlib.suppress(FileNotFoundError):
                    newer.replace(older)
        self._follow()


def make_line(record: logging.LogRecord, secrets: Redactor, bodies: bool) -> bytes:
    """The line of a record. `fields` and `bodies` of its `extra` are members of ours; bodies only where wanted."""
    moment = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
    head = {"time": moment.replace("+00:00", "Z"), "level": record.levelname.lower()}
    fields: dict[str, Any] = dict(getattr(record, "fields", {}))
    line: dict[str, Any] = {**head, "event": fields.pop("event", "log"), "pid": record.process}
    line |= {key: fields.pop(key) for key in ("server", "tool") if key in fields}
    if line["event"] != "call":
        line["message"] = secrets.hide_all(cut(record.getMessage(), LONGEST_TEXT))
    line |= secrets.hide_all(fields)
    if bodies:
        line |= secrets.hide_all(getattr(record, "bodies", {}))
    if line["event"] == "log":
        line["source"] = record.name
    if record.exc_info and record.exc_info[0]:
        line["trace"] = secrets.hide_all("".join(traceback.format_exception(*record.exc_info))[-LONGEST_TEXT:])
    return json.dumps(line, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


def find() -> LogFile | None:
    """The log of this program, where there is one."""
    return next((one for one in logging.getLogger().handlers if isinstance(one, LogFile)), None)


def explain_refusal(path: str, error: OSError) -> str:
    return f"The log file {path} cannot be written: {explain(error)}."
