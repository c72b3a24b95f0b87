"""Write the binary data of a result (images, audio, blobs) to files; the result then refers to them by path.

Existing files are never overwritten.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from typing import Any

from ...core.numbered_files import write_numbered_file

_DATA_KEYS = ("data", "blob")


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
    replaced = {
        key: [_save_block(block, folder, name) for block in result[key]]
        for key in ("content", "contents")
        if isinstance(result.get(key), list)
    }
    return {**result, **replaced}


def _save_block(block: Any, folder: str, name: str) -> Any:
    """Return a content block with its data written to a file."""
    if not isinstance(block, dict):
        return block
    if isinstance(inner := block.get("resource"), dict):
        return {**block, "resource": _save_block(inner, folder, name)}
    key = next((key for key in _DATA_KEYS if isinstance(block.get(key), str)), None)
    if key is None:
        return block
    try:
        data = b64decode(block[key], validate=True)
    except ValueError:
        return block
    mime_type = block.get("mimeType")
    path = write_numbered_file(folder, name, mime_type if isinstance(mime_type, str) else "", data)
    remaining = {member: value for member, value in block.items() if member != key}
    return {**remaining, "path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
