"""What our client costs beside plain reading, beside one server alone, and beside the SDK's own client.

The servers are real processes of the tests (`servers.chaos`).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from rkllm_chat import language
from rkllm_chat.backends.scripted import Scripted
from rkllm_chat.chat import Chat
from rkllm_chat.config import ServerConfig, Settings
from rkllm_chat.events import Usage
from rkllm_chat.messages import Tool, ToolResult
from rkllm_chat.rounds import OnProgress
from rkllm_chat.servers.toolbox import Toolbox
from servers.chaos_server import notice
from servers.chaos_sizes import FLOOD, MB
from servers.enclosed import PROBE
from servers.faults import chaos, measure
from stage import call_text

from .figures import Figure, Goal

PIECE = 1 << 18
WRITER = """
import os
for _ in range(100):
    left = memoryview(b"x" * {MB})
    while left:
        left = left[os.write(1, left):]
"""
CALLS = 300
WRITING_S = 3.0
PIECES = 30
STARTS = 5


def huge_result() -> list[Figure]:
    """A client in a process of its own is answered with 100 MB on one line; the same bytes are read from a pipe."""
    with tempfile.TemporaryDirectory() as folder:
        measured = measure("huge-result", Path(folder))
    code = WRITER.format(MB=MB)
    plain = min(seconds(partial(read_all, code)) for _ in range(3))
    return [
        Figure("a result of 100 MB is refused", measured["seconds"], "s", plain, "plain bytes, a pipe", Goal(2.0)),
        Figure("a result of 100 MB: growth of the client", measured["growth_mb"], "MB", goal=Goal(32)),
    ]


def read_all(code: str) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout
        while process.stdout.read(PIECE):
            pass


def flood() -> list[Figure]:
    """A call is answered after 100,000 notifications, and the next one works; the same lines are parsed as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        measured = measure("notifications-flood", Path(folder))
    line = json.dumps(notice("notifications/message", level="info", data="again"))
    parsed = min(seconds(lambda: [json.loads(line) for _ in range(FLOOD)]) for _ in range(3))
    what = f"a call behind {FLOOD} notifications is answered"
    worked = measured["status"] == "completed" and measured["after"] == ["still here"] * 2
    return [
        Figure(what, measured["seconds"], "s", parsed, "json.loads of the lines", Goal(5.0)),
        Figure("the same: that call and the next one worked", float(worked), "", goal=Goal(1, least=True)),
    ]


def slow_starts() -> list[Figure]:
    """Servers that each take a second to start."""

    async def start(number: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            configs = [chaos(Path(folder), "slow-start", f"slow{one}", delay_s=1.0) for one in range(number)]
            begun = time.perf_counter()
            async with Toolbox(configs, Path(folder)) as box:
                spent = time.perf_counter() - begun
                assert not box.failures, box.failures
        return spent

    asyncio.run(start(1))  # imports are not what is measured
    one, eight = asyncio.run(start(1)), asyncio.run(start(8))
    return [Figure("eight servers that take 1 s to start are ready", eight, "s", one, "one", Goal(2.0, "ratio"))]


def slow_calls() -> list[Figure]:
    """Calls that each take a second, which the model writes in one reply; a turn from the line to the answer."""
    one, four = asyncio.run(take_turn(1)), asyncio.run(take_turn(4))
    early, late = (asyncio.run(take_turn(4, writing_s=WRITING_S, starts_early=starts)) for starts in (True, False))
    what = f"four calls of 1 s that only read, then {WRITING_S:g} s of writing"
    return [
        Figure("a turn with four calls of 1 s in one reply", four, "s", one, "one call", Goal(1.3, "ratio")),
        Figure(what, early, "s", late, "calls that wait for the end", Goal(0.8, "ratio")),
        Figure("the same", early, "s", WRITING_S, "the longer of both", Goal(1.1, "ratio")),
    ]


class Slow(Scripted):
    """Takes its time behind the calls of its first reply."""

    def __init__(self, replies: Sequence[str], writing_s: float) -> None:
        super().__init__(replies)
        self.writing_s = writing_s

    async def stream(self, *given: Any) -> AsyncGenerator[str | Usage, None]:
        async with aclosing(super().stream(*given)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Usage) and self.played == 1:
                    for _ in range(PIECES):
                        await asyncio.sleep(self.writing_s / PIECES)
                        yield "and "
                yield piece


@dataclass(frozen=True)
class Reading:
    """A server's tools, which only read."""

    box: Toolbox

    @property
    def tools(self) -> Sequence[Tool]:
        return [replace(tool, read_only=True, trusted=True) for tool in self.box.tools]

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: OnProgress) -> ToolResult:
        known = next(one for one in self.box.tools if one.full_name == tool.full_name)
        return await self.box.call(known, arguments, on_progress)


