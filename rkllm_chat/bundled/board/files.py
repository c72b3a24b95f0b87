"""The files below one folder, for reading. Nothing outside it can be reached, by `..`, by link or by absolute path."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

MOST_ENTRIES = 200
MOST_BYTES = 64 * 1024


class FileError(ValueError):
    """The path cannot be listed or read; the text says why."""


def list_files(folder: Path, path: str) -> tuple[list[str], bool]:
    """Names in a folder, sorted, folders with a trailing slash; and whether there were more than MOST_ENTRIES."""
    place = within(folder, path)
    if not place.is_dir():
        raise FileError(f"'{path}' is not a folder." if place.exists() else f"There is no '{path}'.")
    try:
        names = sorted(show_name(entry.name) + "/" * entry.is_dir() for entry in place.iterdir())
    except OSError as error:
        raise FileError(f"'{path}' cannot be listed: {error.strerror}.") from None
    return names[:MOST_ENTRIES], len(names) > MOST_ENTRIES


def read_file(folder: Path, path: str, lines: int | None) -> tuple[str, bool]:
    """The text of a file, its first `lines` lines and at most MOST_BYTES of it; and whether something was left out."""
    place = within(folder, path)
    if not place.is_file():
        raise FileError(f"'{path}' is not a file." if place.exists() else f"There is no '{path}'.")
    try:
        with place.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise FileError(f"'{path}' cannot be read: {error.strerror}.") from None
    if b"\0" in data:
        raise FileError(f"'{path}' is not a text file.")
    whole = data[:MOST_BYTES].decode("utf-8", errors="replace").removesuffix("\n").split("\n")
    text = "\n".join(whole if lines is None else islice(whole, max(lines, 0)))
    return text.rstrip("\n"), len(data) > MOST_BYTES or (lines is not None and len(whole) > lines)


def show_name(name: str) -> str:
    """A file name as text; bytes that are not UTF-8 are replaced, else the answer could not be sent."""
    return os.fsencode(name).decode("utf-8", errors="replace")


def within(folder: Path, path: str) -> Path:
    """The path below the folder, links followed; FileError when it leads outside."""
    try:
        place = (folder / Path(path).expanduser()).resolve()
        place.exists()  # raises where a name is too long
    except (OSError, RuntimeError, ValueError):
        raise FileError(f"'{path[:100]}' is not a path.") from None
    if not place.is_relative_to(folder.resolve()):
        raise FileError(f"'{path}' is outside the folder {folder}.")
    return place
