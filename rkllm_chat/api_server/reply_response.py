"""A response that is produced by the model: cancelled when the client leaves, never slowed down by it.

What the model writes is buffered, so that a client that reads slowly does not keep the model from others. A reply is
bounded by the context window.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .errors import ApiError, to_api_error
from .generation import ReplyEvent

_SEND_S = 30.0
"""Time within which a client must take a part of the reply."""


class ReplyWriter(Protocol):
    """Writes a reply in the shapes of an API.

    Attributes:
        media_type: Media type of a stream.
    """

    media_type: str

    async def collect(self, events: AsyncIterator[ReplyEvent]) -> dict[str, Any]:
        """Return the whole reply."""
        ...

    def stream(self, events: AsyncIterator[ReplyEvent]) -> AsyncIterator[bytes]:
        """Yield the reply in parts."""
        ...

    def write_error(self, error: ApiError) -> bytes:
        """Return an error within a stream."""
        ...


Produce = Callable[["ReplySink"], Awaitable[None]]
log = logging.getLogger(__name__)


class ReplySink:
    """Takes the parts of one response."""

    def __init__(self) -> None:
        self.parts: asyncio.Queue[Response | bytes | None] = asyncio.Queue()
        self.has_begun = False

    def begin(self, media_type: str) -> None:
        """Begin a streamed response."""
        self.has_begun = True
        self.parts.put_nowait(Response(media_type=media_type, headers={"cache-control": "no-store"}))

    def write(self, data: bytes) -> None:
        """Add a part of a streamed response."""
        self.parts.put_nowait(data)

    def respond(self, response: Response) -> None:
        """Give the whole response."""
        self.parts.put_nowait(response)

    def end(self) -> None:
        """End the response."""
        self.parts.put_nowait(None)


class ReplyResponse(Response):
    """Runs a producer and sends what it writes, until the client leaves."""

    def __init__(
        self, produce: Produce, write_error: Callable[[ApiError], bytes], render: Callable[[ApiError], Response]
    ):
        """Create a response.

        Args:
            produce: Writes the response to the sink.
            write_error: Writes an error into a stream that has begun.
            render: Returns the response of an error before that.
        """
        super().__init__()
        self._produce, self._write_error, self._render = produce, write_error, render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an ASGI request."""
        sink = ReplySink()
        producing = asyncio.create_task(self._run(sink))
        sending = asyncio.create_task(_send_parts(sink, scope, receive, send))
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (producing, sending, leaving):
                task.cancel()
            await asyncio.wait([producing, sending, leaving])
        if not sending.cancelled() and (error := sending.exception()):
            log.debug("A response was not sent: %r", error)

    async def _run(self, sink: ReplySink) -> None:
        try:
            await self._produce(sink)
        except Exception as error:
            described = to_api_error(error)
            if sink.has_begun:
                sink.write(self._write_error(described))
            else:
                sink.respond(self._render(described))
        finally:
            sink.end()


async def _send_parts(sink: ReplySink, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the parts as they come."""
    first = await sink.parts.get()
    if first is None:
        return
    assert isinstance(first, Response)
    if not sink.has_begun:
        await asyncio.wait_for(first(scope, receive, send), _SEND_S)
        return
    headers = [(name, value) for name, value in first.raw_headers if name != b"content-length"]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while (part := await sink.parts.get()) is not None:
        assert isinstance(part, bytes)
        await asyncio.wait_for(send({"type": "http.response.body", "body": part, "more_body": True}), _SEND_S)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_disconnect(receive: Receive) -> None:
    with suppress(asyncio.CancelledError):
        while (await receive())["type"] != "http.disconnect":
            pass


async def write_stream(sink: ReplySink, writer: ReplyWriter, events: AsyncIterator[ReplyEvent]) -> None:
    """Write a reply to the sink in parts; the response begins with the first one."""
    async for part in writer.stream(events):
        if not sink.has_begun:
            sink.begin(writer.media_type)
        sink.write(part)
