"""What a server is told that its client can do."""

from __future__ import annotations

import asyncio

import pytest
from mcp.server.mcpserver import Context, MCPServer

from rkllm_chat.mcp_client.handlers import ClientHandlers, SampleHandler
from rkllm_chat.mcp_client.toolbox import Toolbox


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

    async def ask() -> str:
        async with Toolbox.from_servers({"harbour": server}, ClientHandlers(sample=sample)) as toolbox:
            return (await toolbox.call(toolbox.tools[0], {}, lambda *_: None)).text

    assert asyncio.run(ask()) == announced
