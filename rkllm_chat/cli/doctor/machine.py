"""Check the board: its chip, kernel, NPU driver, access rights, clock frequencies and temperature.

The facts are from the RKLLM manual 1.3.0 and airockchip/rknn-llm; we have verified none of them on a board. On machines
without a Rockchip NPU most checks produce no line.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...config.loader import state_folder
from ...core.hardware import read_memory
from .board import Board, Check, Finding, format_size, ok, run_check, warn, wrong

_DEVICE_TREES = ("proc/device-tree", "sys/firmware/devicetree/base")
_VERSION_FILES = ("sys/kernel/debug/rknpu/version", "proc/rknpu/version", "sys/module/rknpu/version")
# The platform driver of 0.4 to 0.9.8 is called RKNPU (rknpu_drv.c); any user can read its folder.
_DRIVER_SIGNS = ("sys/bus/platform/drivers/RKNPU", "dev/rknpu", "sys/module/rknpu")
_ROCKET_SIGNS = ("sys/bus/platform/drivers/rocket", "sys/module/rocket")
_VENDOR_KERNELS = ("5.10.", "6.1.")

_RECOMMENDED_DRIVER = (0, 9, 8)  # the manual; libraries 1.1.4 and 1.2.1 themselves ask for 0.9.7 in their log
_MINIMUM_DRIVER = (0, 9, 0)  # 0.8.2 ends in failed allocations (airockchip/rknn-llm#413)
_CONTAINER_SIGNS = (".dockerenv", "run/.containerenv")
# Docker hides /sys/firmware, and with it the device tree, from which the library and this program read the chip.
CONTAINER_ADVICE = (
    "This is a container; pass the NPU in: docker run --device /dev/dri --device /dev/dma_heap"
    " --security-opt systempaths=unconfined."
)
_MIN_FREQUENCY_SHARE = 0.95  # of the highest frequency: rknn-llm's fix_freq scripts leave the last step out
_HOT_CELSIUS = 85
_MIN_FREE_BYTES = 1_000_000

DDR_PATH = "sys/class/devfreq/dmc"
_CPU_POLICIES = "sys/devices/system/cpu/cpufreq/policy*"


@dataclass(frozen=True)
class _Soc:
    """A chip that RKLLM supports.

    Attributes:
        name: Its name in the device tree.
        npu: Folder of its NPU below /sys/class/devfreq.
        quantizations: Quantizations that models can be converted to.
    """

    name: str
    npu: str
    quantizations: tuple[str, ...]


# RKLLM manual 1.3.0, section 3.1.3
SOCS = (
    _Soc("rk3588", "fdab0000.npu", ("w8a8", "w8a8_g128", "w8a8_g256", "w8a8_g512")),
    _Soc("rk3576", "27700000.npu", ("w8a8", "w4a16", "w4a16_g32", "w4a16_g64", "w4a16_g128")),
    _Soc("rk3562", "ff300000.npu", ("w8a8", "w4a16_g32", "w4a16_g64", "w4a16_g128", "w4a8_g32")),
    _Soc("rv1126b", "22000000.npu", ("w8a8", "w4a16", "w4a16_g32", "w4a16_g64", "w4a16_g128")),
)


def check_platform(board: Board) -> Iterator[Finding]:
    """Report the chip and whether RKLLM supports it."""
    try:
        chips, model = read_chips(board), _read_model(board)
    except FileNotFoundError:
        chips, model = [], ""
    if soc := match_soc(chips):
        yield ok(soc.name.upper() + (f" ({model})" if model else ""))
    elif chips:
        known = ", ".join(soc.name.upper() for soc in SOCS)
        advice = f"RKLLM supports {known}. On this chip, models run on the CPU with llama.cpp (.gguf files)."
        yield warn(f"{chips[0].upper()}: RKLLM does not support it", advice)
    elif is_container(board) and read_architecture(board) == "aarch64":
        yield warn("aarch64 in a container that does not show the chip", CONTAINER_ADVICE)
    else:
        value = f"{read_architecture(board)}, no Rockchip NPU: models run on llama.cpp"
        yield ok(value)


def check_state_folder(board: Board) -> Iterator[Finding]:
    """Warn if nothing can be stored: the program goes on without, and says so only where it would store something."""
    if not board.is_this_machine:
        return
    folder = state_folder(board.environment)
    place = next(path for path in (folder, *folder.parents) if path.exists())
    status = os.statvfs(place)
    problem = ""
    if status.f_bavail * status.f_frsize < _MIN_FREE_BYTES:
        problem = f"less than {format_size(_MIN_FREE_BYTES)} is free"
    elif status.f_flag & os.ST_RDONLY:
        problem = "the file system is read-only"
    elif not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
        problem = f"{place} cannot be written"
    if problem:
        advice = (
            "Sessions, input history, logs and what you approve are not kept. Make room, or correct the permissions."
        )
        yield warn(f"{folder}: {problem}", advice)


def check_user(board: Board) -> Iterator[Finding]:
    """Warn if the program runs as root; skipped when the files of another machine are examined."""
    if board.is_this_machine and os.geteuid() == 0:
        advice = "Servers, tools and ! commands run as root. Use an ordinary user with access to the NPU instead."
        yield warn("root", advice)


def check_kernel(board: Board) -> Iterator[Finding]:
    """Report the kernel release: RKLLM needs the rknpu driver, which the vendor's 5.10 and 6.1 have built in."""
    release = board.read("proc/sys/kernel/osrelease")
    if not find_soc(board) or release.startswith(_VENDOR_KERNELS):
        yield ok(release)
    elif board.has(*_ROCKET_SIGNS):
        advice = (
            "RKLLM needs the vendor's kernel (5.10 or 6.1) with its rknpu driver: install the board vendor's image."
        )
        yield wrong(f"{release} with the driver rocket, which RKLLM cannot use", advice)
    elif board.has(*_DRIVER_SIGNS, *_VERSION_FILES):
        yield ok(f"{release}, with the driver rknpu")  # DKMS, reported with kernel 7.0
    else:
        advice = "RKLLM needs the driver rknpu: use the vendor's kernel 5.10 or 6.1, or build rknpu by DKMS."
        yield warn(release, advice)


