"""A toolbox that hides tools the user switched off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.messages import Tool, ToolResult
from ..core.protocols import ProgressCallback, Toolbox


class FilteredToolbox:
    """The tools of another toolbox except those that are switched off.

    Attributes:
        toolbox: The complete toolbox.
        disabled: Full names of the tools that are switched off.
    """

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox
        self.disabled: set[str] = set()

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that are switched on."""
        return [tool for tool in self.toolbox.tools if tool.full_name not in self.disabled]

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> ToolResult:
        """Run a tool of the complete toolbox."""
        return await self.toolbox.call(tool, arguments, on_progress)
