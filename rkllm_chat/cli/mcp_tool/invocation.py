"""State of one run of `mcp-tool`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..json_commands.invocation import Invocation

if TYPE_CHECKING:
    from ...config.settings import ServerConfig
    from ...mcp_client.direct.open_server import ServerSession


class ToolInvocation(Invocation):
    """State of one run of `mcp-tool`.

    Attributes:
        other_sessions: Open servers besides `opened`, when all servers are listed.
        selected_servers: Each selected server, and as its file defines it, by name.
        listed_servers: Each server that was listed, as its file defines it, and its tools, for the completion cache.
        error_lines: Error messages for standard error, with secrets hidden.
    """

    def __init__(self) -> None:
        super().__init__()
        self.other_sessions: list[ServerSession] = []
        self.listed_servers: list[tuple[ServerConfig, list[dict[str, Any]]]] = []
        self.selected_servers: dict[str, tuple[ServerConfig, ServerConfig]] = {}
        self.error_lines: list[str] = []

    def select_server(self, server: ServerConfig, written: ServerConfig) -> None:
        """Use a server and remember its secrets."""
        super().select_server(server, written)
        self.selected_servers[server.name] = server, written

    def hide_secrets(self, value: Any, server: str | None) -> Any:
        """Hide the secrets of a server in a JSON value, or those of all servers if it is None or not selected."""
        from ...config.secrets import make_redactor
        from ...core.redact import Redactor

        names = [server] if server in self.selected_servers else self.selected_servers
        value = Redactor().redact_all(value) if not names else value
        for name in names:
            value = make_redactor(*self.selected_servers[name], os.environ).redact_all(value)
        return value
