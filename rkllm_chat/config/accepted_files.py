"""Files that the user has accepted by their contents: the model files that a project's configuration names.

The record is in the store of accepted servers. A file whose inode, size and times are as they were when it was hashed
is not read again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ..core.errors import ModelError
from .project_trust import TrustStore
from .servers import ServerConfig
from .trust_rules import Origin

_RECORD = ServerConfig(name="files of the model", origin=Origin.PROJECT)
"""Names the record in the store; no server can have this name."""
_MAX_BYTES, _BLOCK_BYTES = 1 << 37, 1 << 20
_UNSETTLED_NS = 2_000_000_000
"""A file that changed so recently may change again within the resolution of its times."""
_HINT = "Correct the configuration of this folder, or name another model with --model."

Review = dict[str, list[Any]]
"""Path of each file -> its inode, size, time of modification, time of change, and SHA-256."""


def has_accepted_files(trust_store: TrustStore) -> bool:
    """Return whether the user has accepted any files of the current folder."""
    return bool(trust_store.read_record(_RECORD))


def review_files(files: Iterable[Path], trust_store: TrustStore) -> Review:
    """Return the files to ask the user about, as they are now; none if exactly these are accepted.

    Raises:
        ModelError: A file is missing, too large, or no regular file.
    """
    known = trust_store.read_record(_RECORD).get("files", {})
    review = {str(path): _read_file(path, known.get(str(path), ())) for path in files}
    if {path: row[-1] for path, row in review.items()} != {path: row[-1] for path, row in known.items()}:
        return review
    if review != known:  # the same contents with other times, as after a new checkout
        accept_files(review, trust_store)
    return {}


def accept_files(review: Review, trust_store: TrustStore) -> None:
    """Record that the user accepted the files with these contents."""
    trust_store.write_record(_RECORD, {"files": review})


@contextmanager
def open_regular(path: Path, hint: str) -> Iterator[BinaryIO]:
    """Open a regular file, without waiting for the other end of a pipe. Raises ModelError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}.", hint, path=str(path)) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        reason = os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "not a regular file"
        raise ModelError(f"{path}: {reason}.", hint, path=str(path))
    with os.fdopen(descriptor, "rb") as file:
        yield file


def _read_file(path: Path, known: Any) -> list[Any]:
    """Return the row of a file; its contents are not read again while the rest of the row is as it was."""
    with open_regular(path, _HINT) as file:
        status = os.fstat(file.fileno())
        row: list[Any] = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        if known and known[:-1] == row:
            return list(known)
        if status.st_size > _MAX_BYTES:
            raise ModelError(f"{path}: it is larger than {_MAX_BYTES >> 30} GB.", _HINT, path=str(path))
        if time.time_ns() - status.st_ctime_ns < _UNSETTLED_NS:
            row[-1] = 0
        digest, left = hashlib.sha256(), status.st_size
        while block := file.read(min(_BLOCK_BYTES, left)):
            digest.update(block)
            left -= len(block)
    return [*row, digest.hexdigest()]
