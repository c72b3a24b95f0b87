"""The streams between a transport and the SDK's client, with a `Session` in between.

The client waits for a response until its deadline, and rejects much that can be used. So messages pass through the
session, which answers requests whose response is unusable with an error, and the record of the server, which repairs
results. The client learns of the end of the connection last: a response may come just before it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import anyio.lowlevel
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_PARAMS, jsonrpc_message_adapter
from typing_extensions import Self

from ..protocol.faults import UNUSABLE_CODE, make_unusable
from ..protocol.session import Event, Session
from ..server_record import ServerRecord
from .server_log import ServerLog


class _Stream:
    """One direction; the SDK enters, leaves and closes it."""

    def __init__(self) -> None:
        self._is_closed = False

    async def aclose(self) -> None:
        """Close the stream."""
        self._is_closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closed = True


class ReadStream(_Stream):
    """Messages of the server.

    Args:
        has_ended: Set when the client has read all that came and nothing more will.

    Attributes:
        last_context: Read by the SDK; there is no context of a sender.
    """

    last_context = None

    def __init__(self, has_ended: asyncio.Event) -> None:
        super().__init__()
        self._has_ended = has_ended
        self._messages: deque[SessionMessage] = deque()
        self._changed = asyncio.Event()
        self._is_complete = False

    def put(self, message: SessionMessage | None) -> None:
        """Add a message, or the end of the stream."""
        if message is None:
            self._is_complete = True
        elif not self._is_complete:
            self._messages.append(message)
        self._changed.set()

    async def receive(self) -> SessionMessage:
        """Return the next message. Raises EndOfStream."""
        await anyio.lowlevel.checkpoint()
        while not self._messages:
            if self._is_complete or self._is_closed:
                self._has_ended.set()
                raise anyio.EndOfStream
            self._changed.clear()
            await self._changed.wait()
        return self._messages.popleft()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class WriteStream(_Stream):
    """Messages to the server. Those that cannot be written yet are queued."""

    def __init__(self, send: Callable[[SessionMessage], None]) -> None:
        super().__init__()
        self._send = send

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message without waiting for the server. Raises ClosedResourceError."""
        if self._is_closed:
            raise anyio.ClosedResourceError
        self._send(item)
        await anyio.lowlevel.checkpoint()


class SdkStreams:
    """Both streams of one connection.

    Args:
        log: Receives a note about each kind of irregularity.
        put: Called with a message to the server and its JSON; must not wait.
        record: What the server has said; repairs results.
        max_bytes: Limit of a message.
        has_ended: Set when the client has read all that came and nothing more will.

    Attributes:
        incoming: What the SDK's client reads.
        outgoing: What it writes to.
        session: The requests in flight.
    """

    def __init__(
        self,
        log: ServerLog,
        put: Callable[[SessionMessage, bytes], None],
        record: ServerRecord,
        max_bytes: int,
        has_ended: asyncio.Event,
    ) -> None:
        self._log, self._put, self._record = log, put, record
        self.session = Session(max_bytes, self._note)
        self.incoming, self.outgoing = ReadStream(has_ended), WriteStream(self._send)
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at: float | None = None

    def _note(self, kind: str, what: object) -> None:
        if not self._log.has_note(kind):
            self._log.write_note(kind, f"Ignored: {str(what)[:300]}" if kind == "stray" else str(what))

    def _send(self, item: SessionMessage) -> None:
        """Send a message; a request that cannot be sent is answered with an error."""
        try:
            data = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            text = self.session.send(data)
        except (ValueError, RecursionError) as error:
            reason = str(error).splitlines()[0]
            self._note("stray", f"A message to the server cannot be sent: {reason}")
            if (request_id := getattr(item.message, "id", None)) is not None and hasattr(item.message, "method"):
                failure = {"code": INVALID_PARAMS, "message": f"The request cannot be sent: {reason}"}
                self.deliver([Event({"jsonrpc": "2.0", "id": request_id, "error": failure}, "unsent")])
            return
        self._record.note_request(data)
        self._put(item, text)
        self._schedule()

    def fail_request(self, request_id: Any, reason: str, code: int = UNUSABLE_CODE) -> None:
        """Answer a request with an error in place of the server; without a code, as unusable."""
        error = make_unusable(reason) if code == UNUSABLE_CODE else {"code": code, "message": reason}
        self.deliver(self.session.fail(request_id, error))

    def deliver(self, events: Iterable[Event]) -> None:
        """Pass events of the session on to the client."""
        for message, method in events:
            self.incoming.put(_as_sdk(self._record.read_response(message, method) if method else message))
        for refusal in self.session.refusals:
            self._put(_as_sdk(refusal), self.session.send(refusal))
        self.session.refusals.clear()
        self._schedule()

    def _schedule(self) -> None:
        """Wake when the session wishes it."""
        if self._wake_at == self.session.wake_at:
            return
        if self._timer:
            self._timer.cancel()
        self._wake_at, self._timer = self.session.wake_at, None
        if self._wake_at is not None:
            delay_s = max(0.0, self._wake_at - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._wake_at = None
        self.deliver(self.session.expire())

    def end(self) -> None:
        """End the stream of the client; requests with unusable responses fail at once."""
        self.deliver(self.session.end())
        self.incoming.put(None)


def _as_sdk(message: dict[str, Any]) -> SessionMessage:
    return SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False))


def read_sent(text: bytes) -> SessionMessage:
    """Return a message as it was sent, with the values that JSON cannot represent replaced."""
    return _as_sdk(json.loads(text))
