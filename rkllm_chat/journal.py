"""Sessions on disk: one file each, one line a record, that survive a kill and a power cut. It knows no chat.

The records are said in `records.py`. A file is `SHELF/ID.jsonl`, its owner's alone (0600 in a 0700 folder), and no link
is followed. A record is appended by one write; the file is synced when a turn has ended. One program writes a session
at a time. What a power cut left torn at the end is put aside into `ID.torn` before the next record is written.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from .errors import ConfigError, ModelError, UsageError
from .messages import Message
from .private import NotOursError, make_folder, own
from .records import Entry, Record, TurnDone, read, write

ENDING = ".jsonl"
ID = re.compile(r"\d{6}-[0-9a-z]{4}")
LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
STEPS_PER_S = 12
"""How finely an id tells the time of its day: 86,400 s times this is just under four letters."""

LARGEST_FILE = 512 << 20
LONGEST_LINE = 16 << 20
DEEPEST = 128
QUOTED = re.compile(rb'"[^"\\]*(?:\\.?[^"\\]*)*"?', re.DOTALL)
NEW = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
OLD = os.O_RDWR | os.O_APPEND

Hide = Callable[[str, str], str]


@dataclass(frozen=True)
class Contents:
    """What is in a session's file. `damaged` counts the lines that cannot be read; `torn` is an end without newline."""

    entries: tuple[Entry, ...] = ()
    damaged: int = 0
    torn: bytes = b""
    size: int = 0


class Shelf:
    """A folder of sessions. It is made when the first session is written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def ids(self) -> list[str]:
        """All ids, the one written last first. Raises ConfigError for a folder that is not to be trusted."""
        try:
            with self._folder() as folder:
                names = [name for name in os.listdir(folder) if is_id(name.removesuffix(ENDING), name)]  # noqa: PTH208
                ages = {name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns for name in names}
        except FileNotFoundError:
            return []
        return [name.removesuffix(ENDING) for name in sorted(ages, key=lambda name: (ages[name], name), reverse=True)]

    def find(self, text: str) -> str:
        """The id that begins with a text, or whose letters do. Raises UsageError where there is none or several."""
        ids = self.ids()
        found = [text] if text in ids else [one for one in ids if text and is_begun(one, text.lower())]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f'Several sessions begin with "{text}".', f"Write more of one: {', '.join(found[:5])}.")
        near = get_close_matches(text, ids, n=3, cutoff=0.5) or ids[:3]
        hint = f"Nearest are {', '.join(near)}; /sessions in the chat lists all." if near else "There is none yet."
        raise UsageError(f'There is no session "{text}".', hint)

    def read(self, name: str, beginning: bytes = b"") -> Contents:
        """What is in a session, or only the lines with this beginning, which is quicker.

        Raises ConfigError for a file that is not to be trusted, UsageError for none.
        """
        try:
            file = self._open(name, os.O_RDONLY)
        except FileNotFoundError:
            raise UsageError(f'There is no session "{name}".') from None
        try:
            return read_file(file, self.path / (name + ENDING), beginning)
        finally:
            os.close(file)

    def create(self, now: float) -> tuple[str, int]:
        """A new session's id and its open file, locked."""
        make_folder(self.path)
        for step in range(1000):
            name = make_id(now, step)
            try:
                file = self._open(name, NEW)
            except FileExistsError:
                continue
            lock(file)
            with self._folder() as folder:
                os.fsync(folder)
            return name, file
        raise FileExistsError(f"{self.path}: no id is free")

    def open(self, name: str) -> int | None:
        """A session's file, mended and locked; None while another program writes it."""
        file = self._open(name, OLD)
        if not lock(file):
            os.close(file)
            return None
        self._mend(name, file)
        return file

    def _mend(self, name: str, file: int) -> None:
        """Ends the last line: with a newline where only that is missing, else by putting the torn end aside."""
        contents = read_file(file, self.path / (name + ENDING))
        if not contents.torn:
            return
        if read_line(contents.torn):
            os.write(file, b"\n")
            return
        aside = self._open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, ".torn")
        try:
            os.write(aside, contents.torn + b"\n")
        finally:
            os.close(aside)
        os.ftruncate(file, contents.size - len(contents.torn))
        os.fsync(file)

    def _open(self, name: str, flags: int, ending: str = ENDING) -> int:
        """Opens a file of the folder if it is a plain one of our own; makes it ours alone."""
        path = self.path / (name + ending)
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with self._folder() as folder:
            try:
                file = os.open(path.name, flags, 0o600, dir_fd=folder)
            except (FileNotFoundError, FileExistsError):
                raise
            except OSError as error:
                raise ConfigError(f"{path} cannot be opened: {error.strerror}.", "No link is followed.") from None
        try:
            claim(file, path, stat.S_IFREG)
        except BaseException:
            os.close(file)
            raise
        return file

    @contextmanager
    def _folder(self) -> Iterator[int]:
        """The open folder, for calls relative to it. Raises FileNotFoundError, or ConfigError if it is not ours."""
        try:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as error:
            hint = "Sessions are kept in a folder of your own, not behind a link."
            raise ConfigError(f"{self.path} cannot be used: {error.strerror}.", hint) from None
        try:
            claim(folder, self.path, stat.S_IFDIR)
            yield folder
        finally:
            os.close(folder)


