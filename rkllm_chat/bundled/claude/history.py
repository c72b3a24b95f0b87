"""The newest runs, the current session and the totals, on disk for this user alone. It runs nothing.

Every change is written at once, whole, over what the file holds by then: several servers may share it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from .answers import is_session

if sys.platform != "win32":
    import fcntl

MOST_RUNS = 100
LARGEST_FILE = 32 << 20
REQUIRED = {
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
    """Of all runs, also of those that are forgotten. Cost and tokens are what the CLI reported."""

    runs: int = 0
    failed: int = 0
    seconds: float = 0.0
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True)
class Kept:
    """What is remembered. `runs`: the oldest first."""

    runs: tuple[Mapping[str, Any], ...] = ()
    session_id: str | None = None
    totals: Totals = field(default_factory=Totals)


class History:
    """A file, and what it holds where it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = Kept()
        self._is_behind = False

    def read(self) -> Kept:
        """What the file holds; where it is damaged it is put aside, and all begins anew."""
        if self._is_behind:
            return self._kept
        try:
            self._kept = self._read()
        except FileNotFoundError:
            pass
        except ValueError as error:
            self._put_aside(str(error))
        except OSError as error:
            log.warning("The history %s cannot be read: %s.", self._path, error.strerror)
        return self._kept

    def change(self, change: Callable[[Kept], Kept]) -> Kept:
        """Applies a change to what the file holds, and writes it. Where that fails, it is remembered until the end."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._lock():
                changed = change(self.read())
                self._write(changed)
            self._is_behind = False
        except OSError as error:
            changed = change(self._kept)
            if not self._is_behind:
                log.warning("The history %s cannot be written: %s.", self._path, error.strerror)
            self._is_behind = True
        self._kept = changed
        return changed

    def _read(self) -> Kept:
        with self._path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise ValueError("it is too large")
        try:
            return read_kept(json.loads(data))
        except RecursionError:
            raise ValueError("it is nested too deep") from None

    def _write(self, kept: Kept) -> None:
        data = json.dumps(asdict(kept), ensure_ascii=True)
        number, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}-")  # mode 0600
        try:
            with open(number, "w", encoding="utf-8") as file:  # noqa: PTH123 - it is a descriptor
                file.write(data)
                file.flush()
                os.fsync(number)
            Path(name).replace(self._path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Other servers wait; only on Windows they do not."""
        number = os.open(self._path.with_name(f"{self._path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if sys.platform != "win32":
                fcntl.flock(number, fcntl.LOCK_EX)
            yield
        finally:
            os.close(number)

    def _put_aside(self, reason: str) -> None:
        aside = self._path.with_name(f"{self._path.name}.damaged-{datetime.now():%Y%m%d-%H%M%S-%f}")
        with suppress(FileNotFoundError):  # another server was first
            self._path.replace(aside)
        log.warning("The history %s is damaged (%s); it is %s now.", self._path, reason, aside.name)


def read_kept(value: Any) -> Kept:
    """Raises ValueError where it is not what `asdict` made of a Kept."""
    if not isinstance(value, dict) or not isinstance(value.get("runs"), list):
        raise ValueError("it has no list of runs")
    session, totals = value.get("session_id"), value.get("totals")
    if not all(is_run(run) for run in value["runs"]) or not (session is None or is_session(session)):
        raise ValueError("a run or the session in it is none")
    known = asdict(Totals())
    if not isinstance(totals, dict) or set(totals) != set(known):
        raise ValueError("its totals are none")
    if not all(isinstance(totals[name], int | float) and not isinstance(totals[name], bool) for name in known):
        raise ValueError("a total in it is no number")
    return Kept(tuple(value["runs"][-MOST_RUNS:]), session, Totals(**totals))


def is_run(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(name in value and isinstance(value[name], kind) for name, kind in REQUIRED.items())
        and isinstance(value.get("context_file", ""), str)
    )
