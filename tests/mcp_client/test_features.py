"""Servers in memory, and resources for the model; prompts and questions are in tests/real/test_transports.py."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import pytest
from mcp.server.mcpserver import Elicit, MCPServer, Resolve
from pydantic import BaseModel

from rkllm_chat.config.servers import Trust
from rkllm_chat.core.errors import ChatError, ServerNotFoundError, ToolNotFoundError
from rkllm_chat.core.messages import ToolResult
from rkllm_chat.mcp_client.toolbox import Toolbox

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
    async def go() -> T:
        async with Toolbox.from_servers({"harbour": make_harbour()}, trust=trust) as toolbox:
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

    async def go() -> tuple[list[str], dict[str, str]]:
        async with Toolbox.from_servers({"map": server}) as toolbox:
            return [tool.name for tool in toolbox.tools], dict(toolbox.connections["map"].advertised.hidden)

    assert asyncio.run(go()) == (["open", "ask", "odd"], {"move": "app"})
