"""Transport to a server at a URL: streamable HTTP, or HTTP with server-sent events (MCP 2024-11-05).

Streamable HTTP, in order of time. Each request is a POST of its own, in a task, so that many are in flight;
notifications and our answers are posted one after another, and nothing overtakes them. The answer is the body of the
response, or an event of its stream, beside which the server may ask and report. A stream that ends without the answer
is resumed with GET after its last event, if the server gave that an id (until MCP 2025-11-25). After the handshake, a
server with a session is asked for a stream of its own, by GET; that it has none says nothing. A request that is
cancelled has its response closed, which is the cancellation itself since MCP 2026-07-28. The session is ended with
DELETE.

With server-sent events there is one stream, of a GET, which carries all that the server says. Its first event names the
address for POSTs, whose responses say nothing but whether the message was accepted.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup

from ...config.servers import ServerConfig
from ...core.errors import ChatError
from ..error_messages import describe_connect_error, first_leaf, make_unopened_error
from ..protocol.dialog import STATELESS_VERSION, UNCANCELLABLE
from ..protocol.event_stream import EventParser, resume_wait_s
from ..protocol.faults import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    SessionLostError,
    explain_wrong_id,
    is_response,
    is_same_id,
)
from ..protocol.framing import BoundedBytes, CutText, parse_values
from ..protocol.http_answer import adopt_error, parse_small, quote_error_body, reports_lost_session
from ..protocol.http_headers import SESSION_HEADER, make_message_headers, make_stream_headers
from ..protocol.limits import MAX_RESUME_FAILURES, RateLimit
from ..protocol.normalize import normalize_id
from .addresses import check_headers, redact_url, resolve_url
from .base import Transport
from .flood_brake import FloodBrake
from .http_body import UnreadableBodyError, get_content_type, read_body, read_events
from .http_client import ServerHttpClient, has_same_origin

_CONNECT_S = 10.0
_ACCEPT_S = 10.0
_SPARE_S = 10.0
_DELETE_S = 1.0
_CLOSE_S = 2.0
_CANCEL_S = 1.0
_MAX_ANSWERS, _ANSWERS_S = 100, 10.0
"""How many requests of the server are answered in so many seconds."""
MAX_STREAMS, _STREAMS_S = 10, 10.0
"""How often the server's own stream is opened in so many seconds; some end theirs at once (python-sdk #3257)."""
_EVENT_STREAM = "text/event-stream"
_REJECTING_STATUSES = (400, 404, 405, 406, 410, 415, 501)
"""Statuses with which a server answers a POST if it only supports server-sent events."""
_BROKE_OFF = "closed the connection before the response was complete"

Message = dict[str, Any]
RequestId = int | str

log = logging.getLogger(__name__)


class _EndedError(Exception):
    """The connection cannot go on; the text says why, as words that follow "it"."""


