"""A response that is produced by the model: cancelled when the client leaves, never slowed down by it.

What the model writes is buffered, so that a client that reads slowly does not keep the model from others. A reply is
bounded by the context window.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..mcp_servers.http_limits import WRITE_BLANK
from . import Limits
from .errors import ApiError, to_api_error
from .generation import ReplyEvent

_SEND_S = 30.0
"""Time within which a client must take a part of the reply."""
_STREAM_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class ReplyWriter(Protocol):
    """Writes a reply in the shapes of an API.

    Attributes:
        media_type: Media type of a stream.
        keep_alive: Bytes that mean nothing between its parts.
    """

    media_type: str
    keep_alive: bytes

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

    def write(self, data: bytes) -> None:
        """Add a part of a streamed response."""
        self.has_begun = True
        self.parts.put_nowait(data)

    def respond(self, response: Response) -> None:
        """Give the whole response."""
        self.parts.put_nowait(response)

    def end(self) -> None:
        self.parts.put_nowait(None)


class ReplyResponse(Response):
    """Runs a producer and sends what it writes, until the client leaves."""

    def __init__(
        self,
        produce: Produce,
        render: Callable[[ApiError], Response],
        headers: Mapping[str, str] | None = None,
        stream: ReplyWriter | None = None,
        limits: Limits | None = None,
    ):
        """Create a response.

        Args:
            produce: Writes the response to the sink.
            render: Returns the response of an error before it begins.
            headers: Headers besides those of the response.
            stream: Writes a streamed response; None for a whole one.
            limits: When a stream begins, and when it says that it is alive.
        """
        super().__init__()
        self._produce, self._render, self._own_headers = produce, render, headers or {}
        self._stream, self._limits = stream, limits or Limits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an ASGI request."""
        sink = ReplySink()
        producing = asyncio.create_task(self._run(sink))
        sending = asyncio.create_task(self._send_parts(sink, scope, receive, send))
        # a task of its own, since a client that leaves while nothing is sent is told by `receive` alone
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            # not the producer: its parts are sent behind its end
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (producing, sending, leaving):
                task.cancel()
            # the model is free only when the producer has ended, however long a native call takes
            await asyncio.wait([producing, sending, leaving])
        if not sending.cancelled() and (error := sending.exception()):
            log.debug("A response was not sent: %r", error)

    async def _run(self, sink: ReplySink) -> None:
        try:
            await self._produce(sink)
        except Exception as error:
            described = to_api_error(error)
            if self._stream and sink.has_begun:
                sink.write(self._stream.write_error(described))
            else:
                sink.respond(self._render(described))
        finally:
            sink.end()

    async def _send_parts(self, sink: ReplySink, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts as they come."""
        stream = self._stream
        try:
            first = await asyncio.wait_for(sink.parts.get(), self._limits.first_s if stream else None)
        except asyncio.TimeoutError:
            first = b"" if sink.parts.empty() else sink.parts.get_nowait()
        if first is None:
            return
        if isinstance(first, Response):
            first.headers.update(self._own_headers)
            await asyncio.wait_for(first(scope, receive, send), _SEND_S)
            return
        assert stream
        sink.has_begun = True
        # a client that has closed its sending half and one that has left differ only when something is written
        scope[WRITE_BLANK] = partial(sink.write, stream.keep_alive)
        begin = Response(media_type=stream.media_type, headers={**_STREAM_HEADERS, **self._own_headers})
        headers = [(name, value) for name, value in begin.raw_headers if name != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        part: Response | bytes | None = first or stream.keep_alive
        while part is not None:
            assert isinstance(part, bytes)
            await asyncio.wait_for(send({"type": "http.response.body", "body": part, "more_body": True}), _SEND_S)
            try:
                part = await asyncio.wait_for(sink.parts.get(), self._limits.keep_alive_s)
            except asyncio.TimeoutError:
                part = stream.keep_alive
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_disconnect(receive: Receive) -> None:
    with suppress(asyncio.CancelledError):
        while (await receive())["type"] != "http.disconnect":
            pass
