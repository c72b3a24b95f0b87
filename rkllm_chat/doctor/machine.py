"""Checks of the board: what it is, its kernel and NPU driver, who may use the NPU, how fast and how hot it runs.

Facts are from the RKLLM manual 1.3.0 and airockchip/rknn-llm; none was tried on a board by us. On a machine without a
Rockchip NPU most checks give no line.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .board import Board, Line

DEVICE_TREES = ("proc/device-tree", "sys/firmware/devicetree/base")
VERSIONS = ("sys/kernel/debug/rknpu/version", "proc/rknpu/version", "sys/module/rknpu/version")
# The platform driver of 0.4 to 0.9.8 is called RKNPU (rknpu_drv.c); the folder is there for everybody to see.
DRIVER_SIGNS = ("sys/bus/platform/drivers/RKNPU", "dev/rknpu", "sys/module/rknpu")
ROCKET_SIGNS = ("sys/bus/platform/drivers/rocket", "sys/module/rocket")
VENDOR_KERNELS = ("5.10.", "6.1.")

WANTED_DRIVER = (0, 9, 8)  # the manual; libraries 1.1.4 and 1.2.1 themselves ask for 0.9.7 in their log
OLDEST_DRIVER = (0, 9, 0)  # 0.8.2 ends in failed allocations (airockchip/rknn-llm#413)
NEARLY_TOP = 0.95  # of the highest frequency: rknn-llm's fix_freq scripts leave the last step out
HOT_CELSIUS = 85

DDR = "sys/class/devfreq/dmc"
CPUS = "sys/devices/system/cpu/cpufreq/policy*"


@dataclass(frozen=True)
class Soc:
    """A chip that RKLLM runs on. `npu` is its devfreq folder; `quantizations` what can be converted for it."""

    name: str
    npu: str
    quantizations: tuple[str, ...]


# RKLLM manual 1.3.0, section 3.1.3
SOCS = (
    Soc("rk3588", "fdab0000.npu", ("w8a8", "w8a8_g128", "w8a8_g256", "w8a8_g512")),
    Soc("rk3576", "27700000.npu", ("w8a8", "w4a16", "w4a16_g32", "w4a16_g64", "w4a16_g128")),
    Soc("rk3562", "ff300000.npu", ("w8a8", "w4a16_g32", "w4a16_g64", "w4a16_g128", "w4a8_g32")),
    Soc("rv1126b", "22000000.npu", ("w8a8", "w4a16", "w4a16_g32", "w4a16_g64", "w4a16_g128")),
)


def check_platform(board: Board) -> Iterator[Line]:
    try:
        chips, model = read_chips(board), read_model(board)
    except FileNotFoundError:
        chips, model = [], ""
    if soc := soc_of(chips):
        yield Line("platform", "ok", soc.name.upper() + (f" ({model})" if model else ""))
    elif chips:
        known = ", ".join(soc.name.upper() for soc in SOCS)
        advice = f"RKLLM runs on {known}. Here models run through llama.cpp (.gguf files)."
        yield Line("platform", "look", f"{chips[0].upper()}: RKLLM does not run on it", advice)
    else:
        value = f"{read_architecture(board)}, no Rockchip NPU: models run through llama.cpp"
        yield Line("platform", "ok", value)


def check_user(board: Board) -> Iterator[Line]:
    """Root is told where it is this machine that is looked at, and not the files of another."""
    if board.is_here and os.geteuid() == 0:
        advice = "What servers, tools and ! commands do is done as root: take a user of your own, who may use the NPU."
        yield Line("user", "look", "root", advice)


def check_kernel(board: Board) -> Iterator[Line]:
    release = board.read("proc/sys/kernel/osrelease")
    if not find_soc(board) or release.startswith(VENDOR_KERNELS):
        yield Line("kernel", "ok", release)
    elif board.has(*ROCKET_SIGNS):
        advice = (
            "RKLLM needs the vendor's kernel (5.10 or 6.1) with its rknpu driver: use the image of the board's maker."
        )
        yield Line("kernel", "wrong", f"{release} with the driver rocket, which RKLLM cannot use", advice)
    else:
        advice = "RKLLM is made for the vendor's kernels 5.10 and 6.1. Tell us if this one works."
        yield Line("kernel", "look", release, advice)


def check_driver(board: Board) -> Iterator[Line]:
    if not find_soc(board):
        return
    try:
        text = board.read(*VERSIONS)
    except OSError as error:
        if not has_driver(board):
            advice = "The kernel has no rknpu driver: use the image of the board's maker, with kernel 5.10 or 6.1."
            yield Line("driver", "wrong", "none", advice)
        elif isinstance(error, FileNotFoundError):
            advice = "The kernel says it at its start: sudo dmesg | grep -i rknpu"
            yield Line("driver", "look", "rknpu, which does not show its version", advice)
        else:
            raise
        return
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    if not found:
        raise ValueError(f"the driver calls its version {text[:40]!r}")
    version = (int(found[1]), int(found[2]), int(found[3]))
    if version >= WANTED_DRIVER:
        yield Line("driver", "ok", f"rknpu {found[0]}")
        return
    advice = "The manual asks for 0.9.8. The driver is part of the kernel: update the kernel or the image."
    too_old = version < OLDEST_DRIVER
    value = f"rknpu {found[0]}, {'too old' if too_old else 'older than 0.9.8'}"
    yield Line("driver", "wrong" if too_old else "look", value, advice)


def check_nodes(board: Board) -> Iterator[Line]:
    """The device node of the NPU: its own render node, or /dev/rknpu, by how the driver was built."""
    if not find_soc(board):
        return
    nodes = find_nodes(board)
    if not nodes:
        advice = "The NPU has no device node. Is the driver there? In a container, hand in /dev/dri."
        yield Line("nodes", "wrong", "neither /dev/dri/renderD* nor /dev/rknpu", advice)
        return
    shut = [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    names = ", ".join(map(board.show, shut or nodes))
    if shut:
        advice = 'Join their groups, then log in again: sudo usermod -aG render,video "$USER"'
        yield Line("nodes", "wrong", f"{names}: this user may not read and write", advice)
    else:
        yield Line("nodes", "ok", f"{names}: this user may read and write")


def check_npu(board: Board) -> Iterator[Line]:
    soc = find_soc(board)
    if not soc:
        return
    folders = board.find(f"sys/class/devfreq/{soc.npu}") or board.find("sys/class/devfreq/*.npu")
    if folders:
        yield speed_line("NPU", board, folders[0])
    else:
        yield Line("NPU", "look", "the kernel does not show its frequency")


def check_ddr(board: Board) -> Iterator[Line]:
    if not find_soc(board):
        return
    if board.has(DDR):
        yield speed_line("DDR", board, board.root / DDR)
    else:
        advice = "Boards whose memory frequency cannot be set have not reached the published speeds."
        yield Line("DDR", "look", f"no /{DDR}: this firmware does not scale the memory", advice)


def speed_line(name: str, board: Board, folder: Path) -> Line:
    """Frequency and governor of one devfreq folder (in hertz)."""
    files = (folder / "governor", folder / "cur_freq", folder / "available_frequencies")
    governor, current, steps = (board.read(str(file.relative_to(board.root))) for file in files)
    value = f"{int(current) / 1e6:.0f} MHz, {governor}"
    if is_fast(governor, int(current), steps):
        return Line(name, "ok", value)
    return Line(name, "look", value, f"{SLOWER} echo performance | sudo tee {board.show(folder)}/governor")


SLOWER = "Published speeds are with the highest frequency; until the next start:"


def is_fast(governor: str, current: int, steps: str) -> bool:
    """Whether it runs at its top: `performance`, or `userspace` set there, which is what rknn-llm's scripts do."""
    top = max(map(int, steps.split()), default=0)
    return governor == "performance" or (governor == "userspace" and current >= NEARLY_TOP * top)


