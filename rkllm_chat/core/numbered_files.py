"""Write data to new files with the first free number in their names; existing files are never overwritten.

One-shot commands import this module.
"""

from __future__ import annotations

import os
import re

from .errors import UsageError
from .file_writes import create_file

_MAX_FILE_NUMBER = 10_000


def write_numbered_file(folder: str, name: str, media_type: str, data: bytes) -> str:
    """Write a file `NAME-NUMBER.SUFFIX` and return its path.

    Args:
        folder: Where it is written; created if it does not exist.
        name: Beginning of its name; characters that do not belong in one are replaced.
        media_type: Media type, from which the suffix follows; "" if it is unknown.
        data: Its content.

    Raises:
        UsageError: It cannot be written.
    """
    from mimetypes import guess_extension

    folder = os.path.abspath(os.path.expanduser(folder))
    stem = re.sub(r"[^\w.-]+", "_", name).strip("._") or "data"
    suffix = (guess_extension(media_type) if media_type else None) or ".bin"
    try:
        os.makedirs(folder, exist_ok=True)
        for number in range(1, _MAX_FILE_NUMBER):
            path = os.path.join(folder, f"{stem}-{number}{suffix}")
            try:
                create_file(path, data, None)
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}.", path=folder) from None
    raise UsageError(
        f"{folder} already has {_MAX_FILE_NUMBER - 1} files named {stem}-NUMBER.", "Name another folder.", path=folder
    )
