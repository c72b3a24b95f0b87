"""What tests take for the tools of servers that others wrote is what those servers list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from many_tools import read_servers
from real.servers import npm, pypi, with_toolbox
from rkllm_chat.mcp_client.toolbox import Toolbox

pytestmark = pytest.mark.real

ARGUMENTS: dict[str, Sequence[str]] = {
    "filesystem": ["/tmp"],
    "memory": [],
    "everything": ["stdio"],
    "time": ["--local-timezone", "UTC"],
    "git": [],
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_server_lists_the_tools_that_are_written_down(name: str, tmp_path: Path) -> None:
    async def listed(toolbox: Toolbox) -> list[dict[str, Any]]:
        own = [tool for tool in toolbox.tools if tool.server == name]
        return [{"name": tool.name, "description": tool.description, "inputSchema": tool.schema} for tool in own]

    start = pypi if name in ("time", "git") else npm
    assert with_toolbox(start(name, *ARGUMENTS[name]), tmp_path, None, listed) == read_servers()[name]
