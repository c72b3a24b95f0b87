"""What the kernel says about this machine, read from /proc and /sys. It never writes; only NPU load needs root.

Every function takes the root folder, so that the files of a board can be read anywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")

# rknpu driver 0.9.8 shows its load under debugfs (root only) or /proc, by build option; devfreq is open to all.
NPU_LOADS = ("proc/rknpu/load", "sys/kernel/debug/rknpu/load")
NPU_FREQUENCIES = "sys/class/devfreq/*npu*/cur_freq"


@dataclass(frozen=True)
class Memory:
    """Sizes in bytes; `available` is what programs can still get without swapping."""

    total: int
    available: int
    swap_total: int
    swap_free: int


@dataclass(frozen=True)
class Npu:
    """Load of each core in percent (None: not readable, root is needed), frequency in hertz (None: not readable)."""

    load: tuple[int, ...] | None
    frequency: int | None


def read_temperatures(root: Path = ROOT) -> dict[str, float]:
    """Sensor -> degrees Celsius, of every thermal zone; empty where there is none."""
    degrees: dict[str, float] = {}
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*"), key=lambda zone: int(zone.name[12:] or 0)):
        kind, milli = read(zone / "type"), read(zone / "temp")
        if kind and milli and milli.lstrip("-").isdigit():
            degrees[kind if kind not in degrees else f"{kind} {zone.name[12:]}"] = int(milli) / 1000
    return degrees


def read_memory(root: Path = ROOT) -> Memory | None:
    """The figures of /proc/meminfo (given there in KiB); None where there is no such file."""
    figures = {name: int(kib) * 1024 for name, kib in re.findall(r"(\w+):\s+(\d+) kB", read(root / "proc/meminfo"))}
    if "MemTotal" not in figures:
        return None
    available = figures.get("MemAvailable", figures.get("MemFree", 0))
    return Memory(figures["MemTotal"], available, figures.get("SwapTotal", 0), figures.get("SwapFree", 0))


def read_load(root: Path = ROOT) -> tuple[float, float, float] | None:
    """Runnable processes on average over 1, 5 and 15 minutes; None where the kernel does not say."""
    words = read(root / "proc/loadavg").split()
    return (float(words[0]), float(words[1]), float(words[2])) if len(words) >= 3 else None


def read_uptime(root: Path = ROOT) -> float:
    """Seconds since the start of the machine; 0 where the kernel does not say."""
    words = read(root / "proc/uptime").split()
    return float(words[0]) if words else 0.0


def read_npu(root: Path = ROOT) -> Npu | None:
    """The Rockchip NPU; None where there is none."""
    frequencies = [read(path) for path in sorted(root.glob(NPU_FREQUENCIES))]
    loads = [read(root / path) for path in NPU_LOADS]
    frequency = next((int(text) for text in frequencies if text.isdigit()), None)
    load = next((tuple(map(int, found)) for text in loads if (found := re.findall(r"(\d+)\s*%", text))), None)
    return Npu(load, frequency) if frequency is not None or load is not None else None


def read(path: Path) -> str:
    """The text of a kernel file, stripped; empty when it is missing or not for us to read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
