"""Create and open files and directories that only this user can access.

Modes are 0600 and 0700 regardless of the umask, and symbolic links are not followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

AnyPath = str | os.PathLike[str]

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NotOwnedError(OSError):
    """The path exists but is not a regular file or directory owned by this user."""


def make_folder(path: AnyPath) -> None:
    """Create a directory and its missing parents, all with mode 0700.

    `mkdir(parents=True)` would leave the mode of the parents to the umask.

    Raises:
        OSError: A directory cannot be created.
    """
    folder, missing = os.fspath(path), list[str]()
    while folder and not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:  # another process is creating it
            if not os.path.isdir(folder):
                raise


@contextmanager
def open_folder(path: AnyPath) -> Iterator[int]:
    """Open a directory for calls relative to its descriptor, and remove access rights of others.

    Raises:
        OSError: The directory is missing, a link, or owned by another user.
    """
    folder = os.open(path, _FOLDER_FLAGS)
    try:
        ensure_private(folder, path, stat.S_IFDIR)
        yield folder
    finally:
        os.close(folder)


def open_private(path: AnyPath, flags: int = _APPEND) -> int:
    """Open a regular file of this user; create it if missing and `flags` allow it.

    Returns:
        The file descriptor.

    Raises:
        OSError: Also for symbolic links and pipes.
    """
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        ensure_private(file, path, stat.S_IFREG)
    except BaseException:
        os.close(file)
        raise
    return file


def read_private(path: AnyPath, max_bytes: int) -> bytes:
    """Read a regular file of this user, at most `max_bytes`; a pipe in its place is never waited for.

    Raises:
        OSError: As `open_private`.
    """
    with open(open_private(path, os.O_RDONLY), "rb") as file:
        return file.read(max_bytes)


def ensure_private(file: int, path: AnyPath, kind: int) -> None:
    """Check type and owner of an open file and remove access rights of others.

    Args:
        file: File descriptor.
        path: Path for the error message.
        kind: Expected file type, such as `stat.S_IFREG`.

    Raises:
        NotOwnedError: The type or the owner differs.
    """
    status = os.fstat(file)
    if stat.S_IFMT(status.st_mode) != kind or status.st_uid != os.geteuid():
        raise NotOwnedError(1, "it is not a regular file or directory of this user", str(path))
    if status.st_mode & 0o077:
        os.fchmod(file, stat.S_IMODE(status.st_mode) & 0o700)


def explain_open_error(error: OSError) -> str:
    """Describe why a file cannot be opened; for a link the system message is "too many levels"."""
    from pathlib import Path

    if error.filename and Path(error.filename).is_symlink():
        return "it is a symbolic link, and links are not followed"
    return error.strerror or str(error)
