"""A toolbox with a tool of our own, which is answered here. It asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .messages import Tool, ToolResult
from .rounds import OnProgress

if TYPE_CHECKING:
    from .chat import Toolbox


@dataclass(frozen=True)
class WithOurs:
    """`box` and one `tool` more, whose calls `answer` takes. A session that is played again has its own results."""

    box: Toolbox
    tool: Tool
    answer: Callable[[Mapping[str, Any]], ToolResult]

    @property
    def tools(self) -> Sequence[Tool]:
        known = self.box.tools
        return known if self.tool in known else [*known, self.tool]

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: OnProgress) -> ToolResult:
        if tool != self.tool or self.tool in self.box.tools:
            return await self.box.call(tool, arguments, on_progress)
        return self.answer(arguments)
