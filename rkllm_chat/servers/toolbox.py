"""All servers as one box of tools. It knows no chat: a call gives a result, whatever happens.

Servers are opened side by side and fail alone; what failed is told, what works can be used.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_types import CallToolResult, EmbeddedResource, ResourceLink, TextContent, TextResourceContents

from ..config import ServerConfig
from ..errors import ChatError
from ..messages import Status, Tool, ToolResult
from .connection import Connection


class Servers:
    """The enabled servers of a configuration. Implements the Toolbox that a chat wants."""

    def __init__(self, configs: Sequence[ServerConfig], log_folder: Path) -> None:
        wanted = [config for config in configs if config.enabled and config.trust != "off"]
        self.connections = {config.name: Connection(config, log_folder / f"{config.name}.log") for config in wanted}

    async def open(self) -> None:
        """Opens all side by side; one that fails is told in `failures`."""
        await asyncio.gather(*(connection.open() for connection in self.connections.values()))

    async def aclose(self) -> None:
        """Closes all side by side."""
        await asyncio.gather(*(connection.aclose() for connection in self.connections.values()))

    @property
    def tools(self) -> Sequence[Tool]:
        return [tool for connection in self.connections.values() for tool in connection.tools]

    @property
    def failures(self) -> dict[str, ChatError]:
        """Server -> why it is not there."""
        return {name: one.error for name, one in self.connections.items() if one.error}

    async def call(
        self, tool: Tool, arguments: Mapping[str, Any], on_progress: Callable[[float, float | None, str], None]
    ) -> ToolResult:
        """Runs a tool; failure, also of the server, is a result. Only cancellation is raised."""
        begun = time.monotonic()

        async def progress(done: float, total: float | None, message: str | None) -> None:
            on_progress(done, total, message or "")

        def result(status: Status, text: str, structured: Any = None) -> ToolResult:
            seconds = round(time.monotonic() - begun, 3)
            return ToolResult(tool.server, tool.name, dict(arguments), status, text, seconds, structured)

        try:
            answer = await self.connections[tool.server].call(tool.name, arguments, progress)
        except ChatError as error:
            return result("failed", error.message)
        return result("failed" if answer.is_error else "completed", read_text(answer), answer.structured_content)


def read_text(answer: CallToolResult) -> str:
    """What the model reads of a result: its texts; other content is named, not pasted; else its structured content."""
    parts = [read_block(block) for block in answer.content]
    if not parts and answer.structured_content is not None:
        return json.dumps(answer.structured_content, ensure_ascii=False)
    return "\n".join(parts) or "(no content)"


def read_block(block: Any) -> str:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ResourceLink):
        return f"[resource {block.uri}]"
    if isinstance(block, EmbeddedResource):
        inner = block.resource
        return inner.text if isinstance(inner, TextResourceContents) else f"[resource {inner.uri}, not shown]"
    size = len(getattr(block, "data", "")) * 3 // 4
    return f"[{getattr(block, 'mime_type', type(block).__name__)}, {size} bytes, not shown]"
