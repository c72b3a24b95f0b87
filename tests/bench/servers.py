"""What our client costs beside plain reading, beside one server alone, and beside the SDK's own client.

The servers are real processes of the tests (`mcp_client.chaos`).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from mcp_client.chaos_server import notice
from mcp_client.chaos_sizes import FLOOD, MB
from mcp_client.enclosed import PROBE
from mcp_client.faults import chaos, measure
from rkllm_chat.backends.base import ModelStream, StoppableStream, StreamItem
from rkllm_chat.backends.scripted import ScriptedBackend
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.servers import SandboxMode, ServerConfig
from rkllm_chat.config.settings import Settings
from rkllm_chat.core import i18n as language
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import Tool, ToolResult
from rkllm_chat.core.protocols import ProgressCallback
from rkllm_chat.mcp_client.toolbox import Toolbox
from stage import call_text

from .figures import Figure, Goal, in_turn, seconds

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
        Figure("a result of 100 MB is cut", measured["seconds"], "s", plain, "plain bytes, a pipe", Goal(2.0)),
        Figure("a result of 100 MB: growth of the client", measured["growth_mb"], "MB", goal=Goal(48)),
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
            configs = [chaos(Path(folder), "slow-start", f"slow{index}", delay_s=1.0) for index in range(number)]
            begun = time.perf_counter()
            async with Toolbox(configs, Path(folder)) as toolbox:
                spent = time.perf_counter() - begun
                assert not toolbox.failures, toolbox.failures
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


class Slow(ScriptedBackend):
    """Takes its time behind the calls of its first reply."""

    def __init__(self, replies: Sequence[str], writing_s: float) -> None:
        super().__init__(replies)
        self.writing_s = writing_s

    def stream(self, *given: Any) -> ModelStream:
        stream = super().stream(*given)
        return StoppableStream(self._delay(stream), stream.stop)

    async def _delay(self, stream: ModelStream) -> AsyncGenerator[StreamItem, None]:
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                if isinstance(piece, Usage) and self.played == 1:
                    for _ in range(PIECES):
                        await asyncio.sleep(self.writing_s / PIECES)
                        yield "and "
                yield piece


@dataclass(frozen=True)
class Reading:
    """A server's tools, which only read."""

    toolbox: Toolbox

    @property
    def tools(self) -> Sequence[Tool]:
        return [replace(tool, read_only=True, trusted=True) for tool in self.toolbox.tools]

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> ToolResult:
        known = next(offered for offered in self.toolbox.tools if offered.full_name == tool.full_name)
        return await self.toolbox.call(known, arguments, on_progress)


async def take_turn(calls: int, writing_s: float = 0, starts_early: bool = True) -> float:
    with tempfile.TemporaryDirectory() as folder:
        config = chaos(Path(folder), "late-reply", delay_s=1.0)
        async with Toolbox([config], Path(folder)) as toolbox:
            replies = ["\n".join(call_text("act", text=str(number)) for number in range(calls)), "Done."]
            backend = Slow(replies, writing_s)
            chat = Conversation(backend, Reading(toolbox), Settings(), language.load(), starts_calls_early=starts_early)
            begun = time.perf_counter()
            async with aclosing(Turn(chat).run("Go.")) as turn:
                async for _ in turn:
                    pass
            spent = time.perf_counter() - begun
            said = [message.text for message in chat.history if message.role == "tool"]
            assert len(said) == calls and all("LATE-RESULT" in text for text in said), said
    return spent


Call = Callable[[], Awaitable[Any]]
Open = Callable[[Path], AbstractAsyncContextManager[Call]]
"""Starts a server, lists its tools, and gives a call of one of them."""
Measure = Callable[[Path, str], Coroutine[Any, Any, float]]
"""Takes a folder, and a way of WAYS."""


def overhead() -> list[Figure]:
    """Calls one after another, and the way to the first list, over standard input and output; the median of each."""
    call, start = (find_least(measure, "ours", "sdk") for measure in (time_call, time_start))
    what = "a stdio server from its start to its list of tools"
    return [
        Figure("one call over stdio", call[0] * 1e6, "us", call[1] * 1e6, "the SDK's client"),
        Figure(what, start[0] * 1e3, "ms", start[1] * 1e3, "the SDK's client"),
    ]


def sandbox() -> list[Figure]:
    """A server from its start to its list of tools, and a call, in a sandbox and without one."""
    start, call = (find_least(measure, "on", "off") for measure in (time_start, time_call))
    return [
        Figure("a server in a sandbox, from its start to its list", start[0] * 1e3, "ms", start[1] * 1e3, "without"),
        Figure("what the sandbox adds to that", (start[0] - start[1]) * 1e3, "ms", goal=Goal(100)),
        Figure("one call of a server in a sandbox", call[0] * 1e6, "us", call[1] * 1e6, "without"),
    ]


def find_least(measure: Measure, *ways: str) -> list[float]:
    """Each way three times in turn, the least of each."""
    with tempfile.TemporaryDirectory() as name:
        runs = {way: lambda way=way: asyncio.run(measure(Path(name), way)) for way in ways}
        return [min(found) for found in in_turn(runs, 3, warms_up=False).values()]


async def time_start(folder: Path, way: str) -> float:
    """The median of several starts; the ends are not counted."""
    spent: list[float] = []
    for _ in range(STARTS):
        begun = time.perf_counter()
        async with WAYS[way](folder):
            spent.append(time.perf_counter() - begun)
    return median(spent)


async def time_call(folder: Path, way: str) -> float:
    spent: list[float] = []
    async with WAYS[way](folder) as call:
        for _ in range(CALLS):
            begun = time.perf_counter()
            await call()
            spent.append(time.perf_counter() - begun)
    return median(spent)


@asynccontextmanager
async def open_ours(folder: Path) -> AsyncIterator[Call]:
    async with Toolbox([chaos(folder, "ok")], folder) as toolbox:
        tool = next(tool for tool in toolbox.tools if tool.name == "echo")
        yield lambda: toolbox.call(tool, {"text": "x"}, lambda *_: None)


@asynccontextmanager
async def open_sdk(folder: Path) -> AsyncIterator[Call]:
    config = chaos(folder, "ok")
    parameters = StdioServerParameters(command=config.command, args=list(config.args), env=dict(config.env))
    async with Client(stdio_client(parameters)) as client:
        assert (await client.list_tools()).tools
        yield lambda: client.call_tool("echo", {"text": "x"})


@asynccontextmanager
async def open_probe(folder: Path, mode: SandboxMode) -> AsyncIterator[Call]:
    server = ServerConfig("probe", command=sys.executable, args=("-I", "-S", str(PROBE)), sandbox=mode)
    async with Toolbox([server], folder) as toolbox:
        assert toolbox.tools, toolbox.failures
        tool = toolbox.tools[0]
        yield lambda: toolbox.call(tool, {"probes": []}, lambda *_: None)


WAYS: dict[str, Open] = {
    "ours": open_ours,
    "sdk": open_sdk,
    "on": partial(open_probe, mode="on"),
    "off": partial(open_probe, mode="off"),
}
"""Our client, the SDK's, and ours with a server in a sandbox and without one."""
