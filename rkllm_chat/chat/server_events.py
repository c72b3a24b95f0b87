"""Tell the user what changes at running servers and what they log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..config.settings import Settings
from ..core.events import Notice, NoticeLevel
from ..core.i18n import Words
from ..core.programs import find_installed
from ..core.protocols import Notify
from ..core.sanitize import escape_line_visibly
from ..mcp_client.handlers import ChangeKind, ServerChange
from ..mcp_client.process.start import IS_MACOS
from ..mcp_client.protocol.cut_result import describe_size
from ..mcp_client.protocol.limits import MAX_TOOLS

SERVER_START_WAIT_S = 5.0
"""Seconds that an interactive session waits for its servers; later ones are announced when they are ready."""

MESSAGE_WAIT_S = 60.0
"""Seconds that a message waits at most for servers that are starting."""

_MAX_ANNOUNCED = 5
_SILENCE_S = 2.0
_MAX_SILENCED = 20
"""Resources that are announced within 2 seconds; changes of more are not."""
_LOG_LEVELS: Mapping[str, NoticeLevel] = {"debug": "info", "info": "info", "notice": "info", "warning": "warning"}
"""Levels of servers (RFC 5424) below the errors."""
_CHANGE_KEYS = {
    ChangeKind.GONE: "servers.gone",
    ChangeKind.FAILED: "servers.failed",
    ChangeKind.QUARANTINED: "servers.held",
}


@dataclass(frozen=True)
class ServerWait(Notice):
    """A message waits for servers that are starting.

    Attributes:
        servers: Their names.
        send_now: Sends the message without them.
    """

    servers: str = ""
    send_now: Callable[[], None] = lambda: None


def count_servers(servers: Sequence[str]) -> dict[str, object]:
    """Return the placeholders of a message about servers: their number, and their names in quotes."""
    return {"count": len(servers), "servers": ", ".join(f"'{server}'" for server in servers)}


class ServerEvents:
    """Reports changes and log messages of servers to the user.

    Args:
        settings: The settings, with the servers that are to open.
        words: Sentences in the user's language.
        notify: Shows a message to the user.
        is_interactive: Whether there is a user.
        on_tools_changed: Called when the tools may have changed.
        get_starting: Returns the servers that are still starting.
        get_subscriptions: Returns the (server, URI) pairs whose changes the user asked to hear of.
    """

    def __init__(
        self,
        settings: Settings,
        words: Words,
        notify: Notify,
        is_interactive: bool,
        on_tools_changed: Callable[[], object],
        get_starting: Callable[[], Sequence[str]],
        get_subscriptions: Callable[[], Sequence[tuple[str, str]]],
    ) -> None:
        self._notify, self._on_tools_changed = notify, on_tools_changed
        self._get_starting, self._get_subscriptions = get_starting, get_subscriptions
        self._opened: list[str] = []
        self._silenced: dict[tuple[str, str], bool] = {}
        self._words, self._is_interactive = words, is_interactive
        self._started_at = time.monotonic()
        # servers that are announced when they open; excludes those that the user opens later
        self._unopened = {server.name for server in settings.servers if server.enabled}
        self._has_warned_unsandboxed = False

    def on_change(self, change: ServerChange) -> None:
        """Handle a change of a server."""
        if change.kind is ChangeKind.UNSANDBOXED and not self._has_warned_unsandboxed:
            self._has_warned_unsandboxed = True
            key = "bare_macos" if IS_MACOS else "bare_blocked" if find_installed("bwrap") else "bare"
            self._notify(self._words(f"servers.{key}", reason=change.error), "warning")
        if change.kind is ChangeKind.RESOURCE_CONTENT and self._is_followed(change):
            self._announce_content(change.server, change.uri)
        if change.kind is ChangeKind.INCOMPLETE:
            self._announce_left_out(change)
        if self._is_interactive and change.kind in (ChangeKind.OPENED, *_CHANGE_KEYS):
            self._announce(change)
        if change.kind in (ChangeKind.OPENED, ChangeKind.GONE, ChangeKind.TOOLS):
            self._on_tools_changed()

    def _is_followed(self, change: ServerChange) -> bool:
        """Whether the user follows the resource, or one that it is a part of (MCP 2025-11-25, resources)."""
        return any(
            change.server == server and (change.uri == uri or change.uri.startswith(f"{uri.rstrip('/')}/"))
            for server, uri in self._get_subscriptions()
        )

    def _announce_content(self, server: str, uri: str) -> None:
        """Announce that a resource has changed; further changes within 2 seconds are announced once, after them."""
        key = server, uri
        if key in self._silenced:
            self._silenced[key] = True
            return
        if len(self._silenced) >= _MAX_SILENCED:
            return
        self._silenced[key] = False
        self._notify(self._words("resources.changed", server=server, uri=escape_line_visibly(uri)))

        def end_silence() -> None:
            if self._silenced.pop(key):
                self._announce_content(server, uri)

        asyncio.get_running_loop().call_later(_SILENCE_S, end_silence)

    def _announce_left_out(self, change: ServerChange) -> None:
        """Announce what of a server's lists cannot be used."""
        words, server = self._words, change.server
        if change.list_fault:
            self._notify(words("servers.no_list", server=server, fault=change.list_fault), "warning")
        if change.listed_tools > MAX_TOOLS:
            self._notify(words("servers.crowd", server=server, count=change.listed_tools, limit=MAX_TOOLS), "warning")
        if change.cut:
            what, count = change.cut
            self._notify(words("servers.cut", server=server, what=what, count=count), "warning")
        if change.cut_result:
            tool, size = change.cut_result
            self._notify(words("servers.cut_result", server=server, tool=tool, size=describe_size(size)), "warning")
        for tool, fault in list(change.output_faults.items())[:_MAX_ANNOUNCED]:
            self._notify(words("servers.output_fault", server=server, tool=tool, fault=fault))
        for tool, why in list(change.left_out.items())[:_MAX_ANNOUNCED]:
            self._notify(words("servers.hidden", server=server, tool=tool, reason=words(f"hidden.{why}")))
        if (more := len(change.left_out) - _MAX_ANNOUNCED) > 0:
            self._notify(words("servers.more_hidden", server=server, count=more))

    def on_log(self, server: str, level: str, text: str) -> None:
        """Show a log message of a server."""
        self._notify(self._words("servers.log", server=server, level=level, text=text), _LOG_LEVELS.get(level, "error"))

    def _announce(self, change: ServerChange) -> None:
        """Announce quarantined tools, and servers that open or fail late, exit, or return.

        Those that open are announced together, when no other is starting.
        """
        is_late = time.monotonic() - self._started_at > SERVER_START_WAIT_S
        is_news = change.kind is ChangeKind.QUARANTINED
        if change.kind is ChangeKind.GONE:
            self._unopened.add(change.server)
            is_news = is_late
        elif change.kind in (ChangeKind.OPENED, ChangeKind.FAILED) and change.server in self._unopened:
            self._unopened.discard(change.server)
            is_news = is_late
        if is_news and change.kind is ChangeKind.OPENED:
            self._opened.append(change.server)
        elif is_news:
            level: NoticeLevel = "error" if change.kind is ChangeKind.FAILED else "warning"
            self._notify(self._words(_CHANGE_KEYS[change.kind], server=change.server, error=change.error), level)
        if self._opened and not self._get_starting():
            self._notify(self._words("servers.open", **count_servers(self._opened)))
            self._opened.clear()
