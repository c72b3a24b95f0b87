"""Results of MCP tools: a text for the model, and structured content for programs."""

from __future__ import annotations

from mcp_types import CallToolResult, TextContent


def make_result(text: str, structured: object) -> CallToolResult:
    """Return a successful tool result."""
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


def make_failure(text: str) -> CallToolResult:
    """Return a failed tool result; `text` says why."""
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
