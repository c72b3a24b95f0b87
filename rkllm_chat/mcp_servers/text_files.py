"""Read text files inside permitted folders, limited to UTF-8 and MAX_FILE_BYTES bytes; secrets are in no folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..config.files import find_state_folder
from ..mcp_client.process.sandbox import SECRET_PATHS

MAX_FILE_BYTES = 512 * 1024


class FileError(ValueError):
    """The file cannot be read; the message says why."""


def read_text(folders: Sequence[Path], file_path: str) -> str:
    """Return the text of a file.

    Args:
        folders: The permitted folders; relative paths are resolved against the first one.
        file_path: Absolute or relative path. Links are followed, but not out of the folders.

    Raises:
        FileError: The file is missing, outside the folders, a secret, too large or not UTF-8 text.
    """
    try:
        path = (folders[0] / Path(file_path).expanduser()).resolve(strict=True)
    except FileNotFoundError:
        raise FileError(f"There is no file '{file_path}' in the folder {folders[0]}.") from None
    except (OSError, RuntimeError, ValueError):
        raise FileError(f"'{file_path[:100]}' is not a path that can be followed.") from None
    if not any(path.is_relative_to(folder.resolve()) for folder in folders):
        raise FileError(f"'{file_path}' is outside the folders {', '.join(map(str, folders))}.")
    check_not_secret(path, file_path)
    return decode_utf8(read_regular_file(path, file_path), file_path)


def check_not_secret(path: Path, shown_path: str) -> None:
    """Raise FileError for keys, tokens and this program's state, in any folder.

    Args:
        path: The path with links resolved.
        shown_path: The path for the error message.
    """
    lies_in_state = path.is_relative_to(os.path.realpath(find_state_folder()))
    if lies_in_state or any(f"/{name}/" in f"{path}/" for name in SECRET_PATHS):
        raise FileError(f"'{shown_path}' is not shared: secrets are stored there.")


def check_unmoved(descriptor: int, path: Path, shown_path: str) -> None:
    """Raise FileError if not the resolved file was opened: a folder of its path has become a link in the meantime.

    A sandboxed server that may write a shared folder could do that, to have a file read that is denied to it.
    """
    try:
        opened = Path(f"/proc/self/fd/{descriptor}").readlink()
    except OSError:  # no Linux
        return
    if opened != path:
        raise FileError(f"'{shown_path}' has changed while it was opened.")


def read_regular_file(path: Path, shown_path: str) -> bytes:
    """Return the bytes of a regular file. Raises FileError.

    Opened with O_NONBLOCK, so that a FIFO does not block, and O_NOFOLLOW, so that a link created since is not followed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with _closing_descriptor(descriptor):
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FileError(f"'{shown_path}' is not a file.")
            check_unmoved(descriptor, path, shown_path)
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise FileError(f"'{shown_path}' cannot be read: {error.strerror}.") from None
    if len(data) > MAX_FILE_BYTES:
        raise FileError(f"'{shown_path}' is too large: at most {MAX_FILE_BYTES // 1024} KB are read.")
    return data


@contextmanager
def _closing_descriptor(descriptor: int) -> Iterator[None]:
    """Close a file descriptor on exit."""
    try:
        yield
    finally:
        os.close(descriptor)


def decode_utf8(data: bytes, shown_path: str) -> str:
    """Decode UTF-8 with an optional BOM. Raises FileError for other encodings and NUL bytes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise FileError(f"'{shown_path}' is not a text file in UTF-8.")
    return text
