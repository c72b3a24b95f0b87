"""The MCP servers of the API server, whose tools the model calls while it answers.

As in scripts there is nobody to ask: only servers that were approved start, and a call that needs approval is declined.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ..chat.server_approval import ServerApproval
from ..config.policy import find_ambiguous
from ..config.project_trust import list_refused
from ..config.secrets import add_server_secrets, add_settings_secrets
from ..config.settings import Settings
from ..core.messages import Tool, ToolResult
from ..core.protocols import ProgressCallback
from ..core.redact import Redactor
from ..mcp_client.handlers import ClientHandlers
from ..mcp_client.toolbox import Toolbox

log = logging.getLogger(__name__)


class RequestToolbox:
    """The tools of one request: those of its client, and those of the MCP servers.

    Attributes:
        servers: The MCP servers; None for none.
        client_tools: Tools that the client runs itself.
    """

    def __init__(self, client_tools: Sequence[Tool], servers: Toolbox | None) -> None:
        self.client_tools, self.servers = tuple(client_tools), servers

    @property
    def tools(self) -> Sequence[Tool]:
        return [*self.client_tools, *(self.servers.tools if self.servers else ())]

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> ToolResult:
        """Run a tool of the MCP servers; raise KeyError for one of the client."""
        if self.servers is None or tool in self.client_tools:
            raise KeyError(tool.full_name)
        return await self.servers.call(tool, arguments, on_progress)

    def get_quarantined(self) -> Sequence[Tool]:
        """Return the tools that are quarantined until the user accepts them."""
        return self.servers.quarantined_tools if self.servers else ()

    def select_instructions(self, by_default: bool) -> Mapping[str, str]:
        """Return what the servers say about their use, as `Toolbox.select_instructions`."""
        return self.servers.select_instructions(by_default) if self.servers else {}

    def find_folders(self) -> Mapping[str, tuple[str, ...]]:
        """Return the folders that the servers work in, as `Toolbox.find_folders`."""
        return self.servers.find_folders() if self.servers else {}


@asynccontextmanager
async def open_servers(settings: Settings, state: Path) -> AsyncIterator[Toolbox]:
    """Open the MCP servers of the settings and close them at the end; one that fails is logged.

    Requests wait until each has started or failed.

    Args:
        settings: Settings.
        state: Folder of the program's state: approvals and logs.
    """
    approval, secrets = ServerApproval(state), Redactor()
    add_settings_secrets(secrets, settings, os.environ)
    accepted = approval.filter_servers(settings.servers)
    for server in accepted:
        add_server_secrets(secrets, server)
    handlers = ClientHandlers(secrets=secrets, check_start=approval.check_start)
    toolbox = Toolbox(accepted, state / "logs", handlers)
    toolbox.refused = list_refused(settings.servers, accepted)
    try:
        await toolbox.open()
        for name, error in {**approval.find_refusals(settings.servers), **toolbox.failures}.items():
            log.warning("server '%s' is not used: %s", name, secrets.redact_error(error))
        for name in toolbox.withholding_servers:
            log.warning("server '%s' has changed: run rkllm-chat mcp trust %s to see what is withheld", name, name)
        for pattern, names in find_ambiguous(settings.policy.allow, toolbox.tools).items():
            log.warning("allow pattern '%s' may mean several servers and is not applied: %s", pattern, ", ".join(names))
        yield toolbox
    finally:
        await toolbox.aclose()
