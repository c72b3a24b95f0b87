"""The MCP client: `Toolbox` joins the configured servers, one `Connection` per server, transports to reach them.

Independent of conversations and models. `Toolbox`, the only name that other programs need, is imported on first use,
which takes 0.1 s. The MCP SDK (0.5 s) is imported for logins and for servers in this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .toolbox import Toolbox

__all__ = ["Toolbox"]


def __getattr__(name: str) -> Any:
    if name == "Toolbox":
        from .toolbox import Toolbox

        return Toolbox
    raise AttributeError(name)