async def take_turn(calls: int, writing_s: float = 0, starts_early: bool = True) -> float:
    with tempfile.TemporaryDirectory() as folder:
        config = chaos(Path(folder), "late-reply", delay_s=1.0)
        async with Toolbox([config], Path(folder)) as box:
            replies = ["\n".join(call_text("act", text=str(number)) for number in range(calls)), "Done."]
            backend = Slow(replies, writing_s)
            chat = Chat(backend, Reading(box), Settings(), language.load(), starts_early=starts_early)
            begun = time.perf_counter()
            async with aclosing(chat.send("Go.")) as turn:
                async for _ in turn:
                    pass
            spent = time.perf_counter() - begun
            said = [message.text for message in chat.history if message.role == "tool"]
            assert len(said) == calls and all("LATE-RESULT" in text for text in said), said
    return spent


def overhead() -> list[Figure]:
    """Calls one after another, and the way to the first list, over standard input and output; the median of each."""
    return [
        asyncio.run(compare("one call over stdio", "us", call_ours, call_sdk)),
        asyncio.run(compare("a stdio server from its start to its list of tools", "ms", start_ours, start_sdk)),
    ]


def sandbox() -> list[Figure]:
    """A server from its start to its list of tools, and a call, in a sandbox and without one."""
    start, call = (asyncio.run(in_turn(measure)) for measure in (start_enclosed, call_enclosed))
    return [
        Figure("a server in a sandbox, from its start to its list", start[0] * 1e3, "ms", start[1] * 1e3, "without"),
        Figure("what the sandbox adds to that", (start[0] - start[1]) * 1e3, "ms", goal=Goal(100)),
        Figure("one call of a server in a sandbox", call[0] * 1e6, "us", call[1] * 1e6, "without"),
    ]


async def in_turn(measure: Callable[[Path, str], Awaitable[float]]) -> tuple[float, float]:
    """In a sandbox and without, three times in turn, the least of each."""
    spent: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            spent.append((await measure(Path(folder), "on"), await measure(Path(folder), "off")))
    return min(one for one, _ in spent), min(other for _, other in spent)


def probe(mode: str) -> ServerConfig:
    return ServerConfig("probe", command=sys.executable, args=("-I", "-S", str(PROBE)), sandbox=mode)


async def start_enclosed(folder: Path, mode: str) -> float:
    async def start() -> None:
        async with Toolbox([probe(mode)], folder) as box:
            ready.append(time.perf_counter())
            assert box.tools, box.failures

    ready: list[float] = []
    return await median_start(start, ready)


async def call_enclosed(folder: Path, mode: str) -> float:
    async with Toolbox([probe(mode)], folder) as box:
        tool = box.tools[0]
        return await median_of(lambda: box.call(tool, {"probes": []}, lambda *_: None))


Measure = Callable[[Path], Awaitable[float]]


async def compare(what: str, unit: str, ours: Measure, theirs: Measure) -> Figure:
    """Our way and the SDK's in turn, three times, the least of each: what else runs here is not what is measured."""
    scale = {"us": 1e6, "ms": 1e3}[unit]
    spent: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            spent.append((await ours(Path(folder)), await theirs(Path(folder))))
    own, sdk = (scale * min(column) for column in zip(*spent, strict=True))
    return Figure(what, own, unit, sdk, "the SDK's client")


async def call_ours(folder: Path) -> float:
    async with Toolbox([chaos(folder, "ok")], folder) as box:
        tool = next(tool for tool in box.tools if tool.name == "echo")
        return await median_of(lambda: box.call(tool, {"text": "x"}, lambda *_: None))


async def call_sdk(folder: Path) -> float:
    async with open_sdk(chaos(folder, "ok")) as client:
        await client.list_tools()
        return await median_of(lambda: client.call_tool("echo", {"text": "x"}))


async def start_ours(folder: Path) -> float:
    async def start() -> None:
        async with Toolbox([chaos(folder, "ok")], folder) as box:
            ready.append(time.perf_counter())
            assert box.tools

    ready: list[float] = []
    return await median_start(start, ready)


async def start_sdk(folder: Path) -> float:
    async def start() -> None:
        async with open_sdk(chaos(folder, "ok")) as client:
            assert (await client.list_tools()).tools
            ready.append(time.perf_counter())

    ready: list[float] = []
    return await median_start(start, ready)


@asynccontextmanager
async def open_sdk(config: ServerConfig) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(command=config.command, args=list(config.args), env=dict(config.env))
    async with Client(stdio_client(parameters)) as client:
        yield client


async def median_of(call: Callable[[], Awaitable[Any]]) -> float:
    spent: list[float] = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        await call()
        spent.append(time.perf_counter() - begun)
    return median(spent)


async def median_start(start: Callable[[], Awaitable[None]], ready: list[float]) -> float:
    """Until it was ready; its end is not counted."""
    spent: list[float] = []
    for _ in range(STARTS):
        begun = time.perf_counter()
        await start()
        spent.append(ready[-1] - begun)
    return median(spent)


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