class HttpTransport(Transport):
    """Tries kinds of HTTP in turn and stays with the first that works, or with the last.

    Args:
        server: The server's configuration.
        log: The server's log file.
        kinds: Kinds to try, each "http" or "sse".

    Raises ConnectError on entering if the address is refused, or if only SSE is allowed and the server does not support
    it.
    """

    _limit: anyio.CancelScope
    _http: ServerHttpClient
    _group: TaskGroup

    def __init__(self, server: ServerConfig, log: Path, kinds: Sequence[str]) -> None:
        super().__init__(server, log)
        self._kinds = kinds
        if len(kinds) == 1:
            self.kind = kinds[0]
        if kinds[0] == "sse":
            self.mode = "legacy"
        self._unsent: deque[tuple[Message, bytes]] = deque()
        self._sent: list[tuple[Message, bytes]] = []  # while another kind may have to send it again
        self._exchanges: dict[RequestId, anyio.CancelScope] = {}
        self._session_id = ""
        self._refusal: ChatError | None = None
        self._answers = RateLimit(_MAX_ANSWERS, _ANSWERS_S)
        self._brake = FloodBrake()
        self._is_settled = self._is_rejected = self._is_closing = False
        self._has_unsent, self._connected = asyncio.Event(), asyncio.Event()
        self._scope: anyio.CancelScope | None = None
        self._runner: asyncio.Task[None] | None = None

    @property
    def has_session(self) -> bool:
        """Whether the server has given the session an id, which with server-sent events is part of an address."""
        return bool(self._session_id) or self.kind == "sse"

    async def _open(self) -> None:
        check_headers(self.server)
        self._addresses = await resolve_url(self.server)
        self._runner = asyncio.create_task(self._run(), name=f"{self.server.name} over HTTP")
        await self._connected.wait()
        if self._refusal:
            raise self._refusal
        if self.end_reason:
            url = redact_url(self.server.url)
            raise make_unopened_error(self.server.name, url, self.end_reason)

    async def _close(self) -> None:
        """Close the streams, waiting at most 3 s."""
        self._stop()
        if self._runner:
            _, unfinished = await asyncio.wait([self._runner], timeout=_CLOSE_S)
            if unfinished:
                self._runner.cancel()
                await asyncio.wait([self._runner], timeout=_CANCEL_S)

    def _stop(self) -> None:
        """Have the connection end, with the end of its session."""
        self._is_closing = True
        if self._scope:
            self._scope.cancel()

    def note_broken(self, reason: str) -> None:
        """End the connection; called when the server is unreachable or has forgotten the session."""
        self._end(reason)
        self._stop()

    def _put(self, message: Message, text: bytes) -> None:
        if "method" not in message and not self._answers.try_acquire():
            return  # each would be a POST before the next call
        self._unsent.append((message, text))
        self._has_unsent.set()

    async def _take_unsent(self) -> tuple[Message, bytes]:
        while not self._unsent:
            self._has_unsent.clear()
            await self._has_unsent.wait()
        item = self._unsent.popleft()
        if not self._is_settled:
            self._sent.append(item)
        return item

    async def _run(self) -> None:
        """Try each kind until one works, and run that one to its end."""
        reason = "was closed"
        try:
            for number, kind in enumerate(self._kinds, 1):
                if await self._try(kind, is_last=number == len(self._kinds)):
                    break
        except ChatError as error:
            reason, self._refusal = error.message, error
        except Exception as error:
            reason = describe_end(error)
        finally:
            self._end(reason)
            self._connected.set()

    async def _try(self, kind: str, is_last: bool) -> bool:
        """Run one kind to its end; return False if the server does not support it and another is left."""
        self.kind, self._is_rejected, self._is_settled = kind, False, is_last and kind != "sse"
        self._unsent.extendleft(reversed(self._sent))
        self._sent.clear()
        try:
            with self.deadlines.limit(_CONNECT_S) as self._limit:
                async with ServerHttpClient(self, self._addresses, self._note_problem) as self._http:
                    await (self._run_sse() if kind == "sse" else self._run_http())
                    return is_last or not self._is_rejected
            raise TimeoutError("it does not answer")
        except Exception as error:
            if is_last or self._is_settled or isinstance(error, ChatError):
                raise
            log.info("%s does not support %s: %s", self.server.name, kind, error)
            return False

    def _mark_connected(self) -> None:
        """Mark the connection as open and remove the connect deadline."""
        self._limit.deadline = math.inf
        self._connected.set()

    def _settle(self) -> None:
        """Stay with this kind: the server has answered in it."""
        self._is_settled = True
        self._sent.clear()

    def _enter(self, group: TaskGroup) -> None:
        """Have tasks started in a group, until the connection is to end."""
        self._group, self._scope = group, group.cancel_scope
        if self._is_closing:
            group.cancel_scope.cancel()

    # Streamable HTTP

    async def _run_http(self) -> None:
        self._mark_connected()
        async with anyio.create_task_group() as group:
            self._enter(group)
            while True:
                await self._send(*await self._take_unsent())
        if self._session_id:
            with anyio.move_on_after(_DELETE_S), suppress(httpx2.TransportError, ChatError):
                async with self._http.open("DELETE", self.server.url, self._make_headers({}), read_s=_DELETE_S):
                    pass

    async def _send(self, message: Message, text: bytes) -> None:
        """Begin to post a request, or post another message; a cancellation closes the response."""
        method, request_id = message.get("method"), message.get("id")
        if method and request_id is not None:
            self._group.start_soon(self._exchange, message, text)
            return
        cancelled = message["params"].get("requestId") if method == "notifications/cancelled" else None
        if cancelled is None or self._driver.version != STATELESS_VERSION:
            await self._post(message, text)
        if scope := self._exchanges.get(cancelled) if cancelled is not None else None:
            scope.cancel()
        if method == "notifications/initialized" and self._session_id:
            self._group.start_soon(self._listen)

    async def _exchange(self, message: Message, text: bytes) -> None:
        """Post a request, and deliver what comes up to its answer."""
        request_id = message["id"]
        with anyio.CancelScope() as scope:
            self._exchanges[request_id] = scope
            try:
                await self._post(message, text, request_id)
            finally:
                if self._exchanges.get(request_id) is scope:
                    del self._exchanges[request_id]

    async def _post(self, message: Message, text: bytes, request_id: RequestId | None = None) -> None:
        """Post a message and process the response."""
        method = message.get("method")
        is_limited = request_id is None or method in UNCANCELLABLE  # other requests are cancelled at their deadline
        read_s = _ACCEPT_S if request_id is None else max(self.server.timeout_s, self.server.connect_s) + _SPARE_S
        headers = self._make_headers(message)
        with self._failing(request_id):
            async with self._http.open(
                "POST", self.server.url, headers, text, read_s if is_limited else None
            ) as response:
                if method == "initialize":
                    self._session_id = _read_session_id(response)
                if response.is_success and get_content_type(response) == _EVENT_STREAM:
                    self.problem = ""
                    if request_id is not None:
                        self._settle()
                        await self._read_stream(response, request_id, method)
                    return
                if response.is_closed:
                    body = BoundedBytes(self.max_bytes)
                    body.add(response.content)
                else:
                    body = await read_body(response, self.max_bytes)
            self._receive_body(response, body, request_id, SESSION_HEADER in headers)

    def _make_headers(self, message: Message) -> dict[str, str]:
        driver = self._driver
        return make_message_headers(message, driver.version, self._session_id, driver.header_arguments)

    @contextmanager
    def _failing(self, request_id: RequestId | None) -> Iterator[None]:
        """Have a request fail for what goes wrong in the block, or the connection end."""
        try:
            yield
        except ChatError as error:
            log.info("%s: %s", self.server.name, error)
            if request_id is not None:
                self._driver.fail_with(request_id, error)
        except UnreadableBodyError as error:
            if request_id is not None:
                self._driver.fail_request(request_id, str(error))
        except httpx2.ReadTimeout:
            if request_id is not None:
                self._driver.fail_request(request_id, "no response arrived")
        except httpx2.TransportError as error:
            self.note_broken(f"cannot be reached: {describe_connect_error(error)}")

    def _receive_body(
        self, response: httpx2.Response, body: BoundedBytes, request_id: RequestId | None, in_session: bool
    ) -> None:
        """Process a response that is no stream: the answer to a request, or the fate of another message."""
        value = parse_small(body.content)
        is_jsonrpc = isinstance(value, dict) and "jsonrpc" in value
        if response.is_success:
            self.problem = ""
        else:
            self._note_problem(response, is_told=is_jsonrpc)
        if in_session and reports_lost_session(response.status_code, value):
            self._lose_session(request_id)
        elif response.status_code in _REJECTING_STATUSES and not is_jsonrpc and not self._is_settled:
            self._is_rejected = True
            self._group.cancel_scope.cancel()
        elif request_id is not None:
            self._settle()
            self._receive_answer(response, body.take_text(), request_id, in_session)

    def _receive_answer(
        self, response: httpx2.Response, content: str | CutText, request_id: RequestId, in_session: bool
    ) -> None:
        """Deliver the messages of a body; without the answer among them, the request has failed."""
        reason = "it has no answer"
        try:
            self._receive_text(content, request_id, in_session)
        except ValueError as error:
            reason = str(error)
            if not content:
                reason = "it is empty"
            elif isinstance(content, str) and not content.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
                reason = f"it is {get_content_type(response)}, not JSON"
        if response.status_code == httpx2.codes.ACCEPTED:
            reason = "the request was only acknowledged, with 202 Accepted"
        if response.next_request:
            location = redact_url(str(response.next_request.url))
            self._driver.fail_request(request_id, f"The redirect to {location} is not followed.", INTERNAL_ERROR)
        elif not response.is_success:
            self._driver.fail_request(request_id, "The request was refused.", INTERNAL_ERROR)
        else:
            self._conclude(request_id, reason)

    def _conclude(self, request_id: RequestId, reason: str) -> None:
        self._driver.deliver(self._driver.session.conclude(request_id, reason))

    def _note_problem(self, response: httpx2.Response, is_told: bool = False) -> None:
        """Record why a request failed, to be told beside its error; what its body says only if the error does not."""
        said = "" if is_told else quote_error_body(response.content)
        problem = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        self.problem, self.status = f"{problem}: {said}" if said else problem, response.status_code
        self.challenge = response.headers.get("www-authenticate", "")

    def _lose_session(self, request_id: RequestId | None) -> None:
        """End a session that the server has forgotten; the sender of a request repeats it in a new one."""
        if request_id is None:
            self.note_broken("has lost the session")
            return
        name = self.server.name
        self._driver.fail_with(request_id, SessionLostError(f'Server "{name}" has lost the session.', server=name))

    def _receive_text(self, text: str | CutText, request_id: RequestId, in_session: bool) -> None:
        """Deliver the messages in a body or an event. Raises ValueError if there are none."""
        if isinstance(text, CutText):
            self._driver.deliver(self._driver.session.receive_cut(text, request_id))
            return
        for value in parse_values(text.strip().removeprefix("\ufeff")):
            for message in value if isinstance(value, list) else [value]:
                self._receive_value(message, request_id, in_session)

    def _receive_value(self, value: Any, request_id: RequestId, in_session: bool) -> None:
        """Deliver a message. A response here can only be that to the request: another does not answer it."""
        session = self._driver.session
        if is_response(value):
            value = adopt_error(value, request_id)
            response_id = normalize_id(value.get("id"))
            if in_session and reports_lost_session(200, value):
                self._lose_session(request_id)
                return
            if response_id is not None and not is_same_id(response_id, request_id):
                self._driver.deliver(session.suspect(request_id, explain_wrong_id(response_id, request_id)))
                return
        self._driver.deliver(session.receive_value(value), request_id)

    async def _read_stream(self, response: httpx2.Response, request_id: RequestId, method: str | None) -> None:
        """Read the events of a response up to the answer, also if the stream has to be resumed for that."""
        session, parser, failures = self._driver.session, EventParser(self.max_bytes), 0
        await self._read_events(response, parser, request_id)
        while session.is_pending(request_id) and self._driver.version != STATELESS_VERSION:
            wait_s = resume_wait_s(parser, failures)
            if wait_s is None:
                break
            await anyio.sleep(wait_s)
            parser.restart()
            failures = 0 if await self._resume(parser, request_id) else failures + 1
        if method == "subscriptions/listen":
            self._driver.fail_request(request_id, "the server has ended the subscription")
        elif session.is_pending(request_id) and not session.is_suspect(request_id):
            self.note_broken(_BROKE_OFF)
        else:
            self._conclude(request_id, _BROKE_OFF)

    async def _read_events(self, response: httpx2.Response, parser: EventParser, request_id: RequestId) -> None:
        """Read the events of a response up to the answer; one that breaks off ends like one that is complete."""
        session, in_session = self._driver.session, bool(self._session_id)
        try:
            async with aclosing(read_events(response, parser, self.max_bytes)) as events:
                async for name, data in events:
                    if name == "message" and data:
                        try:
                            self._receive_text(data, request_id, in_session)
                        except ValueError as error:
                            self._driver.fail_request(request_id, str(error))
                    if not session.is_pending(request_id):
                        return
                    await self._brake.count()
        except httpx2.TransportError as error:
            log.debug("a stream broke off: %s", error)

    async def _resume(self, parser: EventParser, request_id: RequestId) -> bool:
        """Request the rest of a stream; return whether the server gives it."""
        headers = make_stream_headers(self._driver.version, self._session_id, parser.last_id)
        try:
            async with self._http.open("GET", self.server.url, headers, may_log_in=False) as response:
                if not response.is_success or get_content_type(response) != _EVENT_STREAM:
                    return False
                await self._read_events(response, parser, request_id)
        except (httpx2.TransportError, ChatError) as error:
            log.debug("a stream cannot be resumed: %s", error)
            return False
        return True

    async def _listen(self) -> None:
        """Read the stream on which the server itself begins; that it has none says nothing about the session."""
        parser, failures = EventParser(self.max_bytes), 0
        opened: deque[float] = deque(maxlen=MAX_STREAMS)
        while failures < MAX_RESUME_FAILURES:
            if len(opened) == MAX_STREAMS:
                await anyio.sleep(max(0.0, opened[0] + _STREAMS_S - time.monotonic()))
            opened.append(time.monotonic())
            headers = make_stream_headers(self._driver.version, self._session_id, parser.last_id)
            try:
                async with self._http.open("GET", self.server.url, headers, may_log_in=False) as response:
                    if response.is_client_error:
                        return
                    is_stream = response.is_success and get_content_type(response) == _EVENT_STREAM
                    if is_stream:
                        await self._read_own_stream(response, parser)
                    failures = 0 if is_stream else failures + 1
            except (httpx2.TransportError, UnreadableBodyError, ChatError) as error:
                log.debug("the stream of a server broke off: %s", error)
                failures += 1
            await anyio.sleep(parser.retry_s)
            parser.restart()

    async def _read_own_stream(self, response: httpx2.Response, parser: EventParser) -> None:
        async with aclosing(read_events(response, parser, self.max_bytes)) as events:
            async for name, data in events:
                if name == "message":
                    self._receive_event(data)
                await self._brake.count()

    def _receive_event(self, data: str | CutText) -> None:
        """Deliver the messages of an event that belongs to no request."""
        session = self._driver.session
        if isinstance(data, CutText):
            self._driver.deliver(session.receive_cut(data))
        else:
            self._driver.deliver(session.receive_line(bytearray(data.encode())))

    # Server-sent events

    async def _run_sse(self) -> None:
        """Read messages as events of one long response, and POST to the address in its first event."""
        async with self._http.open("GET", self.server.url, make_stream_headers()) as response:
            if not response.is_success:
                self._note_problem(response)
                raise _EndedError(f"answered {self.problem}")
            if get_content_type(response) != _EVENT_STREAM:
                raise _EndedError(
                    f"answers with {get_content_type(response) or 'no type'}, not with a stream of events"
                )
            async with anyio.create_task_group() as group:
                self._enter(group)
                async with aclosing(read_events(response, EventParser(self.max_bytes), self.max_bytes)) as events:
                    async for name, data in events:
                        if name == "endpoint" and not self._is_settled:
                            self._settle()
                            group.start_soon(self._post_all, _resolve_endpoint(response.url, str(data)))
                            self._mark_connected()
                        elif name == "message":
                            self._receive_event(data)
                        await self._brake.count()
                self._end("ended its event stream")
                group.cancel_scope.cancel()

    async def _post_all(self, url: httpx2.URL) -> None:
        while True:
            await self._post_to(url, *await self._take_unsent())

    async def _post_to(self, url: httpx2.URL, message: Message, text: bytes) -> None:
        request_id = message.get("id") if "method" in message else None
        if message.get("method") == "server/discover" and request_id is not None:
            # no such server knows this method, and some do not answer it
            self._driver.fail_request(request_id, "Method not found", METHOD_NOT_FOUND)
            return
        with self.deadlines.limit(_ACCEPT_S) as limit, self._failing(request_id):
            async with self._http.open("POST", url, {"content-type": "application/json"}, text) as response:
                if response.is_success:
                    self.problem = ""
                else:
                    self._note_problem(response)
                    if request_id is not None:
                        self._driver.fail_request(request_id, "The request was refused.", INTERNAL_ERROR)
        if request_id is not None and limit.cancelled_caught:
            reason = f"The server did not accept the message within {_ACCEPT_S:g} s"
            self._driver.fail_request(request_id, reason, INTERNAL_ERROR)


