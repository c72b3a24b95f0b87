"""A toolbox some of whose tools are switched off: the model is not told of them. It asks nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .chat import Toolbox
from .messages import Tool, ToolResult
from .rounds import OnProgress


class Chosen:
    """`box` without the tools in `off`, by their full names."""

    def __init__(self, box: Toolbox) -> None:
        self.box = box
        self.off: set[str] = set()

    @property
    def tools(self) -> Sequence[Tool]:
        return [tool for tool in self.box.tools if tool.full_name not in self.off]

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: OnProgress) -> ToolResult:
        return await self.box.call(tool, arguments, on_progress)
