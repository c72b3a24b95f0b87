"""An engine that pushes its text from a thread becomes a stream that the loop reads. It knows no engine.

`work(emit, stop)` runs on the thread and calls `emit(item)` for each piece. When nobody listens any more, `stop` is
set, and then work must return soon. This fits C callbacks, and makes stopping possible before the first piece.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from typing import TypeVar

Item = TypeVar("Item")
Emit = Callable[[Item], None]


async def stream_pushed(
    work: Callable[[Emit[Item], threading.Event], None],
    thread: Executor,
    on_stop: Callable[[], None] = lambda: None,
) -> AsyncGenerator[Item, None]:
    """The items that `work` emits, in order. Raises what work raises.

    When the reader walks away, the stream is closed only after work has returned: the engine is free then. `on_stop`
    is called once `stop` is set, for a work that waits for something else and must be woken.
    """
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[Item | None] = asyncio.Queue()
    stop = threading.Event()

    def emit(item: Item) -> None:
        loop.call_soon_threadsafe(items.put_nowait, item)

    def run() -> None:
        try:
            if not stop.is_set():
                work(emit, stop)
        finally:
            loop.call_soon_threadsafe(items.put_nowait, None)

    running = loop.run_in_executor(thread, run)
    try:
        while (item := await items.get()) is not None:
            yield item
        await running
    finally:
        stop.set()
        on_stop()
        await asyncio.wait([running])
        running.exception()  # seen, so that asyncio does not complain when nobody listened any more
