"""Real MCP servers, started and ended: those that .ci/real_servers installs, and ours where nobody else speaks.

Each is a context manager that gives a ServerConfig: within it the server runs, or can be started. `RecordingFrontend`
answers what the servers ask and remembers what they told.
"""

from __future__ import annotations

import asyncio
import base64
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp_types import CreateMessageResult, ElicitResult, TextContent, TextResourceContents

from mcp_client.unix_site import open_unix_site
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.messages import ToolResult
from rkllm_chat.mcp_client.handlers import ChangeKind, ClientHandlers, ServerChange
from rkllm_chat.mcp_client.toolbox import Toolbox

from . import REAL_SERVERS

WAIT_S = 5.0
START_S = 30.0
OURS = Path(__file__).with_name("ours.py")

URLS = {"sse": "http://127.0.0.1:{}/sse", "http": "http://127.0.0.1:{}/mcp", "websocket": "ws://127.0.0.1:{}"}

T = TypeVar("T")
Report = tuple[float, "float | None", str]
Row = Callable[[str], AbstractContextManager[ServerConfig]]


def find_place() -> Path:
    """The folder that .ci/real_servers has filled; that it is not there is a failure of the test that wants it."""
    place = Path(os.environ[REAL_SERVERS]).resolve()
    assert (place / "installed").is_file(), f"no real servers in {place}: run .ci/real_servers {place}"
    return place


def npm(name: str, *arguments: str, **more: Any) -> ServerConfig:
    """A server from npm, over stdio."""
    script = find_place() / f"node_modules/@modelcontextprotocol/server-{name}/dist/index.js"
    return ServerConfig(name, command="node", args=(str(script), *arguments), timeout_s=WAIT_S, **more)


def pypi(name: str, *arguments: str) -> ServerConfig:
    """A server from PyPI, over stdio, in the environment of its own."""
    command = find_place() / f"python/bin/mcp-server-{name}"
    return ServerConfig(name, command=str(command), args=arguments, timeout_s=WAIT_S)


@contextmanager
def everything_on(transport: str) -> Iterator[ServerConfig]:
    """The reference server of those who write the specification."""
    if transport == "stdio":
        yield npm("everything", "stdio")
        return
    port = find_port()
    config = npm("everything", {"http": "streamableHttp"}.get(transport, transport))
    with listening([config.command, *config.args], {"PORT": str(port)}, port):
        yield remote("everything", transport, port)


@contextmanager
def ours_on(transport: str, port: int = 0) -> Iterator[ServerConfig]:
    """The server in ours.py; without a port, on one that is free."""
    if transport == "stdio":
        yield ServerConfig("ours", command=sys.executable, args=(str(OURS), "stdio"), timeout_s=WAIT_S)
        return
    if transport == "unix":
        with open_unix_site([sys.executable, str(OURS), "stdio"]) as url:
            yield ServerConfig("ours", url=url, timeout_s=WAIT_S)
        return
    port = port or find_port()
    with listening([sys.executable, str(OURS), transport, str(port)], {}, port):
        yield remote("ours", transport, port)


def remote(name: str, transport: str, port: int) -> ServerConfig:
    return ServerConfig(name, url=URLS[transport].format(port), transport=transport, timeout_s=WAIT_S)


def find_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


@contextmanager
def listening(arguments: Sequence[str], environment: Mapping[str, str], port: int) -> Iterator[None]:
    """A process that runs, and has named its port on standard error, as they all do; ended with the block."""
    with subprocess.Popen(
        arguments, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        try:
            wait_for_words(process, str(port).encode())
            yield
        finally:
            process.kill()


def wait_for_words(process: subprocess.Popen[bytes], words: bytes) -> None:
    assert process.stderr
    said, limit = b"", time.monotonic() + START_S
    while words not in said:
        ready, _, _ = select.select([process.stderr], [], [], max(0.0, limit - time.monotonic()))
        piece = os.read(process.stderr.fileno(), 65536) if ready else b""
        assert piece, f"{process.args!r} does not say {words!r}, but: {said.decode()}"
        said += piece


def with_toolbox(
    config: ServerConfig, folder: Path, frontend: RecordingFrontend | None, then: Callable[[Toolbox], Awaitable[T]]
) -> T:
    """Opens a toolbox with one server, looks at it, and closes it. Without a front end nobody answers."""

    async def go() -> T:
        async with Toolbox([config], folder / "logs", frontend.asks if frontend else None) as toolbox:
            assert not toolbox.failures, toolbox.failures
            return await then(toolbox)

    return asyncio.run(go())


class RecordingFrontend:
    """Who is asked. `reply` is what its model says, `answer` what its user fills in; what happened is in the lists."""

    def __init__(
        self, reply: str | None = "hello", answer: ElicitResult | None = None, roots: tuple[Path, ...] = ()
    ) -> None:
        self.reply = reply
        self.answer = answer or ElicitResult(action="decline")
        self.sampled: list[Any] = []
        self.elicited: list[Any] = []
        self.logs: list[tuple[str, str, str]] = []
        self.changes: list[ServerChange] = []
        self.asks = ClientHandlers(self._sample, self._elicit, roots, self._take_log, self._take_change)
        self._news = asyncio.Event()

    @property
    def updated(self) -> list[str]:
        """The resources whose content has changed."""
        return [change.uri for change in self.changes if change.kind is ChangeKind.RESOURCE_CONTENT]

    async def until(self, happened: Callable[[], bool]) -> None:
        """Waits for the news that makes it true, at most five seconds."""
        while not happened():
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), WAIT_S)

    async def _sample(self, _server: str, params: Any) -> CreateMessageResult | None:
        self.sampled.append(params)
        if self.reply is None:
            return None
        content = TextContent(type="text", text=self.reply)
        return CreateMessageResult(role="assistant", content=content, model="tiny", stop_reason="endTurn")

    async def _elicit(self, _server: str, params: Any) -> ElicitResult:
        self.elicited.append(params)
        return self.answer

    def _take_log(self, server: str, level: str, text: str) -> None:
        self.logs.append((server, level, text))
        self._news.set()

    def _take_change(self, change: ServerChange) -> None:
        self.changes.append(change)
        self._news.set()


async def call(
    toolbox: Toolbox, tool: str, on_progress: Callable[[Report], None] = print, /, **arguments: Any
) -> ToolResult:
    """Calls a tool by its bare name, as the chat would."""
    found = next(offered for offered in toolbox.tools if offered.name == tool)
    return await toolbox.call(found, arguments, lambda *report: on_progress(report))


async def cancel_when(begun: asyncio.Event, operation: Coroutine[Any, Any, object]) -> None:
    running = asyncio.create_task(operation)
    await asyncio.wait_for(begun.wait(), WAIT_S)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def cancel_operation(toolbox: Toolbox) -> None:
    """Cancel a call after its first report."""
    begun = asyncio.Event()
    operation = call(toolbox, "trigger-long-running-operation", lambda _: begun.set(), duration=60, steps=600)
    await cancel_when(begun, operation)


async def read_data(toolbox: Toolbox, uri: str) -> bytes:
    """A resource's one content, text or binary."""
    (content,) = (await toolbox.read_resource(uri)).contents
    return content.text.encode() if isinstance(content, TextResourceContents) else base64.b64decode(content.blob)
