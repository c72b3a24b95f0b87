"""The toolbox of a session without servers: importing the real one takes nearly a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..core.errors import ChatError
from ..core.messages import Tool, ToolResult
from ..core.protocols import ProgressCallback

if TYPE_CHECKING:
    from ..mcp_client.connection import Connection

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class NoServers:
    """No servers, with the members of `Toolbox` that are used without knowing a server."""

    tools: Sequence[Tool] = ()
    quarantined_tools: Sequence[Tool] = ()
    withholding_servers: Sequence[str] = ()
    subscriptions: Sequence[tuple[str, str]] = ()
    skills: Sequence[Any] = ()
    connections: Mapping[str, Connection] = _NOTHING
    failures: Mapping[str, ChatError] = _NOTHING

    async def call(self, tool: Tool, _arguments: Mapping[str, Any], _on_progress: ProgressCallback) -> ToolResult:
        """Raise KeyError: there are no tools."""
        raise KeyError(tool.full_name)

    def select_instructions(self, _by_default: bool = True) -> Mapping[str, str]:
        """Return nothing: no server has instructions."""
        return _NOTHING

    def list_nothing(self) -> list[Any]:
        """Return nothing: no sandbox has denied anything."""
        return []

    take_denials = find_fatal_denials = list_nothing

    async def find_nothing(self, _wanted: str | None = None) -> list[Any]:
        """Return nothing: no server has resources, prompts or skills."""
        return []

    list_resources = list_templates = list_prompts = find_skills = complete_uri = find_nothing

    async def read_skill(self, skill: Any, _path: str = "") -> str:
        """Raise KeyError: there are no skills."""
        raise KeyError(skill.name)

    async def aclose(self) -> None:
        """Close nothing."""
