"""Find the big cores of a chip with two clusters, on which llama.cpp is fastest, and bind threads to them.

On an RK3588 all eight cores are slower than the four big ones: each step of the model waits for its slowest thread.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CAPACITIES = "sys/devices/system/cpu/cpu*/cpu_capacity"
_MIN_SHARE = 0.75
"""Cores with at least this share of the highest capacity are big; an A55 beside an A76 has about half."""
_MAX_THREADS = 4


def find_big_cores(root: Path = Path("/"), allowed: frozenset[int] | None = None) -> tuple[int, ...]:
    """Return the big cores, at most four; none where all cores are alike or the kernel does not rate them.

    Args:
        root: Root of the examined file system.
        allowed: Cores that may be used; None for all.
    """
    capacities: dict[int, int] = {}
    for file in root.glob(_CAPACITIES):
        with suppress(OSError, ValueError):  # a core may be offline
            capacities[int(file.parent.name.removeprefix("cpu"))] = int(file.read_text(encoding="ascii"))
    limit = _MIN_SHARE * max(capacities.values(), default=0)
    big = sorted(core for core, capacity in capacities.items() if capacity >= limit)
    if len(big) == len(capacities):
        return ()
    return tuple(core for core in big if allowed is None or core in allowed)[:_MAX_THREADS]


def choose_cores() -> tuple[int, ...]:
    """Return the big cores of this machine that this process may use; none on a system that cannot bind threads."""
    return find_big_cores(allowed=frozenset(os.sched_getaffinity(0))) if hasattr(os, "sched_setaffinity") else ()


def bind_thread(cores: tuple[int, ...]) -> None:
    """Run the calling thread, and those that it starts from now on, on these cores only; no cores change nothing."""
    if cores:
        with suppress(OSError):  # a container may forbid it
            os.sched_setaffinity(0, cores)


def describe_cores(cores: tuple[int, ...]) -> str:
    """Return the cores as text: "4 threads on the big cores 4, 5, 6, 7"."""
    return f"{len(cores)} threads on the big cores {', '.join(map(str, cores))}"
