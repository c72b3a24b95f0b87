"""Receive change notifications of a server, by subscription (MCP 2026-07-28) or unsolicited (before)."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcp_types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .handlers import ChangeKind

_RENEW_S = 2.0
_ACKNOWLEDGE_S = 10.0

log = logging.getLogger(__name__)

OnChange = Callable[[ChangeKind, str], None]
"""Called with what changed, and the URI of a resource whose content changed, else ""."""

_KINDS = {
    ToolListChangedNotification: ChangeKind.TOOLS,
    ToolsListChanged: ChangeKind.TOOLS,
    ResourceListChangedNotification: ChangeKind.RESOURCES,
    ResourcesListChanged: ChangeKind.RESOURCES,
    PromptListChangedNotification: ChangeKind.PROMPTS,
    PromptsListChanged: ChangeKind.PROMPTS,
}


def identify_change(message: Any) -> tuple[ChangeKind, str] | None:
    """Return what a notification or subscription event says has changed, with its URI; None if it says nothing."""
    match message:
        case ResourceUpdatedNotification():
            return ChangeKind.RESOURCE_CONTENT, str(message.params.uri)
        case ResourceUpdated():
            return ChangeKind.RESOURCE_CONTENT, str(message.uri)
    kind = _KINDS.get(type(message))
    return (kind, "") if kind else None


class Subscriptions:
    """The subscriptions of one server; they outlive its restarts.

    Attributes:
        uris: Resources whose content is followed.
    """

    def __init__(self) -> None:
        self.uris: set[str] = set()
        self._changed = asyncio.Event()
        self._acknowledged = asyncio.Event()
        self._acknowledged_uris: frozenset[str] = frozenset()

    async def add(self, client: Client | None, uri: str) -> None:
        """Follow a resource, from now on if the server is open, else from its next start; not if it refuses.

        Raises:
            TimeoutError: The server has not acknowledged the subscription after 10 seconds.
        """
        self.uris.add(uri)
        try:
            if client and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                self._changed.set()
                with anyio.fail_after(_ACKNOWLEDGE_S):
                    while uri not in self._acknowledged_uris:  # an earlier change may be acknowledged first
                        self._acknowledged.clear()
                        await self._acknowledged.wait()
            elif client:
                await _subscribe(client, uri)
        except BaseException:
            self.uris.discard(uri)
            raise

    async def remove(self, client: Client | None, uri: str) -> None:
        """Follow a resource no more."""
        self.uris.discard(uri)
        if client and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._changed.set()
        elif client:
            with deprecated():
                await client.unsubscribe_resource(uri)

    async def restore(self, client: Client) -> None:
        """Subscribe to all resources after a start, but for those that the server refuses.

        From MCP 2026-07-28 on, `listen` does that.
        """
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            for uri in sorted(self.uris):
                try:
                    await _subscribe(client, uri)
                except MCPError as error:
                    if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                        raise
                    log.warning("a subscription ended, because the restarted server refuses it: %s: %s", uri, error)
                    self.uris.discard(uri)

    async def listen(self, client: Client, on_change: OnChange) -> None:
        """Keep a subscription open and renewed; return at once before MCP 2026-07-28, where none is needed."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        can = client.server_capabilities
        lists = {
            "tools_list_changed": bool(can.tools and can.tools.list_changed),
            "prompts_list_changed": bool(can.prompts and can.prompts.list_changed),
            "resources_list_changed": bool(can.resources and can.resources.list_changed),
        }
        while True:
            if not any(lists.values()) and not self.uris:
                await self._changed.wait()
            self._changed.clear()
            await self._listen_until_changed(client, on_change, lists)
            if not self._changed.is_set():
                await asyncio.sleep(_RENEW_S)

    async def _listen_until_changed(self, client: Client, on_change: OnChange, lists: dict[str, bool]) -> None:
        """Listen until a resource is added, or the server ends the stream and it is worth subscribing again."""
        listening = asyncio.create_task(self._listen_once(client, on_change, lists))
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait([listening, changed], return_when=asyncio.FIRST_COMPLETED)
            if listening.done() and not listening.result():
                await changed
        finally:
            for task in (listening, changed):
                task.cancel()
            await asyncio.gather(listening, changed, return_exceptions=True)

    async def _listen_once(self, client: Client, on_change: OnChange, lists: dict[str, bool]) -> bool:
        """Subscribe until the server ends the stream; return whether to subscribe again."""
        uris = frozenset(self.uris)
        try:
            async with client.listen(**lists, resource_subscriptions=sorted(uris)) as subscription:
                self._acknowledged_uris = uris
                self._acknowledged.set()
                on_change(ChangeKind.TOOLS, "")  # they may have changed between the listing and now
                async for event in subscription:
                    if change := identify_change(event):
                        on_change(*change)
        except SubscriptionLost:
            return True
        except Exception as error:  # a server that declares notifications but cannot send them is used without
            log.info("changes are not reported: %s", error)
            return False
        finally:
            self._acknowledged_uris = frozenset()
        return True


async def _subscribe(client: Client, uri: str) -> None:
    with deprecated():
        await client.subscribe_resource(uri)


@contextmanager
def deprecated() -> Iterator[None]:
    """Allow a request that is deprecated in MCP 2026-07-28, but required before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
