"""How long work takes, and several ways in turn, so that what else the machine does slows each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

Way = TypeVar("Way")
Result = TypeVar("Result")


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def in_turn(ways: Mapping[Way, Callable[[], Result]], runs: int, warms_up: bool = True) -> dict[Way, list[Result]]:
    """What each way gives, run after run. A first run that only fills caches does not count, if `warms_up`."""
    found: dict[Way, list[Result]] = {way: [] for way in ways}
    for number in range(runs + warms_up):
        for way, run in ways.items():
            result = run()
            if number >= warms_up:
                found[way].append(result)
    return found
