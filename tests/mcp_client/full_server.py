"""A server with something of everything, over any transport: `python -m mcp_client.full_server TRANSPORT` in tests/."""

from __future__ import annotations

import sys
from base64 import b64decode
from typing import Annotated, Literal

from mcp.server.mcpserver import Image, MCPServer
from mcp_types import BlobResourceContents, EmbeddedResource, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from mcp_client.serve_sdk import serve

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


server = MCPServer("full")


class Point(BaseModel):
    x: int
    y: int


@server.tool(title="Paint", annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def paint() -> list[Image | TextContent | EmbeddedResource]:
    """A picture, 東京, and data."""
    blob = BlobResourceContents(uri="data://blob", mime_type="application/octet-stream", blob="AAEC")
    return [
        Image(data=b64decode(PIXEL), format="png"),
        TextContent(type="text", text="東京"),
        EmbeddedResource(type="resource", resource=blob),
    ]


@server.tool()
def place(
    point: Point, color: Literal["red", "green"] = "red", code: Annotated[str, Field(pattern="^[0-9]+$")] = "007"
) -> Point:
    """Where something is."""
    del color, code
    return point


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no reason")


@server.resource("notes://today", mime_type="text/plain")
def today() -> str:
    """What is to be done."""
    return "Mow the lawn – 芝刈り"


@server.resource("notes://{day}")
def of_day(day: str) -> str:
    """What was to be done."""
    return f"nothing on {day}"


@server.resource("data://pixel", mime_type="image/png")
def pixel() -> bytes:
    """One pixel."""
    return b64decode(PIXEL)


@server.prompt(title="Greet")
def greet(name: str, tone: str = "warm") -> str:
    """Greets somebody."""
    return f"Greet {name} in a {tone} tone."


if __name__ == "__main__":
    serve(server, sys.argv[1])
