"""Session files: one per session, one JSON record per line, durable across kills and power failures.

The records are defined in `session_records`. A file is `ID.jsonl` with mode 0600 in a directory of mode 0700, and links
are not followed. Each record is appended by one write; the file is synced at the end of a turn. Only one program writes
a session at a time. A torn last line left by a power failure is moved to `ID.torn` before the next record is written.
The pictures and sounds of a session are in the folder `ID.media`, named by their hash, and what the engine has
evaluated of it is in `ID.state`; both are deleted with it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError, UsageError
from ..core.messages import Media, Message
from ..core.private_files import NotOwnedError, make_folder, open_folder, open_private
from .media import file_name_of, write_media_file
from .session_records import LogEntry, Record, SessionTitle, TurnFinished, map_media, read_entry, write_entry

_SUFFIX, _TORN_SUFFIX, _MEDIA_SUFFIX, _STATE_SUFFIX = ".jsonl", ".torn", ".media", ".state"
_ID = re.compile(r"\d{6}-[0-9a-z]{4}")
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_STEPS_PER_S = 12
"""Time resolution of ids: 86,400 s times this is just under four digits in base 32."""

_MAX_FILE_BYTES = 512 << 20
_MAX_STATE_BYTES = 1 << 30
"""Limit for the states of all sessions together: 38,000 tokens of Qwen2.5 1.5B, 18,000 of 7B."""
_MAX_LINE_BYTES = 16 << 20
MAX_DEPTH = 128
_STRING = re.compile(rb'"[^"\\]*(?:\\.?[^"\\]*)*"?', re.DOTALL)
_CREATE_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
_APPEND_FLAGS = os.O_RDWR | os.O_APPEND

RedactMember = Callable[[str, str], str]


@dataclass(frozen=True)
class SessionContents:
    """The content of a session file.

    Attributes:
        entries: Records that could be parsed.
        damaged_lines: Number of lines that could not be parsed.
        torn_line: Last line if it has no newline.
        size_bytes: Size of the file in bytes.
    """

    entries: tuple[LogEntry, ...] = ()
    damaged_lines: int = 0
    torn_line: bytes = b""
    size_bytes: int = 0


class SessionDirectory:
    """The directory of sessions; created when the first session is written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def list_ids(self) -> list[str]:
        """Return all session ids, most recently written first.

        Raises:
            ConfigError: The directory is a link or is not owned by the user.
        """
        try:
            with self._folder() as folder:
                names = [name for name in os.listdir(folder) if _is_session_file(name.removesuffix(_SUFFIX), name)]  # noqa: PTH208
                ages = {name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns for name in names}
        except FileNotFoundError:
            return []
        return [name.removesuffix(_SUFFIX) for name in sorted(ages, key=lambda name: (ages[name], name), reverse=True)]

    def find_id(self, text: str) -> str:
        """Return the session id that starts with a text, or whose part after the date does.

        Raises:
            UsageError: No session or several sessions match.
        """
        ids = self.list_ids()
        matching = (
            [text]
            if text in ids
            else [session_id for session_id in ids if text and _matches_prefix(session_id, text.lower())]
        )
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise UsageError(
                f'Several sessions begin with "{text}".', f"Write more of the id: {', '.join(matching[:5])}."
            )
        similar = get_close_matches(text, ids, n=3, cutoff=0.5)
        label = "Similar" if similar else "Newest"
        listed = f"{label}: {', '.join(similar or ids[:3])}; /sessions in the chat lists all."
        hint = listed if ids else "No session is stored yet."
        raise UsageError(f'There is no session "{text}".', hint)

    def read(self, name: str, line_prefix: bytes = b"") -> SessionContents:
        """Read a session.

        Args:
            name: Session id.
            line_prefix: Parse only lines that start with these bytes, which is faster.

        Raises:
            ConfigError: The file is a link, is not owned by the user, or is too large.
            UsageError: There is no such session.
        """
        try:
            file = self._open(name, os.O_RDONLY)
        except FileNotFoundError:
            raise UsageError(f'There is no session "{name}".') from None
        try:
            contents = _read_file(file, self.path / (name + _SUFFIX), line_prefix)
            return replace(contents, entries=_locate_media(contents.entries, self.media_folder(name)))
        finally:
            os.close(file)

    def media_folder(self, name: str) -> Path:
        """Return the folder of the media of a session; it may not exist."""
        return self.path / (name + _MEDIA_SUFFIX)

    def state_folder(self, name: str) -> Path:
        """Return the folder for what an engine has evaluated of a session; it may not exist."""
        return self.path / (name + _STATE_SUFFIX)

    def limit_states(self, most_bytes: int = _MAX_STATE_BYTES) -> None:
        """Delete the states of the sessions that were used least recently, beyond a limit, and those of none."""
        found: list[tuple[float, int, str]] = []
        with suppress(OSError, ConfigError), self._folder() as folder:
            names = set(os.listdir(folder))  # noqa: PTH208  # by its descriptor
            for name in (name.removesuffix(_STATE_SUFFIX) for name in names if name.endswith(_STATE_SUFFIX)):
                files = [path.lstat() for path in self.state_folder(name).iterdir()]
                age = max((file.st_mtime for file in files), default=0.0) if name + _SUFFIX in names else 0.0
                found.append((age, sum(file.st_size for file in files), name))
        for age, size, name in sorted(found, reverse=True):
            most_bytes -= size
            if most_bytes < 0 or not age:
                shutil.rmtree(self.state_folder(name), ignore_errors=True)  # a link is not followed

    def create(self, now: float) -> tuple[str, int]:
        """Create a session file and lock it.

        Args:
            now: Time in seconds since 1970, for the id.

        Returns:
            The id and the file descriptor.
        """
        make_folder(self.path)
        for step in range(1000):
            name = make_session_id(now, step)
            try:
                file = self._open(name, _CREATE_FLAGS)
            except FileExistsError:
                continue
            _lock(file)
            with self._folder() as folder:
                os.fsync(folder)
            return name, file
        raise FileExistsError(f"{self.path}: no id is free")

    def open(self, name: str) -> int | None:
        """Open and lock a session file for appending, after repairing a torn last line.

        Returns:
            The file descriptor; None if another program has the session open.
        """
        file = self._open(name, _APPEND_FLAGS)
        if not _lock(file):
            os.close(file)
            return None
        self._repair_last_line(name, file)
        return file

    def delete(self, name: str) -> None:
        """Delete a session and what was moved aside from it.

        Raises:
            UsageError: There is no such session, or another program has it open.
            ConfigError: The file is a link, is not owned by the user, or cannot be deleted.
        """
        file = self._open_unused(name)
        try:
            with self._folder() as folder:
                os.unlink(name + _SUFFIX, dir_fd=folder)
                with suppress(FileNotFoundError):
                    os.unlink(name + _TORN_SUFFIX, dir_fd=folder)
            for beside in (self.media_folder(name), self.state_folder(name)):
                with suppress(FileNotFoundError):
                    shutil.rmtree(beside)  # raises OSError for a link
        except OSError as error:
            raise ConfigError(f"{self.path / name}{_SUFFIX} cannot be deleted: {error.strerror}.") from None
        finally:
            os.close(file)

    def rename(self, name: str, title: str, redact: RedactMember) -> None:
        """Set the title of a session; its place among the most recently written ones stays.

        Args:
            name: Session id.
            title: The title; "" restores the first user message.
            redact: Redacts the title before it is written.

        Raises:
            UsageError: There is no such session, or another program has it open.
            ConfigError: The file is a link, is not owned by the user, or cannot be written.
        """
        file = self._open_unused(name)
        try:
            times = os.fstat(file)
            self._repair_last_line(name, file)
            _append(file, _make_line(write_entry(LogEntry(time.time(), SessionTitle(title))), redact))
            os.fsync(file)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        except OSError as error:
            raise ConfigError(f"{self.path / name}{_SUFFIX} cannot be written: {error.strerror or error}.") from None
        finally:
            os.close(file)

    def _open_unused(self, name: str) -> int:
        """Open and lock a session file. Raises UsageError if there is none or another program has it open."""
        try:
            file = self._open(name, _APPEND_FLAGS)
        except FileNotFoundError:
            raise UsageError(f'There is no session "{name}".') from None
        if not _lock(file):
            os.close(file)
            raise UsageError(f"Session {name} is open in another chat.", "Leave that chat first.")
        return file

    def _repair_last_line(self, name: str, file: int) -> None:
        """Terminate the last line: add a missing newline, or move an incomplete record to the .torn file."""
        contents = _read_file(file, self.path / (name + _SUFFIX))
        if not contents.torn_line:
            return
        if parse_line(contents.torn_line):
            os.write(file, b"\n")
            return
        torn_file = self._open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _TORN_SUFFIX)
        try:
            os.write(torn_file, contents.torn_line + b"\n")
        finally:
            os.close(torn_file)
        os.ftruncate(file, contents.size_bytes - len(contents.torn_line))
        os.fsync(file)

    def _open(self, name: str, flags: int, ending: str = _SUFFIX) -> int:
        """Open a regular file of the directory that this user owns, and remove access rights of others."""
        path = self.path / (name + ending)
        with self._folder(), _refuse_foreign(path, "opened"):
            return open_private(path, flags)

    @contextmanager
    def _folder(self) -> Iterator[int]:
        """Open the directory for calls relative to it.

        Raises:
            FileNotFoundError: It does not exist.
            ConfigError: It is a link or is not owned by the user.
        """
        hint = "Sessions must be stored in a folder of your own that is not a link."
        with ExitStack() as opened:
            with _refuse_foreign(self.path, "used", hint):
                folder = opened.enter_context(open_folder(self.path))
            yield folder


