"""Find the cores on which llama.cpp is fastest: a thread on each physical core, of the big ones where there are kinds.

Decode is bound by memory, and each step waits for its slowest thread: a second thread on a core that has two only
competes for it, and on an RK3588 all eight cores are slower than the four big ones. llama-cpp-python takes half of the
logical cores instead, which without hyperthreading leaves half of the machine idle.

Where others run too, a thread that waits for its turn keeps the others waiting at each of the hundreds of barriers of a
step, and they wait by spinning: only as many threads are used as cores are free.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from ...core.hardware import read_load

_CPUS = "sys/devices/system/cpu"
_SIBLINGS = ("core_cpus_list", "thread_siblings_list")
"""What the kernel calls the logical cores of one physical core, by its age."""
_X86_BIG_CORES = "sys/devices/cpu_core/cpus"
_MIN_SHARE = 0.75
"""Cores with at least this share of the highest capacity are big; an A55 beside an A76 has about half."""
_SAMPLES, _SAMPLE_S = 5, 0.002
"""How often it is counted who is running: the fewest count, because many a thread runs for a moment only."""
_MACOS_CORES = ("hw.perflevel0.physicalcpu", "hw.physicalcpu")
"""Of the fastest kind, where there are kinds; of all."""


def find_big_cores(root: Path = Path("/"), allowed: frozenset[int] | None = None) -> tuple[int, ...]:
    """Return the big cores; none where all cores are alike or the kernel does not rate them.

    Args:
        root: Root of the examined file system.
        allowed: Cores that may be used; None for all.
    """
    capacities: dict[int, int] = {}
    for file in (root / _CPUS).glob("cpu*/cpu_capacity"):
        with suppress(OSError, ValueError):  # a core may be offline
            capacities[int(file.parent.name.removeprefix("cpu"))] = int(file.read_text(encoding="ascii"))
    limit = _MIN_SHARE * max(capacities.values(), default=0)
    big = {core for core, capacity in capacities.items() if capacity >= limit}
    if len(big) == len(capacities):
        big = set(_parse_cores(_read(root / _X86_BIG_CORES)))
    return tuple(_choose_one_a_core(big if allowed is None else big & allowed, root))


def count_cores(root: Path = Path("/"), allowed: frozenset[int] | None = None) -> int:
    """Return the number of physical cores, at least one; each logical core counts as one if the kernel tells no more.

    Args:
        root: Root of the examined file system.
        allowed: Logical cores that may be used; None for all.
    """
    present = set(_parse_cores(_read(root / _CPUS / "online"))) or set(range(os.cpu_count() or 1))
    return max(1, len(_choose_one_a_core(present if allowed is None else present & allowed, root)))


def read_cpu_quota(root: Path = Path("/")) -> float:
    """Return how many CPUs the control groups of this process grant it at most; infinity without a limit.

    The limits of all groups above count (Linux, Documentation/admin-guide/cgroup-v2.rst, cpu.max; v1: sched-bwc.rst).
    """
    quota = float("inf")
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        group = Path(path.lstrip("/"))
        for folder in (group, *group.parents):  # in a container the upper part of the path may not exist
            quota = min(quota, _read_group_quota(mount / folder))
    return quota


def _read_group_quota(folder: Path) -> float:
    """Return the limit of one control group, of either version of them."""
    text = _read(folder / "cpu.max") or " ".join(_read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    with suppress(ValueError):
        quota, period = map(int, text.split())
        return quota / period if quota > 0 and period > 0 else float("inf")
    return float("inf")  # "max", or there is no such file


def choose_cores() -> tuple[int, ...]:
    """Return the big cores of this machine that this process may use; none on a system that cannot bind threads."""
    return find_big_cores(allowed=_find_allowed()) if hasattr(os, "sched_setaffinity") else ()


def count_threads(cores: tuple[int, ...] = ()) -> int:
    """Return with how many threads the engine is fastest on these cores, or on all without any.

    More than the control group's quota would only be suspended for a part of each period.
    """
    import multiprocessing  # llama-cpp-python uses the same count, so one limit applies to both

    count = len(cores) or _count_macos_cores() or count_cores(allowed=_find_allowed())
    return max(1, int(min(count, multiprocessing.cpu_count(), read_cpu_quota())))


def count_free_threads(most: int, root: Path = Path("/"), cores: int = os.cpu_count() or 1) -> int:
    """Return how many threads find a core of their own now, at least one; the calling thread is one of them.

    Qwen2.5-Coder 0.5B on two cores with a load of 16 to 21, interleaved, median of 5: with one thread instead of two a
    token takes 0.04 of the time and 0.05 of the CPU time, a prompt 0.24 and 0.31.

    Args:
        most: How many threads are fastest on an idle machine.
        root: Root of the examined file system.
        cores: Number of logical cores of the machine.
    """
    load = read_load(root)
    if load is None or load[0] <= cores:  # what runs for a moment is no load
        return most
    others = min(_count_others(root, number) for number in range(_SAMPLES))
    return max(1, min(most, cores - others))


def _count_others(root: Path, number: int) -> int:
    """Return how many other threads run or wait for a core now (Linux, proc(5), loadavg), after a pause."""
    time.sleep(_SAMPLE_S if number else 0)
    running = _read(root / "proc/loadavg").split()[3].partition("/")[0]
    return int(running) - 1


def _find_allowed() -> frozenset[int] | None:
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def _count_macos_cores() -> int:
    """Return the number of fast cores of a Mac; 0 on other systems."""
    if sys.platform != "darwin":
        return 0
    for name in _MACOS_CORES:
        count, size = ctypes.c_int32(0), ctypes.c_size_t(4)
        failed = ctypes.CDLL(None).sysctlbyname(name.encode(), ctypes.byref(count), ctypes.byref(size), None, 0)
        if not failed and count.value > 0:
            return count.value
    return 0


def _choose_one_a_core(logical: Iterable[int], root: Path) -> list[int]:
    """Return the first of those logical cores that are one physical core, for each."""
    chosen: list[int] = []
    seen: set[int] = set()
    for core in sorted(logical):
        if core not in seen:
            chosen.append(core)
            texts = (_read(root / _CPUS / f"cpu{core}/topology" / name) for name in _SIBLINGS)
            seen.update(_parse_cores(next(filter(None, texts), "")))
    return chosen


def _parse_cores(text: str) -> Iterator[int]:
    """Yield the numbers of a list of the kernel's.

    >>> list(_parse_cores("0-2,7"))
    [0, 1, 2, 7]
    """
    with suppress(ValueError):
        for part in filter(None, text.split(",")):
            first, _, last = part.partition("-")
            yield from range(int(first), int(last or first) + 1)


def _read(path: Path) -> str:
    """Return the text of a kernel file; "" if it cannot be read."""
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="ascii").strip()
    return ""


def bind_thread(cores: tuple[int, ...]) -> None:
    """Run the calling thread, and those that it starts from now on, on these cores only; no cores change nothing."""
    if cores:
        with suppress(OSError):  # a container may forbid it
            os.sched_setaffinity(0, cores)


def describe_cores(cores: tuple[int, ...]) -> str:
    """Return the cores as text: "4 threads on the big cores 4, 5, 6, 7"."""
    return f"{len(cores)} threads on the big cores {', '.join(map(str, cores))}"
