"""Statistics of this machine in small JSON files: measured figures, and how often each tool was used.

Load times and prefill speeds serve later estimates; counts of tool calls influence the ranking of tools slightly.
Only names and numbers are stored. A file that is damaged or cannot be written is ignored.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.private_files import read_private, replace_private

MAX_FIGURES = 100
MAX_TOOLS = 1000
_MAX_FILE_BYTES = 256 * 1024


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
        figures = _move_to_end(_read_object(self._path), f"{kind} {name}", value, MAX_FIGURES)
        _write_object(self._path, figures)


class ToolUsage:
    """Number of completed calls by full tool name. Without a path nothing is read or stored."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        counts = _read_object(path) if path else {}
        self._counts: dict[str, int] = {
            name: count for name, count in counts.items() if type(count) is int and count > 0
        }

    @property
    def counts(self) -> Mapping[str, int]:
        """Completed calls by full tool name, least recently used first."""
        return self._counts

    def record_call(self, name: str) -> None:
        """Count a call. Only the MAX_TOOLS most recently used tools are stored."""
        if self._path is None:
            return
        self._counts = _move_to_end(self._counts, name, self._counts.get(name, 0) + 1, MAX_TOOLS)
        _write_object(self._path, self._counts)

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


def _write_object(path: Path, entries: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        replace_private(path, json.dumps(entries, ensure_ascii=False).replace(', "', ',\n"'))
