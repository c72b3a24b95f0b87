"""Write files: whatever the program writes as a whole is written here.

A file appears complete or not at all. It is written under a random name that did not exist (O_EXCL, O_NOFOLLOW),
relative to the descriptor of its folder, and renamed: somebody else who may write to the folder can neither prepare a
link under a name that is opened, nor exchange the folder between two steps. `lock_edits` keeps other processes away
between reading a file and writing it; `FileEdit` is all of this for a file that may be somebody else's.

One-shot commands import this module.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .private_files import AnyPath, make_folder, open_private

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_RANDOM_BYTES = 8
_LOCK_NAME = "edits.lock"
_LOCK_S = 10.0
_LOCK_POLL_S = 0.005


class LinkError(OSError):
    """A file that may be somebody else's is a symbolic link, or lies behind one."""


def replace_file(path: AnyPath, data: bytes, mode: int = 0o600, *, is_durable: bool = True) -> None:
    """Replace the content of a file atomically, or create it; a link in its place is replaced, not followed.

    Args:
        path: The file; its folder exists.
        data: Its new content.
        mode: Its permissions, whatever the umask is.
        is_durable: Wait until the disk has it, so that the file is whole and there after a loss of power.

    Raises:
        OSError: The file cannot be written; it is as it was.
    """
    folder_path, name = os.path.split(os.fspath(path))
    with _open_folder(folder_path or ".") as folder:
        replace_in_folder(folder, name, data, mode, is_durable=is_durable)


def replace_in_folder(folder: int, name: str, data: bytes, mode: int = 0o600, *, is_durable: bool = True) -> None:
    """Replace a file as `replace_file`, in a folder that is open."""
    temporary = f"{_temporary_prefix(name)}{os.urandom(_RANDOM_BYTES).hex()}"
    _write_new(folder, temporary, data, mode, is_durable=is_durable)
    try:
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    if is_durable:
        _sync_folder(folder)


def create_file(path: AnyPath, data: bytes, mode: int | None = 0o600) -> None:
    """Create a file that must not exist yet, whole or not at all; a link in its place counts as existing.

    Args:
        path: The file; its folder exists.
        data: Its content.
        mode: Its permissions; None leaves them to the umask.

    Raises:
        FileExistsError: There is such a file.
        OSError: The file cannot be written.
    """
    folder_path, name = os.path.split(os.fspath(path))
    with _open_folder(folder_path or ".") as folder:
        _write_new(folder, name, data, mode, is_durable=True)
        _sync_folder(folder)


