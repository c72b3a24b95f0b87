"""Turn a coroutine that emits events into a stream of them, each emitted when the one before has been taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from ..core.events import Event

Emit = Callable[[Event], Awaitable[None]]
"""Passes an event to the reader of the stream, and returns once the next one is asked for."""


async def stream_events(work: Callable[[Emit], Awaitable[None]]) -> AsyncGenerator[Event, None]:
    """Run `work` and yield what it emits. Closing the stream cancels `work` and waits for its end.

    Args:
        work: The coroutine function. An error that it raises is raised behind its last event.
    """
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    taken = asyncio.Event()

    async def emit(event: Event) -> None:
        taken.clear()
        queue.put_nowait(event)
        await taken.wait()

    task = asyncio.ensure_future(work(emit))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
            taken.set()
        task.result()
    finally:
        task.cancel()
        # not `await task`, which would raise its error once more
        await asyncio.wait([task])


async def emit_all(stream: AsyncGenerator[Event, None], emit: Emit) -> None:
    """Emit the events of a stream, and close it at the end."""
    async with aclosing(stream) as events:
        async for event in events:
            await emit(event)
