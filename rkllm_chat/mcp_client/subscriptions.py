"""Receive change notifications of a server, by subscription (MCP 2026-07-28) or unsolicited (before)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import anyio

from .handlers import ChangeKind, OnChange, identify_change
from .transports.driver import AnswerError

if TYPE_CHECKING:
    from .client import Client

_RENEW_S = 2.0
_ACKNOWLEDGE_S = 10.0

log = logging.getLogger(__name__)


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
            if client and client.is_stateless:
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
        if client and client.is_stateless:
            self._changed.set()
        elif client:
            await client.request("resources/unsubscribe", {"uri": uri}, _ACKNOWLEDGE_S)

    async def restore(self, client: Client) -> None:
        """Subscribe to all resources after a start, but for those that the server refuses.

        From MCP 2026-07-28 on, `listen` does that.
        """
        if not client.is_stateless:
            for uri in sorted(self.uris):
                try:
                    await _subscribe(client, uri)
                except AnswerError as error:
                    log.warning("a subscription ended, because the restarted server refuses it: %s: %s", uri, error)
                    self.uris.discard(uri)

    async def listen(self, client: Client, on_change: OnChange) -> None:
        """Keep a subscription open and renewed; return at once before MCP 2026-07-28, where none is needed."""
        if not client.is_stateless:
            return
        kinds = ("tools", "prompts", "resources")
        lists = {f"{kind}ListChanged": True for kind in kinds if client.declares(kind, "listChanged")}
        while True:
            if not lists and not self.uris:
                await self._changed.wait()
            self._changed.clear()
            await self._listen_until_changed(client, on_change, lists)
            if not self._changed.is_set():
                await asyncio.sleep(_RENEW_S)

    async def _listen_until_changed(self, client: Client, on_change: OnChange, lists: dict[str, Any]) -> None:
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

    async def _listen_once(self, client: Client, on_change: OnChange, lists: dict[str, Any]) -> bool:
        """Subscribe until the server ends the stream; return whether to subscribe again."""
        uris = frozenset(self.uris)
        is_acknowledged = False

        def handle(method: str, params: dict[str, Any]) -> None:
            nonlocal is_acknowledged
            if change := identify_change(method, params):
                on_change(*change)
            elif not is_acknowledged:
                is_acknowledged, self._acknowledged_uris = True, uris
                self._acknowledged.set()
                on_change(ChangeKind.TOOLS, "")  # they may have changed between the listing and now

        wanted = {**lists, "resourceSubscriptions": sorted(uris)} if uris else lists
        try:
            await client.listen(wanted, handle, _ACKNOWLEDGE_S)
        except Exception as error:  # a server that declares notifications but cannot send them is used without
            log.info("changes are not reported: %s", error)
            return is_acknowledged
        finally:
            self._acknowledged_uris = frozenset()
        return True


async def _subscribe(client: Client, uri: str) -> None:
    await client.request("resources/subscribe", {"uri": uri}, _ACKNOWLEDGE_S)