def check_cpus(board: Board) -> Iterator[Line]:
    """The clusters of cores: policies 0, 4 and 6 on an RK3588 (frequencies in kilohertz)."""
    if not find_soc(board):
        return
    slow: list[str] = []
    values: list[str] = []
    for folder in board.find(CPUS):
        place = str(folder.relative_to(board.root))
        governor, current = board.read(f"{place}/scaling_governor"), int(board.read(f"{place}/scaling_cur_freq"))
        values.append(f"{folder.name} {current / 1e3:.0f} MHz {governor}")
        if not is_fast(governor, current, read_steps(board, place)):
            slow.append(folder.name)
    if slow:
        yield Line("CPU", "look", ", ".join(values), f"{SLOWER} echo performance | sudo tee /{CPUS}/scaling_governor")
    elif values:
        yield Line("CPU", "ok", ", ".join(values))
    else:
        yield Line("CPU", "look", "the kernel does not show its frequencies")


def read_steps(board: Board, place: str) -> str:
    try:
        return board.read(f"{place}/scaling_available_frequencies")
    except FileNotFoundError:  # drivers without a table of steps have this
        return board.read(f"{place}/cpuinfo_max_freq")


def check_temperature(board: Board) -> Iterator[Line]:
    zones: dict[str, float] = {}
    for folder in board.find("sys/class/thermal/thermal_zone*"):
        place = str(folder.relative_to(board.root))
        try:
            kind, celsius = board.read(f"{place}/type"), int(board.read(f"{place}/temp")) / 1000
        except (OSError, ValueError, OverflowError):  # a sensor may be asleep
            continue
        zones[kind] = max(celsius, zones.get(kind, celsius))
    if not zones:
        if find_soc(board):
            yield Line("temperature", "look", "the kernel shows no temperature")
        return
    hottest = max(zones, key=lambda zone: zones[zone])
    shown = dict.fromkeys([*(zone for zone in zones if "npu" in zone), hottest])
    value = ", ".join(f"{zone} {zones[zone]:.0f} °C" for zone in shown)
    if zones[hottest] >= HOT_CELSIUS:
        yield Line("temperature", "look", value, "It is slowed down when it is hot: a heat sink, a fan, a pause.")
    else:
        yield Line("temperature", "ok", value)


