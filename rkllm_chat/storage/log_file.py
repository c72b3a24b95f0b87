"""The program's log: a rotated file of JSON lines, readable by its owner only and free of secrets.

Each line is one object with these members in this order:

    time      when, in UTC: 2026-11-20T20:26:00.123Z
    level     debug, info, warning, error, critical
    event     start, stop, fault or call of a server; log for everything else
    pid       process id: several programs may write into one file
    server    name of the server; in the four server events
    tool      name of the tool; in a call
    message   text; in all events except calls
    seconds   duration of a start, a call or a whole run
    protocol  negotiated revision of MCP, and
    tools     number of tools; in a start
    kind      of a fault: the type word of errors.py
    outcome   completed or failed, and
    sent_bytes, received_bytes  size of the arguments as JSON and of the result text, and
    arguments_sha256  hash of the arguments as JSON with sorted names; in a call
    arguments, text   of a call; only with -vv, redacted
    source    name of the logger, and
    trace     traceback of an exception; in a log

At MAX_BYTES the file becomes FILE.1, that one FILE.2, and so on up to MAX_ROTATED_FILES; older content is deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import time
import traceback
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..core.private_files import explain_open_error, open_private
from ..core.redact import Redactor, truncate_at_word

MAX_BYTES = 4 << 20
MAX_ROTATED_FILES = 3
_MAX_LOCK_WAIT_S = 0.1
_MAX_TEXT_LENGTH = 1 << 16


class LogFile(logging.Handler):
    """Logging handler that appends to the log file.

    If writing fails, the problem is reported once until it works again; nothing else happens.

    Args:
        path: Path of the log.
        secrets: Redacts messages.
        bodies: Include arguments and results of calls.

    Raises:
        OSError: The file cannot be opened, or is a link, a pipe or another user's file.
    """

    def __init__(self, path: Path, secrets: Redactor, *, bodies: bool = False) -> None:
        super().__init__()
        self._path, self._secrets, self._bodies = path, secrets, bodies
        self._has_failed = False
        self._file = self._open()
        self._unreported_error = ""
        self._on_error: Callable[[str], None] | None = None

    def set_error_callback(self, on_error: Callable[[str], None] | None) -> None:
        """Set the callback for write errors; a pending report is delivered at once."""
        self._on_error = on_error
        if on_error and self._unreported_error:
            on_error(self._unreported_error)
            self._unreported_error = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; never raises."""
        try:
            self._write(_make_line(record, self._secrets, self._bodies))
        except OSError as error:
            self._report_error(error.strerror or str(error))
        except Exception as error:  # a record that cannot be serialized must not end the conversation
            self._report_error(f"{type(error).__name__}: {error}")
        else:
            self._has_failed = False

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        super().close()

    def _report_error(self, reason: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._unreported_error = f"{self._path}: {reason}"
            self.set_error_callback(self._on_error)

    def _write(self, line: bytes) -> None:
        """Append a line under the lock of the file, after ending a line that a full disk left unfinished."""
        if self._file < 0:
            return
        self._reopen_if_replaced()
        self._lock()
        try:
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                line = b"\n" + line
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError(f"only {written} of {len(line)} bytes could be written")
            if size + written >= MAX_BYTES:
                self._rotate()
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _lock(self) -> None:
        """Wait for the programs that share the file; after _MAX_LOCK_WAIT_S, continue without the lock.

        A stopped program may hold the lock, and some file systems have none. Without it, an empty line may come
        between two lines, but none is lost.
        """
        deadline = time.monotonic() + _MAX_LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.001)
            except OSError:
                return
            else:
                return

    def _reopen_if_replaced(self) -> None:
        """Reopen the path if another program rotated or deleted the file."""
        opened = os.fstat(self._file)
        try:
            current = self._path.lstat()
        except FileNotFoundError:
            current = None
        if current is None or (current.st_ino, current.st_dev) != (opened.st_ino, opened.st_dev):
            reopened = self._open()
            os.close(self._file)
            self._file = reopened

    def _open(self) -> int:
        return open_private(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)

    def _rotate(self) -> None:
        """Rotate the files, unless another program has just done so."""
        if self._path.lstat().st_ino == os.fstat(self._file).st_ino:
            names = [
                self._path,
                *(self._path.with_name(f"{self._path.name}.{number + 1}") for number in range(MAX_ROTATED_FILES)),
            ]
            for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
                with contextlib.suppress(FileNotFoundError):
                    newer.replace(older)
        self._reopen_if_replaced()


def _make_line(record: logging.LogRecord, secrets: Redactor, bodies: bool) -> bytes:
    """Serialize a log record. `fields` and `bodies` come from its `extra`; bodies are included only on request."""
    moment = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
    head = {"time": moment.replace("+00:00", "Z"), "level": record.levelname.lower()}
    fields: dict[str, Any] = dict(getattr(record, "fields", {}))
    line: dict[str, Any] = {**head, "event": fields.pop("event", "log"), "pid": record.process}
    line |= {key: fields.pop(key) for key in ("server", "tool") if key in fields}
    if line["event"] != "call":
        line["message"] = secrets.redact_all(truncate_at_word(record.getMessage(), _MAX_TEXT_LENGTH))
    line |= secrets.redact_all(fields)
    if bodies:
        line |= secrets.redact_all(getattr(record, "bodies", {}))
    if line["event"] == "log":
        line["source"] = record.name
    if record.exc_info and record.exc_info[0]:
        line["trace"] = secrets.redact_all("".join(traceback.format_exception(*record.exc_info))[-_MAX_TEXT_LENGTH:])
    return json.dumps(line, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


def find_log_file() -> LogFile | None:
    """Return the log handler of this program; None if there is none."""
    return next((handler for handler in logging.getLogger().handlers if isinstance(handler, LogFile)), None)


def describe_open_error(path: str, error: OSError) -> str:
    """Return the message for a log file that cannot be opened."""
    return f"The log file {path} cannot be written: {explain_open_error(error)}."
