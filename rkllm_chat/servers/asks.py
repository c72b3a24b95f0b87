"""What a server may ask of its client, and who answers. A face gives the answers; without one, nothing is offered.

A capability is announced only where there is somebody to answer (MCP 2025-11-25, lifecycle).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def ignore(*_: Any) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class Asks:
    """`sample` answers with the chat's own model, None declines. `elicit` fills a form or shows a URL.

    `roots` are the folders a server may be told of. `on_log`: server, level, text. `on_change`: server, and what
    changed: "tools", "resources", "prompts", "gone", "open", or the URI of a resource that was subscribed to.
    """

    sample: Sample | None = None
    elicit: Elicit | None = None
    roots: tuple[Path, ...] = ()
    on_log: Callable[[str, str, str], None] = ignore
    on_change: Callable[[str, str], None] = ignore
