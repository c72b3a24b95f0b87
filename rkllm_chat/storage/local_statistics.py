"""Statistics of this machine in small JSON files: measured figures, and how often each tool was used.

Load times and prefill speeds serve later estimates; counts of tool calls influence the ranking of tools slightly.
Only names and numbers are stored. A file that is damaged or cannot be written is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..core.file_writes import lock_edits, replace_file
from ..core.private_files import read_private

MAX_FIGURES = 100
MAX_TOOLS = 1000
_MAX_FILE_BYTES = 256 * 1024
_LOCK_S = 2.0
"""A figure is not worth a longer wait of a chat."""


class Measurements:
    """Measured figures by kind and name."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get_figure(self, kind: str, name: str) -> float:
        """Return the last stored figure; 0 if there is none."""
        value = self.read_value(kind, name)
        return float(value) if isinstance(value, int | float) and value > 0 else 0.0

    def record_figure(self, kind: str, name: str, value: float) -> None:
        """Store a figure, rounded to three decimals."""
        self.write_value(kind, name, round(value, 3))

    def read_value(self, kind: str, name: str) -> object:
        """Return the last stored value, unvalidated; None if there is none."""
        return _read_object(self._path).get(f"{kind} {name}")

    def write_value(self, kind: str, name: str, value: object) -> None:
        """Store a figure or a list of figures; only the MAX_FIGURES most recent entries are retained."""
        _change_object(self._path, lambda figures: _move_to_end(figures, f"{kind} {name}", value, MAX_FIGURES))


class ToolUsage:
    """Number of completed calls by full tool name. Without a path nothing is read or stored."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._counts = _valid_counts(_read_object(path)) if path else {}

    @property
    def counts(self) -> Mapping[str, int]:
        """Completed calls by full tool name, least recently used first."""
        return self._counts

    def record_call(self, name: str) -> None:
        """Count a call. Only the MAX_TOOLS most recently used tools are stored."""
        if self._path is None:
            return

        def count(stored: Mapping[str, Any]) -> dict[str, int]:
            counts = _valid_counts(stored) if stored else self._counts
            return _move_to_end(counts, name, counts.get(name, 0) + 1, MAX_TOOLS)

        self._counts = _change_object(self._path, count)

    def clear(self) -> int:
        """Delete all counts.

        Returns:
            The number of tools that had counts.

        Raises:
            OSError: The file cannot be deleted.
        """
        if self._path:
            self._path.unlink(missing_ok=True)
        cleared, self._counts = len(self._counts), {}
        return cleared


def _read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty if the file is missing, too large or damaged."""
    try:
        document = json.loads(read_private(path, _MAX_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _move_to_end(entries: Mapping[str, Any], key: str, value: Any, limit: int) -> dict[str, Any]:
    """Set an entry and make it the most recent one; drop the oldest entries above the limit."""
    others = [(name, entry) for name, entry in entries.items() if name != key]
    return dict([*others, (key, value)][-limit:])


def _valid_counts(entries: Mapping[str, Any]) -> dict[str, int]:
    return {name: count for name, count in entries.items() if type(count) is int and count > 0}


def _change_object(path: Path, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Change the object in a file while no other chat does; return what it is now, also if it cannot be written."""
    if not path.parent.is_dir():
        return change({})
    try:
        with lock_edits(path.parent, _LOCK_S):
            entries = change(_read_object(path))
            text = json.dumps(entries, ensure_ascii=False).replace(', "', ',\n"')
            replace_file(path, text.encode(errors="surrogatepass"), is_durable=False)
    except OSError:
        return change(_read_object(path))
    return entries
