"""A conversation with a tool of one's own: python examples/harbour_chat.py [MODEL]."""

from __future__ import annotations

import asyncio
import sys

from mcp.server.mcpserver import MCPServer

from rkllm_chat import Chat

harbour = MCPServer("harbour")


@harbour.tool()
def get_depth(name: str) -> float:
    """Return the depth of a harbour in metres."""
    return {"Rotterdam": 24.0}.get(name, 9.5)


async def main() -> None:
    """Ask two questions."""
    model = sys.argv[1] if len(sys.argv) > 1 else ""  # the small model that ships
    async with Chat(model, {"harbour": harbour}, allow=["harbour__*"], temperature=0) as chat:
        for question in ("How deep is the harbour of Rotterdam?", "Which harbour did I ask about?"):
            reply = await chat.ask(question)
            print(question, [(call.tool, call.text) for call in reply.calls], reply.text)


asyncio.run(main())
