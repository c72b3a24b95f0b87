"""A limit of CPU time, which other processes do not use up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


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
