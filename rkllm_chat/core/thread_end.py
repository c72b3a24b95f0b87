"""Run what blocks on a thread whose end is awaited, also by a caller that is cancelled.

`asyncio.to_thread` gives up the wait when its caller is cancelled, and the thread goes on with what others close or use
next: a model in native code crashes then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def wait_for_end(running: asyncio.Future[Any]) -> None:
    """Wait until a future is done. Cancellations meanwhile, also repeated ones, are raised only then."""
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled


async def run_to_end(work: Callable[[], Result], on_cancel: Callable[[], object] = lambda: None) -> Result:
    """Run what blocks on a thread and return what it returns.

    If the caller is cancelled, the cancellation is raised once the thread has ended.

    Args:
        work: What to run.
        on_cancel: Called when the caller is cancelled; asks `work` to end soon.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        on_cancel()
        try:
            await wait_for_end(running)
        finally:
            running.exception()  # retrieved, or asyncio would log it
        raise