def check_driver(board: Board) -> Iterator[Finding]:
    """Report the version of the rknpu driver."""
    if not find_soc(board):
        return
    try:
        text = board.read(*_VERSION_FILES)
    except OSError as error:
        if not _has_driver(board):
            advice = "The kernel has no rknpu driver: install the board vendor's image, with kernel 5.10 or 6.1."
            yield wrong("none", advice)
        elif isinstance(error, FileNotFoundError):
            advice = "The kernel logs it at boot: sudo dmesg | grep -i rknpu"
            yield warn("rknpu, which does not show its version", advice)
        else:
            raise
        return
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    if not match:
        raise ValueError(f"the driver reports the version {text[:40]!r}")
    version = (int(match[1]), int(match[2]), int(match[3]))
    if version >= _RECOMMENDED_DRIVER:
        yield ok(f"rknpu {match[0]}")
        return
    advice = "The manual asks for 0.9.8. The driver is part of the kernel: update the kernel or the image."
    too_old = version < _MINIMUM_DRIVER
    value = f"rknpu {match[0]}, {'too old' if too_old else 'older than 0.9.8'}"
    yield (wrong if too_old else warn)(value, advice)


@dataclass(frozen=True)
class _Clock:
    """The clock of the NPU, the memory or a cluster of cores.

    Attributes:
        name: Name of its folder.
        path: Path of the file that selects its governor.
        governor: Its governor.
        megahertz: Its frequency.
        is_fast: Whether it runs at its highest frequency.
    """

    name: str
    path: str
    governor: str
    megahertz: float
    is_fast: bool