def _read_session_id(response: httpx2.Response) -> str:
    """Return the id of a new session, which consists of visible ASCII characters (MCP 2025-11-25, transports)."""
    found = str(response.headers.get(SESSION_HEADER, "")) if response.is_success else ""
    return found if found.isascii() and found.isprintable() else ""


def _resolve_endpoint(url: httpx2.URL, endpoint_url: str) -> httpx2.URL:
    """Return the URL for POSTs. Raises _EndedError if it is another origin."""
    try:
        endpoint = url.join(endpoint_url)
    except httpx2.InvalidURL as error:
        raise _EndedError(f"names an invalid address for messages: {error}") from None
    if not has_same_origin(endpoint, url):
        raise _EndedError(f"cannot be reached: its endpoint is on another server, {endpoint.host}")
    return endpoint


def open_http(server: ServerConfig, log: Path) -> Transport:
    """Return the transport for streamable HTTP; unless it is configured by its name, for the kind that works first."""
    return HttpTransport(server, log, ("http",) if server.transport else ("http", "sse", "http"))


def open_sse(server: ServerConfig, log: Path) -> Transport:
    """Return the transport for HTTP with server-sent events."""
    return HttpTransport(server, log, ("sse",))


def describe_end(error: BaseException) -> str:
    """Return why the connection ended, as words that follow "it"."""
    error = first_leaf(error)
    return str(error) if isinstance(error, _EndedError) else f"cannot be reached: {describe_connect_error(error)}"
