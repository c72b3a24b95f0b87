"""MCP tools of the claude server, around a ClaudeSession.

Docstrings of tools and resources are the descriptions that clients receive.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, TypedDict

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from ...core.version import __version__
from ..job_queue import Activity, report_progress
from .session import ClaudeSession, RunRecord, list_runs

DEFAULT_TIMEOUT_S = 300


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


def _run_tools(session: ClaudeSession) -> list[Callable[..., Any]]:
    """Return the tools that run the CLI, which may change anything and reach the network."""

    async def execute_claude(
        prompt: str, context: Context, timeout: int = DEFAULT_TIMEOUT_S
    ) -> Annotated[CallToolResult, Executed]:
        """Ask Claude, which continues the same conversation. `timeout` is in seconds."""
        activity = Activity()
        async with report_progress(context.report_progress, activity):
            return make_result(await session.run(prompt, timeout, activity))

    async def execute_claude_with_context(
        prompt: str, file_path: str, context: Context, timeout: int = DEFAULT_TIMEOUT_S
    ) -> Annotated[CallToolResult, ExecutedWithContext]:
        """Ask Claude about a text file, which goes with the prompt."""
        activity = Activity()
        async with report_progress(context.report_progress, activity):
            return make_result(await session.run(prompt, timeout, activity, file_path))

    return [execute_claude, execute_claude_with_context]


def make_result(run: RunRecord) -> CallToolResult:
    """Return the result of a run, also of a failed one."""
    fields = asdict(run)
    del fields["session_id"]
    if run.context_file is None:
        del fields["context_file"]
    text = json.dumps(fields, ensure_ascii=False)
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=fields, is_error=not run.success
    )


def build_server(session: ClaudeSession) -> MCPServer:
    """Return the server with its six tools and the totals as a resource."""
    server = MCPServer("claude", version=__version__, instructions="Runs the Claude CLI and keeps its conversation.")

    def get_execution_history(limit: int = 10) -> History:
        """The newest runs, the oldest of them first: what each has answered, and its session."""
        state = session.read_history()
        return History(
            success=True,
            history=list_runs(state, limit),
            total_entries=len(state.runs),
            current_session_id=session.session_id,
        )

    def clear_execution_history() -> Cleared:
        """Forget the runs; the conversation continues."""
        count = session.clear_history()
        return Cleared(success=True, message=f"Cleared {count} history entries.", cleared_count=count)

    def get_current_session() -> Current:
        """Which conversation the next run continues."""
        return Current(success=True, session_id=session.session_id, has_session=session.session_id is not None)

    def reset_session() -> Reset:
        """Let the next run begin a new conversation."""
        old = session.reset_session()
        message = "The next run begins a new conversation." if old else "There was no conversation to end."
        return Reset(success=True, message=message, old_session_id=old)

    for tool in _run_tools(session):
        server.add_tool(tool, annotations=_annotate(destructive=True, open_world=True))
    for tool in (get_execution_history, get_current_session):
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    for tool in (clear_execution_history, reset_session):
        server.add_tool(tool, annotations=_annotate(destructive=True, open_world=False))

    @server.resource("claude://statistics", mime_type="application/json")
    def statistics() -> str:
        """Runs, failures, seconds, cost and tokens of all runs so far."""
        return json.dumps(asdict(session.read_history().totals))

    return server


def _annotate(destructive: bool, open_world: bool) -> ToolAnnotations:
    """Return the hints of a tool that is not read-only."""
    return ToolAnnotations(read_only_hint=False, destructive_hint=destructive, open_world_hint=open_world)
