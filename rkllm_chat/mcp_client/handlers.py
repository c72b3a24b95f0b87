"""Handlers for what a server requests of its client; the front end provides them.

A capability is declared only if there is a handler for it (MCP 2025-11-25, lifecycle).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..config.settings import ServerConfig
from ..core.redact import Redactor
from .roots import find_roots

if TYPE_CHECKING:
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        CreateMessageResultWithTools,
        ElicitRequestParams,
        ElicitResult,
    )

    from ..storage.media import MediaStore

SampleHandler = Callable[
    [str, "CreateMessageRequestParams"], Awaitable["CreateMessageResult | CreateMessageResultWithTools | None"]
]
ElicitHandler = Callable[[str, "ElicitRequestParams"], Awaitable["ElicitResult"]]
LoginReason = Literal["first", "again", "more", "damaged", "unusable"]
"""Why a login is needed: the first one, the last one has expired, it grants too little, the stored one is damaged, or
the address that the user pasted is unusable."""
LogInHandler = Callable[[str, str, LoginReason], Awaitable[str]]


def ignore(*_: Any) -> None:
    """Do nothing; the default of optional callbacks."""


class ChangeKind(Enum):
    """What changed at a server."""

    OPENED = "opened"
    GONE = "gone"
    FAILED = "failed"
    """It could not be started."""
    UNSANDBOXED = "unsandboxed"
    """It runs without a sandbox because there can be none."""
    TOOLS = "tools"
    QUARANTINED = "quarantined"
    """It has tools that the user must accept first."""
    INCOMPLETE = "incomplete"
    """Some of its tools cannot be used."""
    RESOURCES = "resources"
    PROMPTS = "prompts"
    RESOURCE_CONTENT = "resource content"
    """The content of a subscribed resource."""


OnChange = Callable[[ChangeKind, str], None]
"""Called with what changed, and the URI of a resource whose content changed, else ""."""
_CHANGES = {
    "notifications/tools/list_changed": ChangeKind.TOOLS,
    "notifications/resources/list_changed": ChangeKind.RESOURCES,
    "notifications/prompts/list_changed": ChangeKind.PROMPTS,
    "notifications/resources/updated": ChangeKind.RESOURCE_CONTENT,
}


def identify_change(method: str, params: Mapping[str, Any]) -> tuple[ChangeKind, str] | None:
    """Return what a notification says has changed, with its URI; None if it says nothing."""
    kind, uri = _CHANGES.get(method), params.get("uri", "")
    is_named = isinstance(uri, str) and (uri or kind is not ChangeKind.RESOURCE_CONTENT)
    return (kind, uri if kind is ChangeKind.RESOURCE_CONTENT else "") if kind and is_named else None


@dataclass(frozen=True)
class ServerChange:
    """A change at a server.

    Attributes:
        server: The server's name.
        kind: What changed.
        uri: The resource, for RESOURCE_CONTENT.
        left_out: Tools that cannot be used, with the reason, a key of the language table "hidden".
        list_fault: Why its list of tools is unusable, or "".
        listed_tools: Number of tools that it lists.
        cut: What of its lists was not read to the end, such as "tools", and how many entries were; None if nothing.
        output_faults: Tools whose output schema is not checked in full, with the reason.
        cut_result: A tool whose result was cut, and its size in bytes; None if none.
        error: Why it could not be started, for FAILED; why there is no sandbox, for UNSANDBOXED.
    """

    server: str
    kind: ChangeKind
    uri: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    list_fault: str = ""
    listed_tools: int = 0
    error: str = ""
    cut: tuple[str, int] | None = None
    output_faults: Mapping[str, str] = field(default_factory=dict[str, str])
    cut_result: tuple[str, int] | None = None


@dataclass(frozen=True)
class ClientHandlers:
    """Handlers of server requests and notifications.

    Attributes:
        sample: Answers a sampling request with the conversation's model; None means declined.
        elicit: Fills in a form or shows a URL.
        roots: Folders to announce as MCP roots to every server that has no setting of its own.
        on_log: Called with server, level ("warning" and above) and text.
        on_change: Called with each change at a server.
        log_in: Called with server, URL to visit and reason. Returns the address where the visit ended, or "" to cancel.
            It is cancelled itself when the browser reaches the redirect address.
        agree_to_login: Asks whether to log in, with server and the address that requests go to.
        login_s: Limit of one login in seconds.
        secrets: Learns the secrets of the servers and their logins, to mask them.
        login_lock: Lock that keeps one login open at a time.
        check_start: Called with a server before each start; raises ConfigError if the user has not accepted it as it is
            now. What a link leads to may have changed since the last start.
        default_root: Without `roots`, the folder to announce to a program on this machine whose arguments name none,
            unless it has much other content, as a home folder has. Without it, only a server's own setting counts.
        media_store: Stores pictures, sounds and blobs of results; without it only placeholders are left of them.
    """

    sample: SampleHandler | None = None
    elicit: ElicitHandler | None = None
    roots: tuple[Path, ...] = ()
    on_log: Callable[[str, str, str], None] = ignore
    on_change: Callable[[ServerChange], None] = ignore
    log_in: LogInHandler | None = None
    agree_to_login: Callable[[str, str], Awaitable[bool]] | None = None
    login_s: float = 300.0
    secrets: Redactor = field(default_factory=Redactor, compare=False)
    login_lock: asyncio.Lock = field(default_factory=asyncio.Lock, compare=False)
    check_start: Callable[[ServerConfig], None] = ignore
    default_root: Path | None = None
    media_store: MediaStore | None = None

    def find_roots(self, server: ServerConfig) -> tuple[Path, ...]:
        """Return the folders to announce to a server as MCP roots (see `mcp_client.roots`)."""
        if server.roots is None and (self.roots or self.default_root is None):
            return self.roots
        return tuple(map(Path, find_roots(server, str(self.default_root or ""))))

    def find_offers(self, server: ServerConfig) -> list[str]:
        """Return what is offered to a server, with the names of MCP's client capabilities."""
        offers = {"elicitation": self.elicit, "roots": self.find_roots(server), "sampling": self.sample}
        return [name for name, handler in offers.items() if handler]
