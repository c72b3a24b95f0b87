"""A stream of what a thread emits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import pytest

from rkllm_chat.backends.shared.thread_stream import Emit, stream_from_thread

Work = Callable[[Emit[int], threading.Event], None]


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def count(emit: Emit[int], _stop: threading.Event) -> None:
    for number in range(5):
        emit(number)


def count_until_stopped(emit: Emit[int], stop: threading.Event) -> None:
    emit(0)
    assert stop.wait(10)


def break_down(emit: Emit[int], _stop: threading.Event) -> None:
    emit(0)
    raise ValueError("broken")


def test_items_are_in_order(thread: ThreadPoolExecutor) -> None:
    async def collect() -> list[int]:
        return [item async for item in stream_from_thread(count, thread)]

    assert asyncio.run(collect()) == [0, 1, 2, 3, 4]


def test_an_exception_of_the_thread_is_raised_after_its_items(thread: ThreadPoolExecutor) -> None:
    heard: list[int] = []

    async def collect() -> None:
        async for item in stream_from_thread(break_down, thread):
            heard.append(item)

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(collect())
    assert heard == [0]


@pytest.mark.parametrize("work", [count_until_stopped, break_down])
def test_closing_the_stream_stops_the_work_and_frees_the_thread(work: Work, thread: ThreadPoolExecutor) -> None:
    async def listen_to_one() -> int:
        async with aclosing(stream_from_thread(work, thread)) as items:
            async for item in items:
                return item
        return -1

    assert asyncio.run(listen_to_one()) == 0
    assert thread.submit(lambda: "free").result(timeout=5) == "free"


def test_a_stream_that_is_cancelled_twice_ends_with_its_work(thread: ThreadPoolExecutor) -> None:
    """As where the time limit of a request expires, and its client leaves while the engine still stops."""
    may_end = threading.Event()

    def work(emit: Emit[int], stop: threading.Event) -> None:
        emit(0)
        assert stop.wait(5)
        assert may_end.wait(5)

    async def give_up() -> None:
        stream = stream_from_thread(work, thread)
        assert await anext(stream) == 0
        listening = asyncio.ensure_future(anext(stream))
        for _ in range(3):
            await asyncio.sleep(0)
            listening.cancel()
        await asyncio.sleep(0)
        assert not listening.done()
        may_end.set()
        await asyncio.wait([listening])
        assert listening.cancelled()

    asyncio.run(give_up())


def test_cancelled_work_is_not_begun(thread: ThreadPoolExecutor) -> None:
    begun: list[bool] = []
    gate = threading.Event()
    busy = thread.submit(gate.wait, 10)

    def work(_emit: Emit[int], _stop: threading.Event) -> None:
        begun.append(True)

    async def give_up() -> None:
        listening = asyncio.ensure_future(anext(stream_from_thread(work, thread)))
        await asyncio.sleep(0)
        listening.cancel()
        await asyncio.sleep(0)
        gate.set()
        await asyncio.wait([listening])

    asyncio.run(give_up())
    assert busy.result(timeout=5) and begun == []
