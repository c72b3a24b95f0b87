"""A toolbox that hides tools the user switched off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..config.policy import OfferedTools
from ..core.messages import Tool, ToolResult
from ..core.protocols import CallableTools, ProgressCallback
from .skills import SKILL_TOOL_NAME, SkillLibrary


class FilteredToolbox:
    """The tools of another toolbox except those that are switched off.

    Attributes:
        toolbox: The complete toolbox.
        skills: The skills, whose tool is one of the tools.
        disabled: Full names of the tools that are switched off.
    """

    def __init__(self, toolbox: CallableTools, skills: SkillLibrary) -> None:
        self.toolbox, self.skills = toolbox, skills
        self.disabled: set[str] = set()

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that are switched on."""
        offered = OfferedTools(self.toolbox.tools)
        tools = [*offered, *self.skills.tools]
        off = [tool for tool in tools if tool.full_name in self.disabled]
        return OfferedTools((tool for tool in tools if tool not in off), (*offered.withheld, *off), offered.silent)

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> ToolResult:
        """Run a tool of the complete toolbox, or read a skill."""
        if not tool.server and tool.name == SKILL_TOOL_NAME:
            return await self.skills.call(arguments)
        return await self.toolbox.call(tool, arguments, on_progress)
