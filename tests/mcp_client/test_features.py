"""Servers in memory: resources with their annotations and subscriptions, and what a server is told of its client.

Prompts and questions are in tests/real/test_transports.py; a subscription of the older protocol is in tests/tui.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import pytest
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp_types import Annotations, Icon
from pydantic import BaseModel

from rkllm_chat.config.servers import Trust
from rkllm_chat.core.errors import ChatError, ServerNotFoundError, ToolNotFoundError
from rkllm_chat.core.messages import ToolResult
from rkllm_chat.mcp_client.handlers import ChangeKind, ClientHandlers, SampleHandler, ServerChange
from rkllm_chat.mcp_client.toolbox import Toolbox

from .faults import Trial, try_mode

T = TypeVar("T")


class Berth(BaseModel):
    metres: int


async def ask_berth() -> Elicit[Berth]:
    return Elicit("How long is the boat?", Berth)


def make_harbour() -> MCPServer:
    server = MCPServer("harbour")

    @server.tool()
    async def get_tide(harbour: str) -> str:
        """Tide height at a harbour."""
        return f"2.4 metres at {harbour}"

    @server.tool()
    async def book(boat: str, berth: Annotated[Berth, Resolve(ask_berth)]) -> str:
        """Books a berth."""
        return f"{boat} has {berth.metres} metres"

    @server.resource("harbour://log")
    def read_log() -> str:
        return "all quiet"

    @server.resource("harbour://berth/{number}")
    def read_berth(number: str) -> str:
        return f"berth {number} is free"

    return server


def with_harbour(then: Callable[[Toolbox], Awaitable[T]], trust: Trust = "ask") -> T:
    return use(make_harbour(), then, trust=trust)


def use(
    server: MCPServer,
    then: Callable[[Toolbox], Awaitable[T]],
    handlers: ClientHandlers | None = None,
    trust: Trust = "ask",
) -> T:
    """Do `then` with a server in memory, named harbour."""

    async def go() -> T:
        async with Toolbox.from_servers({"harbour": server}, handlers, trust=trust) as toolbox:
            return await then(toolbox)

    return asyncio.run(go())


async def call(toolbox: Toolbox, name: str, **arguments: object) -> ToolResult:
    tool = next(tool for tool in toolbox.tools if tool.name == name)
    return await toolbox.call(tool, arguments, lambda *_: None)


def test_a_server_in_memory_is_a_server_like_others() -> None:
    async def look(toolbox: Toolbox) -> tuple[bool, str, str]:
        return (
            toolbox.is_connected("harbour"),
            (await call(toolbox, "get_tide", harbour="Husum")).text,
            (toolbox.connections["harbour"].lifecycle.protocol_version),
        )

    assert with_harbour(look) == (True, "2.4 metres at Husum", "2026-07-28")


def test_the_model_can_list_and_read_resources_by_two_tools_of_ours() -> None:
    async def look(toolbox: Toolbox) -> tuple[str, str, str]:
        return (
            (await call(toolbox, "list_resources")).text,
            (await call(toolbox, "read_resource", uri="harbour://berth/7")).text,
            (await call(toolbox, "read_resource", uri="harbour://nothing")).status,
        )

    listed, read, missing = with_harbour(look)
    assert listed == "harbour://log: read_log\nharbour://berth/{number}: read_berth"
    assert (read, missing) == ("berth 7 is free", "failed")


@pytest.mark.parametrize(("trust", "trusted"), [("ask", False), ("trusted", True)])
def test_our_tools_for_resources_are_trusted_as_far_as_their_servers(trust: Trust, trusted: bool) -> None:
    async def look(toolbox: Toolbox) -> list[tuple[bool, bool]]:
        return [(tool.read_only, tool.trusted) for tool in toolbox.tools if not tool.server]

    assert with_harbour(look, trust=trust) == [(True, trusted)] * 2


def test_what_is_unknown_is_named_with_what_there_is() -> None:
    async def look(toolbox: Toolbox) -> tuple[ChatError, ChatError]:
        with pytest.raises(ServerNotFoundError) as no_server:
            await toolbox.execute_tool("port", "get_tide")
        with pytest.raises(ToolNotFoundError) as no_tool:
            await toolbox.execute_tool("harbour", "get_tides")
        return no_server.value, no_tool.value

    no_server, no_tool = with_harbour(look)
    assert no_server.details == {"available": ["harbour"]}
    assert no_tool.details == {"available": ["get_tide", "book"]}


def test_without_anybody_to_ask_the_call_fails_and_the_server_lives() -> None:
    async def look(toolbox: Toolbox) -> tuple[str, str]:
        return (await call(toolbox, "book", boat="Anna")).status, (
            await call(toolbox, "get_tide", harbour="Hull")
        ).status

    assert with_harbour(look) == ("failed", "completed")


def test_importing_the_package_does_not_import_the_sdk() -> None:
    code = "import rkllm_chat.mcp_client, sys; print('mcp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "False"


def test_a_tool_for_the_pages_of_a_server_is_no_tool_of_the_model() -> None:
    """MCP Apps (SEP-1865): `visibility` without "model"."""
    server = MCPServer("map")
    for name, pages in {
        "open": {"resourceUri": "ui://map"},
        "ask": {"visibility": ["model", "app"]},
        "move": {"visibility": ["app"]},
        "odd": {"visibility": "app"},
    }.items():
        server.add_tool(lambda: "done", name=name, meta={"ui": pages})

    async def look(toolbox: Toolbox) -> tuple[list[str], dict[str, str]]:
        return [tool.name for tool in toolbox.tools], dict(toolbox.connections["harbour"].advertised.hidden)

    assert use(server, look) == (["open", "ask", "odd"], {"move": "app"})


def test_resources_for_the_model_are_listed_the_most_important_first_and_icons_change_nothing() -> None:
    """Annotations of MCP 2025-11-25."""
    icons = [Icon(src="https://harbour.example/icon.png", mime_type="image/png")]
    server = MCPServer("harbour", icons=icons)
    server.add_tool(lambda: "moored", "moor", "Moors a boat.", icons=icons)
    rows: list[tuple[str, Annotations | None]] = [
        ("plain", None),
        ("important", Annotations(priority=0.9)),
        ("trivial", Annotations(priority=0.1)),
        ("for-people", Annotations(audience=["user"], priority=1.0)),
        ("for-models", Annotations(audience=["assistant"])),
        ("for-both", Annotations(audience=["user", "assistant"])),
    ]
    for name, given in rows:
        server.resource(f"harbour://{name}", name=name, annotations=given, icons=icons)(lambda: "text")

    async def look(toolbox: Toolbox) -> tuple[list[str], str]:
        text = (await call(toolbox, "list_resources")).text
        moor = next(tool for tool in toolbox.tools if tool.name == "moor")
        return [line.partition(": ")[0] for line in text.splitlines()], f"{moor}{text}"

    uris, seen = use(server, look)
    names = ["important", "plain", "for-models", "for-both", "trivial"]
    assert uris == [f"harbour://{name}" for name in names]
    assert "icon" not in seen


async def decline(_server: str, _params: object) -> None:
    return None


@pytest.mark.parametrize(("sample", "announced"), [(decline, "sampling with tools"), (None, "no sampling")])
def test_sampling_is_announced_with_tools_if_there_is_a_handler(sample: SampleHandler | None, announced: str) -> None:
    server = MCPServer("harbour")

    @server.tool()
    def read_capabilities(context: Context) -> str:
        """Says whether the client samples."""
        sampling = context.client_capabilities and context.client_capabilities.sampling
        if not sampling:
            return "no sampling"
        return "sampling with tools" if sampling.tools is not None else "sampling"

    result = use(server, lambda toolbox: call(toolbox, "read_capabilities"), ClientHandlers(sample=sample))
    assert result.text == announced


LOG, BERTH = "harbour://log", "harbour://berth/7"


def test_changes_of_a_resource_arrive_until_the_subscription_ends() -> None:
    server = make_harbour()

    @server.tool()
    async def touch(uri: str, context: Context) -> None:
        """Changes a resource."""
        await context.notify_resource_updated(uri)

    heard: asyncio.Queue[str] = asyncio.Queue()

    def listen(change: ServerChange) -> None:
        if change.kind is ChangeKind.RESOURCE_CONTENT:
            heard.put_nowait(change.uri)

    async def follow(toolbox: Toolbox) -> list[str]:
        await toolbox.subscribe("harbour", LOG)
        await call(toolbox, "touch", uri=LOG)
        first = await asyncio.wait_for(heard.get(), 5)
        await toolbox.unsubscribe("harbour", LOG)
        await toolbox.subscribe("harbour", BERTH)
        assert toolbox.subscriptions == [("harbour", BERTH)]
        await call(toolbox, "touch", uri=LOG)
        await call(toolbox, "touch", uri=BERTH)
        return [first, await asyncio.wait_for(heard.get(), 5)]

    assert use(server, follow, ClientHandlers(on_change=listen)) == [LOG, BERTH]


def test_a_server_that_refuses_a_subscription_after_a_restart_is_used_without_it(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, list[tuple[str, str]]]:
        await trial.toolbox.subscribe("chaos", LOG)
        assert trial.toolbox.subscriptions == [("chaos", LOG)]
        assert (await trial.act()).status == "failed", "it ends in its first call"
        return await trial.echo(), trial.toolbox.subscriptions

    assert try_mode(tmp_path, "refuse-resubscribe", go) == ("still here", [])