@contextmanager
def _refuse_foreign(path: Path, verb: str, hint: str = "") -> Iterator[None]:
    """Raise ConfigError for a path that cannot be opened; one that is missing, or exists already, is for the caller."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except NotOwnedError:
        raise ConfigError(f"{path} is not a plain file or folder of yours.", "It is not used.") from None
    except OSError as error:
        links = "Links are not followed." if error.errno == errno.ELOOP else "The conversation is stored in it."
        raise ConfigError(f"{path} cannot be {verb}: {error.strerror}.", hint or links) from None


def redact_nothing(_member: str, text: str) -> str:
    """Return the text unchanged; a `RedactMember` that redacts nothing."""
    return text


class SessionLog:
    """The log of the current session. Its file is created with the first record.

    Records that cannot be written are buffered and written before the next one.

    Attributes:
        name: Session id; "" until the file exists.
        has_failed: Whether there are records that could not be written.

    Args:
        directory: Directory of sessions.
        on_error: Called once when writing fails, with the reason, and once with "" when everything is written again.
        redact: Redacts a text before it is written, given its member name.
    """

    def __init__(
        self, directory: SessionDirectory, on_error: Callable[[str], None], redact: RedactMember = redact_nothing
    ) -> None:
        self._directory, self._on_error, self._redact = directory, on_error, redact
        self.name = ""
        self._file: int | None = None
        self._pending: list[bytes] = []
        self._pending_media: list[Media] = []
        self.has_failed = False

    def resume(self, name: str) -> bool:
        """Continue an existing session; return False if another program has it open."""
        self._file = self._directory.open(name)
        self.name = name if self._file is not None else ""
        return self._file is not None

    def copy_entries(self, entries: tuple[LogEntry, ...]) -> None:
        """Start with records of another session; they are written together with the first new record."""
        self._pending += [self._make_entry_line(entry) for entry in entries]
        self._pending_media += [media for entry in entries for media in _list_media(entry)]

    def append(self, record: Record) -> None:
        """Append a record and sync the file at the end of a turn. Errors are reported to `on_error`, not raised."""
        entry = LogEntry(time.time(), record)
        self._pending.append(self._make_entry_line(entry))
        self._pending_media += _list_media(entry)
        try:
            if self._file is None:
                self.name, self._file = self._directory.create(time.time())
            self._write(self._file)
            if isinstance(record, TurnFinished):
                os.fsync(self._file)
        except OSError as error:
            self._report(f"{error.strerror or error}.")
        except ConfigError as error:
            self._report(str(error))
        else:
            self._report("")

    def close(self) -> None:
        """Write buffered records, sync and close the file."""
        if self._file is None:
            return
        try:
            self._write(self._file)
            os.fsync(self._file)
        except OSError as error:
            self._report(f"{error.strerror or error}.")
        os.close(self._file)
        self._file = None

    def _write(self, file: int) -> None:
        while self._pending_media:
            media = self._pending_media[0]
            with suppress(FileNotFoundError):  # it is lost already; a placeholder stands for it from now on
                _store_media(media, self._directory.media_folder(self.name))
            del self._pending_media[0]
        while self._pending:
            _append(file, self._pending[0])
            del self._pending[0]

    def _report(self, error_text: str) -> None:
        if bool(error_text) != self.has_failed:
            self.has_failed = bool(error_text)
            self._on_error(error_text)

    def _make_entry_line(self, entry: LogEntry) -> bytes:
        line = _make_line(write_entry(entry), self._redact)
        record = entry.record
        if not _is_within_limits(line) and isinstance(record, Message) and record.result:
            # the model has read `text`; an oversized line could not be read back, so the rest of the result is dropped
            result = replace(record.result, text=record.text, structured=None, user_text="", arguments={})
            line = _make_line(write_entry(replace(entry, record=replace(record, result=result))), self._redact)
        return line


def _list_media(entry: LogEntry) -> list[Media]:
    found: list[Media] = []

    def add(media: Media) -> Media:
        found.append(media)
        return media

    map_media(entry, add)
    return found


def _locate_media(entries: tuple[LogEntry, ...], folder: Path) -> tuple[LogEntry, ...]:
    """Say where the files of media are. Only their hashes are believed: a record cannot name another file."""

    def locate(media: Media) -> Media:
        try:
            return replace(media, path=str(folder / file_name_of(media)))
        except ValueError:
            return replace(media, path="")

    return tuple(map_media(entry, locate) for entry in entries)


def _store_media(media: Media, folder: Path) -> None:
    """Copy the file of a medium into the folder of a session. Raises OSError."""
    if media.path:
        path = folder / file_name_of(media)
        if not path.is_file():
            write_media_file(path, Path(media.path).read_bytes())


def _append(file: int, line: bytes) -> None:
    """Write a line completely or not at all; raise OSError if the disk is full."""
    size = os.fstat(file).st_size
    if (written := os.write(file, line)) < len(line):
        os.ftruncate(file, size)
        raise OSError(f"only {written} of {len(line)} bytes could be written")


def _make_line(table: dict[str, Any], redact: RedactMember) -> bytes:
    """Serialize a record as strict JSON on one line, redacted; characters that UTF-8 cannot encode are replaced."""
    text = json.dumps(to_strict_json(table, redact), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", errors="replace") + b"\n"


def to_strict_json(value: Any, redact: RedactMember, key: str = "", depth: int = 0) -> Any:
    """Convert a value to strict JSON: NaN and infinities become strings, texts are redacted except for fixed words."""
    if depth > MAX_DEPTH:
        return "[too deep]"
    if isinstance(value, dict):
        return {str(name): to_strict_json(item, redact, str(name), depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_strict_json(item, redact, key, depth + 1) for item in value]
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return str(value)
    if isinstance(value, str) and key not in ("kind", "at", "role", "status", "reason"):
        return redact(key, value)
    return value if isinstance(value, str | int | float | None) else str(value)


def _is_within_limits(line: bytes) -> bool:
    return len(line) <= _MAX_LINE_BYTES and _depth_of(line) <= MAX_DEPTH


def _read_file(file: int, path: Path, line_prefix: bytes = b"") -> SessionContents:
    """Read the records of an open file and count damaged lines.

    Args:
        file: File descriptor.
        path: Path for error messages.
        line_prefix: Parse only lines that start with these bytes.

    Raises:
        ConfigError: The file is too large.
    """
    size = os.fstat(file).st_size
    if size > _MAX_FILE_BYTES:
        raise ConfigError(f"{path} is too large: {size} bytes, at most {_MAX_FILE_BYTES} are read.")
    with open(file, "rb", closefd=False) as stream:  # a descriptor
        stream.seek(0)
        data = stream.read()
    *lines, torn = data.split(b"\n")  # splitlines() would also split at U+2028 and other characters
    entries = [parse_line(line) for line in lines if line.startswith(line_prefix) and line.strip(b"\0\r ")]
    valid = tuple(entry for entry in entries if entry)
    last = parse_line(torn)
    return SessionContents((*valid, *([last] if last else [])), len(entries) - len(valid), torn, len(data))


def parse_line(line: bytes) -> LogEntry | None:
    """Parse one line, ignoring zero bytes that a power failure left around it; None if it is not a record."""
    line = line.strip(b"\0\r ")
    if not line or not _is_within_limits(line):
        return None
    try:
        return read_entry(json.loads(line.decode("utf-8"), parse_constant=_refuse_constant))
    except (ValueError, OverflowError):
        return None


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _depth_of(line: bytes) -> int:
    """Return the nesting depth of JSON without parsing it; 0 if it cannot exceed the limit."""
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return 0
    deepest = depth = 0
    for byte in _STRING.sub(b"", line):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _lock(file: int) -> bool:
    """Lock a file for writing; return False if another program has locked it.

    File systems without locks always succeed.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def make_session_id(now: float, step: int = 0) -> str:
    """Return an id `YYMMDD-xxxx` in UTC. The letters encode the time of day, so ids sort by age."""
    moment = time.gmtime(now)
    number = int(((moment.tm_hour * 60 + moment.tm_min) * 60 + moment.tm_sec + now % 1) * _STEPS_PER_S) + step
    letters = "".join(reversed([*_digits(number)]))
    return f"{time.strftime('%y%m%d', moment)}-{letters}"


def _digits(number: int) -> Iterator[str]:
    for _ in range(4):
        number, digit = divmod(number, len(_DIGITS))
        yield _DIGITS[digit]


def _is_session_file(name: str, file: str) -> bool:
    return file.endswith(_SUFFIX) and bool(_ID.fullmatch(name))


def _matches_prefix(name: str, text: str) -> bool:
    return name.startswith(text) or name.partition("-")[2].startswith(text)
