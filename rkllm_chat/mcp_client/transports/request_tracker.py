"""Track the requests in flight on one connection, and filter what the server sends.

Sits between a transport and the SDK's session. The session waits for a response until its deadline, so anything that
was meant as a response but is unusable becomes an error response here, after 0.3 s. Independent of bytes, processes and
sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from ..protocol.faults import UNREADABLE_REQUEST_CODES, explain_wrong_id, is_same_id
from ..protocol.framing import IncompleteJsonError, PartialJson, begins_message, looks_like_response, parse_values
from ..protocol.limits import MAX_MESSAGE_BYTES, MB
from ..timing import RateLimit
from .jsonrpc import NotificationKey, decode, encode, find_request_id, get_notification_key
from .server_log import ServerLog

UNUSABLE_RESPONSE_CODE = -32700
"""Error code of a call whose response is unusable (JSON-RPC 2.0, 5.1: Parse error)."""
_BUSY_CODE = -32000
_SUSPECT_S = 0.3
_WINDOW_S = 0.1
_MAX_NOTIFICATIONS = 50
_MAX_REQUESTS = 10
_MAX_UNANSWERED = 16
_MAX_DELAYED = 64
_MAX_ANSWERED = 1000
"""Ids of requests whose late or repeated responses are ignored."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_Put = Callable[[SessionMessage, str], None]
"""Called with a message and its JSON on one line; must not wait."""