def _read_clock(board: Board, folder: Path) -> _Clock:
    """Read the clock of a folder of devfreq, in hertz, or of cpufreq, in kilohertz."""
    place, name = folder.relative_to(board.root), folder.name
    prefix, unit = ("scaling_", 1e3) if name.startswith("policy") else ("", 1e6)
    governor, current = board.read(f"{place}/{prefix}governor"), int(board.read(f"{place}/{prefix}cur_freq"))
    steps = board.read(f"{place}/{prefix}available_frequencies", f"{place}/cpuinfo_max_freq")  # or no table of them
    is_fast = is_at_full_speed(governor, current, steps)
    return _Clock(name, f"/{place}/{prefix}governor", governor, current / unit, is_fast)


def is_at_full_speed(governor: str, current: int, steps: str) -> bool:
    """Return whether a device runs at its highest frequency.

    That is the governor `performance`, or `userspace` at 95% or more, as rknn-llm's scripts set it.
    """
    top = max(map(int, steps.split()), default=0)
    return governor == "performance" or (governor == "userspace" and current >= _MIN_FREQUENCY_SHARE * top)


def _find_npu_clock(board: Board) -> list[Path]:
    soc = find_soc(board)
    return ((board.find(f"sys/class/devfreq/{soc.npu}") if soc else []) or board.find("sys/class/devfreq/*.npu"))[:1]


def find_slow_governors(board: Board) -> list[tuple[str, str]]:
    """Return the governor files of the clocks that do not run at their highest frequency, with their content.

    Files that cannot be read are left out.
    """
    found: list[tuple[str, str]] = []
    for folder in (*board.find(_CPU_POLICIES), *_find_npu_clock(board), *board.find(DDR_PATH)):
        with suppress(OSError, ValueError):
            clock = _read_clock(board, folder)
            found += [] if clock.is_fast else [(clock.path, clock.governor)]
    return found


def check_npu(board: Board) -> Iterator[Finding]:
    """Report the frequency of the NPU."""
    folders = _find_npu_clock(board)
    if find_soc(board):
        yield _check_clock(board, folders[0]) if folders else warn("the kernel does not show its frequency")


def check_ddr(board: Board) -> Iterator[Finding]:
    """Report the frequency of the memory."""
    advice = "Boards with a fixed memory frequency have not reached the published speeds. Update the firmware: on a"
    advice += " ROCK 5B+ that raised 9.0 to 14.3 tokens per second."
    if find_soc(board) and board.has(DDR_PATH):
        yield _check_clock(board, board.root / DDR_PATH)
    elif find_soc(board):
        yield warn(f"no /{DDR_PATH}: this firmware does not scale the memory", advice)


def _check_clock(board: Board, folder: Path) -> Finding:
    clock = _read_clock(board, folder)
    value = f"{clock.megahertz:.0f} MHz, {clock.governor}"
    return ok(value) if clock.is_fast else warn(value, f"{_GOVERNOR_ADVICE} {clock.path}")


_GOVERNOR_ADVICE = (
    "Published speeds were measured at the highest frequency. To set it until the next boot: echo performance |"
    " sudo tee"
)
_CPU_PRICE = (
    "With the governor performance the NPU decodes 5 to 32 % faster than with ondemand (measured by owners of boards)."
)


def check_cpus(board: Board) -> Iterator[Finding]:
    """Report the frequencies of the core clusters: policies 0, 4 and 6 on an RK3588."""
    if not find_soc(board):
        return
    clocks = [_read_clock(board, folder) for folder in board.find(_CPU_POLICIES)]
    if not clocks:
        yield warn("the kernel does not show its frequencies")
    elif all(clock.is_fast for clock in clocks):
        yield ok(_name_clocks(clocks))
    else:
        yield warn(_name_clocks(clocks), f"{_CPU_PRICE} {_GOVERNOR_ADVICE} /{_CPU_POLICIES}/scaling_governor")


def _name_clocks(clocks: Sequence[_Clock]) -> str:
    return ", ".join(f"{clock.name} {clock.megahertz:.0f} MHz {clock.governor}" for clock in clocks)


