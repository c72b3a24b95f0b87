"""Create the folders of files that sandboxed servers keep, with a copy of what they kept beside their programs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from ...core.file_writes import create_file, replace_file
from ...core.private_files import make_folder

_MAX_BYTES = 64 << 20


def create_kept_files(files: Mapping[str, Sequence[str]]) -> None:
    """Create the folder of each file, and the file as a copy of the first of its sources that exists.

    A source that is a link is not copied: it could lead to a file that the server must not read.

    Raises:
        OSError: A folder or file cannot be created.
    """
    for path, sources in files.items():
        make_folder(os.path.dirname(path))
        if os.path.lexists(path):
            continue
        if data := next(filter(None, map(_read_regular, sources)), b""):
            replace_file(path, data)


def create_new_files(paths: Iterable[str]) -> None:
    """Create empty files that are named and do not exist. Raises OSError."""
    for path in paths:
        with suppress(FileExistsError):  # another server is started at the same time
            create_file(path, b"")


def _read_regular(path: str) -> bytes:
    """Return the content of a regular file; nothing of a link, a pipe, or a file that is missing or too large."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with open(file, "rb") as opened:
        status = os.fstat(file)
        return opened.read() if stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_BYTES else b""
