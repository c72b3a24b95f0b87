"""List and read files inside one folder.

Paths that leave the folder by `..`, links or absolute paths are rejected, and so are hidden files and secrets.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from ..text_files import FileError, check_not_secret, check_unmoved

MAX_ENTRIES = 200
MAX_FILE_BYTES = 64 * 1024


def list_files(folder: Path, path: str) -> tuple[list[str], bool]:
    """Return the sorted names in a folder, and whether the list was truncated to MAX_ENTRIES.

    Names of folders end with a slash; hidden ones are left out. Raises FileError.
    """
    target = resolve_inside(folder, path)
    if not target.is_dir():
        raise FileError(f"'{path}' is not a folder." if target.exists() else _describe_missing(folder, path))
    try:
        entries = [entry for entry in target.iterdir() if not entry.name.startswith(".")]
        names = sorted(_show_name(entry.name) + "/" * entry.is_dir() for entry in entries)
    except OSError as error:
        raise FileError(f"'{path}' cannot be listed: {error.strerror}.") from None
    return names[:MAX_ENTRIES], len(names) > MAX_ENTRIES


def read_file(folder: Path, path: str, lines: int | None) -> tuple[str, bool]:
    """Return the text of a file, and whether it was truncated.

    At most MAX_FILE_BYTES are read, and at most `lines` lines unless it is None. Raises FileError.
    """
    target = resolve_inside(folder, path)
    if not target.is_file():
        raise FileError(f"'{path}' is not a file." if target.exists() else _describe_missing(folder, path))
    try:
        with target.open("rb") as file:
            check_unmoved(file.fileno(), target, path)
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise FileError(f"'{path}' cannot be read: {error.strerror}.") from None
    if b"\0" in data:
        raise FileError(f"'{path}' is not a text file.")
    all_lines = data[:MAX_FILE_BYTES].decode("utf-8", errors="replace").removesuffix("\n").split("\n")
    text = "\n".join(all_lines if lines is None else islice(all_lines, max(lines, 0)))
    return text.rstrip("\n"), len(data) > MAX_FILE_BYTES or (lines is not None and len(all_lines) > lines)


def _describe_missing(folder: Path, path: str) -> str:
    """Return that a path leads to nothing here: beside a server for another folder, the file may well exist."""
    return f"There is no '{path}' in the folder {folder}."


def _show_name(name: str) -> str:
    """Return a file name with bytes replaced that are not UTF-8, which JSON cannot carry."""
    return os.fsencode(name).decode("utf-8", errors="replace")


def resolve_inside(folder: Path, path: str) -> Path:
    """Resolve a path against the folder. Raises FileError if it leads outside, or to hidden files or secrets."""
    try:
        target = (folder / Path(path).expanduser()).resolve()
        target.exists()  # raises where a name is too long
    except (OSError, RuntimeError, ValueError):
        raise FileError(f"'{path[:100]}' is not a path.") from None
    root = folder.resolve()
    if not target.is_relative_to(root):
        raise FileError(f"'{path}' is outside the folder {folder}.")
    if any(name.startswith(".") for name in target.relative_to(root).parts):
        raise FileError(f"'{path}' is not shared: it is hidden.")
    check_not_secret(target, path)
    return target
