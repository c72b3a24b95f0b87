"""A terminal chat with an on-device model that calls MCP tools, and its parts as a library.

Importing the package imports nothing else; the names of `__all__` are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.version import __version__

if TYPE_CHECKING:
    from .calls.tool_call_scanner import ToolCallScanner
    from .chat.library import Chat, Reply, SyncChat, load_backend
    from .config.servers import ServerConfig
    from .mcp_client.library import (
        MCPClient,
        MCPConnectionError,
        MCPException,
        MCPTimeoutError,
        MCPToolError,
        ServerHealth,
        SyncMCPClient,
        ToolContent,
    )
    from .prompt.library import render_prompt

__all__ = [
    "Chat",
    "MCPClient",
    "MCPConnectionError",
    "MCPException",
    "MCPTimeoutError",
    "MCPToolError",
    "Reply",
    "ServerConfig",
    "ServerHealth",
    "SyncChat",
    "SyncMCPClient",
    "ToolCallScanner",
    "ToolContent",
    "__version__",
    "load_backend",
    "render_prompt",
]

_PORTABLE = {"ToolCallScanner": ".calls.tool_call_scanner", "render_prompt": ".prompt.library"}
_MODULES = {
    **_PORTABLE,
    "ServerConfig": ".config.servers",
    **dict.fromkeys(("Chat", "Reply", "SyncChat", "load_backend"), ".chat.library"),
}
_OTHER_NAMES = ".mcp_client.library"


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import sys
    from importlib import import_module

    if sys.platform == "win32" and name not in _PORTABLE:
        from .core.windows import WINDOWS_NOTICE

        raise ImportError(f"{name}: {WINDOWS_NOTICE}")
    return getattr(import_module(_MODULES.get(name, _OTHER_NAMES), __name__), name)
