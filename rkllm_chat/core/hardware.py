"""Hardware figures that the kernel reports in /proc and /sys. Read-only; only the NPU load may need root.

Every function takes the root directory, so that recorded files of a board can be read anywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")

# rknpu driver 0.9.8 reports its load in debugfs (root only) or /proc, by build option; devfreq is world-readable.
_NPU_LOADS = ("proc/rknpu/load", "sys/kernel/debug/rknpu/load")
_NPU_FREQUENCIES = "sys/class/devfreq/*npu*/cur_freq"


@dataclass(frozen=True)
class Memory:
    """Memory sizes in bytes; `available` is what programs can still allocate without swapping."""

    total: int
    available: int
    swap_total: int
    swap_free: int


@dataclass(frozen=True)
class Npu:
    """State of the NPU.

    Attributes:
        load: Load of each core in percent; None if not readable (may need root).
        frequency: Frequency in hertz; None if not readable.
    """

    load: tuple[int, ...] | None
    frequency: int | None


def read_temperatures(root: Path = ROOT) -> dict[str, float]:
    """Return the temperature of every thermal zone in degrees Celsius, by sensor name."""
    degrees: dict[str, float] = {}
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*"), key=lambda zone: int(zone.name[12:] or 0)):
        kind, milli = _read(zone / "type"), _read(zone / "temp")
        if kind and milli and milli.lstrip("-").isdigit():
            degrees[kind if kind not in degrees else f"{kind} {zone.name[12:]}"] = int(milli) / 1000
    return degrees


def read_memory(root: Path = ROOT) -> Memory | None:
    """Read /proc/meminfo (figures in KiB there); None if the file is missing."""
    figures = {name: int(kib) * 1024 for name, kib in re.findall(r"(\w+):\s+(\d+) kB", _read(root / "proc/meminfo"))}
    if "MemTotal" not in figures:
        return None
    available = figures.get("MemAvailable", figures.get("MemFree", 0))
    return Memory(figures["MemTotal"], available, figures.get("SwapTotal", 0), figures.get("SwapFree", 0))


def read_load(root: Path = ROOT) -> tuple[float, float, float] | None:
    """Return the load averages over 1, 5 and 15 minutes; None if unknown."""
    words = _read(root / "proc/loadavg").split()
    return (float(words[0]), float(words[1]), float(words[2])) if len(words) >= 3 else None


def read_uptime(root: Path = ROOT) -> float:
    """Return the seconds since boot; 0 if unknown."""
    words = _read(root / "proc/uptime").split()
    return float(words[0]) if words else 0.0


def read_npu(root: Path = ROOT) -> Npu | None:
    """Read the state of the Rockchip NPU; None if there is none."""
    frequencies = [_read(path) for path in sorted(root.glob(_NPU_FREQUENCIES))]
    loads = [_read(root / path) for path in _NPU_LOADS]
    frequency = next((int(text) for text in frequencies if text.isdigit()), None)
    load = next((tuple(map(int, found)) for text in loads if (found := re.findall(r"(\d+)\s*%", text))), None)
    return Npu(load, frequency) if frequency is not None or load is not None else None


def _read(path: Path) -> str:
    """Return the stripped text of a kernel file; empty if it is missing or not readable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
