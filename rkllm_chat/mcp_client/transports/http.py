"""Transport to a server at a URL: streamable HTTP by the SDK, or HTTP with server-sent events (MCP 2024-11-05).

Each runs in its own task, so that a broken request ends its call and not the task that entered the client (python-sdk
#3560). SSE is implemented here because the SDK's client loses a POST that the server refuses (#1615) and rejects events
of more than 1 MB (mcp 2.3.0).
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import encode_header_value, mcp_param_headers
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import CONNECTION_CLOSED, JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter

from ...config.servers import ServerConfig
from ...core.errors import ChatError, ConnectError
from ..error_messages import describe_connect_error, first_leaf
from ..protocol.dialog import META_PREFIX
from ..protocol.faults import INTERNAL_ERROR, METHOD_NOT_FOUND, NAME_PARAMS, make_unusable
from ..protocol.framing import check_depth, replace_unrepresentable
from ..protocol.limits import RateLimit
from .addresses import check_headers, is_public, redact_url, resolve_url
from .base import Transport
from .flood_brake import FloodBrake
from .http_client import ServerHttpClient, has_same_origin

_CONNECT_S = 10.0
_POST_S = 10.0
_CLOSE_S = 2.0
_CANCEL_S = 1.0
_MAX_ANSWERS, _ANSWERS_S = 100, 10.0
"""How many requests of the server are answered in so many seconds."""
EVENT_STREAM_HEADERS = {"accept": "text/event-stream", "cache-control": "no-store"}

log = logging.getLogger(__name__)


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

    def __init__(self, server: ServerConfig, log: Path, kinds: Sequence[str]) -> None:
        super().__init__(server, log)
        self._kinds = kinds
        if len(kinds) == 1:
            self.kind = kinds[0]
        if kinds[0] == "sse":
            self.mode = "legacy"
        self._unsent: list[dict[str, Any]] = []
        self._sent: list[dict[str, Any]] = []
        self._refusal: ChatError | None = None
        self._answers = RateLimit(_MAX_ANSWERS, _ANSWERS_S)
        self._is_rejected = False
        self._has_unsent, self._closing, self._connected = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._runner: asyncio.Task[None] | None = None

    async def _open(self) -> None:
        check_headers(self.server)
        addresses = await resolve_url(self.server)
        self._is_out = is_public(self.server.url, addresses)
        if self.login:
            self.login.server_addresses = addresses
        self._runner = asyncio.create_task(self._run(), name=f"{self.server.name} over HTTP")
        await self._connected.wait()
        if self._refusal:
            raise self._refusal
        if self.end_reason:
            url = redact_url(self.server.url)
            text = f'Server "{self.server.name}" cannot be opened at {url}: it {self.end_reason}.'
            raise ConnectError(text, server=self.server.name, url=url)

    async def _close(self) -> None:
        """Close the streams, waiting at most 3 s."""
        self._closing.set()
        if self._runner:
            _, unfinished = await asyncio.wait([self._runner], timeout=_CLOSE_S)
            if unfinished:
                self._runner.cancel()
                await asyncio.wait([self._runner], timeout=_CANCEL_S)

    def _put(self, message: dict[str, Any], text: bytes) -> None:
        if "method" not in message and not self._answers.try_acquire():
            return  # each would be a POST before the next call
        self._unsent.append(json.loads(text))  # as it is sent, with what JSON cannot represent replaced
        self._has_unsent.set()

    async def _run(self) -> None:
        """Try each kind until one works, and run that one to its end."""
        reason = "was closed"
        try:
            for number, kind in enumerate(self._kinds):
                if await self._try(kind, is_last=number == len(self._kinds) - 1):
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
        self.kind, self._is_settled, self._is_rejected = kind, False, False
        self._unsent, self._sent = [*self._sent, *self._unsent], []
        try:
            with self.deadlines.limit(_CONNECT_S) as self._limit:
                async with ServerHttpClient(self, self._is_out) as caller:
                    return await (self._run_sse(caller) if kind == "sse" else self._run_http(caller, is_last))
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

    async def _cancel_on_close(self, scope: anyio.CancelScope) -> None:
        await self._closing.wait()
        scope.cancel()

    async def _take_unsent(self) -> dict[str, Any]:
        while not self._unsent:
            self._has_unsent.clear()
            await self._has_unsent.wait()
        item = self._unsent.pop(0)
        if not self._is_settled:
            self._sent.append(item)
        return item

    async def _run_http(self, caller: ServerHttpClient, is_last: bool) -> bool:
        """Run the SDK's client; return False if the server rejects POSTs and another kind is left."""
        async with streamable_http_client(
            self.server.url, http_client=caller, max_sse_event_size=self.max_bytes
        ) as streams:
            self._mark_connected()
            async with anyio.create_task_group() as group:
                group.start_soon(self._cancel_on_close, group.cancel_scope)
                group.start_soon(self._forward, streams[1])
                brake = FloodBrake()
                async for item in streams[0]:
                    if self._is_rejected and not is_last:
                        break
                    self._deliver(item)
                    if not (isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse)):
                        await brake.count()
                group.cancel_scope.cancel()
        return is_last or not self._is_rejected

    async def _forward(self, write: Any) -> None:
        while True:
            message = await self._take_unsent()
            metadata = ClientMessageMetadata(headers=self._make_headers(message))
            await write.send(SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False), metadata))

    def _make_headers(self, message: dict[str, Any]) -> dict[str, str]:
        """Return the headers that say what a message is (MCP 2026-07-28), or only the version of the handshake."""
        params, method = message.get("params") or {}, message.get("method", "")
        version = params.get("_meta", {}).get(f"{META_PREFIX}protocolVersion")
        if version is None:
            return {"mcp-protocol-version": self._driver.version} if self._driver.version else {}
        headers = {"mcp-protocol-version": version, "mcp-method": method}
        name = str(params.get(NAME_PARAMS.get(method, ""), ""))
        if name:
            headers["mcp-name"] = encode_header_value(name)
        if method == "tools/call" and (named := self._driver.header_arguments.get(name)):
            headers |= mcp_param_headers(named, params.get("arguments") or {})
        return headers

    def _deliver(self, item: SessionMessage | Exception) -> None:
        self._is_settled = True
        self._sent.clear()
        if isinstance(item, Exception):
            self._log.write_note("stray", f"Ignored: {item}")
            return
        message = item.message
        if isinstance(message, JSONRPCResponse):
            self._deliver_result(message)
            return
        value = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        if isinstance(message, JSONRPCError) and message.error.code == CONNECTION_CLOSED:
            if message.error.message.startswith("SSE stream failed"):
                # The event is too large. The SDK gives no other sign of it than its message (mcp 2.3.0), and its code
                # would mean that the connection is closed.
                value["error"] = make_unusable(message.error.message)
            elif message.error.message.startswith("SSE stream ended"):
                self.note_broken("closed the connection before the response was complete")
        self._driver.deliver(self._driver.session.receive_value(value))

    def _deliver_result(self, message: JSONRPCResponse) -> None:
        """Deliver a result without NaN, which the SDK's parser accepts (2.3.0), or an error if nested too deeply."""
        try:
            check_depth(message.result)
        except ValueError as error:
            self._driver.fail_request(message.id, str(error))
        else:
            result = replace_unrepresentable(message.result)
            value = {"jsonrpc": "2.0", "id": message.id, "result": result}
            self._driver.deliver(self._driver.session.receive_value(value))

    async def _run_sse(self, caller: ServerHttpClient) -> bool:
        """Read messages as events of one long response, and POST to the address in its first event."""
        async with caller.stream("GET", self.server.url, headers=EVENT_STREAM_HEADERS) as response:
            response.raise_for_status()
            async with anyio.create_task_group() as group:
                group.start_soon(self._cancel_on_close, group.cancel_scope)
                brake = FloodBrake()
                async for event in httpx2.EventSource(response, max_event_size=self.max_bytes):
                    await brake.count()
                    if event.event == "endpoint" and not self._is_settled:
                        self._is_settled = True
                        group.start_soon(self._post_all, caller, _resolve_endpoint(response.url, event.data))
                        self._mark_connected()
                    elif event.event == "message":
                        self._driver.deliver(self._driver.session.receive_line(bytearray(event.data.encode())))
                group.cancel_scope.cancel()
        self._end("was closed" if self._closing.is_set() else "ended its event stream")
        return True

    async def _post_all(self, caller: ServerHttpClient, url: httpx2.URL) -> None:
        self._sent.clear()
        while True:
            await self._post(caller, url, await self._take_unsent())

    async def _post(self, caller: ServerHttpClient, url: httpx2.URL, message: dict[str, Any]) -> None:
        request_id = message.get("id") if "method" in message else None
        if message.get("method") == "server/discover":
            # No SSE server knows this method, and some do not answer it.
            self._driver.fail_request(request_id, "Method not found", METHOD_NOT_FOUND)
            return
        with self.deadlines.limit(_POST_S) as limit:
            response = await caller.post(url, json=message)
            if request_id is not None and not response.is_success:
                self._driver.fail_request(request_id, self.problem, INTERNAL_ERROR)
        if request_id is not None and limit.cancelled_caught:
            self._driver.fail_request(
                request_id, f"The server did not accept the message within {_POST_S:g} s", INTERNAL_ERROR
            )

    def note_broken(self, reason: str) -> None:
        """End the connection; called when the server is unreachable or has forgotten the session."""
        self._end(reason)
        self._closing.set()

    def note_rejected(self) -> None:
        """Record that a POST was rejected, so that the next kind is tried."""
        self._is_rejected = not self._is_settled


def _resolve_endpoint(url: httpx2.URL, endpoint_url: str) -> httpx2.URL:
    """Return the URL for POSTs. Raises ValueError if it is another origin."""
    endpoint = url.join(endpoint_url)
    if not has_same_origin(endpoint, url):
        raise ValueError(f"its endpoint is on another server, {endpoint.host}")
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
    if isinstance(error, httpx2.HTTPStatusError):
        return f"answered HTTP {error.response.status_code} {error.response.reason_phrase}".strip()
    return f"cannot be reached: {describe_connect_error(error)}"