def as_it_is(_member: str, text: str) -> str:
    return text


class Journal:
    """One session, growing. Its file is made with the first record; `name` is its id, "" until then.

    What cannot be written is held back and written before the next record; `say` is told once (the reason, or ""
    when all is written again). `hide` gives what is written of a text, and is told the member that it is.
    """

    def __init__(self, shelf: Shelf, say: Callable[[str], None], hide: Hide = as_it_is) -> None:
        self._shelf, self._say, self._hide = shelf, say, hide
        self.name = ""
        self._file: int | None = None
        self._waiting: list[bytes] = []
        self._in_trouble = False

    def resume(self, name: str) -> bool:
        """Goes on with a session; False while another program writes it."""
        self._file = self._shelf.open(name)
        self.name = name if self._file is not None else ""
        return self._file is not None

    def copy(self, entries: tuple[Entry, ...]) -> None:
        """Begins with records of another session; they are written with the first own one."""
        self._waiting += [self._line(entry) for entry in entries]

    def keep(self, record: Record) -> None:
        """Appends a record; behind the end of a turn the file is synced. Raises nothing: `say` is told."""
        self._waiting.append(self._line(Entry(time.time(), record)))
        try:
            if self._file is None:
                self.name, self._file = self._shelf.create(time.time())
            self._write(self._file)
            if isinstance(record, TurnDone):
                os.fsync(self._file)
        except OSError as error:
            self._tell(f"{error.strerror or error}.")
        except ConfigError as error:
            self._tell(str(error))
        else:
            self._tell("")

    def close(self) -> None:
        """Syncs and lets go of the file."""
        if self._file is None:
            return
        try:
            self._write(self._file)
            os.fsync(self._file)
        except OSError as error:
            self._tell(f"{error.strerror or error}.")
        os.close(self._file)
        self._file = None

    def _write(self, file: int) -> None:
        while self._waiting:
            append(file, self._waiting[0])
            del self._waiting[0]

    def _tell(self, trouble: str) -> None:
        if bool(trouble) != self._in_trouble:
            self._in_trouble = bool(trouble)
            self._say(trouble)

    def _line(self, entry: Entry) -> bytes:
        line = make_line(write(entry), self._hide)
        record = entry.record
        if not fits(line) and isinstance(record, Message) and record.result:
            # the model has read `text`; the rest of what the server sent is not worth an unreadable line
            result = replace(record.result, text=record.text, structured=None, arguments={})
            line = make_line(write(replace(entry, record=replace(record, result=result))), self._hide)
        return line


