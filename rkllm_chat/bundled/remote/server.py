"""The remote server: one tool that asks a model elsewhere. What it is given leaves this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, TypedDict

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from ... import __version__
from ..turns import Doing, telling
from .service import Service, ServiceError

LARGEST_TEXT = 1 << 20


class Asked(TypedDict):
    text: str
    model: str
    complete: bool
    prompt_tokens: int
    completion_tokens: int


def build_server(service: Service, most_tokens: int) -> MCPServer:
    """The server with its tool. `most_tokens` bounds each answer."""

    async def ask_remote(
        prompt: str, context: Context, system: str = "", max_tokens: int | None = None, temperature: float | None = None
    ) -> Annotated[CallToolResult, Asked]:
        """Ask a larger model elsewhere; it remembers nothing of earlier questions."""
        doing = Doing()
        async with telling(context.report_progress, doing):
            try:
                messages = write_messages(prompt, system)
                limit = min(most_tokens, max_tokens or most_tokens)
                if limit < 1:
                    raise ServiceError("max_tokens must be 1 or more.")
                answer = await service.ask(messages, limit, temperature, doing)
            except ServiceError as error:
                return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)
        text = answer.text or "(The answer is empty.)"
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=asdict(answer))

    server = MCPServer("remote", version=__version__, instructions=f"Asks {service.model}, a model elsewhere.")
    # not read-only: it costs, and what is asked leaves the house, so a person is asked first
    hints = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
    server.add_tool(ask_remote, annotations=hints)
    return server


def write_messages(prompt: str, system: str) -> list[dict[str, str]]:
    """Raises ServiceError."""
    if not prompt.strip():
        raise ServiceError("The prompt is empty.")
    if len(prompt) + len(system) > LARGEST_TEXT:
        size = len(prompt) + len(system)
        raise ServiceError(f"The question is {size} characters long; at most {LARGEST_TEXT} are sent.")
    said = {"system": system, "user": prompt}
    return [{"role": role, "content": text} for role, text in said.items() if text]
