"""MCP tools of the board server: time, hardware readings, arithmetic and files.

Each tool returns a sentence for the model and structured content for programs. Docstrings of tools are the
descriptions that clients receive. Started by `rkllm-chat serve board [--folder DIR]`; the file tools read DIR only,
the current folder by default.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, ToolAnnotations
from typing_extensions import TypedDict

from ...core import hardware
from ...core.version import __version__
from ..text_files import FileError
from ..tool_results import make_failure, make_result
from . import calculator, files, time_zones

GB = 10**9


class PlaceTime(TypedDict):
    place: str
    zone: str
    time: str


class Time(PlaceTime, total=False):
    others: list[PlaceTime]


class Temperatures(TypedDict):
    celsius: dict[str, float]


class Memory(TypedDict):
    total_bytes: int
    available_bytes: int
    swap_total_bytes: int
    swap_free_bytes: int


class Disk(TypedDict):
    path: str
    total_bytes: int
    free_bytes: int


class Load(TypedDict):
    load: list[float]
    cores: int
    uptime_s: float


class Npu(TypedDict):
    load_percent: list[int] | None
    frequency_hz: int | None


class Sum(TypedDict):
    expression: str
    value: str


class Listing(TypedDict):
    names: list[str]
    cut: bool


class FileText(TypedDict):
    text: str
    cut: bool


def get_time(place: str) -> Annotated[CallToolResult, Time]:
    """Current time in a city or time zone."""
    zone = time_zones.find_zone(place)
    # a model that is asked for two places writes both: "Tokyo and London"
    zones = {place: zone} if zone else time_zones.find_zones(place)
    if not zones:
        near = time_zones.find_similar_places(place)
        ask = f"Is {' or '.join(near)} meant?" if near else "Ask for a larger city."
        return make_failure(f"No time zone is called '{place}'. {ask}")
    told = [_tell_time(name, zone) for name, zone in zones.items()]
    first, *others = (time for _, time in told)
    structured = Time(place=first["place"], zone=first["zone"], time=first["time"])
    if others:
        structured["others"] = others
    return make_result("\n".join(text for text, _ in told), structured)


def _tell_time(place: str, zone: str) -> tuple[str, PlaceTime]:
    now = datetime.now(ZoneInfo(zone))
    offset = now.strftime("%z")
    text = f"It is {now:%H:%M} on {now:%A}, {now.day} {now:%B %Y} in {place} ({zone}, UTC{offset[:3]}:{offset[3:]})."
    return text, PlaceTime(place=place, zone=zone, time=now.isoformat(timespec="seconds"))


def get_disk(path: str = "/") -> Annotated[CallToolResult, Disk]:
    """Free disk space."""
    try:
        usage = shutil.disk_usage(path)
    except (OSError, ValueError):
        return make_failure(f"There is no '{path}'.")
    text = f"{usage.free / GB:.1f} GB of {usage.total / GB:.1f} GB is free on {path}."
    return make_result(text, Disk(path=path, total_bytes=usage.total, free_bytes=usage.free))


def calculate(expression: str) -> Annotated[CallToolResult, Sum]:
    """Calculate a sum."""
    try:
        value = calculator.calculate(expression)
    except calculator.CalculationError as error:
        return make_failure(str(error))
    return make_result(f"{expression} = {value}", Sum(expression=expression, value=value))


def _hardware_tools(root: Path) -> list[Callable[..., Any]]:
    """Return the tools that read hardware state from kernel files below `root`."""

    def get_temperature() -> Annotated[CallToolResult, Temperatures]:
        """Temperature of the processor and other sensors."""
        degrees = hardware.read_temperatures(root)
        if not degrees:
            return make_failure("This machine has no temperature sensor that can be read.")
        text = ", ".join(f"{sensor} {value:.1f} °C" for sensor, value in degrees.items())
        return make_result(f"Temperature: {text}.", Temperatures(celsius=degrees))

    def get_memory() -> Annotated[CallToolResult, Memory]:
        """Free and total memory."""
        memory = hardware.read_memory(root)
        if memory is None:
            return make_failure("This machine does not say how much memory it has.")
        text = f"{memory.available / GB:.1f} GB of {memory.total / GB:.1f} GB memory is free"
        swap = memory.swap_total - memory.swap_free
        text += f", {swap / GB:.1f} GB of {memory.swap_total / GB:.1f} GB swap is used." if memory.swap_total else "."
        structured = Memory(
            total_bytes=memory.total,
            available_bytes=memory.available,
            swap_total_bytes=memory.swap_total,
            swap_free_bytes=memory.swap_free,
        )
        return make_result(text, structured)

    def get_load() -> Annotated[CallToolResult, Load]:
        """Processor load and time since start."""
        load = hardware.read_load(root)
        if load is None:
            return make_failure("This machine does not say how busy it is.")
        uptime, cores = hardware.read_uptime(root), os.cpu_count() or 1
        averages = f"Load {load[0]:.2f} (1 min), {load[1]:.2f} (5 min), {load[2]:.2f} (15 min)"
        text = f"{averages} on {cores} cores, up {format_duration(uptime)}."
        return make_result(text, Load(load=list(load), cores=cores, uptime_s=uptime))

    def get_npu() -> Annotated[CallToolResult, Npu]:
        """Load and frequency of the NPU."""
        npu = hardware.read_npu(root)
        if npu is None:
            return make_failure("There is no NPU here.")
        cores = ", ".join(f"core {core} {load} %" for core, load in enumerate(npu.load or ()))
        frequency = f"{npu.frequency / 1e6:.0f} MHz" if npu.frequency is not None else "unknown"
        text = f"NPU load: {cores or 'only root can read it'}; frequency: {frequency}."
        load_percent = None if npu.load is None else list(npu.load)
        return make_result(text, Npu(load_percent=load_percent, frequency_hz=npu.frequency))

    has_npu = hardware.read_npu(root) is not None  # elsewhere the tool would only cost tokens, and be called
    return [get_temperature, get_memory, get_load, *([get_npu] if has_npu else [])]


def format_duration(seconds: float) -> str:
    """Return a duration as days and hours, or hours and minutes."""
    hours, minutes = int(seconds // 3600), int(seconds // 60) % 60
    return f"{hours // 24} days {hours % 24} hours" if hours >= 24 else f"{hours} hours {minutes} minutes"


def _file_tools(folder: Path) -> list[Callable[..., Any]]:
    """Return the tools that read files below `folder`."""

    def list_files(path: str = ".") -> Annotated[CallToolResult, Listing]:
        """List the files in a folder."""
        try:
            names, cut = files.list_files(folder, path)
        except FileError as error:
            return make_failure(str(error))
        empty = f"The folder {folder / path} is empty."
        text = "\n".join([*names, "and more"] if cut else names) or empty
        return make_result(text, Listing(names=names, cut=cut))

    def read_file(path: str, lines: int | None = None) -> Annotated[CallToolResult, FileText]:
        """Read a text file, or its first lines."""
        try:
            text, cut = files.read_file(folder, path, lines)
        except FileError as error:
            return make_failure(str(error))
        return make_result(text or "The file is empty.", FileText(text=text, cut=cut))

    return [list_files, read_file]


def build_server(folder: Path, root: Path = hardware.ROOT) -> MCPServer:
    """Return the server with all its tools.

    Args:
        folder: The only folder that the file tools read. A link is followed once, now.
        root: Where the kernel files are looked up; for tests.
    """
    server = MCPServer("board", version=__version__, description="Time, gauges, sums and files of this machine.")
    read_only = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    plain: list[Callable[..., Any]] = [get_time, calculate, get_disk]
    for tool in [*plain, *_hardware_tools(root), *_file_tools(folder.resolve())]:
        server.add_tool(tool, annotations=read_only)
    return server
