"""Write the binary data of a result (images, audio, blobs) to files; the result then refers to them by path.

Existing files are never overwritten.
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64decode
from mimetypes import guess_extension
from typing import Any

from ...core.errors import UsageError

_DATA_KEYS = ("data", "blob")
_MAX_FILE_NUMBER = 10_000


def save_binary_data(result: dict[str, Any], folder: str, name: str) -> dict[str, Any]:
    """Return the result with each image, audio and blob replaced by `path`, `mimeType`, `bytes` and `sha256`.

    Args:
        result: A tool result (`content`) or a resource (`contents`).
        folder: Where the files are written; created if it does not exist.
        name: Stem of the file names.

    Data that is not valid base64 stays where it is.

    Raises:
        UsageError: A file cannot be written.
    """
    absolute_folder = os.path.abspath(os.path.expanduser(folder))
    stem = re.sub(r"[^\w.-]+", "_", name).strip("._") or "data"
    replaced = {
        key: [_save_block(block, absolute_folder, stem) for block in result[key]]
        for key in ("content", "contents")
        if isinstance(result.get(key), list)
    }
    return {**result, **replaced}


def _save_block(block: Any, folder: str, stem: str) -> Any:
    """Return a content block with its data written to a file."""
    if not isinstance(block, dict):
        return block
    if isinstance(inner := block.get("resource"), dict):
        return {**block, "resource": _save_block(inner, folder, stem)}
    key = next((key for key in _DATA_KEYS if isinstance(block.get(key), str)), None)
    if key is None:
        return block
    try:
        data = b64decode(block[key], validate=True)
    except ValueError:
        return block
    mime_type = block.get("mimeType")
    path = _write_numbered_file(
        folder, stem, guess_extension(mime_type) or ".bin" if isinstance(mime_type, str) else ".bin", data
    )
    remaining = {name: value for name, value in block.items() if name != key}
    return {**remaining, "path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _write_numbered_file(folder: str, stem: str, suffix: str, data: bytes) -> str:
    """Write a new file with the first free number, from 1, in its name; return its path. Raises UsageError."""
    try:
        os.makedirs(folder, exist_ok=True)
        for number in range(1, _MAX_FILE_NUMBER):
            path = os.path.join(folder, f"{stem}-{number}{suffix}")
            try:
                with open(path, "xb") as file:
                    file.write(data)
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}.", path=folder) from None
    raise UsageError(
        f"{folder} already has {_MAX_FILE_NUMBER - 1} files named {stem}-NUMBER.", "Name another folder.", path=folder
    )
