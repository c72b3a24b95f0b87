"""Files and folders that are this user's alone: 0600 and 0700 whatever the umask is, and no link is followed.

It knows nothing of what is in them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NotOursError(OSError):
    """It is there, and is no plain file or folder of this user."""


def make_folder(path: Path) -> None:
    """Makes a folder and those above it that are missing, all 0700: `mkdir(parents=True)` leaves those to the umask.

    Raises OSError.
    """
    missing = [one for one in (path, *path.parents) if not os.path.lexists(one)]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """An open folder, for calls relative to it, with others' rights to it taken away. Raises OSError."""
    folder = os.open(path, FOLDER)
    try:
        own(folder, path, stat.S_IFDIR)
        yield folder
    finally:
        os.close(folder)


def open_own(path: Path, flags: int = APPEND) -> int:
    """A file of this user, made where it is missing and `flags` say so. Raises OSError, also for a link or a pipe."""
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        own(file, path, stat.S_IFREG)
    except BaseException:
        os.close(file)
        raise
    return file


def replace_own(path: Path, text: str) -> None:
    """Puts a text in the place of a file of this user, whole or not at all. Raises OSError."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(open_own(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w", encoding="utf-8") as file:
        file.write(text)
    beside.replace(path)


def own(file: int, path: Path, kind: int) -> None:
    """Raises NotOursError unless an open file is of a kind and this user's; takes others' rights to it away."""
    found = os.fstat(file)
    if stat.S_IFMT(found.st_mode) != kind or found.st_uid != os.geteuid():
        raise NotOursError(1, "it is not a plain file or folder of yours", str(path))
    if found.st_mode & 0o077:
        os.fchmod(file, stat.S_IMODE(found.st_mode) & 0o700)


def explain(error: OSError) -> str:
    """Why something cannot be opened, in words: of a link the system says "too many levels"."""
    if error.filename and Path(error.filename).is_symlink():
        return "it is a link, and no link is followed"
    return error.strerror or str(error)
