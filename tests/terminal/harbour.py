"""The server of the recorded sessions: tools, resources, prompts, completion, a form, and a tool that waits."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp_types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
    ToolAnnotations,
)
from pydantic import BaseModel, Field

server = MCPServer("harbour")
GO = Path("go")
NAMES = ("Hamburg", "Hull", "Husum")


class Berth(BaseModel):
    metres: int = Field(description="from bow to stern", ge=1, le=200)
    side: Literal["port", "starboard"] = "port"
    note: str | None = None


async def ask_berth() -> Elicit[Berth]:
    return Elicit("How long is the boat?", Berth)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def get_tide(harbour: str) -> str:
    """Tide height at a harbour."""
    return f"The tide at {harbour} is 2.4 metres and rising."


@server.tool()
def write_log(text: str, tags: list[str] | None = None) -> str:
    """Writes into the log of the harbour."""
    return f"{len(text)} characters are in the log under {', '.join(tags or ['nothing'])}."


@server.tool()
async def book(boat: str, berth: Annotated[Berth, Resolve(ask_berth)]) -> str:
    """Books a berth for a boat."""
    return f"{boat} lies at {berth.side}, {berth.metres} metres"


@server.tool()
async def wait(context: Context) -> str:
    """Waits for high water."""
    await context.report_progress(3, 10, "rising")
    for _ in range(2000):
        if GO.exists():  # noqa: ASYNC240 - a moment
            return "high water"
        await asyncio.sleep(0.01)
    return "never"


@server.resource("harbour://log", title="What happened", mime_type="text/plain")
def read_log() -> str:
    return "06:00 all quiet\n07:30 the Anna has left\n"


@server.resource("harbour://berth/{number}", title="One berth", mime_type="text/plain")
def read_berth(number: str) -> str:
    return f"Berth {number} is free."


@server.prompt(title="A letter to a captain")
def letter(captain: str, harbour: str, tone: str = "friendly") -> str:
    return f"Write a {tone} letter to {captain} at {harbour}."


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def suggest(
    _reference: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    _context: CompletionContext | None,
) -> Completion:
    values = {"harbour": NAMES, "number": ("7", "12", "71")}.get(argument.name, ())
    return Completion(values=[value for value in values if value.startswith(argument.value)])


print("harbour: open for all", file=sys.stderr, flush=True)
server.run("stdio")
