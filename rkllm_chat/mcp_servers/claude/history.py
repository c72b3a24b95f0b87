"""Persistent history of runs, current session and totals.

The file is private to the user. Every change is written atomically under a lock, because several servers may share
the file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ...core.file_writes import lock_file, replace_file
from ...core.private_files import make_folder, read_private
from .cli_output import is_session_id

MAX_RUNS = 100
MAX_FILE_BYTES = 32 << 20
_REQUIRED = {
    "success": bool,
    "prompt": str,
    "response": str | None,
    "execution_time": int | float,
    "timestamp": str,
    "error": str | None,
    "session_id": str | None,
}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Totals:
    """Totals of all runs, including those dropped from the history; cost and tokens as reported by the CLI."""

    runs: int = 0
    failed: int = 0
    seconds: float = 0.0
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True)
class HistoryState:
    """The stored state. `runs` is ordered oldest first."""

    runs: tuple[Mapping[str, Any], ...] = ()
    session_id: str | None = None
    totals: Totals = field(default_factory=Totals)


class RunHistory:
    """A history file, with a copy in memory that is used while the file cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = HistoryState()
        self._is_behind = False

    def read(self) -> HistoryState:
        """Return the stored state; a damaged file is renamed and the history starts empty."""
        if self._is_behind:
            return self._state
        try:
            self._state = self._read()
        except FileNotFoundError:
            pass
        except ValueError as error:
            self._move_damaged(str(error))
        except OSError as error:
            log.warning("The history %s cannot be read: %s.", self._path, error.strerror)
        return self._state

    def update(self, change: Callable[[HistoryState], HistoryState]) -> HistoryState:
        """Apply a change to the stored state and write it; if writing fails, keep it in memory."""
        try:
            make_folder(self._path.parent)
            with lock_file(self._path.with_name(f"{self._path.name}.lock")):
                changed = change(self.read())
                self._write(changed)
            self._is_behind = False
        except OSError as error:
            changed = change(self._state)
            if not self._is_behind:
                log.warning("The history %s cannot be written: %s.", self._path, error.strerror)
            self._is_behind = True
        self._state = changed
        return changed

    def _read(self) -> HistoryState:
        data = read_private(self._path, MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ValueError("it is too large")
        try:
            return _read_kept(json.loads(data))
        except RecursionError:
            raise ValueError("it is nested too deeply") from None

    def _write(self, state: HistoryState) -> None:
        replace_file(self._path, json.dumps(asdict(state), ensure_ascii=True).encode())

    def _move_damaged(self, reason: str) -> None:
        aside = self._path.with_name(f"{self._path.name}.damaged-{datetime.now():%Y%m%d-%H%M%S-%f}")
        with suppress(FileNotFoundError):  # another server has moved it already
            self._path.replace(aside)
        log.warning("The history %s is damaged (%s); it was renamed to %s.", self._path, reason, aside.name)


def _read_kept(value: Any) -> HistoryState:
    """Validate a stored state. Raises ValueError."""
    if not isinstance(value, dict) or not isinstance(value.get("runs"), list):
        raise ValueError("it has no list of runs")
    session, totals = value.get("session_id"), value.get("totals")
    if not all(_is_run(run) for run in value["runs"]) or not (session is None or is_session_id(session)):
        raise ValueError("a run or the session in it is invalid")
    known = asdict(Totals())
    if not isinstance(totals, dict) or set(totals) != set(known):
        raise ValueError("its totals are invalid")
    if not all(isinstance(totals[name], int | float) and not isinstance(totals[name], bool) for name in known):
        raise ValueError("a total in it is not a number")
    return HistoryState(tuple(value["runs"][-MAX_RUNS:]), session, Totals(**totals))


def _is_run(value: Any) -> bool:
    """Whether the value has the fields of a stored run."""
    return (
        isinstance(value, dict)
        and all(name in value and isinstance(value[name], kind) for name, kind in _REQUIRED.items())
        and isinstance(value.get("context_file", ""), str)
    )
