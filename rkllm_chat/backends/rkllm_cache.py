"""Prompt cache files: the evaluated beginning of a prompt (system text and tools), kept for the next start.

A file is good for one model file, release and text alone, so all of that is in its name. It is as large as the cache
itself (hundreds of megabytes for a large model), so only the newest few stay.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

KEPT = 2


class PromptCache:
    """The cache files of one model under one release of the library."""

    def __init__(self, folder: Path, model: Path, release: str) -> None:
        self._folder = folder
        about = model.stat()
        self._model = f"{model}\0{about.st_size}\0{about.st_mtime_ns}\0{release}"

    def path_of(self, beginning: str | list[int]) -> Path:
        """Where the cache of a prompt's beginning is or would be."""
        digest = hashlib.sha256(f"{self._model}\0{beginning}".encode("utf-8", errors="replace")).hexdigest()
        return self._folder / f"{digest[:32]}.bin"

    def begin(self, path: Path) -> Path:
        """Where to write a new one, so that a half-written file is never taken for a whole one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return path.with_suffix(".partial")

    def keep(self, path: Path) -> None:
        """Takes a written file in, and lets the oldest go."""
        partial = path.with_suffix(".partial")
        if partial.exists():
            partial.chmod(0o600)
            partial.replace(path)
        files = sorted(self._folder.glob("*.bin"), key=lambda file: file.stat().st_mtime_ns)
        for old in files[:-KEPT]:
            old.unlink(missing_ok=True)
