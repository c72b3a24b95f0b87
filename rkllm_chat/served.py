"""How often each tool has served, on this machine alone: it weighs a little when tools are chosen for a question.

Names and numbers are kept, nothing of what was asked. A file that is damaged or cannot be written is as good as none.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from .private import replace_own

MOST = 1000
LARGEST_FILE = 256 * 1024


class Served:
    """Full name of a tool -> how many calls of it were completed. Without a path they are neither read nor kept."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._counts = read_counts(path) if path else {}

    @property
    def counts(self) -> Mapping[str, int]:
        return self._counts

    def note(self, name: str) -> None:
        """Counts one more call; of all tools the MOST that served last are remembered."""
        if self._path is None:
            return
        times = self._counts.pop(name, 0) + 1
        self._counts = dict([*self._counts.items(), (name, times)][-MOST:])
        with contextlib.suppress(OSError):
            replace_own(self._path, json.dumps(self._counts, ensure_ascii=False, indent=1))

    def forget(self) -> int:
        """Forgets them all; gives of how many tools. Raises OSError where the file cannot be taken away."""
        if self._path:
            self._path.unlink(missing_ok=True)
        forgotten, self._counts = len(self._counts), {}
        return forgotten


def read_counts(path: Path) -> dict[str, int]:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(LARGEST_FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    counts = found.items() if isinstance(found, dict) else ()
    return {name: times for name, times in counts if type(times) is int and times > 0}
