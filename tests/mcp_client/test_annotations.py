"""Annotations of resources (MCP 2025-11-25): whom they are for, and how important they are. Icons change nothing."""

from __future__ import annotations

import asyncio

from mcp.server.mcpserver import MCPServer
from mcp_types import Annotations, Icon

from rkllm_chat.mcp_client.toolbox import Toolbox

ICONS = [Icon(src="https://harbour.example/icon.png", mime_type="image/png")]


def make_server() -> MCPServer:
    server = MCPServer("harbour", icons=ICONS)

    @server.tool(icons=ICONS)
    def moor() -> str:
        """Moors a boat."""
        return "moored"

    rows: list[tuple[str, Annotations | None]] = [
        ("plain", None),
        ("important", Annotations(priority=0.9)),
        ("trivial", Annotations(priority=0.1)),
        ("for-people", Annotations(audience=["user"], priority=1.0)),
        ("for-models", Annotations(audience=["assistant"])),
        ("for-both", Annotations(audience=["user", "assistant"])),
    ]
    for name, given in rows:
        server.resource(f"harbour://{name}", name=name, annotations=given, icons=ICONS)(lambda: "text")
    return server


def test_the_model_is_shown_what_is_for_it_and_the_most_important_first() -> None:
    async def ask() -> tuple[list[str], str]:
        async with Toolbox.from_servers({"harbour": make_server()}) as toolbox:
            listing = next(tool for tool in toolbox.tools if tool.name == "list_resources")
            moor = next(tool for tool in toolbox.tools if tool.name == "moor")
            text = (await toolbox.call(listing, {}, lambda *_: None)).text
            return [line.partition(": ")[0] for line in text.splitlines()], f"{moor}{text}"

    uris, seen = asyncio.run(ask())
    names = ["important", "plain", "for-models", "for-both", "trivial"]
    assert uris == [f"harbour://{name}" for name in names]
    assert "icon" not in seen
