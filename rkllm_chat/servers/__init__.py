"""MCP servers: TRANSPORTS reach one, a connection owns one, a toolbox joins them all. They know no chat and no model.

The MCP SDK is imported when the first server is opened, because it costs 0.9 s (mcp 2.3.0, measured); so is `Toolbox`
here, which is all that a program of somebody else needs.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing costs 2 ms
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> Any:
    if name == "Toolbox":
        from .toolbox import Toolbox

        return Toolbox
    raise AttributeError(name)
