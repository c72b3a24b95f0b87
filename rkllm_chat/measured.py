"""What was measured on this machine, kept for the next time: how long a model takes to load, and to
read. It measures nothing.

The file only makes estimates better, so one that is damaged or cannot be written is as good as none.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from .private import replace_own

MOST = 100


class Measured:
    """Figures by kind and name, in one small JSON file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, kind: str, name: str) -> float:
        """The figure that was noted last; 0 where there is none."""
        value = self.read(kind, name)
        return float(value) if isinstance(value, int | float) and value > 0 else 0.0

    def note(self, kind: str, name: str, value: float) -> None:
        """Remembers a figure."""
        self.write(kind, name, round(value, 3))

    def read(self, kind: str, name: str) -> object:
        """What was written last, which somebody may have altered; None where there is nothing."""
        return self._read().get(f"{kind} {name}")

    def write(self, kind: str, name: str, value: object) -> None:
        """Remembers a figure or a list of some, and of all the newest MOST."""
        key = f"{kind} {name}"
        figures = {old: figure for old, figure in self._read().items() if old != key}
        kept = dict([*figures.items(), (key, value)][-MOST:])
        with contextlib.suppress(OSError):
            replace_own(self._path, json.dumps(kept, ensure_ascii=False).replace(', "', ',\n"'))

    def _read(self) -> dict[str, object]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}
