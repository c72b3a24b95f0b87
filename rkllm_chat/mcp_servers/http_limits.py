"""Limits of the HTTP servers: requests that are never completed, and sessions that are never used."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0
"""Deadline for a request to arrive completely, counted from the connection or from its first byte."""
_SESSION_HEADER = b"mcp-session-id"
_INTERIM_RESPONSE = b"HTTP/1.1 100 Continue\r\n\r\n"
"""What a client ignores before its answer (RFC 9110, section 15.2)."""
_FIRST_PROBE_S, _LAST_PROBE_S = 0.05, 5.0
WRITE_BLANK = "rkllm_chat.write_blank"
"""Key of a request's scope: a function that adds to a response that has begun what means nothing in it."""


class TimedProtocol(H11Protocol):
    """HTTP connection that is closed if a request does not arrive in time; uvicorn itself waits for ever."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(REQUEST_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """Start the deadline of a request with its first byte, stop it with its last one."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._deadline = self._deadline or self.loop.call_later(REQUEST_S, self.transport.close)
        else:
            self._stop_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the deadline."""
        self._stop_deadline()
        super().connection_lost(exc)

    def _stop_deadline(self) -> None:
        if self._deadline:
            self._deadline.cancel()
        self._deadline = None


class HalfClosingProtocol(TimedProtocol):
    """HTTP connection on which a client that closes only its sending half, as netcat does, gets its answer.

    One that has left sends the same: what is written to it then is refused, so something harmless is written to find
    out. That takes some milliseconds. It is not for MCP, where a closed connection cancels its request at once.
    """

    _probing: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking whether the client is still there."""
        if self._probing:
            self._probing.cancel()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio keeps the connection open for True
        """Keep the connection for the answer to a complete request; close any other."""
        cycle = self.cycle
        if cycle is None or cycle.more_body or cycle.response_complete:
            return False
        self._probe(_FIRST_PROBE_S)
        return True

    def on_response_complete(self) -> None:
        """Close a connection on which no further request can come."""
        super().on_response_complete()
        if self._probing and self.cycle.response_complete:
            self.transport.close()

    def _probe(self, delay_s: float) -> None:
        """Write something that means nothing, and end the connection soon if that was refused."""
        if not self.cycle.response_started:
            self.transport.write(_INTERIM_RESPONSE)
        elif write_blank := cast("dict[str, Any]", self.cycle.scope).get(WRITE_BLANK):
            write_blank()
        self._probing = self.loop.call_later(delay_s, self._check_refusal, delay_s)

    def _check_refusal(self, delay_s: float) -> None:
        connection = self.transport.get_extra_info("socket")
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
        else:
            self._probe(min(2 * delay_s, _LAST_PROBE_S))


@dataclass
class _Session:
    """A session that a client has opened.

    Attributes:
        has_requests: Whether it was used after it was opened.
        in_flight: Number of its requests that are being answered, open streams included.
    """

    has_requests: bool = False
    in_flight: int = 0


class SessionLimit:
    """ASGI middleware that ends an idle session where a new one would exceed the limit.

    A limit alone would let anyone who opens sessions lock others out until they expire, and so would a limit of new
    sessions per second. A session that was only opened ends first, then the one that was not used for the longest
    time; its client gets 404 and opens a new one (MCP 2025-11-25, Transports, Session Management). Sessions with a
    request in flight stay.
    """

    def __init__(self, app: ASGIApp, max_sessions: int) -> None:
        self._app, self._max_sessions = app, max_sessions
        self._sessions: dict[bytes, _Session] = {}  # the least recently used first
        self._opening: set[object] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an ASGI request."""
        identity = dict(scope["headers"]).get(_SESSION_HEADER) if scope["type"] == "http" else None
        if session := self._sessions.pop(identity or b"", None):
            assert identity
            self._sessions[identity] = session
            await self._use(identity, session, scope, receive, send)
        elif identity is None and scope.get("method") == "POST":
            await self._open(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _use(self, identity: bytes, session: _Session, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a session, and forget the session once it has ended."""

        def observe(status: int, _: dict[bytes, bytes]) -> None:
            if status == 404 or (scope["method"] == "DELETE" and status < 400):
                self._sessions.pop(identity, None)

        session.has_requests = True
        session.in_flight += 1
        try:
            await self._app(scope, receive, _observing(send, observe))
        finally:
            session.in_flight -= 1

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that may open a session."""
        opening = object()

        def observe(status: int, headers: dict[bytes, bytes]) -> None:
            self._opening.discard(opening)
            if status < 400 and _SESSION_HEADER in headers:
                self._sessions[headers[_SESSION_HEADER]] = _Session()

        self._opening.add(opening)
        try:
            while len(self._sessions) + len(self._opening) > self._max_sessions and await self._end_one(scope):
                pass
            await self._app(scope, receive, _observing(send, observe))
        finally:
            self._opening.discard(opening)

    async def _end_one(self, scope: Scope) -> bool:
        """End a session without requests in flight; return whether there was one."""
        idle = [identity for identity, session in self._sessions.items() if not session.in_flight]
        unused = [identity for identity in idle if not self._sessions[identity].has_requests]
        if not idle:
            return False
        identity = (unused or idle)[0]
        del self._sessions[identity]
        await self._app(
            {**scope, "method": "DELETE", "headers": [(_SESSION_HEADER, identity)]}, _receive_nothing, _ignore
        )
        return True


def _observing(send: Send, observe: Callable[[int, dict[bytes, bytes]], None]) -> Send:
    """Return `send`, which also shows status and headers of the response to `observe`."""

    async def watch(message: Message) -> None:
        if message["type"] == "http.response.start":
            observe(message["status"], dict(message.get("headers", ())))
        await send(message)

    return watch


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignore(_: Message) -> None:
    """Discard a response."""
