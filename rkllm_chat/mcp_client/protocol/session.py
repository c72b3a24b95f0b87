"""One JSON-RPC session with a server: what it writes comes in, events come out. No I/O; the clock is an argument.

The life of a request, in order of time. `send` registers it and returns its bytes. What the server writes goes into
`receive_bytes` (a pipe), `receive_line` (a frame or an event) or `receive_value`, and each of them returns what has
become an event by that: responses, requests and notifications. A response ends its request. Text that was meant as a
response but cannot be used, or that has the id of no request, fails the request 0.3 s later, because the right response
may still follow; `wake_at` says when `expire` is due. After the last byte, `end` fails such requests at once.

Races: a response may come twice, or after its request was cancelled (`_answered`); the last progress of a call may be
delayed when its response comes, and is delivered before it; a server may write a response before it was asked anything.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from .cut_result import explain_size, read_cut_response, shorten_result
from .faults import UNREADABLE_REQUEST_CODES, explain_wrong_id, is_same_id, make_unusable
from .framing import (
    CutText,
    IncompleteJsonError,
    LineSplitter,
    PartialJson,
    begins_message,
    check_depth,
    looks_like_response,
    parse_values,
    replace_unrepresentable,
)
from .limits import MAX_MESSAGE_BYTES, MB, RateLimit
from .normalize import normalize_id, normalize_result

if TYPE_CHECKING:
    from collections.abc import Callable

    Message = dict[str, Any]
    RequestId = int | str
    Note = Callable[[str, object], None]
    """Called with a kind of irregularity ("stray", "flood", "notices") and what it was."""

_BUSY_CODE = -32000
_SUSPECT_S = 0.3
_WINDOW_S = 0.1
_MAX_NOTIFICATIONS = 50
_MAX_REQUESTS = 10
_MAX_UNANSWERED = 16
_MAX_DELAYED = 64
_MAX_ANSWERED = 1000
"""Ids of requests whose late or repeated responses are ignored."""
_ID, _METHOD, _BODY = r'"id"\s*:\s*(-?\d{1,18}(?=[\s,}])|"[^"\\]{0,200}")', r'"method"\s*:', r'"(?:result|error)"\s*:'
"""Members of a message; compiled where they are used, as few commands need them."""
_HEAD_CHARACTERS, _END_CHARACTERS = 4096, 256


def _ignore(_kind: str, _what: object) -> None:
    """Do nothing; the default of `note`."""


class Event(NamedTuple):
    """A message of the server, and the method of the request that it answers, "" if it is not a response."""

    message: Message
    method: str = ""


class JsonRpcSession:
    """The requests in flight on one connection, and a filter of what the server writes.

    Notifications are limited to 50 per 0.1 s, requests of the server to 10 per 0.1 s and 16 unanswered.

    Args:
        max_bytes: Limit of a message.
        note: Called with each irregularity.
        clock: The time in seconds.

    Attributes:
        refusals: Responses that the driver is to send: to requests that are too many.
    """

    def __init__(
        self, max_bytes: int = MAX_MESSAGE_BYTES, note: Note = _ignore, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_bytes, self._note, self._now = max_bytes, note, clock
        self.refusals: list[Message] = []
        self._events: list[Event] = []
        self._lines = LineSplitter(self._receive_line, self._receive_cut, max_bytes)
        self._pending: dict[RequestId, str] = {}
        self._answered: deque[RequestId] = deque(maxlen=_MAX_ANSWERED)
        self._server_requests: set[RequestId] = set()
        self._suspects: dict[RequestId, tuple[Message, float]] = {}
        self._delayed: dict[tuple[str, ...], Message] = {}
        self._release_at: float | None = None
        self._partial: PartialJson | None = None
        self._partial_end = 0.0
        self._notifications = RateLimit(_MAX_NOTIFICATIONS, _WINDOW_S, clock)
        self._requests = RateLimit(_MAX_REQUESTS, _WINDOW_S, clock)

    @property
    def discarded(self) -> int:
        """Bytes dropped so far from a line that is too long and has not ended."""
        return self._lines.discarded

    @property
    def wake_at(self) -> float | None:
        """When `expire` is to be called, on the session's clock; None if it need not be."""
        times = [due for _, due in self._suspects.values()]
        times += [self._partial_end] if self._partial else []
        times += [self._release_at] if self._release_at is not None else []
        return min(times, default=None)

    def send(self, message: Message) -> bytes:
        """Register a message and return its JSON; values that JSON cannot represent are replaced.

        Raises:
            ValueError: It cannot be sent; it is not registered.
        """
        try:
            check_depth(message)
            value = replace_unrepresentable(message)
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_to_json)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(str(error).splitlines()[0]) from error
        data = text.encode()
        if len(data) > self._max_bytes:
            raise ValueError(f"message too large ({len(data) / MB:.0f} MB), limit {self._max_bytes // MB} MB")
        self._register(message)
        return data

    def _register(self, message: Message) -> None:
        method = message.get("method")
        if method == "initialize":  # begins the session anew: earlier requests are void
            self._pending.clear()
        if method and "id" in message:
            self._pending[message["id"]] = method
        elif method == "notifications/cancelled":
            self._forget(message["params"].get("requestId"))
        elif not method:
            self._server_requests.discard(message["id"])

    def receive_bytes(self, data: bytes) -> list[Event]:
        """Process the next bytes of a stream of lines."""
        self._lines.feed(data)
        return self._take_events()

    def receive_line(self, line: bytearray) -> list[Event]:
        """Process a line: a message, several, part of a multi-line message, or other text. It is cleared."""
        self._receive_line(line)
        return self._take_events()

    def receive_value(self, value: Any) -> list[Event]:
        """Process a JSON value: a message, or a batch of them (MCP 2025-03-26)."""
        self._receive_value(value)
        return self._take_events()

    def expire(self) -> list[Event]:
        """Fail the requests whose response was unusable for long enough, and release delayed notifications."""
        now = self._now()
        if self._partial and now >= self._partial_end:
            self._drop_partial()
        for request_id in [request_id for request_id, (_, due) in self._suspects.items() if now >= due]:
            self._fail(request_id)
        if self._release_at is not None and now >= self._release_at:
            self._release_at = None
            self._events += [Event(message) for message in self._delayed.values()]
            self._delayed.clear()
        return self._take_events()

    def end(self) -> list[Event]:
        """Process the end of the stream: a last line without a newline, and requests with unusable responses.

        A message that has not ended by then is no response: the end of the server is what its caller must learn.
        """
        self._lines.feed(b"\n")
        self._partial = self._release_at = None
        self._delayed.clear()
        for request_id in list(self._suspects):
            self._fail(request_id)
        return self._take_events()

    def fail(self, request_id: RequestId, error: Message) -> list[Event]:
        """Answer a request with an error in place of the server."""
        self._deliver_response({"jsonrpc": "2.0", "id": request_id, "error": error})
        return self._take_events()

    def is_pending(self, request_id: RequestId) -> bool:
        """Whether a request has no answer yet."""
        return request_id in self._pending

    def is_suspect(self, request_id: RequestId) -> bool:
        """Whether a request had a response that is unusable, and waits for a better one."""
        return request_id in self._suspects

    def suspect(self, request_id: RequestId, reason: str) -> list[Event]:
        """Process an unusable response that can only be that to a request."""
        if request_id in self._pending:
            self._suspect(request_id, make_unusable(reason))
        return self._take_events()

    def conclude(self, request_id: RequestId, reason: str) -> list[Event]:
        """Process the end of all that can answer a request: without an answer it has failed.

        The reason is what was wrong with a response, if there was one, or else `reason`.
        """
        if request_id in self._pending:
            self._suspect(request_id, make_unusable(reason))
            self._fail(request_id)
        return self._take_events()

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _receive_line(self, line: bytearray) -> None:
        """Process a line; one may be as large as the limit, so at most two copies of it exist at a time."""
        if self._partial and not begins_message(line):
            self._continue_partial(self._partial, bytes(line.rstrip()))
            return
        if self._partial:
            self._drop_partial()
        text = line.decode("utf-8", errors="replace")
        line.clear()
        if not (text := text.strip().removeprefix("\ufeff").lstrip()):
            return
        try:
            values = parse_values(text)
        except IncompleteJsonError:
            self._partial = PartialJson(text.encode(), self._max_bytes)
            self._partial_end = self._now() + _SUSPECT_S
        except ValueError as error:
            self._suspect_text(text, str(error))
        else:
            del text
            for value in values:
                self._receive_value(value)

    def _continue_partial(self, partial: PartialJson, line: bytes) -> None:
        try:
            values = partial.add(line)
        except ValueError:
            self._drop_partial()
            return
        if values is not None:
            self._partial = None
            for value in values:
                self._receive_value(value)

    def _drop_partial(self) -> None:
        text, self._partial = self._partial.text if self._partial else b"", None
        self._suspect_text(text.decode("utf-8", errors="replace"), "it is incomplete", 0)

    def receive_cut(self, cut: CutText, request_id: RequestId | None = None) -> list[Event]:
        """Process a message over the limit, of which there are the beginning and the end.

        Args:
            cut: The message.
            request_id: The only request that it can answer, if that is known.
        """
        self._receive_cut(cut, request_id)
        return self._take_events()

    def receive_unfinished(self) -> list[Event]:
        """Process a line that is over the limit before it has ended."""
        self._lines.end_line()
        return self._take_events()

    def _receive_cut(self, cut: CutText, request_id: RequestId | None = None) -> None:
        ends, reason = cut.head[:_HEAD_CHARACTERS] + cut.tail, explain_size(cut.size, self._max_bytes)
        response = read_cut_response(cut)
        if response is None:
            if request_id is None:
                self._suspect_text(ends, reason)
            else:
                self._suspect(request_id, make_unusable(reason))
            return
        request_id = self._find_request(ends) if request_id is None else request_id
        answer: Message | None = None
        if request_id in self._pending and "result" in response:
            result = shorten_result(self._pending[request_id], response["result"], cut, self._max_bytes)
            answer = result and {"jsonrpc": "2.0", "id": request_id, "result": result}
        elif not _find_fault(failed := {"jsonrpc": "2.0", "id": request_id, "error": response.get("error")}):
            answer = failed
        if answer:
            self._deliver_response(answer)
        else:
            self._note("stray", reason)
            self._suspect(request_id, make_unusable(reason))

    def _receive_value(self, value: Any) -> None:
        if isinstance(value, dict) and isinstance(value.get("id"), float):
            value["id"] = normalize_id(value["id"])
        if isinstance(value, list) and value:
            for item in value:
                self._receive_value(item)
        elif not isinstance(value, dict):
            self._note("stray", value)
        elif reason := _find_fault(value):
            self._note("stray", value)
            if "method" not in value and value.keys() & {"result", "error", "id"}:
                request_id = value.get("id")
                is_known = type(request_id) in (int, str) and request_id in self._pending
                self._suspect(request_id if is_known else self._only_pending(), make_unusable(reason))
        elif "method" not in value:
            self._receive_response(value)
        elif type(value.get("id")) in (int, str):
            self._receive_request(value)
        else:
            self._receive_notification(value)

    def _receive_response(self, response: Message) -> None:
        response_id = response["id"]
        if response_id is None:
            self._note("stray", response)
            if response["error"]["code"] in UNREADABLE_REQUEST_CODES:
                self._suspect(self._only_pending(), response["error"])
            return
        if response_id not in self._pending:
            similar = next((known for known in self._pending if is_same_id(response_id, known)), None)
            if similar is None:
                self._suspect_id(response_id)
                return
            response = {**response, "id": similar}
        if "result" in response and "error" in response:
            response = {key: value for key, value in response.items() if value is not None}
        self._deliver_response(response)

    def _suspect_id(self, response_id: RequestId) -> None:
        """Process a response to no request; in a handshake, a lower number may be that of no request at all."""
        self._note("stray", f"a response to an unknown request: {response_id!r}")
        expected = self._only_pending()
        if response_id in self._answered or expected is None:
            return
        is_handshake = self._pending[expected] == "initialize"
        if is_handshake and type(response_id) is int and type(expected) is int and response_id < expected:
            return
        self._suspect(expected, make_unusable(explain_wrong_id(response_id, expected)))

    def _deliver_response(self, response: Message) -> None:
        request_id = response["id"]
        if request_id in self._pending:
            delayed = [key for key in self._delayed if key[1] == repr(request_id)]
            self._events += [Event(self._delayed.pop(key)) for key in delayed]  # its last progress
            method = self._pending[request_id]
            if "result" in response:
                response = {**response, "result": normalize_result(method, response["result"])}
            self._events.append(Event(response, method))
            self._forget(request_id)

    def _receive_request(self, message: Message) -> None:
        if message["method"] == self._pending.get(message["id"]) != "ping":
            reason = "it sends back what it receives and is no MCP server"
            self._deliver_response({"jsonrpc": "2.0", "id": message["id"], "error": make_unusable(reason)})
            return
        if len(self._server_requests) < _MAX_UNANSWERED and self._requests.try_acquire():
            self._server_requests.add(message["id"])
            self._events.append(Event(message))
            return
        self._note("flood", "The server sends too many requests at once; some are rejected.")
        refusal = {"code": _BUSY_CODE, "message": "Too many requests at once."}
        self.refusals.append({"jsonrpc": "2.0", "id": message["id"], "error": refusal})

    def _receive_notification(self, message: Message) -> None:
        """Deliver a notification; beyond 50 in 0.1 s, delay the newest of each kind to the next window."""
        params = message.get("params") or {}
        request_id = params.get("requestId")
        if message["method"] == "notifications/cancelled" and isinstance(request_id, int | str):
            self._server_requests.discard(request_id)
        if not self._delayed and self._notifications.try_acquire():
            self._events.append(Event(message))
            return
        self._note("notices", "The server sends too many notifications; only the newest of each kind is delivered.")
        key = (message["method"], *(repr(params.get(name)) for name in ("progressToken", "requestId", "uri")))
        self._delayed.pop(key, None)
        self._delayed[key] = message
        if len(self._delayed) > _MAX_DELAYED:
            self._delayed.pop(next(iter(self._delayed)))
        if self._release_at is None:
            self._release_at = self._now() + _WINDOW_S

    def _suspect_text(self, text: str, reason: str, delay_s: float = _SUSPECT_S) -> None:
        self._note("stray", f"{reason}: {text[:200].encode(errors='replace')!r}")
        if looks_like_response(text):
            self._suspect(self._find_request(text), make_unusable(reason), delay_s)

    def _find_request(self, text: str) -> RequestId | None:
        """Return the pending request that a malformed response belongs to, None if it belongs to none.

        Looks for an id before the body, else near the end of the text, which may lack its middle.
        """
        body, member = re.search(_BODY, text), re.compile(_ID)
        before = body.start() if body else len(text)
        if re.compile(_METHOD).search(text, 0, before):
            return None
        found = member.search(text, 0, before)
        ids = [found[1]] if found else member.findall(text[-_END_CHARACTERS:])
        if not ids:
            return self._only_pending()
        request_id = ids[-1][1:-1] if ids[-1].startswith('"') else int(ids[-1])
        return request_id if request_id in self._pending else None if found else self._only_pending()

    def _only_pending(self) -> RequestId | None:
        """Return the only open request, ignoring subscriptions, which stay open (MCP 2026-07-28)."""
        ids = [request_id for request_id, method in self._pending.items() if method != "subscriptions/listen"]
        return ids[0] if len(ids) == 1 else None

    def _suspect(self, request_id: RequestId | None, error: Message, delay_s: float = _SUSPECT_S) -> None:
        """Fail the request unless its real response arrives soon; the text may have been something else."""
        if request_id is not None and request_id not in self._suspects:
            self._suspects[request_id] = error, self._now() + delay_s

    def _fail(self, request_id: RequestId) -> None:
        error, _ = self._suspects.pop(request_id)
        self._deliver_response({"jsonrpc": "2.0", "id": request_id, "error": error})

    def _forget(self, request_id: object) -> None:
        """Forget a request that was answered or cancelled."""
        if not isinstance(request_id, int | str):
            return
        if self._pending.pop(request_id, None) is not None:
            self._answered.append(request_id)
        self._suspects.pop(request_id, None)
        for key in [key for key in self._delayed if key[1] == repr(request_id)]:
            del self._delayed[key]


