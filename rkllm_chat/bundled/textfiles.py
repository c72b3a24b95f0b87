"""Text files below given folders, and no others: readable, in UTF-8, not too large. It knows no tool."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LARGEST_FILE = 512 * 1024


class FileError(ValueError):
    """The file is not read; the text says why."""


def read_text(folders: Sequence[Path], file_path: str) -> str:
    """The file's text. A relative path counts from the first folder; links are followed, but not out of the folders.

    Raises FileError.
    """
    try:
        place = (folders[0] / Path(file_path).expanduser()).resolve(strict=True)
    except FileNotFoundError:
        raise FileError(f"There is no file '{file_path}'.") from None
    except (OSError, RuntimeError, ValueError):
        raise FileError(f"'{file_path[:100]}' is not a path that can be followed.") from None
    if not any(place.is_relative_to(folder.resolve()) for folder in folders):
        raise FileError(f"'{file_path}' is outside the folders {', '.join(map(str, folders))}.")
    return decode(read_bytes(place, file_path), file_path)


def read_bytes(place: Path, named: str) -> bytes:
    """A plain file's bytes; what is no plain file is not waited for, and a link put there meanwhile not followed."""
    try:
        descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with closing_descriptor(descriptor):
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FileError(f"'{named}' is not a file.")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise FileError(f"'{named}' cannot be read: {error.strerror}.") from None
    if len(data) > LARGEST_FILE:
        raise FileError(f"'{named}' is too large: at most {LARGEST_FILE // 1024} KB are read.")
    return data


@contextmanager
def closing_descriptor(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def decode(data: bytes, named: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise FileError(f"'{named}' is not a text file in UTF-8.")
    return text
