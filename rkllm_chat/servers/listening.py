"""Hears from a server that its lists changed, in both eras of the protocol. It does not know what is done then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mcp import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import (
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

AGAIN_S = 2.0

log = logging.getLogger(__name__)

Heard = Callable[[str], None]


def name_change(message: Any) -> str:
    """What a notification says has changed: "tools", "resources", "prompts", a URI, or "" for anything else."""
    match message:
        case ToolListChangedNotification():
            return "tools"
        case ResourceListChangedNotification():
            return "resources"
        case PromptListChangedNotification():
            return "prompts"
        case ResourceUpdatedNotification():
            return str(message.params.uri)
        case _:
            return ""


@dataclass
class Followed:
    """The resources whose changes are wanted. `changed`: there is one more; `acknowledged`: the server knows."""

    uris: set[str] = field(default_factory=set[str])
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    acknowledged: asyncio.Event = field(default_factory=asyncio.Event)


async def listen(client: Client, heard: Heard, followed: Followed) -> None:
    """Keeps a subscription open where the protocol wants one (2026-07-28); older servers tell without being asked."""
    can = client.server_capabilities
    wants = {
        "tools_list_changed": bool(can.tools and can.tools.list_changed),
        "prompts_list_changed": bool(can.prompts and can.prompts.list_changed),
        "resources_list_changed": bool(can.resources and can.resources.list_changed),
    }
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return
    while True:
        if not any(wants.values()) and not followed.uris:
            await followed.changed.wait()
        followed.changed.clear()
        one = asyncio.create_task(listen_once(client, heard, followed, wants))
        again = asyncio.create_task(followed.changed.wait())
        try:
            await asyncio.wait([one, again], return_when=asyncio.FIRST_COMPLETED)
            if one.done() and not one.result():
                await again
        finally:
            for task in (one, again):
                task.cancel()
            await asyncio.gather(one, again, return_exceptions=True)
        if not followed.changed.is_set():
            await asyncio.sleep(AGAIN_S)


async def listen_once(client: Client, heard: Heard, followed: Followed, wants: dict[str, bool]) -> bool:
    """One subscription to its end; says whether another is worth while."""
    try:
        async with client.listen(**wants, resource_subscriptions=[*followed.uris]) as subscription:
            followed.acknowledged.set()
            heard("tools")  # what changed between the listing and now
            async for event in subscription:
                heard(name_event(event))
    except SubscriptionLost:
        return True
    except Exception as error:  # a server that offers changes and cannot tell them is used without
        log.info("no news of changes: %s", error)
        return False
    return True


def name_event(event: Any) -> str:
    """The same for an event of a subscription: ToolsListChanged and its like, or ResourceUpdated with a URI."""
    kind = type(event).__name__
    uri = getattr(event, "uri", "")
    return str(uri) or next(
        (word for word in ("tools", "prompts", "resources") if kind.lower().startswith(word[:-1])), ""
    )