def _write_new(folder: int, name: str, data: bytes, mode: int | None, *, is_durable: bool) -> None:
    """Write a file that must not exist; it is removed again if it cannot be written whole."""
    file = os.open(name, _CREATE_FLAGS, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        with open(file, "wb") as stream:
            if mode is not None:
                os.fchmod(file, mode)
            stream.write(data)
            stream.flush()
            if is_durable:
                os.fsync(file)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise


def _sync_folder(folder: int) -> None:
    with suppress(OSError):  # EINVAL: some file systems do not sync folders
        os.fsync(folder)


def _temporary_prefix(name: str) -> str:
    return f".{name[:100]}."  # a name has 255 bytes at most


@contextmanager
def _open_folder(path: str) -> Iterator[int]:
    folder = os.open(path, _FOLDER_FLAGS)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def lock_edits(folder: AnyPath, limit_s: float = _LOCK_S) -> Iterator[None]:
    """Keep other processes from editing files of the user: nothing that they write meanwhile is lost.

    There is one lock for all files, because an edit takes milliseconds.

    Args:
        folder: The state folder of the program; created if it is missing.
        limit_s: How long to wait for others.

    Raises:
        TimeoutError: Another process has held the lock for so long.
    """
    with suppress(OSError):  # `lock_file` does without a lock then
        make_folder(folder)
    with lock_file(os.path.join(folder, _LOCK_NAME), limit_s):
        yield


@contextmanager
def lock_file(path: AnyPath, limit_s: float = _LOCK_S) -> Iterator[None]:
    """Hold the lock on a file, which is created; it cannot be held twice, also not by one process.

    The file must be in a private folder, since whoever can open it can hold its lock for ever. Where it cannot be
    written, as on a read-only disk, there is no lock, and what it protects is done all the same.

    Args:
        path: The file, which has no content.
        limit_s: How long to wait for others.

    Raises:
        TimeoutError: Another process has held the lock for so long.
    """
    try:
        lock = open_private(path, os.O_RDWR | os.O_CREAT)
    except OSError:
        lock = None
    try:
        if lock is not None:
            _acquire(lock, os.fspath(path), limit_s)
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _acquire(lock: int, path: str, limit_s: float) -> None:
    import fcntl

    end = time.monotonic() + limit_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                reason = "another process has been editing for too long, or is stopped"
                raise TimeoutError(errno.ETIMEDOUT, reason, path) from None
            time.sleep(_LOCK_POLL_S)
        except OSError:  # ENOLCK: a network file system without locks
            return
        else:
            return


class FileEdit:
    """A file that is read and then written; nobody else's edit falls between.

    Attributes:
        path: The file; where links are followed, the one that they lead to.

    Args:
        path: The file.
        folder: Descriptor of its folder.
    """

    def __init__(self, path: str, folder: int) -> None:
        self.path, self._folder, self._name = path, folder, os.path.basename(path)

    def exists(self) -> bool:
        """Return whether the file exists. Raises LinkError, or OSError for what is no regular file."""
        return self._stat() is not None

    def open(self, _path: str = "", _flags: int = 0) -> int:
        """Open the file to read it; an `opener` of `open`. Raises OSError."""
        self._stat()
        return os.open(self._name, _READ_FLAGS, dir_fd=self._folder)

    def read(self, max_bytes: int) -> bytes:
        """Return the content; none of a missing file. Raises OSError, also if it is longer."""
        if not self.exists():
            return b""
        with open(self.open(), "rb") as file:
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise OSError(errno.EFBIG, f"it is larger than {max_bytes} bytes", self.path)
        return data

    def write(self, data: bytes) -> None:
        """Replace the content atomically; the file keeps its mode, a new one is for this user alone. Raises OSError."""
        status = self._stat()
        self._remove_leftovers()
        mode = stat.S_IMODE(status.st_mode) & 0o777 if status else 0o600
        replace_in_folder(self._folder, self._name, data, mode)

    def _stat(self) -> os.stat_result | None:
        """Return the status of the file; None if it is missing."""
        try:
            status = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            raise _link_error(self.path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", self.path)
        return status

    def _remove_leftovers(self) -> None:
        """Remove what writers left that were killed; under the lock, there is no other writer."""
        prefix = _temporary_prefix(self._name)
        for name in os.listdir(self._folder):
            digits = name.removeprefix(prefix)
            if name.startswith(prefix) and len(digits) == 2 * _RANDOM_BYTES and digits.isalnum():
                with suppress(OSError):
                    os.unlink(name, dir_fd=self._folder)


@contextmanager
def edit_file(path: AnyPath, lock_folder: AnyPath, *, follows_links: bool) -> Iterator[FileEdit]:
    """Lock a file, and open its folder, to read the file and write it. Missing folders are created.

    Args:
        path: The file.
        lock_folder: The state folder, for `lock_edits`.
        follows_links: Whether the file is the user's own, and a link in its place is the user's: its target is edited.
            Otherwise the file must not be a link, and of a relative path no folder may be one.

    Raises:
        LinkError: There is such a link.
        OSError: The folder cannot be opened, or another process is editing.
    """
    path = os.fspath(path)
    path = os.path.realpath(path) if follows_links else path
    with lock_edits(lock_folder), _open_parent(path, follows_links=follows_links) as folder:
        yield FileEdit(path, folder)


@contextmanager
def _open_parent(path: str, *, follows_links: bool) -> Iterator[int]:
    parent = os.path.dirname(path)
    parts = [part for part in parent.split("/") if part not in ("", ".")]
    if follows_links or path.startswith("/") or ".." in parts:
        make_folder(parent)
        with _open_folder(parent or ".") as folder:
            yield folder
        return
    folder = os.open(".", _FOLDER_FLAGS)
    try:
        for part in parts:
            inner = _open_inner(folder, part, path)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _open_inner(folder: int, name: str, path: str) -> int:
    """Open a folder inside another one, created if it is missing. Raises LinkError if it is a link."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
    try:
        return os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise _link_error(path) from None
        raise


def _link_error(path: str) -> LinkError:
    return LinkError(errno.ELOOP, "it is a symbolic link, or in a folder that is one", path)
