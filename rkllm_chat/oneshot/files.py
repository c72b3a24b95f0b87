"""Images, sound and other data of a result into files; in the result stands where they are. No file is overwritten."""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64decode
from mimetypes import guess_extension

from ..errors import ProtocolError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DATA_KEYS = ("data", "blob")
MOST_TRIES = 10_000


def put_into_files(result: dict[str, Any], folder: str, name: str) -> dict[str, Any]:
    """The result with every image, sound and blob replaced by path, mimeType, bytes and sha256.

    Raises UsageError if a file cannot be written, ProtocolError for data that is no base64.
    """
    place = os.path.abspath(os.path.expanduser(folder))
    stem = re.sub(r"[^\w.-]+", "_", name).strip("._") or "data"
    replaced = {
        key: [put_block(block, place, stem) for block in result[key]]
        for key in ("content", "contents")
        if isinstance(result.get(key), list)
    }
    return {**result, **replaced}


def put_block(block: Any, folder: str, stem: str) -> Any:
    if not isinstance(block, dict):
        return block
    if isinstance(inner := block.get("resource"), dict):
        return {**block, "resource": put_block(inner, folder, stem)}
    key = next((key for key in DATA_KEYS if isinstance(block.get(key), str)), None)
    if key is None:
        return block
    try:
        data = b64decode(block[key], validate=True)
    except ValueError:
        raise ProtocolError("The server sent data that is no base64.", got=block[key][:40]) from None
    kind = block.get("mimeType")
    path = write_fresh(folder, stem, guess_extension(kind) or ".bin" if isinstance(kind, str) else ".bin", data)
    rest = {name: value for name, value in block.items() if name != key}
    return {**rest, "path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def write_fresh(folder: str, stem: str, ending: str, data: bytes) -> str:
    """Writes a new file, numbered from 1; gives its path."""
    try:
        os.makedirs(folder, exist_ok=True)
        for number in range(1, MOST_TRIES):
            path = os.path.join(folder, f"{stem}-{number}{ending}")
            try:
                with open(path, "xb") as file:
                    file.write(data)
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}.", path=folder) from None
    raise UsageError(f"{folder} is full of files called {stem}.", "Name another folder.", path=folder)