def _to_json(value: object) -> Any:
    """Return an argument of a program that uses the library, such as bytes or a set, as JSON. Raises ValueError."""
    from pydantic import TypeAdapter

    return TypeAdapter(Any).dump_python(value, mode="json")


def _find_fault(value: Message) -> str:
    """Return why a JSON object is no JSON-RPC message; "" if it is one.

    Some servers write both result and error, one of them as null (JSON-RPC 2.0, 5: either, not both).
    """
    if value.get("jsonrpc") != "2.0":
        return "it is not JSON-RPC 2.0"
    if "method" in value:
        is_message = isinstance(value["method"], str) and isinstance(value.get("params", {}), dict | None)
        return "" if is_message else "it is not a JSON-RPC message"
    result, error = value.get("result"), value.get("error")
    if result is not None and error is not None:
        return "it has a result and an error"
    if "result" not in value and "error" not in value:
        return "it is not a JSON-RPC message"
    request_id = value.get("id")
    if type(request_id) not in (int, str) and not (request_id is None and error is not None):
        return f"its id is {request_id!r}"
    if error is None:
        return "" if isinstance(result, dict) else "its result is not an object"
    if isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str):
        return ""
    said = error.get("message", "") if isinstance(error, dict) else error
    return f"its error is invalid: {said}"
