"""Parse a model reply while it is generated and emit its events; its calls may start meanwhile.

If the model continues after a call and invents the result, the reply ends there: the engine is stopped and the invented
text is discarded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from ..backends.base import ModelStream
from ..calls.scanner import Scanner
from ..core.events import CallFound, CallUnreadable, Event, Sentence, Usage
from ..core.messages import EMPTY_REPLY
from .tool_calls import ModelReply


class ReplyStream:
    """Consumes one streamed reply.

    Args:
        scanner: Parser of the reply.
        reply: Collects calls and usage.
        start_calls: Called after each chunk that completes a call, so that it can start before the reply ends.
    """

    def __init__(self, scanner: Scanner, reply: ModelReply, start_calls: Callable[[], None]) -> None:
        self._scanner, self._reply, self._start_calls = scanner, reply, start_calls
        self._chunks: list[str] = []

    @property
    def text(self) -> str:
        """The reply so far, as the model wrote it, without an invented result."""
        text = "".join(self._chunks)
        return (
            text[: self._scanner.retained_length].rstrip() if self._reply.has_invented_result else text
        ) or EMPTY_REPLY

    @property
    def is_empty(self) -> bool:
        """Whether nothing was generated yet."""
        return not self._chunks

    async def read_events(self, stream: ModelStream) -> AsyncGenerator[Event | Sentence, None]:
        """Yield the events of the reply and messages of the engine; close the stream at the end."""
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                if isinstance(piece, Usage):
                    self._reply.usage = piece
                elif isinstance(piece, str):
                    self._chunks.append(piece)
                    events = self._reply.record_events(self._scanner.feed(piece))
                    if any(isinstance(event, CallFound | CallUnreadable) for event in events):
                        self._start_calls()
                    if self._reply.has_invented_result:
                        self._reply.usage = await stop_and_read_usage(pieces)
                    for event in events:
                        yield event
                    if self._reply.has_invented_result:
                        break
                else:
                    yield piece
        for event in self._reply.record_events(self._scanner.close()):
            yield event


async def stop_and_read_usage(stream: ModelStream) -> Usage:
    """Stop an engine in the middle of a reply and return its usage."""
    stream.stop()
    async for item in stream:
        if isinstance(item, Usage):
            return item
    return Usage()
