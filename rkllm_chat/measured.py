"""What was measured on this machine, kept for the next time: how long a model takes to load. It measures nothing.

The file only makes estimates better, so one that is damaged or cannot be written is as good as none.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

MOST = 100


class Measured:
    """Figures by kind and name, in one small JSON file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, kind: str, name: str) -> float:
        """The figure that was noted last; 0 where there is none."""
        value = self._read().get(f"{kind} {name}", 0.0)
        return float(value) if isinstance(value, int | float) and value > 0 else 0.0

    def note(self, kind: str, name: str, value: float) -> None:
        """Remembers a figure, and of all the newest MOST."""
        key = f"{kind} {name}"
        figures = {old: figure for old, figure in self._read().items() if old != key}
        kept = dict([*figures.items(), (key, round(value, 3))][-MOST:])
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            beside.touch(mode=0o600)
            beside.write_text(json.dumps(kept, ensure_ascii=False, indent=1), encoding="utf-8")
            beside.replace(self._path)

    def _read(self) -> dict[str, object]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}