def find_soc(board: Board) -> Soc | None:
    """The chip, if RKLLM runs on it and the device tree can be read."""
    try:
        return soc_of(read_chips(board))
    except OSError:
        return None


def soc_of(chips: list[str]) -> Soc | None:
    """The row of a chip; rk3588s and others with a letter behind are the same to RKLLM."""
    names = {soc.name: soc for soc in SOCS}
    return next((names[name] for chip in chips for name in (chip, chip[:-1]) if name in names), None)


def read_chips(board: Board) -> list[str]:
    """What the device tree calls a Rockchip chip, the board's own names left out."""
    text = board.read(*(f"{tree}/compatible" for tree in DEVICE_TREES))
    return re.findall(r"(?:^|\0)rockchip,(r[kv]\w+)(?=\0|$)", text)


def read_model(board: Board) -> str:
    """The name of the board."""
    try:
        return board.read(*(f"{tree}/model" for tree in DEVICE_TREES))
    except OSError:
        return ""


def read_architecture(board: Board) -> str:
    try:
        return board.read("proc/sys/kernel/arch")  # from Linux 6.1 on
    except OSError:
        return platform.machine() if board.is_here else "an unknown processor"


def has_driver(board: Board) -> bool:
    return board.has(*DRIVER_SIGNS) or bool(board.find("sys/class/devfreq/*.npu"))


def find_nodes(board: Board) -> list[Path]:
    """The nodes of the NPU; all render nodes where the kernel does not say which is the NPU's."""
    renders = board.find("dev/dri/renderD*")
    own = [node for node in renders if "DRIVER=RKNPU" in read_event(board, node.name)]
    return (own or renders) + [board.root / name for name in ("dev/rknpu",) if board.has(name)]


def read_event(board: Board, name: str) -> str:
    try:
        return board.read(f"sys/class/drm/{name}/device/uevent")
    except OSError:
        return ""
