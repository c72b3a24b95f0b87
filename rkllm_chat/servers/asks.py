"""What a server may ask of its client, and who answers. A face gives the answers; without one, nothing is offered.

A capability is announced only where there is somebody to answer (MCP 2025-11-25, lifecycle).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..redact import Redactor

if TYPE_CHECKING:
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        CreateMessageResultWithTools,
        ElicitRequestParams,
        ElicitResult,
    )

Sample = Callable[
    [str, "CreateMessageRequestParams"], Awaitable["CreateMessageResult | CreateMessageResultWithTools | None"]
]
Elicit = Callable[[str, "ElicitRequestParams"], Awaitable["ElicitResult"]]
LogIn = Callable[[str, str, str], Awaitable[str]]


def ignore(*_: Any) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class Asks:
    """`sample` answers with the chat's own model, None declines. `elicit` fills a form or shows a URL.

    `roots` are the folders a server may be told of. `on_log`: server, level ("warning" and above), text.
    `on_change`: server, and what changed: "tools", "resources", "prompts", "gone", "open", "bare" (it runs
    without a sandbox, since there can be none), "held" (tools that the user has to accept first), or the URI of a
    resource that was subscribed to.

    `log_in`: server, the URL to visit, and why: "first", "again" (the last login is over), "more" (it allows too
    little), "damaged" (what was kept of it), "unusable" (what was given last time). It gives the address where the
    visit ended, or "" to give up; it is cancelled once the browser has come by itself. One login is open at a time,
    and for `login_s` seconds. `secrets` learns those of the servers and their logins.
    """

    sample: Sample | None = None
    elicit: Elicit | None = None
    roots: tuple[Path, ...] = ()
    on_log: Callable[[str, str, str], None] = ignore
    on_change: Callable[[str, str], None] = ignore
    log_in: LogIn | None = None
    login_s: float = 300.0
    secrets: Redactor = field(default_factory=Redactor, compare=False)
    one_login: asyncio.Lock = field(default_factory=asyncio.Lock, compare=False)
