"""Files of evaluated prompt beginnings, kept for the next start of the program: system text and tools, conversations.

A file is valid for one engine, model and beginning only, so its name contains the beginning's length, a hash of these
and a second hash of the file's content. A truncated, altered or copied file is thus detected and removed before native
code reads it: llama.cpp's loader ends the process on some data, and the loader of the NPU runtime is closed source.
SHA-256 takes 1 s a GB (measured on x86-64; the cores of an RK3588 have its instructions too).
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...core.private_files import explain_open_error, make_folder, open_folder, open_private

MIN_TOKENS = 200
"""Fewer tokens are evaluated in the time of looking for a file: 0.06 s for 200 by the smallest model (measured)."""
MAX_FILES, MAX_TOTAL_BYTES = 4, 1 << 30
"""Limits for all engines and models together: a few models or sets of tools. 1,500 tokens of Qwen3 8B are 0.2 GB."""
_RESERVED_BYTES = 1 << 29
_STALE_S = 3600.0
_CHUNK_BYTES = 1 << 20
_SUFFIX, _PARTIAL = ".bin", ".partial"
_DIGITS = 32

log = logging.getLogger(__name__)


class PromptCacheFiles:
    """The files of one model under one engine, in a folder that all models share."""

    def __init__(self, folder: Path, model: Path, engine: str, max_files: int = MAX_FILES) -> None:
        """Describe the files of one model.

        Args:
            folder: The shared folder.
            model: The model file, which must exist.
            engine: Text that differs for everything that cannot read the files of each other: versions, sizes,
                adapters.
            max_files: Maximum number of files in the folder.
        """
        self._folder, self._max_files = folder, max_files
        status = model.stat()
        self._identity = f"{engine}\0{model.absolute()}\0{status.st_size}\0{status.st_mtime_ns}"

    def find(self, prefix: str | list[int]) -> Path | None:
        """Return the valid file of a beginning; invalid files of that name are removed.

        Args:
            prefix: The text or the token ids.
        """
        key = self._key(prefix)
        try:
            with open_folder(self._folder):
                for path in self._folder.glob(f"{key}-*{_SUFFIX}"):
                    if _is_intact(path, key):
                        os.utime(path)
                        return path
                    self.remove(path)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                log.warning("prompt cache files: %s: %s", self._folder, explain_open_error(error))
        return None

    def find_longest(self, prompt: str | list[int]) -> tuple[Path | None, int]:
        """Return the valid file of the longest beginning of a prompt, and the length of that beginning."""
        try:
            with open_folder(self._folder) as folder:
                found = (name.partition(".")[0] for name in os.listdir(folder))  # noqa: PTH208  # by its descriptor
                lengths = {int(length) for length in found if length.isdecimal()}
        except OSError:
            return None, 0
        for length in sorted((length for length in lengths if 0 < length <= len(prompt)), reverse=True):
            if path := self.find(prompt[:length]):
                return path, length
        return None, 0

    def save(self, prefix: str | list[int], write: Callable[[Path], bool], size_bytes: int = 0) -> bool:
        """Write the file of a beginning.

        Args:
            prefix: The text or the token ids.
            write: Fills the file at a path and returns whether it is complete; its exceptions are raised.
            size_bytes: Size of the file if known; decides whether there is room.

        Returns:
            Whether the file exists now.
        """
        key = self._key(prefix)
        try:
            make_folder(self._folder)
            with open_folder(self._folder):
                return self._has_room(size_bytes) and self._write(key, write)
        except OSError as error:
            log.warning("prompt cache files: %s: %s", self._folder, explain_open_error(error))
            return False

    def remove(self, path: Path) -> None:
        """Delete an invalid file."""
        log.info("prompt cache files: %s is not what was written, and is removed", path)
        with suppress(OSError):
            path.unlink(missing_ok=True)

    def _key(self, prefix: str | list[int]) -> str:
        digest = hashlib.sha256(f"{self._identity}\0{prefix}".encode("utf-8", errors="replace")).hexdigest()[:_DIGITS]
        return f"{len(prefix)}.{digest}"

    def _has_room(self, size_bytes: int) -> bool:
        free = shutil.disk_usage(self._folder).free - size_bytes
        if size_bytes > MAX_TOTAL_BYTES or free < _RESERVED_BYTES:
            log.info("prompt cache files: no room for %d bytes, %d would be free", size_bytes, free)
            return False
        return True

    def _write(self, key: str, write: Callable[[Path], bool]) -> bool:
        partial = self._folder / f"{key}-{secrets.token_hex(4)}{_PARTIAL}"
        os.close(open_private(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL))  # created here so that its mode is 0600
        try:
            if not write(partial):
                log.info("prompt cache files: %s was not written completely", partial)
                return False
            path = self._folder / f"{key}-{_hash_file(partial, key)}{_SUFFIX}"
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        for other in self._folder.glob(f"{key}-*{_SUFFIX}"):
            if other != path:
                other.unlink(missing_ok=True)
        self._prune()
        return path.exists()

    def _prune(self) -> None:
        """Delete all but the most recently used files within the limits, and abandoned partial files."""
        remaining_bytes, limit = MAX_TOTAL_BYTES, time.time() - _STALE_S
        files = [(path.stat(), path) for path in self._folder.iterdir()]
        newest = sorted((pair for pair in files if pair[1].suffix == _SUFFIX), key=lambda pair: -pair[0].st_mtime_ns)
        for number, (status, path) in enumerate(newest):
            remaining_bytes -= status.st_size
            if number >= self._max_files or remaining_bytes < 0:
                path.unlink(missing_ok=True)
        for status, path in files:
            if path.suffix == _PARTIAL and status.st_mtime < limit:
                path.unlink(missing_ok=True)


def _is_intact(path: Path, key: str) -> bool:
    """Return whether a file has the content that its name says."""
    try:
        return path.stem == f"{key}-{_hash_file(path, key)}"
    except OSError as error:
        log.info("prompt cache files: %s: %s", path, explain_open_error(error))
        return False


def _hash_file(path: Path, key: str) -> str:
    """Return the hash of a file's content and its key. Raises OSError, also for a link."""
    digest = hashlib.sha256(key.encode())
    with open(open_private(path, os.O_RDONLY), "rb", buffering=0) as file:  # noqa: PTH123  # a descriptor
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()[:_DIGITS]
