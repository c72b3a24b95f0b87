"""The claude server: an MCP server with six tools around a ClaudeSession. It starts no process itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, TypedDict

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from ... import __version__
from ..turns import Doing, telling
from .session import ClaudeSession, Run, list_runs

LIMIT_S = 300


class Executed(TypedDict):
    success: bool
    prompt: str
    response: str | None
    execution_time: float
    timestamp: str
    error: str | None


class ExecutedWithContext(Executed):
    context_file: str


class History(TypedDict):
    success: bool
    history: list[dict[str, Any]]
    total_entries: int
    current_session_id: str | None


class Cleared(TypedDict):
    success: bool
    message: str
    cleared_count: int


class Current(TypedDict):
    success: bool
    session_id: str | None
    has_session: bool


class Reset(TypedDict):
    success: bool
    message: str
    old_session_id: str | None


def run_tools(session: ClaudeSession) -> list[Callable[..., Any]]:
    """The tools that run the CLI: it may change anything, and reach the network."""

    async def execute_claude(
        prompt: str, context: Context, timeout: int = LIMIT_S
    ) -> Annotated[CallToolResult, Executed]:
        """Ask Claude, which goes on with the same conversation. `timeout` is in seconds."""
        doing = Doing()
        async with telling(context.report_progress, doing):
            return show(await session.run(prompt, timeout, doing))

    async def execute_claude_with_context(
        prompt: str, file_path: str, context: Context, timeout: int = LIMIT_S
    ) -> Annotated[CallToolResult, ExecutedWithContext]:
        """Ask Claude about a text file, which goes with the prompt."""
        doing = Doing()
        async with telling(context.report_progress, doing):
            return show(await session.run(prompt, timeout, doing, file_path))

    return [execute_claude, execute_claude_with_context]


def show(run: Run) -> CallToolResult:
    """A run in its tool's shape, also one that failed."""
    shape = asdict(run)
    del shape["session_id"]
    if run.context_file is None:
        del shape["context_file"]
    text = json.dumps(shape, ensure_ascii=False)
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=shape, is_error=not run.success
    )


def build_server(session: ClaudeSession) -> MCPServer:
    """The server with its six tools, and the totals as a resource."""
    server = MCPServer("claude", version=__version__, instructions="Runs the Claude CLI and keeps its conversation.")

    def get_execution_history(limit: int = 10) -> History:
        """The newest runs, the oldest of them first: what each has answered, and its session."""
        kept = session.read_history()
        return History(
            success=True,
            history=list_runs(kept, limit),
            total_entries=len(kept.runs),
            current_session_id=session.session_id,
        )

    def clear_execution_history() -> Cleared:
        """Forget the runs; the conversation goes on."""
        count = session.clear()
        return Cleared(success=True, message=f"Cleared {count} history entries.", cleared_count=count)

    def get_current_session() -> Current:
        """Which conversation the next run goes on with."""
        return Current(success=True, session_id=session.session_id, has_session=session.session_id is not None)

    def reset_session() -> Reset:
        """Let the next run begin a new conversation."""
        old = session.reset()
        message = "The next run begins a new conversation." if old else "There was no conversation to end."
        return Reset(success=True, message=message, old_session_id=old)

    for tool in run_tools(session):
        server.add_tool(tool, annotations=annotate(destructive=True, open_world=True))
    for tool in (get_execution_history, get_current_session):
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    for tool in (clear_execution_history, reset_session):
        server.add_tool(tool, annotations=annotate(destructive=True, open_world=False))

    @server.resource("claude://statistics", mime_type="application/json")
    def statistics() -> str:
        """Runs, failures, seconds, cost and tokens of all runs so far."""
        return json.dumps(asdict(session.read_history().totals))

    return server


def annotate(destructive: bool, open_world: bool) -> ToolAnnotations:
    return ToolAnnotations(read_only_hint=False, destructive_hint=destructive, open_world_hint=open_world)
