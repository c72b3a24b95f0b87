"""Limits of time that other processes do not use up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from macos import PROC


@contextmanager
def limit_cpu(seconds: float) -> Iterator[None]:
    """Fail as soon as the block has used this much CPU time, also within a regular expression."""

    def stop(*_: object) -> None:
        pytest.fail(f"it used {seconds:g} s of CPU")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


SLACK = 3
"""How many times longer than on an idle machine a thing may take where tests run side by side."""
_MIN_RAN_S = 0.05
_begun_s = (0.0, 0.0)


def begin_test() -> None:
    """Measure from here on how much other processes slow this one down."""
    global _begun_s
    _begun_s = _read_schedule()


def allow_s(seconds: float) -> float:
    """Return the time that a thing may take which takes so long on an idle machine.

    More by what this process waited for a processor since the test began, in proportion to what it ran.
    """
    ran_s, queued_s = (now - begun for now, begun in zip(_read_schedule(), _begun_s, strict=True))
    return seconds * SLACK * (1 + queued_s / max(ran_s, _MIN_RAN_S))


def _read_schedule() -> tuple[float, float]:
    """Seconds that the main thread ran, and was ready to run while others did; 0 if the kernel does not say."""
    file = Path(f"{PROC}/self/schedstat")
    ran, queued, *_ = file.read_text(encoding="ascii").split() if file.exists() else (0, 0)
    return int(ran) / 1e9, int(queued) / 1e9
