"""One conversation over every transport, with a real server; and which transport a configuration means."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from rkllm_chat.config import ServerConfig
from rkllm_chat.errors import ConfigError
from rkllm_chat.servers.transport import Transport
from rkllm_chat.servers.transports import TRANSPORTS, open_transport

from .talks import PLAIN, call, serve_plain, talk, wait_until

TOOLS = {"count", "repeat", "fail", "wait", "see_environment", "die"}


@pytest.fixture(scope="module")
def plain() -> Iterator[Any]:
    """Transport -> the configuration of the plain server over it; a process for each is started once."""
    with ExitStack() as stack:

        @cache
        def find_url(transport: str) -> str:
            return stack.enter_context(serve_plain(transport))

        def configure(transport: str, named: bool = True) -> ServerConfig:
            name = transport if named else ""
            if transport == "stdio":
                return ServerConfig("plain", command=sys.executable, args=(str(PLAIN), "stdio"), transport=name)
            return ServerConfig("plain", url=find_url(transport), transport=name)

        yield configure


async def converse(client: Client, folder: Path) -> dict[str, Any]:
    """Lists, calls with progress, gets much, fails, cancels, and calls again."""
    reports: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    tools = await client.list_tools()
    counted = await client.call_tool("count", {"to": 3}, progress_callback=note)
    large = await call(client, "repeat", text="x", times=3_000_000)
    failed = await client.call_tool("fail", {})
    stopped = await stop_a_call(client, folder / "stopped")
    again = await call(client, "count", to=1)
    return {
        "tools": {tool.name for tool in tools.tools},
        "counted": counted.structured_content,
        "reports": reports,
        "large": len(large.text),
        "failed": failed.is_error,
        "stopped": stopped,
        "again": again.text,
    }


async def stop_a_call(client: Client, file: Path) -> bool:
    """Calls what never ends, stops it, and waits until the server has heard of it."""
    began = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        began.set()

    waiting = asyncio.create_task(client.call_tool("wait", {"file": str(file)}, progress_callback=note))
    await asyncio.wait_for(began.wait(), 5)
    waiting.cancel()
    await asyncio.wait([waiting])
    await wait_until(file.exists, "the end of the call")
    return waiting.cancelled()


CONVERSATION = {
    "tools": TOOLS,
    "counted": {"result": "counted to 3"},
    "reports": [(1, 3, "so far"), (2, 3, "so far"), (3, 3, "so far")],
    "large": 3_000_000,
    "failed": True,
    "stopped": True,
    "again": "counted to 1",
}


@pytest.mark.parametrize(
    ("transport", "named", "mode", "version"),
    [
        ("stdio", True, "auto", "2026-07-28"),
        ("stdio", False, "legacy", "2025-11-25"),
        ("http", True, "auto", "2026-07-28"),
        ("http", True, "legacy", "2025-11-25"),
        ("http", False, "auto", "2026-07-28"),
        ("sse", True, "legacy", "2025-11-25"),
        ("sse", False, "auto", "2025-11-25"),
        ("websocket", True, "auto", "2026-07-28"),
        ("websocket", False, "legacy", "2025-11-25"),
    ],
)
def test_one_conversation_goes_over_every_transport_in_both_eras(
    transport: str, named: bool, mode: str, version: str, plain: Any, tmp_path: Path
) -> None:
    async def go(client: Client, used: Transport) -> tuple[str, str, str, dict[str, Any]]:
        said = await converse(client, tmp_path)
        return used.kind, client.protocol_version, used.ended, said

    assert talk(plain(transport, named), tmp_path, go, mode) == (transport, version, "", CONVERSATION)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nothing_is_left_when_a_transport_is_closed(transport: str, plain: Any, tmp_path: Path) -> None:
    async def go() -> tuple[int, list[str], list[str]]:
        before = list_open_files()
        async with Client(open_transport(plain(transport), tmp_path / "log"), mode="legacy") as client:
            await call(client, "count", to=1)
        return len(asyncio.all_tasks()), before, list_open_files()

    tasks, before, after = asyncio.run(go())
    assert (tasks, after) == (1, before)


def list_open_files() -> list[str]:
    """What this process has open, besides the loop's own."""
    links = (str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.exists())
    return sorted(link for link in links if not link.startswith("/proc"))


@pytest.mark.parametrize(
    ("server", "kind", "mode"),
    [
        (ServerConfig("one", command=sys.executable), "stdio", "auto"),
        (ServerConfig("one", url="ws://127.0.0.1:1/"), "websocket", "auto"),
        (ServerConfig("one", url="wss://127.0.0.1:1/"), "websocket", "auto"),
        (ServerConfig("one", url="http://127.0.0.1:1/"), "", "auto"),
        (ServerConfig("one", url="http://127.0.0.1:1/", transport="http"), "http", "auto"),
        (ServerConfig("one", url="http://127.0.0.1:1/", transport="sse"), "sse", "legacy"),
    ],
    ids=["command", "ws", "wss", "unknown", "http", "sse"],
)
def test_a_configuration_means_a_transport(server: ServerConfig, kind: str, mode: str, tmp_path: Path) -> None:
    transport = open_transport(server, tmp_path / "log")
    assert (transport.kind, transport.mode) == (kind, mode)


def test_what_a_url_turned_out_to_be_need_not_be_tried_again(tmp_path: Path) -> None:
    server = ServerConfig("one", url="http://127.0.0.1:1/")
    assert [open_transport(server, tmp_path / "log", url_kind=kind).kind for kind in ("http", "sse")] == ["http", "sse"]


def test_an_unknown_transport_is_an_error_that_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="stdio, http, sse, websocket"):
        open_transport(ServerConfig("one", url="http://127.0.0.1:1/", transport="pigeon"), tmp_path / "log")


@pytest.mark.parametrize(
    ("server", "cause"),
    [
        (ServerConfig("one", url="http://127.0.0.1:1/", transport="stdio"), 'the transport "stdio" needs a command'),
        (ServerConfig("one", command="true", transport="http"), 'the transport "http" needs a url'),
    ],
    ids=["stdio", "http"],
)
def test_a_transport_that_does_not_fit_is_an_error(server: ServerConfig, cause: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=cause):
        open_transport(server, tmp_path / "log")
