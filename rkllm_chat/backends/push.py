"""An engine that pushes its text from a thread becomes a stream that the loop reads. It knows no engine.

`work(emit, stop)` runs on the thread and calls `emit(item)` for each piece. When nobody listens any more, `stop` is
set, and then work must return soon. This fits C callbacks, and makes stopping possible before the first piece.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeVar

from ..messages import Message

Item = TypeVar("Item")
Emit = Callable[[Item], None]


@dataclass
class Ahead:
    """A prompt that is read while nobody waits for it. What is asked meanwhile comes first.

    `ended`: between two batches, since what was read is of use; `aborted`: as soon as the engine can.
    """

    prompt: Sequence[Message]
    ended: threading.Event = field(default_factory=threading.Event)
    aborted: threading.Event = field(default_factory=threading.Event)
    evaluated: int = 0

    def make_way(self, prompt: Sequence[Message]) -> None:
        """Ends it for a prompt, which goes on where this one comes to stand if it begins with it."""
        is_of_use = list(prompt[: len(self.prompt)]) == list(self.prompt)
        (self.ended if is_of_use else self.aborted).set()

    @property
    def is_ended(self) -> bool:
        return self.ended.is_set() or self.aborted.is_set()


async def stream_pushed(
    work: Callable[[Emit[Item], threading.Event], None],
    thread: Executor,
    on_stop: Callable[[], None] = lambda: None,
    first: Sequence[Item] = (),
) -> AsyncGenerator[Item, bool | None]:
    """The items that `work` emits, in order. Raises what work raises.

    When the reader walks away, the stream is closed only after work has returned: the engine is free then. A reader who
    sends True has work stopped too, and is still given what it emits until it returns. `on_stop` is called once `stop`
    is set, for a work that waits for something else and must be woken. `first` comes before all that it emits.
    """
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[Item | None] = asyncio.Queue()
    stop = threading.Event()
    for one in first:
        items.put_nowait(one)

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
            if (yield item):
                stop.set()
                on_stop()
        await running
    finally:
        stop.set()
        on_stop()
        await asyncio.wait([running])
        running.exception()  # seen, so that asyncio does not complain when nobody listened any more