class RequestTracker:
    """Track the JSON-RPC requests in flight on one connection, and filter what the server sends.

    Unusable responses become error -32700 after 0.3 s. Notifications are limited to 50 per 0.1 s, requests of the
    server to 10 per 0.1 s and 16 unanswered.

    Args:
        log: Receives a note about each kind of irregularity.
        put: Sends a message to the server.
        max_bytes: Limit of a message from the server.

    Attributes:
        incoming: The stream that the session reads.
    """

    def __init__(self, log: ServerLog, put: _Put, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._log, self._send, self._max_bytes = log, put, max_bytes
        self._delivered, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        self._pending: dict[RequestId, str] = {}
        self._answered: deque[RequestId] = deque(maxlen=_MAX_ANSWERED)
        self._server_requests: set[RequestId] = set()
        self._suspects: dict[RequestId, tuple[str, asyncio.TimerHandle]] = {}
        self._delayed: dict[NotificationKey, JSONRPCNotification] = {}
        self._release_timer: asyncio.TimerHandle | None = None
        self._notification_rate, self._request_rate = (
            RateLimit(_MAX_NOTIFICATIONS, _WINDOW_S),
            RateLimit(_MAX_REQUESTS, _WINDOW_S),
        )
        self._partial: PartialJson | None = None
        self._incomplete_timer: asyncio.TimerHandle | None = None

    def send(self, item: SessionMessage) -> None:
        """Register a message and send it; a request that cannot be encoded is answered with an error."""
        message = item.message
        self._register(message)
        try:
            message, text = encode(message)
        except ValueError as error:
            self._note_ignored(f"A message to the server cannot be sent: {error}")
            if isinstance(message, JSONRPCRequest):
                self.fail_request(message.id, f"The request cannot be sent: {error}", INVALID_PARAMS)
        else:
            self._send(replace(item, message=message), text)

    def _register(self, message: JSONRPCMessage) -> None:
        match message:
            case JSONRPCRequest():
                if message.method == "initialize":  # restarts the session: earlier requests are void
                    self._pending.clear()
                self._pending[message.id] = message.method
            case JSONRPCNotification(method="notifications/cancelled", params=dict(params)):
                self._forget_request(params.get("requestId"))
            case JSONRPCResponse(id=request_id) | JSONRPCError(id=request_id):
                self._server_requests -= {request_id}
            case _:
                pass

    def receive_line(self, line: bytes) -> None:
        """Process a line or frame: a message, several, part of a multi-line message, or other text."""
        if self._partial:
            self._continue_partial(self._partial, line.rstrip())
        elif line := line.strip().removeprefix(_BYTE_ORDER_MARK).lstrip():
            self._parse_line(line)

    def reject_line(self, ends: bytes, size: int) -> None:
        """Process a line over the size limit.

        Args:
            ends: Its beginning and end.
            size: Its size in bytes.
        """
        self._suspect_line(ends, f"result too large ({size / MB:.0f} MB), limit {self._max_bytes // MB} MB")

    def _parse_line(self, line: bytes) -> None:
        try:
            values = parse_values(line.decode("utf-8", errors="replace"))
        except IncompleteJsonError:
            self._partial = PartialJson(line, self._max_bytes)
            self._incomplete_timer = asyncio.get_running_loop().call_later(_SUSPECT_S, self._drop_partial)
        except ValueError as error:
            self._suspect_line(line, str(error))
        else:
            self._receive_values(values)

    def _continue_partial(self, partial: PartialJson, line: bytes) -> None:
        """Add a line to incomplete JSON; the beginning of a message ends it."""
        if begins_message(line):
            self._drop_partial()
            self._parse_line(line)
            return
        try:
            values = partial.add(line)
        except ValueError:
            self._drop_partial()
            return
        if values is not None:
            self._clear_partial()
            self._receive_values(values)

    def _drop_partial(self) -> None:
        text = self._partial.text if self._partial else b""
        self._clear_partial()
        self._suspect_line(text, "it is incomplete", 0)

    def _clear_partial(self) -> None:
        self._partial = None
        if self._incomplete_timer:
            self._incomplete_timer.cancel()

    def _receive_values(self, values: list[Any]) -> None:
        """Process each value: a message, or a batch of them (MCP 2025-03-26)."""
        for value in values:
            if isinstance(value, list) and value:
                self._receive_values(value)
            elif isinstance(value, dict):
                self._receive_object(value)
            else:
                self._note_ignored(value)

    def _receive_object(self, value: dict[str, Any]) -> None:
        try:
            message = decode(value)
        except ValueError as error:
            self._note_ignored(value)
            if "method" not in value and value.keys() & {"result", "error", "id"}:
                request_id = value.get("id")
                is_known = type(request_id) in (int, str) and request_id in self._pending
                self._suspect(request_id if is_known else self._only_pending(), str(error))
        else:
            self.receive(message)

    def receive(self, message: JSONRPCMessage) -> None:
        """Deliver, delay or reject a message from the server."""
        match message:
            case JSONRPCResponse():
                self._receive_response(message, message.id)
            case JSONRPCError(id=None):
                self._note_ignored(message)
                if message.error.code in UNREADABLE_REQUEST_CODES:
                    self._suspect(self._only_pending(), f"an error without a request id: {message.error.message}")
            case JSONRPCError():
                self._receive_response(message, message.id)
            case JSONRPCRequest():
                self._receive_request(message)
            case JSONRPCNotification():
                self._receive_notification(message)

    def _receive_response(self, message: JSONRPCResponse | JSONRPCError, request_id: RequestId | None) -> None:
        if request_id in self._pending:
            for key in [key for key in self._delayed if key[1] == repr(request_id)]:  # its last progress
                self._deliver(self._delayed.pop(key))
            self._forget_request(request_id)
            self._deliver(message)
            return
        similar_id = next((known for known in self._pending if is_same_id(request_id, known)), None)
        if similar_id is not None:
            self._receive_response(message.model_copy(update={"id": similar_id}), similar_id)
            return
        self._note_ignored(f"a response to an unknown request: {request_id!r}")
        if request_id not in self._answered:
            expected_id = self._only_pending()
            self._suspect(expected_id, explain_wrong_id(request_id, expected_id))

    def _receive_request(self, message: JSONRPCRequest) -> None:
        if len(self._server_requests) < _MAX_UNANSWERED and self._request_rate.try_acquire():
            self._server_requests.add(message.id)
            self._deliver(message)
            return
        self._log.write_note("flood", "The server sends too many requests at once; some are rejected.")
        refusal = ErrorData(code=_BUSY_CODE, message="Too many requests at once.")
        self.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=refusal)))

    def _receive_notification(self, message: JSONRPCNotification) -> None:
        """Deliver a notification; beyond 50 in 0.1 s, delay the newest of each kind to the next window."""
        if message.method == "notifications/cancelled":
            request_id = (message.params or {}).get("requestId")
            self._server_requests -= {request_id} if isinstance(request_id, int | str) else set()
        if not self._delayed and self._notification_rate.try_acquire():
            self._deliver(message)
            return
        self._log.write_note(
            "notices", "The server sends too many notifications; only the newest of each kind is delivered."
        )
        key = get_notification_key(message)
        self._delayed.pop(key, None)
        self._delayed[key] = message
        if len(self._delayed) > _MAX_DELAYED:
            self._delayed.pop(next(iter(self._delayed)))
        if self._release_timer is None:
            self._release_timer = asyncio.get_running_loop().call_later(_WINDOW_S, self._release_delayed)

    def _release_delayed(self) -> None:
        self._release_timer = None
        delayed, self._delayed = self._delayed, {}
        for message in delayed.values():
            self._deliver(message)

    def _deliver(self, message: JSONRPCMessage) -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session may be closed
            self._delivered.send_nowait(SessionMessage(message))

    def fail_request(self, request_id: RequestId, reason: str, code: int = UNUSABLE_RESPONSE_CODE) -> None:
        """Answer a request with an error in place of the server."""
        if request_id in self._pending:
            self._forget_request(request_id)
            self._deliver(JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=reason)))

    def _suspect_line(self, line: bytes, reason: str, delay_s: float = _SUSPECT_S) -> None:
        self._note_ignored(f"{reason}: {line[:200]!r}")
        if looks_like_response(line):
            self._suspect(find_request_id(line, self._pending, self._only_pending()), reason, delay_s)

    def _only_pending(self) -> RequestId | None:
        """Return the only open request, ignoring subscriptions, which stay open (MCP 2026-07-28)."""
        request_id = [request_id for request_id, method in self._pending.items() if method != "subscriptions/listen"]
        return request_id[0] if len(request_id) == 1 else None

    def _suspect(self, request_id: RequestId | None, reason: str, delay_s: float = _SUSPECT_S) -> None:
        """Fail the request unless its real response arrives soon; the text may have been something else."""
        if request_id is not None and request_id not in self._suspects:
            timer = asyncio.get_running_loop().call_later(delay_s, self._fail_suspect, request_id)
            self._suspects[request_id] = (reason, timer)

    def _fail_suspect(self, request_id: RequestId) -> None:
        reason, _ = self._suspects[request_id]
        self.fail_request(request_id, f"The response is unusable: {reason}")

    def _forget_request(self, request_id: Any) -> None:
        """Remove a request that was answered or cancelled."""
        if type(request_id) not in (int, str):
            return
        if self._pending.pop(request_id, None) is not None:
            self._answered.append(request_id)
        if suspect := self._suspects.pop(request_id, None):
            suspect[1].cancel()
        for key in [key for key in self._delayed if key[1] == repr(request_id)]:
            del self._delayed[key]

    def _note_ignored(self, what: object) -> None:
        if not self._log.has_note("stray"):
            self._log.write_note("stray", f"Ignored: {str(what)[:300]}")

    def end(self) -> None:
        """End the stream of the session; requests with unusable responses fail at once."""
        if self._partial:
            self._drop_partial()
        for request_id in list(self._suspects):
            self._fail_suspect(request_id)
        if self._release_timer:
            self._release_timer.cancel()
        self._delayed.clear()
        self._delivered.close()

    def close(self) -> None:
        """End the stream and stop reading it."""
        self.end()
        self.incoming.close()
