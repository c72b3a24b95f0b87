"""A subscription to a resource of MCP 2026-07-28 begins and ends; tests/tui has one of the older protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer

from rkllm_chat.mcp_client.handlers import ChangeKind, ClientHandlers, ServerChange, ignore
from rkllm_chat.mcp_client.toolbox import Toolbox

from .faults import chaos

LOG, CHART = "harbour://log", "harbour://chart"


def make_server() -> MCPServer:
    server = MCPServer("harbour")

    @server.tool()
    async def touch(uri: str, context: Context) -> str:
        """Changes a resource."""
        await context.notify_resource_updated(uri)
        return uri

    @server.resource(LOG)
    def read_log() -> str:
        return "all quiet"

    @server.resource(CHART)
    def read_chart() -> str:
        return "deep water"

    return server


def test_changes_of_a_resource_arrive_until_the_subscription_ends() -> None:
    async def follow() -> list[str]:
        heard: asyncio.Queue[str] = asyncio.Queue()

        def listen(change: ServerChange) -> None:
            if change.kind is ChangeKind.RESOURCE_CONTENT:
                heard.put_nowait(change.uri)

        async with Toolbox.from_servers({"harbour": make_server()}, ClientHandlers(on_change=listen)) as toolbox:
            await toolbox.subscribe("harbour", LOG)
            await toolbox.execute_tool("harbour", "touch", {"uri": LOG})
            first = await asyncio.wait_for(heard.get(), 5)
            await toolbox.unsubscribe("harbour", LOG)
            await toolbox.subscribe("harbour", CHART)
            assert toolbox.subscriptions == [("harbour", CHART)]
            await toolbox.execute_tool("harbour", "touch", {"uri": LOG})
            await toolbox.execute_tool("harbour", "touch", {"uri": CHART})
            return [first, await asyncio.wait_for(heard.get(), 5)]

    assert asyncio.run(follow()) == [LOG, CHART]


def test_a_server_that_refuses_a_subscription_after_a_restart_is_used_without_it(tmp_path: Path) -> None:
    async def restart() -> tuple[bool, list[tuple[str, str]]]:
        async with Toolbox([chaos(tmp_path, "refuse-resubscribe")], tmp_path / "logs") as toolbox:
            await toolbox.subscribe("chaos", LOG)
            assert toolbox.subscriptions == [("chaos", LOG)]
            act = next(tool for tool in toolbox.tools if tool.name == "act")
            assert (await toolbox.call(act, {}, ignore)).status == "failed", "it ends in its first call"
            result = await toolbox.execute_tool("chaos", "echo", {"text": "x"})
            return bool(result.is_error), toolbox.subscriptions

    assert asyncio.run(restart()) == (False, [])
