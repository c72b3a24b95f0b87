"""Servers at a URL over HTTP: streamable HTTP, which the SDK speaks, and SSE, as the protocol had it in 2024.

They run in a task of their own: a request that breaks ends its call, not whoever entered the client (python-sdk #3560).
SSE is spoken here, because a POST that the server refuses is lost in the SDK's (#1615), and it takes no event of more
than 1 MB (mcp 2.3.0).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
)

from ..config import ServerConfig
from ..errors import ChatError, ConnectError
from .addresses import check_address, check_headers, show_url
from .caller import Caller, has_same_origin
from .clock import Clock
from .exchange import UNUSABLE_CODE
from .lines import LONGEST, check_depth, mend
from .transport import Transport

CONNECT_S = 10.0
POST_S = 10.0
LEAVE_S = 2.0
GIVE_UP_S = 1.0
EVENTS = {"accept": "text/event-stream", "cache-control": "no-store"}

log = logging.getLogger(__name__)


class Web(Transport):
    """Tries `ways` in turn, each "http" or "sse"; the last one is kept whatever it answers. `kind` is the right one.

    Raises ConnectError if SSE is the only way and the server does not speak it, and for an address that is refused.
    """

    _limit: anyio.CancelScope

    def __init__(self, server: ServerConfig, log: Path, ways: Sequence[str]) -> None:
        super().__init__(server, log)
        self._ways = ways
        if len(ways) == 1:
            self.kind = ways[0]
        if ways[0] == "sse":
            self.mode = "legacy"
        # with the context of its sender each, where the SDK looks for the clock of a request (mcp 2.3.0)
        self._unsent: list[tuple[SessionMessage, Context]] = []
        self._sent: list[tuple[SessionMessage, Context]] = []
        self._refusal: ChatError | None = None
        self._is_turned_away = False
        self._more, self._leave, self._connected = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._runner: asyncio.Task[None] | None = None

    async def _open(self) -> None:
        check_headers(self.server)
        self._is_out = await check_address(self.server)
        self._runner = asyncio.create_task(self._run(), name=f"{self.server.name} over HTTP")
        await self._connected.wait()
        if self._refusal:
            raise self._refusal
        if self.ended:
            url = show_url(self.server.url)
            text = f'Server "{self.server.name}" cannot be opened at {url}: it {self.ended}.'
            raise ConnectError(text, server=self.server.name, url=url)

    async def _close(self) -> None:
        """Leaves the streams, and does not wait for long."""
        self._leave.set()
        if self._runner:
            _, unfinished = await asyncio.wait([self._runner], timeout=LEAVE_S)
            if unfinished:
                self._runner.cancel()
                await asyncio.wait([self._runner], timeout=GIVE_UP_S)

    def _put(self, message: SessionMessage, text: str) -> None:  # noqa: ARG002 - the SDK writes its own
        self._unsent.append((message, copy_context()))
        self._more.set()

    async def _run(self) -> None:
        """Every way in turn until one is right, and that one to its end."""
        reason = "was closed"
        try:
            for number, way in enumerate(self._ways):
                if await self._try(way, is_last=number == len(self._ways) - 1):
                    break
        except ChatError as error:
            reason, self._refusal = error.message, error
        except Exception as error:
            reason = explain(error)
        finally:
            self._end(reason)
            self._connected.set()

    async def _try(self, way: str, is_last: bool) -> bool:
        """Speaks one way to its end; False if it turns out to be the wrong one, and there is another."""
        self.kind, self._is_settled, self._is_turned_away = way, False, False
        self._unsent, self._sent = [*self._sent, *self._unsent], []
        clock = self.login.clock if self.login else Clock()
        try:
            with clock.limit(CONNECT_S) as self._limit:
                async with Caller(self.server, self, self.login, self._is_out) as caller:
                    return await (self._speak_sse(caller) if way == "sse" else self._speak_http(caller, is_last))
            raise TimeoutError("it is silent")
        except Exception as error:
            if is_last or self._is_settled or isinstance(error, ChatError):
                raise
            log.info("%s does not speak %s: %s", self.server.name, way, error)
            return False

    def _open_up(self) -> None:
        """This way stands open; there is no limit to how long."""
        self._limit.deadline = math.inf
        self._connected.set()

    async def _wait_to_leave(self, scope: anyio.CancelScope) -> None:
        await self._leave.wait()
        scope.cancel()

    async def _take_unsent(self) -> tuple[SessionMessage, Context]:
        while not self._unsent:
            self._more.clear()
            await self._more.wait()
        item = self._unsent.pop(0)
        if not self._is_settled:
            self._sent.append(item)
        return item

    async def _speak_http(self, caller: Caller, is_last: bool) -> bool:
        """Through the SDK; False once the server turns its messages away and there is another way."""
        async with streamable_http_client(self.server.url, http_client=caller, max_sse_event_size=LONGEST) as streams:
            self._open_up()
            async with anyio.create_task_group() as group:
                group.start_soon(self._wait_to_leave, group.cancel_scope)
                group.start_soon(self._forward, streams[1])
                async for item in streams[0]:
                    if self._is_turned_away and not is_last:
                        break
                    self._pass_on(item)
                group.cancel_scope.cancel()
        return is_last or not self._is_turned_away

    async def _forward(self, write: Any) -> None:
        while True:
            message, context = await self._take_unsent()
            await context.run(asyncio.ensure_future, write.send(message))

    def _pass_on(self, item: SessionMessage | Exception) -> None:
        self._is_settled = True
        self._sent.clear()
        if isinstance(item, Exception):
            self._log.note("stray", f"Passed over: {item}")
            return
        message = item.message
        if isinstance(message, JSONRPCError) and message.error.code == CONNECTION_CLOSED:
            if message.error.message.startswith("SSE stream failed"):
                # an event that is too large; the SDK's code would say that the connection is closed
                error = ErrorData(code=UNUSABLE_CODE, message=f"The answer cannot be used: {message.error.message}")
                message = message.model_copy(update={"error": error})
            elif message.error.message.startswith("SSE stream ended"):
                self.note_broken("broke off in the middle of an answer")
        elif isinstance(message, JSONRPCResponse):
            message = clean_answer(message)
        self._exchange.take(message)

    async def _speak_sse(self, caller: Caller) -> bool:
        """Messages come as events of one long answer, and go as POSTs to the address that its first event names."""
        async with caller.stream("GET", self.server.url, headers=EVENTS) as response:
            response.raise_for_status()
            async with anyio.create_task_group() as group:
                group.start_soon(self._wait_to_leave, group.cancel_scope)
                async for event in httpx2.EventSource(response, max_event_size=LONGEST):
                    if event.event == "endpoint" and not self._is_settled:
                        self._is_settled = True
                        group.start_soon(self._post_all, caller, find_endpoint(response.url, event.data))
                        self._open_up()
                    elif event.event == "message":
                        self._exchange.take_line(event.data.encode())
                group.cancel_scope.cancel()
        self._end("was closed" if self._leave.is_set() else "ended its stream of events")
        return True

    async def _post_all(self, caller: Caller, url: httpx2.URL) -> None:
        self._sent.clear()
        while True:
            item, context = await self._take_unsent()
            await context.run(asyncio.ensure_future, self._post(caller, url, item.message))

    async def _post(self, caller: Caller, url: httpx2.URL, message: JSONRPCMessage) -> None:
        asked = message.id if isinstance(message, JSONRPCRequest) else None
        if isinstance(message, JSONRPCRequest) and message.method == "server/discover":
            # nothing that speaks SSE knows it, and some are silent when asked
            self._exchange.fail(message.id, "Method not found", METHOD_NOT_FOUND)
            return
        clock = self.login.clock if self.login else Clock()
        with clock.limit(POST_S) as limit:
            data = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            response = await caller.post(url, json=data)
            if asked is not None and not response.is_success:
                self._exchange.fail(asked, self.problem, INTERNAL_ERROR)
        if asked is not None and limit.cancelled_caught:
            self._exchange.fail(asked, f"It did not take the message within {POST_S:g} s", INTERNAL_ERROR)

    def note_broken(self, reason: str) -> None:
        self._end(reason)
        self._leave.set()

    def note_turned_away(self) -> None:
        self._is_turned_away = not self._is_settled


def clean_answer(message: JSONRPCResponse) -> JSONRPCMessage:
    """The answer without what is not for JSON: the SDK's parser lets NaN pass (2.3.0)."""
    try:
        check_depth(message.result)
    except ValueError as error:
        return JSONRPCError(
            jsonrpc="2.0",
            id=message.id,
            error=ErrorData(code=UNUSABLE_CODE, message=f"The answer cannot be used: {error}"),
        )
    return message.model_copy(update={"result": mend(message.result)})


def find_endpoint(url: httpx2.URL, place: str) -> httpx2.URL:
    """Where the messages go. Raises ValueError if that is another server."""
    endpoint = url.join(place)
    if not has_same_origin(endpoint, url):
        raise ValueError(f"it wants its messages sent to another server, {endpoint.host}")
    return endpoint


def explain(error: BaseException) -> str:
    """Why it ended, in words that follow "it"."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    if isinstance(error, httpx2.HTTPStatusError):
        return f"answered HTTP {error.response.status_code} {error.response.reason_phrase}".strip()
    return f"cannot be reached: {str(error) or type(error).__name__}"
