"""Keeps an eye on an open server that nobody uses: does it still answer, and is it needed? It ends none itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import mcp.client.session
from mcp import Client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .trouble import first_leaf, is_late

DISCOVER_S = 2.0
# a server of the older protocol may be silent on the first question of the newer; the SDK waits ten seconds (2.3.0)
mcp.client.session.DISCOVER_TIMEOUT_SECONDS = DISCOVER_S
MOST_MISSES = 2


class Use:
    """Whether anybody uses a server, and since when nobody does."""

    def __init__(self) -> None:
        self._under_way = 0
        self._left = time.monotonic()

    def begin_anew(self) -> None:
        """Counts from now: before, there was nothing to use."""
        self._left = time.monotonic()

    @contextmanager
    def during(self) -> Iterator[None]:
        """It is in use as long as this lasts."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._left = time.monotonic()

    @property
    def idle_s(self) -> float:
        return 0.0 if self._under_way else time.monotonic() - self._left


async def wait_until_silent(client: Client, use: Use, ping_s: float) -> None:
    """Returns when an idle server, asked every `ping_s` seconds, has not answered MOST_MISSES times in a row.

    With 0 it is never asked. A question costs this side 0.2 ms of CPU (measured over stdio, mcp 2.3.0).
    """
    misses = 0
    while misses < MOST_MISSES:
        await sleep_or_stay(ping_s)
        missed = use.idle_s >= ping_s and not await is_alive(client, min(ping_s, DISCOVER_S))
        misses = misses + 1 if missed else 0


async def wait_until_idle(use: Use, limit_s: float) -> None:
    """Returns when nobody has used the server for so long; with 0 never."""
    while not limit_s or use.idle_s < limit_s:
        await sleep_or_stay(limit_s and limit_s - use.idle_s)


async def sleep_or_stay(wait_s: float) -> None:
    """Sleeps so many seconds; with 0 for ever."""
    await (asyncio.sleep(wait_s) if wait_s else asyncio.Event().wait())


async def is_alive(client: Client, limit_s: float = DISCOVER_S) -> bool:
    """Whether a server answers anything at all, were it an error. 2026-07-28 has no ping; it has `server/discover`."""
    try:
        with anyio.fail_after(limit_s):
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                await client.session.send_discover(client.protocol_version)
            else:
                await client.session.send_ping()
    except Exception as error:
        return not is_late(first_leaf(error))
    return True
