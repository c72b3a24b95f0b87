"""Files of evaluated beginnings: what an engine made of a prompt's system text and tools, kept for the next start.

A file is good for one engine, model and beginning alone, so a hash of all that is in its name; behind it stands one of
what is in the file. What was cut off, altered or copied from elsewhere is found out by that and removed before native
code reads it: llama.cpp's loader ends the process on some data, and the NPU's is a stranger to us. SHA-256 takes 1 s
a GB (measured on x86-64; the cores of an RK3588 have its instructions, too). It knows no engine.
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

from ..private import explain, make_folder, open_folder, open_own

FEWEST_TOKENS = 200
"""Fewer are read in the time that looking for a file takes: 0.06 s for 200 by the smallest of models (measured)."""
MOST_FILES, LARGEST_BYTES = 4, 1 << 30
"""Of all engines and models together: a few models or sets of tools in turn. 1,500 tokens of Qwen3 8B are 0.2 GB."""
LEFT_FREE_BYTES = 1 << 29
STALE_S = 3600.0
CHUNK_BYTES = 1 << 20
ENDING, PARTIAL = ".bin", ".partial"
DIGITS = 32

log = logging.getLogger(__name__)


class Beginnings:
    """The files of one model under one engine, in a folder that all share.

    `engine` tells apart whatever cannot read the files of each other: versions, sizes, adapters.
    """

    def __init__(self, folder: Path, model: Path, engine: str) -> None:
        self._folder = folder
        about = model.stat()
        self._maker = f"{engine}\0{model.absolute()}\0{about.st_size}\0{about.st_mtime_ns}"

    def find(self, beginning: str | list[int]) -> Path | None:
        """The file of a beginning, whole and as it was written; any other of that name is removed."""
        key = self._key(beginning)
        try:
            with open_folder(self._folder):
                for path in self._folder.glob(f"{key}-*{ENDING}"):
                    if is_whole(path, key):
                        os.utime(path)
                        return path
                    self.remove(path)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                log.warning("evaluated beginnings: %s: %s", self._folder, explain(error))
        return None

    def save(self, beginning: str | list[int], write: Callable[[Path], bool], size_bytes: int = 0) -> bool:
        """Has `write` fill a file and takes it in, if it says that it is whole; gives whether there is one now.

        `size_bytes`, where it is known before, decides whether there is room. Raises what `write` raises.
        """
        key = self._key(beginning)
        try:
            make_folder(self._folder)
            with open_folder(self._folder):
                return self._has_room(size_bytes) and self._write(key, write)
        except OSError as error:
            log.warning("evaluated beginnings: %s: %s", self._folder, explain(error))
            return False

    def remove(self, path: Path) -> None:
        """Takes away a file that is no good."""
        log.info("evaluated beginnings: %s is not what was written, and is removed", path)
        with suppress(OSError):
            path.unlink(missing_ok=True)

    def _key(self, beginning: str | list[int]) -> str:
        return hashlib.sha256(f"{self._maker}\0{beginning}".encode("utf-8", errors="replace")).hexdigest()[:DIGITS]

    def _has_room(self, size_bytes: int) -> bool:
        free = shutil.disk_usage(self._folder).free - size_bytes
        if size_bytes > LARGEST_BYTES or free < LEFT_FREE_BYTES:
            log.info("evaluated beginnings: no room for %d bytes, %d would be free", size_bytes, free)
            return False
        return True

    def _write(self, key: str, write: Callable[[Path], bool]) -> bool:
        partial = self._folder / f"{key}-{secrets.token_hex(4)}{PARTIAL}"
        os.close(open_own(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL))  # 0600, whoever writes it
        try:
            if not write(partial):
                log.info("evaluated beginnings: %s was not written to its end", partial)
                return False
            path = self._folder / f"{key}-{digest_of(partial, key)}{ENDING}"
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        for other in self._folder.glob(f"{key}-*{ENDING}"):
            if other != path:
                other.unlink(missing_ok=True)
        self._let_go()
        return path.exists()

    def _let_go(self) -> None:
        """Keeps the files that were used last, as many as there may be, and nothing that others left half-written."""
        room, limit = LARGEST_BYTES, time.time() - STALE_S
        files = [(path.stat(), path) for path in self._folder.iterdir()]
        newest = sorted((pair for pair in files if pair[1].suffix == ENDING), key=lambda pair: -pair[0].st_mtime_ns)
        for number, (about, path) in enumerate(newest):
            room -= about.st_size
            if number >= MOST_FILES or room < 0:
                path.unlink(missing_ok=True)
        for about, path in files:
            if path.suffix == PARTIAL and about.st_mtime < limit:
                path.unlink(missing_ok=True)


def is_whole(path: Path, key: str) -> bool:
    """Whether a file has what its name says."""
    try:
        return path.stem == f"{key}-{digest_of(path, key)}"
    except OSError as error:
        log.info("evaluated beginnings: %s: %s", path, explain(error))
        return False


def digest_of(path: Path, key: str) -> str:
    """What tells a file's content, and for which key it was written. Raises OSError, also for a link."""
    digest = hashlib.sha256(key.encode())
    with open(open_own(path, os.O_RDONLY), "rb", buffering=0) as file:  # noqa: PTH123  # a descriptor
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()[:DIGITS]
