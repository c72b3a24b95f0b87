"""Log in to an MCP server from the shell: `rkllm-chat mcp auth NAME`. The chat and scripts use the same login."""

from __future__ import annotations

from dataclasses import replace

from ..chat.elicitation import LoginPrompt
from ..config.loader import state_folder
from ..config.project_trust import TrustStore
from ..config.servers import ServerConfig
from ..core import i18n
from ..core.errors import UsageError
from ..core.sanitize import sanitize_for_terminal
from ..mcp_client.acceptance import check_start
from ..tui.external_programs import has_desktop, open_page
from .json_commands.terminal_forms import TerminalUser, has_terminal
from .process_end import run_interface


class _UserWithBrowser(TerminalUser):
    """The user at the terminal, who may have a browser on this machine."""

    @property
    def can_open_browser(self) -> bool:
        return has_desktop()

    async def open_page(self, url: str) -> None:
        await open_page(url)


def log_in(server: ServerConfig, is_forgotten: bool) -> int:
    """Log in to a server again, or delete its stored login. Raises ChatError."""
    if not server.url:
        raise UsageError(f'Server "{server.name}" is started by a command, so it has no login.', "Set its env instead.")
    if not is_forgotten and server.oauth.grant == "authorization_code" and not has_terminal():
        raise UsageError("A login needs a terminal, and standard input or error is not one.")
    expanded = check_start(TrustStore(str(state_folder())), server)
    return run_interface(_manage_login(replace(expanded, enabled=True), is_forgotten))


async def _manage_login(server: ServerConfig, is_forgotten: bool) -> int:
    from ..mcp_client.handlers import ClientHandlers
    from ..mcp_client.toolbox import Toolbox

    words = i18n.load()
    prompt = LoginPrompt(_UserWithBrowser(), words)
    handlers = ClientHandlers(log_in=prompt, agree_to_login=prompt.agree)
    toolbox, name = Toolbox([server], state_folder() / "logs", handlers), server.name
    try:
        if is_forgotten:
            ended = "login.forgotten" if await toolbox.forget_login(name) else "login.nothing"
        else:
            await toolbox.log_in(name)
            if error := toolbox.failures.get(name):
                raise error
            ended = "login.done" if toolbox.connections[name].lifecycle.login.has_token else "login.unasked"
    finally:
        await toolbox.aclose()
    print(sanitize_for_terminal(words(ended, server=name)))
    return 0
