"""One exchange of JSON-RPC messages: what was asked and is not answered, and what of the rest is passed on.

It sits between a transport and the SDK's session. A session waits for an answer until its limit, so whatever was meant
as one and cannot be used becomes an error answer here, soon. An answer must bear the id of its request as it was sent
(JSON-RPC 2.0, 5): "7" does not answer 7, though the SDK would take it; who asked is told so. It knows no bytes,
processes or sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
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

from .envelope import Kind, could_be_answer, decode, encode, find_id, name_kind
from .lines import LONGEST, MB, CutShortError, read_values
from .serverlog import ServerLog

UNUSABLE_CODE = -32700
"""The error code of a call whose answer cannot be used (JSON-RPC 2.0, 5.1: Parse error)."""
BUSY_CODE = -32000
SUSPECT_S = 0.3
WINDOW_S = 0.1
MOST_NOTICES = 50
MOST_REQUESTS = 10
MOST_UNANSWERED = 16
MOST_HELD = 64
MOST_LINES = 100_000
MOST_CLOSINGS = 3
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UNREAD_CODES = (-32700, -32600)
"""What a server answers that could not read the id of a request (JSON-RPC 2.0, 5.1)."""

Put = Callable[[SessionMessage, str], None]
"""Takes a message, and the same as JSON on one line; does not wait."""


class Exchange:
    """The book of one connection. `incoming` is what the session reads; `put` is given what goes to the server."""

    def __init__(self, log: ServerLog, put: Put) -> None:
        self._log, self._put = log, put
        self._out, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        self._pending: dict[RequestId, str] = {}
        self._asked: set[RequestId] = set()
        self._suspects: dict[RequestId, tuple[str, asyncio.TimerHandle]] = {}
        self._held: dict[Kind, JSONRPCNotification] = {}
        self._release: asyncio.TimerHandle | None = None
        self._notices, self._requests = Allowance(MOST_NOTICES), Allowance(MOST_REQUESTS)
        self._lines: list[bytes] = []
        self._lines_size = self._closings = 0
        self._doubt: asyncio.TimerHandle | None = None

    def send(self, item: SessionMessage) -> None:
        """Enters a message in the book and sends it; a request that cannot be sent is answered with an error."""
        message = item.message
        self._enter(message)
        try:
            message, text = encode(message)
        except ValueError as error:
            self._stray(f"A message to the server cannot be sent: {error}")
            if isinstance(message, JSONRPCRequest):
                self.fail(message.id, f"It cannot be sent: {error}", INVALID_PARAMS)
        else:
            self._put(replace(item, message=message), text)

    def _enter(self, message: JSONRPCMessage) -> None:
        match message:
            case JSONRPCRequest():
                if message.method == "initialize":  # a new beginning: what was asked before is given up
                    self._pending.clear()
                self._pending[message.id] = message.method
            case JSONRPCNotification(method="notifications/cancelled", params=dict(params)):
                self._settle(params.get("requestId"))
            case JSONRPCResponse(id=asked) | JSONRPCError(id=asked):
                self._asked -= {asked}
            case _:
                pass

    def take_line(self, line: bytes) -> None:
        """One line or frame: a message, several, a part of one that is spread over lines, or something else."""
        if self._lines:
            self._take_more(line.rstrip())
        elif line := line.strip().removeprefix(BYTE_ORDER_MARK).lstrip():
            self._take_text(line)

    def refuse_line(self, ends: bytes, size: int) -> None:
        """A line that is longer than allowed: its beginning with its end, and its size in bytes."""
        self._doubt_line(ends, f"result too large ({size / MB:.0f} MB), limit {LONGEST // MB} MB")

    def _take_text(self, line: bytes) -> None:
        try:
            values = read_values(line.decode("utf-8", errors="replace"))
        except CutShortError:
            self._start_lines(line)
        except ValueError as error:
            self._doubt_line(line, str(error))
        else:
            self._take_values(values)

    def _start_lines(self, line: bytes) -> None:
        """JSON that does not end with its line: the rest may stand on the next ones."""
        self._lines, self._lines_size, self._closings = [line], len(line), 0
        self._doubt = asyncio.get_running_loop().call_later(SUSPECT_S, self._drop_lines)

    def _take_more(self, line: bytes) -> None:
        """The next line of such JSON. It may be whole at a bracket in the first column; a message ends the attempt."""
        if line.startswith(b"{") and b'"jsonrpc"' in line:
            self._drop_lines()
            self._take_text(line)
            return
        self._lines.append(line)
        self._lines_size += len(line)
        if line[:1] in (b"}", b"]"):
            self._close_lines()
        elif self._lines_size > LONGEST or len(self._lines) > MOST_LINES:
            self._drop_lines()

    def _close_lines(self) -> None:
        self._closings += 1
        try:
            values = read_values(b"\n".join(self._lines).decode("utf-8", errors="replace"))
        except ValueError as error:
            if not isinstance(error, CutShortError) or self._closings >= MOST_CLOSINGS:
                self._drop_lines()
            return
        self._forget_lines()
        self._take_values(values)

    def _drop_lines(self) -> None:
        text = b"\n".join(self._lines)
        self._forget_lines()
        self._doubt_line(text, "it is cut short", 0)

    def _forget_lines(self) -> None:
        self._lines = []
        if self._doubt:
            self._doubt.cancel()

    def _take_values(self, values: list[Any]) -> None:
        """Each a message, or a batch of them (2025-03-26)."""
        for value in values:
            if isinstance(value, list) and value:
                self._take_values(value)
            elif isinstance(value, dict):
                self._take_object(value)
            else:
                self._stray(value)

    def _take_object(self, value: dict[str, Any]) -> None:
        try:
            message = decode(value)
        except ValueError as error:
            self._stray(value)
            if "method" not in value and value.keys() & {"result", "error", "id"}:
                asked = value.get("id")
                is_known = type(asked) in (int, str) and asked in self._pending
                self._suspect(asked if is_known else self._only_pending(), str(error))
        else:
            self.take(message)

    def take(self, message: JSONRPCMessage) -> None:
        """Passes a message on, or not."""
        match message:
            case JSONRPCResponse():
                self._take_answer(message, message.id)
            case JSONRPCError(id=None):
                self._stray(message)
                if message.error.code in UNREAD_CODES:
                    self._suspect(self._only_pending(), f"an error for no request: {message.error.message}")
            case JSONRPCError():
                self._take_answer(message, message.id)
            case JSONRPCRequest():
                self._take_request(message)
            case JSONRPCNotification():
                self._take_notification(message)

    def _take_answer(self, message: JSONRPCResponse | JSONRPCError, asked: RequestId | None) -> None:
        if asked in self._pending:
            for key in [key for key in self._held if key[1] == repr(asked)]:  # its last progress
                self._deliver(self._held.pop(key))
            self._settle(asked)
            self._deliver(message)
            return
        self._stray(f"an answer to a request that is not open: {asked!r}")
        twin = next((known for known in self._pending if str(known) == str(asked)), None)
        self._suspect(twin, f"it answers {asked!r}, not {twin!r}")

    def _take_request(self, message: JSONRPCRequest) -> None:
        if len(self._asked) < MOST_UNANSWERED and self._requests.take():
            self._asked.add(message.id)
            self._deliver(message)
            return
        self._log.note("flood", "The server asks too much at once; some of it is refused.")
        refusal = ErrorData(code=BUSY_CODE, message="Too many requests at once.")
        self.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=refusal)))

    def _take_notification(self, message: JSONRPCNotification) -> None:
        """Beyond MOST_NOTICES in WINDOW_S only the newest of each kind is kept, for the next window."""
        if message.method == "notifications/cancelled":
            asked = (message.params or {}).get("requestId")
            self._asked -= {asked} if isinstance(asked, int | str) else set()
        if not self._held and self._notices.take():
            self._deliver(message)
            return
        self._log.note("notices", "The server notifies too often; only the newest of each kind is passed on.")
        key = name_kind(message)
        self._held.pop(key, None)
        self._held[key] = message
        if len(self._held) > MOST_HELD:
            self._held.pop(next(iter(self._held)))
        if self._release is None:
            self._release = asyncio.get_running_loop().call_later(WINDOW_S, self._release_held)

    def _release_held(self) -> None:
        self._release = None
        held, self._held = self._held, {}
        for message in held.values():
            self._deliver(message)

    def _deliver(self, message: JSONRPCMessage) -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session may have left
            self._out.send_nowait(SessionMessage(message))

    def fail(self, asked: RequestId, reason: str, code: int = UNUSABLE_CODE) -> None:
        """Answers a request in the server's stead, with an error."""
        if asked in self._pending:
            self._settle(asked)
            self._deliver(JSONRPCError(jsonrpc="2.0", id=asked, error=ErrorData(code=code, message=reason)))

    def _doubt_line(self, line: bytes, reason: str, delay_s: float = SUSPECT_S) -> None:
        self._stray(f"{reason}: {line[:200]!r}")
        if could_be_answer(line):
            self._suspect(find_id(line, self._pending, self._only_pending()), reason, delay_s)

    def _only_pending(self) -> RequestId | None:
        """The one request that is open; a subscription is, as long as the connection lives (2026-07-28)."""
        asked = [asked for asked, method in self._pending.items() if method != "subscriptions/listen"]
        return asked[0] if len(asked) == 1 else None

    def _suspect(self, asked: RequestId | None, reason: str, delay_s: float = SUSPECT_S) -> None:
        """Fails the request unless its answer comes soon: what was seen may have been something else."""
        if asked is not None and asked not in self._suspects:
            timer = asyncio.get_running_loop().call_later(delay_s, self._condemn, asked)
            self._suspects[asked] = (reason, timer)

    def _condemn(self, asked: RequestId) -> None:
        reason, _ = self._suspects[asked]
        self.fail(asked, f"The answer cannot be used: {reason}")

    def _settle(self, asked: Any) -> None:
        """The request is done with."""
        if type(asked) not in (int, str):
            return
        self._pending.pop(asked, None)
        if suspect := self._suspects.pop(asked, None):
            suspect[1].cancel()
        for key in [key for key in self._held if key[1] == repr(asked)]:
            del self._held[key]

    def _stray(self, what: object) -> None:
        if not self._log.has_noted("stray"):
            self._log.note("stray", f"Passed over: {str(what)[:300]}")

    def end(self) -> None:
        """Nothing more comes: what is suspect fails now, and the session sees the end of its stream."""
        if self._lines:
            self._drop_lines()
        for asked in list(self._suspects):
            self._condemn(asked)
        if self._release:
            self._release.cancel()
        self._held.clear()
        self._out.close()

    def close(self) -> None:
        """As `end`, and nobody reads any more."""
        self.end()
        self.incoming.close()


class Allowance:
    """So many in each WINDOW_S."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken, self._begun = 0, -math.inf

    def take(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._begun >= WINDOW_S:
            self._taken, self._begun = 0, now
        self._taken += 1
        return self._taken <= self._most
