"""MCP tool of the remote server: ask a model of an OpenAI-compatible service.

Prompts leave this machine. The docstring of the tool is the description that clients receive.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, TypedDict

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, ToolAnnotations

from ...core.version import __version__
from ..job_queue import Activity, report_progress
from ..tool_results import make_failure, make_result
from .service import Service, ServiceError

_MAX_TEXT_CHARS = 1 << 20


class Asked(TypedDict):
    text: str
    model: str
    complete: bool
    prompt_tokens: int
    completion_tokens: int


def build_server(service: Service, max_answer_tokens: int) -> MCPServer:
    """Return the server with its tool. `max_answer_tokens` limits each answer."""

    async def ask_remote(
        prompt: str, context: Context, system: str = "", max_tokens: int | None = None, temperature: float | None = None
    ) -> Annotated[CallToolResult, Asked]:
        """Ask a larger model elsewhere; it remembers nothing of earlier questions."""
        activity = Activity()
        async with report_progress(context.report_progress, activity):
            try:
                messages = _write_messages(prompt, system)
                limit = min(max_answer_tokens, max_tokens or max_answer_tokens)
                if limit < 1:
                    raise ServiceError("max_tokens must be 1 or more.")
                answer = await service.ask(messages, limit, temperature, activity)
            except ServiceError as error:
                return make_failure(str(error))
        text = answer.text or "(The answer is empty.)"
        return make_result(text, asdict(answer))

    server = MCPServer("remote", version=__version__, instructions=f"Asks {service.model}, a model elsewhere.")
    # not read-only, so that clients ask first: calls cost money and the prompt leaves the machine
    hints = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
    server.add_tool(ask_remote, annotations=hints)
    return server


def _write_messages(prompt: str, system: str) -> list[dict[str, str]]:
    """Return the messages of a question. Raises ServiceError if it is empty or too long."""
    if not prompt.strip():
        raise ServiceError("The prompt is empty.")
    if len(prompt) + len(system) > _MAX_TEXT_CHARS:
        size = len(prompt) + len(system)
        raise ServiceError(f"The question is {size} characters long; at most {_MAX_TEXT_CHARS} are sent.")
    texts = {"system": system, "user": prompt}
    return [{"role": role, "content": text} for role, text in texts.items() if text]