def read_session(path: Path) -> tuple[Entry, ...]:
    """The records of a session's file anywhere. Raises ModelError, as it takes the place of a model."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            entries = read_file(file, path).entries
        finally:
            os.close(file)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}.", "A session is a .jsonl file that the chat has saved.") from None
    if not entries:
        raise ModelError(f"{path} holds no session.", "A session is a .jsonl file that the chat has saved.")
    return entries


def append(file: int, line: bytes) -> None:
    """Writes a line whole or not at all."""
    size = os.fstat(file).st_size
    if (written := os.write(file, line)) < len(line):
        os.ftruncate(file, size)
        raise OSError(f"only {written} of {len(line)} bytes could be written")


def make_line(table: dict[str, Any], hide: Hide) -> bytes:
    """Strict JSON on one line; what is to be hidden, and what JSON or UTF-8 cannot hold, is replaced."""
    text = json.dumps(strict(table, hide), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", errors="replace") + b"\n"


def strict(value: Any, hide: Hide, key: str = "", depth: int = 0) -> Any:
    """A value as JSON has it: NaN and infinities as words, nothing hidden in members that are words of ours."""
    if depth > DEEPEST:
        return "[too deep]"
    if isinstance(value, dict):
        return {str(name): strict(item, hide, str(name), depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item, hide, key, depth + 1) for item in value]
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return str(value)
    if isinstance(value, str) and key not in ("kind", "at", "role", "status", "reason"):
        return hide(key, value)
    return value if isinstance(value, str | int | float | None) else str(value)


def fits(line: bytes) -> bool:
    return len(line) <= LONGEST_LINE and depth_of(line) <= DEEPEST


def read_file(file: int, path: Path, beginning: bytes = b"") -> Contents:
    """The records of an open file; lines that are none are counted. Raises ConfigError for one that is too large."""
    size = os.fstat(file).st_size
    if size > LARGEST_FILE:
        raise ConfigError(f"{path} is too large to be read: {size} bytes, at most {LARGEST_FILE}.")
    with open(file, "rb", closefd=False) as stream:  # a descriptor
        stream.seek(0)
        data = stream.read()
    *lines, torn = data.split(b"\n")  # not splitlines: that also splits at U+2028 and others
    entries = [read_line(line) for line in lines if line.startswith(beginning) and line.strip(b"\0\r ")]
    whole = tuple(entry for entry in entries if entry)
    last = read_line(torn)
    return Contents((*whole, *([last] if last else [])), len(entries) - len(whole), torn, len(data))


def read_line(line: bytes) -> Entry | None:
    """The record on a line, None if there is none; zeros that a power cut left around it do not matter."""
    line = line.strip(b"\0\r ")
    if not line or not fits(line):
        return None
    try:
        return read(json.loads(line.decode("utf-8"), parse_constant=refuse))
    except (ValueError, OverflowError):
        return None


def refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def depth_of(line: bytes) -> int:
    """How deep JSON is nested, found without parsing it."""
    if line.count(b"[") + line.count(b"{") <= DEEPEST:
        return 0
    deepest = depth = 0
    for mark in QUOTED.sub(b"", line):
        if mark in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in b"]}":
            depth -= 1
    return deepest


def claim(file: int, path: Path, kind: int) -> None:
    """Raises ConfigError unless an open file is of a kind and this user's; takes others' rights to it away."""
    try:
        own(file, path, kind)
    except NotOursError:
        raise ConfigError(f"{path} is not a plain file or folder of yours.", "It is left alone.") from None


def lock(file: int) -> bool:
    """Whether nobody else writes the file. A file system without locks lets everybody."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def make_id(now: float, step: int = 0) -> str:
    """`YYMMDD-xxxx`, in UTC: the letters tell the time of the day, so that ids sort by their age."""
    moment = time.gmtime(now)
    number = int(((moment.tm_hour * 60 + moment.tm_min) * 60 + moment.tm_sec + now % 1) * STEPS_PER_S) + step
    letters = "".join(reversed([*digits(number)]))
    return f"{time.strftime('%y%m%d', moment)}-{letters}"


def digits(number: int) -> Iterator[str]:
    for _ in range(4):
        number, digit = divmod(number, len(LETTERS))
        yield LETTERS[digit]


def is_id(name: str, file: str) -> bool:
    return file.endswith(ENDING) and bool(ID.fullmatch(name))


def is_begun(name: str, text: str) -> bool:
    return name.startswith(text) or name.partition("-")[2].startswith(text)
