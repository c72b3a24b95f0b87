"""HTTP client of a transport: restricts destinations, bounds responses, and translates failures.

No redirect to another origin is followed (the SDK's rule), TLS is always verified, and what is read after decoding is
limited. Of JSON-RPC it only distinguishes requests from other messages.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import httpx2

from ...core.errors import ChatError
from ..error_messages import LOGIN_REFUSED, describe_connect_error
from ..protocol.faults import INTERNAL_ERROR, UNUSABLE, retry_wait_s
from ..protocol.framing import prune_deep_lists
from ..protocol.http_answer import SESSION_LOST, adopt_error, parse_small, quote_error_body, reports_lost_session
from .addresses import check_new_connection, check_peer, is_loopback
from .http_body import AnswerEvents, DecodedBody, UnreadableBodyError, copy_response
from .tls import get_tls_context

if TYPE_CHECKING:
    from .base import Transport

_CONNECT_S = 10.0
_WRITE_S = 30.0
_SPARE_S = 10.0
_DELETE_S = 1.0
_ACCEPT_S = 10.0
MAX_STREAMS, _STREAMS_S = 10, 10.0
_REJECTING_STATUSES = (400, 404, 405, 406, 410, 415, 501)


class ServerHttpClient(httpx2.AsyncClient):
    """An HTTP client for one server; its headers are sent to that server's origin only.

    Args:
        transport: Learns the outcome of requests; its login adds tokens and logs in.
        is_public: Whether the URL leads to the internet only; see `check_peer`.
    """

    def __init__(self, transport: Transport, is_public: bool) -> None:
        server = transport.server
        read_s = max(server.timeout_s, server.connect_s) + _SPARE_S
        super().__init__(
            headers={**server.headers, "accept-encoding": "gzip"},
            timeout=httpx2.Timeout(_CONNECT_S, read=read_s, write=_WRITE_S),
            follow_redirects=False,
            verify=get_tls_context(),
            trust_env=not is_loopback(server.url),  # proxies of the environment
        )
        self._server, self._is_public = server, is_public
        self._watcher, self._login = transport, transport.login
        self._streams: deque[float] = deque(maxlen=MAX_STREAMS)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, following redirects on the same origin that keep the method (307, 308)."""
        _set_read_timeout(request)
        response = await self._send_once(request, options)
        for _ in range(self.max_redirects):
            following = response.next_request
            if (
                following is None
                or following.method != request.method
                or not has_same_origin(following.url, request.url)
            ):
                break
            await response.aclose()
            response = await self._send_once(following, options)
        return response

    async def _send_once(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        options = {**options, "stream": True, "follow_redirects": False}
        match request.method:
            case "DELETE":
                return await self._end_session(request, options)
            case "GET":
                await self._limit_stream_rate()
                return await self._send_with_token(request, options)
        try:
            response = await self._send_with_token(request, options)
            if wait_s := retry_wait_s(response.status_code, response.headers.get("retry-after", "")):
                await anyio.sleep(wait_s)
                response = await self._send_with_token(request, options)
            return response
        except ChatError as error:
            self._watcher.problem, self._watcher.status = error.message, 0
            is_refusal = self._login is not None and self._login.error is error
            return _error_response(request, error.message, LOGIN_REFUSED if is_refusal else None)
        except httpx2.ReadTimeout:
            return _error_response(request, "no response arrived", UNUSABLE)
        except httpx2.TransportError as error:
            reason = describe_connect_error(error)
            self._watcher.note_broken(f"cannot be reached: {reason}")
            return _error_response(request, reason, UNUSABLE)

    async def _send_with_token(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Send with the login's token; only requests that a caller awaits may start a login."""
        send = partial(self._send_checked, options=options)
        if self._login is None:
            return await send(request)
        return await self._login.send(request, send, request.method != "GET" or self._watcher.kind == "sse")

    async def _send_checked(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        if self._login:
            self._watcher.problem = ""  # such as a 401 before a login
        request.extensions["trace"] = self._check_peer
        return await self._bound_body(await super().send(request, **options))

    async def _check_peer(self, event: str, info: Mapping[str, Any]) -> None:
        await check_new_connection(event, info, partial(check_peer, self._server, is_public_name=self._is_public))

    async def _end_session(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Send the DELETE that ends a session, waiting at most 1 s."""
        with anyio.move_on_after(_DELETE_S):
            try:
                if self._login:
                    self._login.add_token(request)
                return await self._send_checked(request, options)
            except (httpx2.HTTPError, ChatError):
                pass
        return httpx2.Response(204, request=request)

    async def _limit_stream_rate(self) -> None:
        """Limit reconnects to a server that ends its event streams at once (python-sdk #3257)."""
        if len(self._streams) == MAX_STREAMS:
            await anyio.sleep(max(0.0, self._streams[0] + _STREAMS_S - time.monotonic()))
        self._streams.append(time.monotonic())

    async def _bound_body(self, response: httpx2.Response) -> httpx2.Response:
        """Return the response with a bounded body, and record its status."""
        body = DecodedBody(response, self._watcher.max_bytes)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        request_id = _read_request_id(response.request)
        if response.is_success and kind == "text/event-stream":
            self._watcher.problem = ""
            in_session = "mcp-session-id" in response.request.headers
            events = body if request_id is None else AnswerEvents(body, request_id, in_session)
            return copy_response(response, stream=events)
        try:
            content = await body.read_all()
        except UnreadableBodyError as error:
            return _error_response(response.request, str(error), UNUSABLE)
        finally:
            await response.aclose()
        return self._read_answer(response, content, request_id)

    def _read_answer(self, response: httpx2.Response, content: bytes, request_id: int | str | None) -> httpx2.Response:
        """Return a response with its body as the SDK's client takes it, and record its status.

        A GET says nothing about the session: many servers have no route for it.
        """
        request, status, value = response.request, response.status_code, parse_small(content)
        is_post, is_jsonrpc = request.method == "POST", isinstance(value, dict) and "jsonrpc" in value
        if not response.is_success and (is_post or self._watcher.kind == "sse"):
            said = "" if is_jsonrpc else quote_error_body(content)  # the error itself is shown beside the status
            problem = f"HTTP {status} {response.reason_phrase}".strip()
            self._watcher.problem, self._watcher.status = f"{problem}: {said}" if said else problem, status
            self._watcher.challenge = response.headers.get("www-authenticate", "")
        elif response.is_success:
            self._watcher.problem = ""
        if is_post and "mcp-session-id" in request.headers and reports_lost_session(status, value):
            if request_id is not None:  # the sender of the request starts a new session
                return _error_response(request, "the session is lost", SESSION_LOST)
            self._watcher.note_broken("has lost the session")
        if is_post and status in _REJECTING_STATUSES and not is_jsonrpc:
            self._watcher.note_rejected()
        if (adopted := adopt_error(value, request_id)) is not value:
            content = json.dumps(adopted).encode()
        answer = copy_response(response, content=prune_deep_lists(content) if _is_json(content) else content)
        if is_post and response.is_success and _is_json(content):
            answer.headers["content-type"] = "application/json"  # whatever the server calls it
        return answer


def _is_json(content: bytes) -> bool:
    """Tell by its beginning whether a body is meant as JSON."""
    return content.lstrip()[:1] in (b"{", b"[")


def _set_read_timeout(request: httpx2.Request) -> None:
    """Set the read timeout: none for an event stream, 10 s where no response body is expected.

    The SDK sends nothing else until a notification is accepted (2.3.0).
    """
    if request.method == "GET" or not _expects_response(request):
        read_s = None if request.method == "GET" else _ACCEPT_S
        request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "read": read_s}


def _expects_response(request: httpx2.Request) -> bool:
    """Tell whether a POST carries a JSON-RPC request, as opposed to a notification or a response."""
    return _read_request_id(request) is not None


def _read_request_id(request: httpx2.Request) -> int | str | None:
    """Return the id of the JSON-RPC request that a POST carries; None for anything else."""
    try:
        message = json.loads(request.content) if request.method == "POST" else {}
    except (ValueError, httpx2.RequestNotRead):  # a redirected request is a stream
        return None
    return message.get("id") if "method" in message else None


def _error_response(request: httpx2.Request, message: str, data: str | None = None) -> httpx2.Response:
    """Return a response that the SDK treats as this request's error; other exceptions end its whole client."""
    error = {"code": INTERNAL_ERROR, "message": message, "data": data}
    return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)


def has_same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    """Tell whether scheme, host and port are equal."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)