def check_temperature(board: Board) -> Iterator[Finding]:
    """Report the temperature of the NPU and of the hottest zone."""
    zones: dict[str, float] = {}
    for folder in board.find("sys/class/thermal/thermal_zone*"):
        relative_path = str(folder.relative_to(board.root))
        try:
            kind, celsius = board.read(f"{relative_path}/type"), int(board.read(f"{relative_path}/temp")) / 1000
        except (OSError, ValueError, OverflowError):  # a sensor may be asleep
            continue
        zones[kind] = max(celsius, zones.get(kind, celsius))
    if not zones:
        if find_soc(board):
            yield warn("the kernel shows no temperature")
        return
    hottest = max(zones, key=lambda zone: zones[zone])
    shown = dict.fromkeys([*(zone for zone in zones if "npu" in zone), hottest])
    value = ", ".join(f"{zone} {zones[zone]:.0f} °C" for zone in shown)
    if zones[hottest] >= _HOT_CELSIUS:
        yield warn(value, "A hot chip is throttled: improve the cooling (heat sink, fan) or pause.")
    else:
        yield ok(value)


def read_conditions(board: Board) -> dict[str, str]:
    """Return what the speed of a model depends on: governors and frequencies, temperature, free memory."""
    checks: dict[str, Check] = {"NPU": check_npu, "DDR": check_ddr, "temperature": check_temperature}
    conditions = {line.name: line.value for name, check in checks.items() for line in run_check(name, check, board)}
    with suppress(OSError, ValueError):
        if clocks := [_read_clock(board, folder) for folder in board.find(_CPU_POLICIES)]:
            conditions = {"CPU": _name_clocks(clocks), **conditions}
    if memory := read_memory(board.root):
        conditions["free memory"] = format_size(memory.available)
    return conditions


def read_machine_name(board: Board) -> str:
    """Return the name of the board or the processor, with its chip or architecture."""
    if name := _read_model(board):
        soc = find_soc(board)
        return f"{name} ({soc.name.upper()})" if soc else name
    try:
        processor = re.search(r"^model name\s*:\s*(.+)", board.read("proc/cpuinfo"), re.MULTILINE)
    except OSError:
        processor = None
    return (f"{processor[1]}, " if processor else "") + read_architecture(board)


def is_container(board: Board) -> bool:
    """Return whether the files are those of a container of Docker or Podman."""
    return board.has(*_CONTAINER_SIGNS)


def find_soc(board: Board) -> _Soc | None:
    """Return the supported chip; None if there is none or the device tree cannot be read."""
    try:
        return match_soc(read_chips(board))
    except OSError:
        return None


def match_soc(chips: list[str]) -> _Soc | None:
    """Return the supported chip of device tree names; variants with a suffix letter (rk3588s) count as the chip."""
    socs_by_name = {soc.name: soc for soc in SOCS}
    return next((socs_by_name[name] for chip in chips for name in (chip, chip[:-1]) if name in socs_by_name), None)


def read_chips(board: Board) -> list[str]:
    """Return the Rockchip chip names from the device tree, without the names of the board."""
    text = board.read(*(f"{tree}/compatible" for tree in _DEVICE_TREES))
    return re.findall(r"(?:^|\0)rockchip,(r[kv]\w+)(?=\0|$)", text)


def _read_model(board: Board) -> str:
    """Return the board's name, or ""."""
    try:
        return board.read(*(f"{tree}/model" for tree in _DEVICE_TREES))
    except OSError:
        return ""


def read_architecture(board: Board) -> str:
    """Return the processor architecture as text."""
    try:
        return board.read("proc/sys/kernel/arch")  # from Linux 6.1 on
    except OSError:
        return platform.machine() if board.is_this_machine else "an unknown processor"


def _has_driver(board: Board) -> bool:
    """Return whether the rknpu driver is loaded."""
    return board.has(*_DRIVER_SIGNS) or bool(board.find("sys/class/devfreq/*.npu"))
