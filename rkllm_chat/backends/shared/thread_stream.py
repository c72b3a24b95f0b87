"""Turn the output of an engine on a thread into an async stream.

`work(emit, stop)` runs on the thread and calls `emit(item)` for each item. When the consumer leaves, `stop` is set and
`work` must return soon. This fits C callbacks, and an engine can be stopped before its first item.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from ...core.errors import GenerationError
from ...core.messages import Message
from ...core.thread_end import wait_for_end
from ..base import Item, StoppableStream

Emit = Callable[[Item], None]


@dataclass
class PrefillRequest:
    """A prompt that is prefilled in the background. Requests that arrive meanwhile take precedence.

    Attributes:
        prompt: The messages to prefill.
        stop_after_batch: Set to end between two batches, because what was evaluated is useful.
        stop_now: Set to end as soon as the engine can.
        evaluated_tokens: Number of evaluated tokens.
    """

    prompt: Sequence[Message]
    stop_after_batch: threading.Event = field(default_factory=threading.Event)
    stop_now: threading.Event = field(default_factory=threading.Event)
    evaluated_tokens: int = 0

    def yield_to_prompt(self, prompt: Sequence[Message]) -> None:
        """End the prefill for a request; if its prompt extends this one, it continues after the current batch."""
        is_of_use = list(prompt[: len(self.prompt)]) == list(self.prompt)
        (self.stop_after_batch if is_of_use else self.stop_now).set()

    @property
    def is_stopped(self) -> bool:
        """Whether the prefill must end."""
        return self.stop_after_batch.is_set() or self.stop_now.is_set()


def unloaded() -> GenerationError:
    """Return the error of a use of a model that was unloaded."""
    return GenerationError("The model was unloaded meanwhile.", "Try it again.")


def stream_from_thread(
    work: Callable[[Emit[Item], threading.Event], None],
    thread: Executor,
    on_stop: Callable[[], None] = lambda: None,
    first: Sequence[Item] = (),
) -> StoppableStream[Item]:
    """Run `work` on the thread and yield what it emits, in order.

    If the consumer closes the stream, the stream is closed only after `work` has returned: then the engine is free.
    After `stop()` the stream still yields what `work` emits until it returns.

    Args:
        work: Blocking function; its exceptions are raised by the stream.
        thread: The executor that runs it.
        on_stop: Called once `stop` is set, to wake a `work` that waits for something else.
        first: Items to yield before those that `work` emits.
    """
    stop = threading.Event()

    def request_stop() -> None:
        stop.set()
        on_stop()

    return StoppableStream(_run(work, thread, stop, request_stop, first), request_stop)


async def _run(
    work: Callable[[Emit[Item], threading.Event], None],
    thread: Executor,
    stop: threading.Event,
    request_stop: Callable[[], None],
    first: Sequence[Item],
) -> AsyncGenerator[Item, None]:
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[Item | None] = asyncio.Queue()
    for early_item in first:
        items.put_nowait(early_item)

    def emit(item: Item) -> None:
        # asyncio's queue belongs to the loop's thread
        loop.call_soon_threadsafe(items.put_nowait, item)

    def run() -> None:
        try:
            # the stream may have been closed before its turn on the thread came
            if not stop.is_set():
                work(emit, stop)
        finally:
            loop.call_soon_threadsafe(items.put_nowait, None)

    try:
        running = loop.run_in_executor(thread, run)
    except RuntimeError:  # the executor is shut down
        raise unloaded() from None
    try:
        while (item := await items.get()) is not None:
            yield item
        # raises what `work` raised
        await running
    finally:
        request_stop()
        await wait_for_end(running)  # a client may be cancelled by its time limit, and again because it leaves
        running.exception()  # retrieved, or asyncio would log it if the consumer has left
