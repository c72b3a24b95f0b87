"""The board server through a real MCP client: in memory, and once as the process that a chat starts."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult

from rkllm_chat import __version__
from rkllm_chat.mcp_servers.board.server import build_server, format_duration
from stage import write_files

LIMIT_S = 5.0
PROCESS_LIMIT_S = 30.0  # with the start of a process on a busy machine

# tool -> its parameters, and the keys of what it answers
TOOLS: dict[str, tuple[list[str], list[str]]] = {
    "get_time": (["place"], ["place", "zone", "time", "others"]),
    "get_temperature": ([], ["celsius"]),
    "get_memory": ([], ["total_bytes", "available_bytes", "swap_total_bytes", "swap_free_bytes"]),
    "get_disk": (["path"], ["path", "total_bytes", "free_bytes"]),
    "get_load": ([], ["load", "cores", "uptime_s"]),
    "get_npu": ([], ["load_percent", "frequency_hz"]),
    "calculate": (["expression"], ["expression", "value"]),
    "list_files": (["path"], ["names", "cut"]),
    "read_file": (["path", "lines"], ["text", "cut"]),
}
NPU = {"sys/class/devfreq/fdab0000.npu/cur_freq": "1000000000\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shared/notes").mkdir(parents=True)
    (tmp_path / "shared/a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    return tmp_path / "shared"


def call(folder: Path, tool: str, root: Path = Path("/"), **arguments: Any) -> CallToolResult:
    async def run() -> CallToolResult:
        async with Client(build_server(folder, root), read_timeout_seconds=LIMIT_S) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(run())


def said(result: CallToolResult) -> tuple[str, Any, bool]:
    """Text, structured content, and whether the tool failed."""
    (block,) = result.content
    assert block.type == "text"
    return block.text, result.structured_content, result.is_error


def test_a_shared_folder_that_is_a_link_stays_the_same_one(folder: Path) -> None:
    link = folder.with_name("link")
    link.symlink_to(folder)

    async def run() -> list[CallToolResult]:
        server = build_server(link)
        link.unlink()
        link.symlink_to(folder.parent)
        async with Client(server, read_timeout_seconds=LIMIT_S) as client:
            return [await client.call_tool("read_file", {"path": path}) for path in ("a.txt", "secret.txt")]

    shared, secret = asyncio.run(run())
    assert said(shared)[0] == "one\ntwo\nthree" and said(secret)[2]


def test_every_tool_is_described_with_its_schemas(folder: Path, tmp_path: Path) -> None:
    root = write_files(tmp_path / "board", NPU)

    async def run() -> list[Any]:
        async with Client(build_server(folder, root), read_timeout_seconds=LIMIT_S) as client:
            about = client.server_info
            assert about is not None
            assert (about.name, about.version) == ("board", __version__)
            return list((await client.list_tools()).tools)

    tools = asyncio.run(run())
    described = {
        tool.name: (list(tool.input_schema["properties"]), list(tool.output_schema["properties"])) for tool in tools
    }
    assert described == TOOLS
    for tool in tools:
        hints = tool.annotations
        assert (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint) == (True, False, False)
        assert re.fullmatch(r"[A-Z][^.\n]{5,60}\.", tool.description)


@pytest.mark.parametrize(
    ("tool", "arguments", "text", "structured"),
    [
        ("calculate", {"expression": "6 × 7"}, "6 × 7 = 42", {"expression": "6 × 7", "value": "42"}),
        ("list_files", {}, "a.txt\nnotes/", {"names": ["a.txt", "notes/"], "cut": False}),
        ("list_files", {"path": "notes"}, "The folder {folder}/notes is empty.", {"names": [], "cut": False}),
        ("read_file", {"path": "a.txt", "lines": 1}, "one", {"text": "one", "cut": True}),
    ],
)
def test_a_tool_answers_with_text_and_data(
    tool: str, arguments: dict[str, Any], text: str, structured: dict[str, Any], folder: Path
) -> None:
    assert said(call(folder, tool, **arguments)) == (text.format(folder=folder), structured, False)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("calculate", {"expression": "1/0"}, "Division by zero"),
        ("get_time", {"place": "Atlantis"}, "'Atlantis'. Ask for a larger city"),
        ("get_disk", {"path": "/no/such/place"}, "'/no/such/place'"),
        ("list_files", {"path": ".."}, "'..' is outside"),
        ("list_files", {"path": "lists"}, "There is no 'lists' in the folder {folder}."),
        ("read_file", {"path": "../secret.txt"}, "'../secret.txt' is outside"),
        ("read_file", {"path": "notes/b.txt"}, "There is no 'notes/b.txt' in the folder {folder}."),
    ],
)
def test_a_failed_call_names_its_cause(tool: str, arguments: dict[str, Any], words: str, folder: Path) -> None:
    text, structured, failed = said(call(folder, tool, **arguments))
    assert words.format(folder=folder) in text
    assert (structured, failed) == (None, True)


def test_the_time_in_a_city_is_the_current_time_there(folder: Path) -> None:
    text, structured, failed = said(call(folder, "get_time", place="tokyo"))
    time = datetime.fromisoformat(structured["time"])
    assert not failed
    assert (structured["place"], structured["zone"]) == ("tokyo", "Asia/Tokyo")
    assert time.utcoffset() == timedelta(hours=9)
    assert abs(datetime.now(timezone.utc) - time) < timedelta(minutes=1)
    assert text == f"It is {time:%H:%M} on {time:%A}, {time.day} {time:%B %Y} in tokyo (Asia/Tokyo, UTC+09:00)."


@pytest.mark.parametrize("places", ["tokyo, London", "tokyo and London", "tokyo、London"])
def test_the_times_in_several_cities_are_told_by_one_call(places: str, folder: Path) -> None:
    text, structured, failed = said(call(folder, "get_time", place=places))
    assert not failed and structured["zone"] == "Asia/Tokyo" and structured["place"] == "tokyo"
    assert [time["zone"] for time in structured["others"]] == ["Europe/London"]
    assert [line.split(" in ")[1].split(",")[0] for line in text.splitlines()] == [
        "tokyo (Asia/Tokyo",
        "London (Europe/London",
    ]
    for unknown in ("tokyo and Atlantis", "Atlantis, tokyo"):
        assert said(call(folder, "get_time", place=unknown))[2]


def test_the_disk_is_that_of_this_machine(folder: Path) -> None:
    text, structured, failed = said(call(folder, "get_disk", path=str(folder)))
    assert (structured["path"], failed) == (str(folder), False)
    assert 0 < structured["free_bytes"] <= structured["total_bytes"]
    assert text.endswith(f" is free on {folder}.")


@pytest.mark.proc
def test_the_load_is_that_of_this_machine(folder: Path) -> None:
    _, structured, failed = said(call(folder, "get_load"))
    assert (structured["cores"], len(structured["load"]), failed) == (os.cpu_count(), 3, False)


@pytest.mark.parametrize(
    ("seconds", "span"), [(59, "0 hours 0 minutes"), (86_399.9, "23 hours 59 minutes"), (93_784, "1 days 2 hours")]
)
def test_a_time_span_is_written_in_its_two_largest_units(seconds: float, span: str) -> None:
    assert format_duration(seconds) == span


def test_the_board_answers_over_stdio(folder: Path) -> None:
    (folder / os.fsdecode(b"notes/caf\xe9")).touch()  # not UTF-8
    arguments = ["-m", "rkllm_chat", "serve", "board", "--folder", str(folder)]

    async def run() -> None:
        process = StdioServerParameters(command=sys.executable, args=arguments)
        async with Client(process, read_timeout_seconds=PROCESS_LIMIT_S) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} >= TOOLS.keys() - {"get_npu"}
            answer = await client.call_tool("read_file", {"path": "a.txt", "lines": 2})
            assert said(answer) == ("one\ntwo", {"text": "one\ntwo", "cut": True}, False)
            denied = await client.call_tool("read_file", {"path": "../secret.txt"})
            assert "outside the folder" in said(denied)[0] and denied.is_error
            assert not (await client.call_tool("list_files", {"path": "notes"})).is_error
            assert said(await client.call_tool("calculate", {"expression": "1+1"}))[0] == "1+1 = 2"

    asyncio.run(run())


def test_missing_sensors_are_named(folder: Path, tmp_path: Path) -> None:
    text, _, failed = said(call(folder, "get_temperature", tmp_path))
    assert failed and "no temperature sensor" in text
    assert said(call(folder, "get_memory", tmp_path))[2]


@pytest.mark.parametrize("has_npu", [True, False])
def test_a_tool_about_the_npu_is_offered_where_there_is_one(has_npu: bool, folder: Path, tmp_path: Path) -> None:
    root = write_files(tmp_path / "board", NPU if has_npu else {})

    async def list_tools() -> set[str]:
        async with Client(build_server(folder, root), read_timeout_seconds=LIMIT_S) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert asyncio.run(list_tools()) == TOOLS.keys() - (set() if has_npu else {"get_npu"})


def test_gauges_of_an_npu_board_are_described(folder: Path, tmp_path: Path) -> None:
    files = {
        "proc/meminfo": "MemTotal: 7812500 kB\nMemAvailable: 4882812 kB\nSwapTotal: 1953125 kB\nSwapFree: 1464844 kB\n",
        "proc/loadavg": "0.42 0.50 0.61 1/300 4242\n",
        "proc/uptime": "356460.00 1.0\n",
        "proc/rknpu/load": "NPU load:  Core0: 12%, Core1:  0%, Core2:  3%,\n",
        "sys/class/devfreq/fdab0000.npu/cur_freq": "1000000000\n",
        "sys/class/thermal/thermal_zone0/type": "soc-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": "45300\n",
    }
    root = write_files(tmp_path / "board", files)
    names = ("get_npu", "get_temperature", "get_memory", "get_load")
    answers = {name: said(call(folder, name, root)) for name in names}
    assert answers["get_npu"] == (
        "NPU load: core 0 12 %, core 1 0 %, core 2 3 %; frequency: 1000 MHz.",
        {"load_percent": [12, 0, 3], "frequency_hz": 1_000_000_000},
        False,
    )
    assert answers["get_temperature"] == (
        "Temperature: soc-thermal 45.3 °C.",
        {"celsius": {"soc-thermal": 45.3}},
        False,
    )
    assert answers["get_memory"][0] == "5.0 GB of 8.0 GB memory is free, 0.5 GB of 2.0 GB swap is used."
    assert answers["get_load"][0] == (
        f"Load 0.42 (1 min), 0.50 (5 min), 0.61 (15 min) on {os.cpu_count()} cores, up 4 days 3 hours."
    )
