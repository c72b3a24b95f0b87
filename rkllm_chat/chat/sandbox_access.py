"""Ask about what sandboxes have denied, and allow servers more from then on."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..config.project_trust import needs_acceptance
from ..config.sandbox_rules import Allowance, find_allowance, save_allowance
from ..config.servers import ServerConfig
from ..core.errors import ChatError, UsageError
from ..core.i18n import Words
from ..core.protocols import Notify
from ..core.sanitize import escape_line_visibly
from ..mcp_client.acceptance import may_start
from .elicitation import UserPrompts
from .server_approval import ServerApproval

if TYPE_CHECKING:
    from ..mcp_client.process.denials import Denial
    from ..mcp_client.toolbox import Toolbox


class SandboxAccess:
    """Asks about what sandboxes have denied, each folder once in a session, and stores what the user allows.

    Args:
        approval: Approval of server starts, which what is allowed becomes a part of.
        user: The user; None without a front end, which is then told and not asked.
        notify: Shows a message to the user.
        words: Sentences in the user's language.
        get_toolbox: Returns the current connections.
        get_servers: Returns the configured servers.
    """

    def __init__(
        self,
        approval: ServerApproval,
        user: UserPrompts | None,
        notify: Notify,
        words: Words,
        get_toolbox: Callable[[], Toolbox],
        get_servers: Callable[[], Sequence[ServerConfig]],
    ) -> None:
        self._approval, self._user, self._notify, self._words = approval, user, notify, words
        self._get_toolbox, self._get_servers = get_toolbox, get_servers
        self._declined: set[tuple[str, str]] = set()

    async def offer(self) -> frozenset[str]:
        """Offer what the sandboxes have denied since the last time; return the servers that may do more now.

        A denial that cannot be offered, because there is no user or approval alone does not lift it, is reported once.
        """
        toolbox = self._get_toolbox()
        offers: dict[tuple[str, str], None] = {}
        for denial in toolbox.take_denials():
            if self._user is None or not denial.may_offer:
                self._explain(denial)
            else:
                offers[denial.server, denial.folder] = None
        fatal = toolbox.find_fatal_denials() if self._user else []
        allowed = [server for server, folder in dict.fromkeys([*offers, *fatal]) if await self._ask(server, folder)]
        return frozenset(allowed)

    def _explain(self, denial: Denial) -> None:
        """Say which setting would allow what was denied."""
        if (denial.server, denial.folder) not in self._declined:
            self._declined.add((denial.server, denial.folder))
            key = "advise_network" if denial.is_network else "advise_write"
            values = {"server": denial.server, "file": denial.source, "writes": denial.writes}
            self._notify(self._words(f"sandbox.{key}", **values), "warning")

    async def _ask(self, server: str, folder: str) -> bool:
        """Ask once whether a server may write a folder, or without one use the network; return whether it may now."""
        user, words = self._user, self._words
        if user is None or (server, folder) in self._declined:
            return False
        key = "offer_write" if folder else "offer_network"
        if not await user.confirm(words(f"sandbox.{key}", server=server, path=escape_line_visibly(folder))):
            self._declined.add((server, folder))
            what = f"write {shlex.quote(folder)}" if folder else "network"
            self._notify(words("sandbox.later", server=server, what=what))
            return False
        try:
            await self.allow(server, folder)
        except ChatError as error:
            self._notify(str(error))
            return False
        key = "may_write" if folder else "may_connect"
        self._notify(words(f"sandbox.{key}", server=server, path=folder))
        return True

    async def allow(self, name: str, folder: str = "") -> None:
        """Allow a server to write a folder from now on, or without one to use the network, and restart it.

        Raises:
            UsageError: The server is not open or has no sandbox, or the folder may not be made writable.
            ConfigError: The user's rules cannot be read or written.
        """
        from ..mcp_client.process.denials import explain_refusal

        self._check_sandbox(name)
        if folder and (reason := explain_refusal(folder)):
            text = f"{folder} cannot be made writable for a server: {reason}."
            raise UsageError(text, "Name a folder for this purpose alone, or set write in the server's entry.")
        allowed = find_allowance(self._find_server(name))
        write = tuple(dict.fromkeys((*allowed.write, *([folder] if folder else []))))
        await self._change(name, Allowance(allowed.server, allowed.file, write, allowed.network or not folder))

    async def reset(self, name: str) -> None:
        """Take back all that the user has allowed a server, and restart it. Raises ChatError."""
        self._check_sandbox(name)
        allowed = find_allowance(self._find_server(name))
        await self._change(name, Allowance(allowed.server, allowed.file))

    def list_allowed(self, name: str) -> Allowance:
        """Return what the user has allowed a server. Raises ChatError."""
        return find_allowance(self._find_server(name))

    async def _change(self, name: str, allowance: Allowance) -> None:
        """Store what a server is allowed. A server that the user has accepted is accepted with it."""
        server, toolbox = self._find_server(name), self._check_sandbox(name)
        # asked before the allowance is stored, which changes what the user accepted
        is_accepted = needs_acceptance(server) and may_start(self._approval.trust_store, server)
        save_allowance(server, allowance)
        if is_accepted:
            self._approval.accept_server(server)
        await toolbox.restart(name)

    def _check_sandbox(self, name: str) -> Toolbox:
        """Return the connections; raise UsageError if the server does not run in a sandbox."""
        toolbox = self._get_toolbox()
        connection = toolbox.connections.get(name)
        sandbox = connection.sandbox if connection else None
        if sandbox is None or sandbox.unavailable_reason:
            text = f'Server "{name}" does not run in a sandbox.'
            raise UsageError(text, "/mcp status shows what each server may do.")
        return toolbox

    def _find_server(self, name: str) -> ServerConfig:
        return next(server for server in self._get_servers() if server.name == name)
