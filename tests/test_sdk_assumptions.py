"""What this program works around in the MCP SDK, or relies on: a test for each behaviour, below the code that needs it.

A failure means that a release of the SDK behaves differently: look at the named place, and simplify it if it can be.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import httpx2
import mcp.client.session
import pytest
from mcp import Client, MCPError
from mcp.client.auth.utils import handle_token_response_scopes
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    REQUEST_TIMEOUT,
    CallToolResult,
)
from pydantic import ValidationError

MODERN, LEGACY = "2026-07-28", "2025-11-25"
URL = "http://server.test/mcp"
EVENTS = "text/event-stream"
LIMIT_S = 5.0
SHORT_S = 0.2
"""What the SDK waits for, where a test expects it to wait in vain."""

T = TypeVar("T")
Message = dict[str, Any]
Answer = Callable[[Message], Message | None]
Respond = Callable[[Message], Awaitable[httpx2.Response]]


def tool_entry(**members: Any) -> Message:
    return {"name": "act", "inputSchema": {"type": "object"}, **members}


def list_page(*tools: Message) -> Message:
    return {"tools": list(tools), "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def results(**changed: Any) -> Answer:
    """A server's results; a member of `changed` replaces one by its method, with "_" for "/"."""
    info = {"name": "s", "version": "1"}
    usual: Message = {
        "initialize": {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": info},
        "tools/list": list_page(tool_entry()),
        "tools/call": {"content": [{"type": "text", "text": "fine"}], "resultType": "complete"},
        **{name.replace("_", "/"): result for name, result in changed.items()},
    }
    return lambda message: usual.get(message["method"])


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, LIMIT_S))


def respond(result: Message, message: Message) -> httpx2.Response:
    body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result})  # also NaN
    return httpx2.Response(200, headers={"content-type": "application/json"}, content=body)


@asynccontextmanager
async def over_http(answer: Respond, mode: str = MODERN, **options: Any) -> AsyncIterator[Client]:
    """A client of the SDK over streamable HTTP to a server that is a function."""

    async def handle(request: httpx2.Request) -> httpx2.Response:
        return await answer({**(json.loads(request.content) if request.content else {}), "http": request.method})

    async with (
        httpx2.AsyncClient(transport=httpx2.MockTransport(handle)) as http,
        Client(streamable_http_client(URL, http_client=http, **options), mode=mode) as client,
    ):
        yield client


def call_over_http(spoil: Callable[[Message], httpx2.Response], **options: Any) -> tuple[Any, Any]:
    """Outcome of a call whose response is `spoil`'s, and of a good call after it."""

    async def answer(message: Message) -> httpx2.Response:
        if message.get("method") == "tools/call" and message["params"]["name"] == "act":
            return spoil(message)
        return respond(results()(message) or {}, message)

    async def go() -> tuple[Any, Any]:
        async with over_http(answer, **options) as client:
            return await outcome(client.call_tool("act")), await outcome(client.call_tool("echo"))

    return run(go())


async def outcome(call: Awaitable[CallToolResult]) -> Any:
    """Text of the result, or code and message of the error."""
    try:
        block = (await call).content[0]
    except MCPError as error:
        return error.code, error.message
    return getattr(block, "text", block)


def events(*messages: Message, tail: bytes = b"") -> httpx2.Response:
    body = b"".join(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n" for message in messages)
    return httpx2.Response(200, headers={"content-type": EVENTS}, content=body + tail)


# mcp_client/transports/http.py


def test_a_request_that_breaks_over_http_ends_the_task_that_entered_the_client() -> None:
    def refuse(_: Message) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    with pytest.raises(BaseException) as caught:
        call_over_http(refuse)
    assert "refused" in repr(caught.value)


def test_an_event_that_is_too_large_is_told_by_its_message_alone() -> None:
    large = events({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "x" * 2000}]}})
    (code, text), after = call_over_http(lambda _: large, max_sse_event_size=1000)
    assert (code, text.startswith("SSE stream failed"), after) == (CONNECTION_CLOSED, True, "fine")


def test_an_event_stream_without_a_response_is_told_by_its_message_alone() -> None:
    (code, text), after = call_over_http(lambda _: events())
    assert (code, text.startswith("SSE stream ended"), after) == (CONNECTION_CLOSED, True, "fine")


def test_the_parser_accepts_nan() -> None:
    def spoil(message: Message) -> httpx2.Response:
        return respond({**(results()(message) or {}), "structuredContent": {"n": math.nan}}, message)

    assert call_over_http(spoil) == ("fine", "fine")


# mcp_client/transports/http_body.py


class _FailingBody(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b": begins\n\n"
        raise httpx2.SSEError("it cannot be decoded")


def test_an_error_of_an_event_stream_ends_one_call() -> None:
    (code, text), after = call_over_http(
        lambda _: httpx2.Response(200, headers={"content-type": EVENTS}, stream=_FailingBody())
    )
    assert (code, "it cannot be decoded" in text, after) == (CONNECTION_CLOSED, True, "fine")


def test_a_response_in_an_event_stream_gets_the_id_of_the_request() -> None:
    other = {"content": [{"type": "text", "text": "of another"}], "resultType": "complete"}
    assert call_over_http(lambda _: events({"jsonrpc": "2.0", "id": 999, "result": other})) == ("of another", "fine")


# mcp_client/transports/http_client.py


def test_an_error_response_with_a_null_id_ends_one_call() -> None:
    error = {"code": INTERNAL_ERROR, "message": "login refused", "data": "d"}
    refusal = httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": error})
    assert call_over_http(lambda _: refusal) == ((INTERNAL_ERROR, "login refused"), "fine")


def test_nothing_is_sent_until_a_notification_is_accepted() -> None:
    sent: list[str] = []
    accept, arrived = asyncio.Event(), asyncio.Event()

    async def answer(message: Message) -> httpx2.Response:
        sent.append(str(message.get("method")))
        if message.get("method") == "notifications/initialized":
            arrived.set()
            await accept.wait()
            return httpx2.Response(202)
        return respond(results()(message) or {}, message)

    async def go() -> tuple[list[str], list[str]]:
        async with over_http(answer, mode="legacy") as client:
            call = asyncio.create_task(client.call_tool("act"))
            await arrived.wait()
            await anyio.wait_all_tasks_blocked()
            before = list(sent)
            accept.set()
            await call
            return before, sent

    before, after = run(go())
    assert ("tools/call" in before, "tools/call" in after) == (False, True), after


def test_an_event_stream_that_ends_at_once_is_opened_again_without_a_limit() -> None:
    opened = 0
    often = asyncio.Event()

    async def answer(message: Message) -> httpx2.Response:
        nonlocal opened
        if message["http"] == "GET":
            opened += 1
            if opened == 30:
                often.set()
            return events(tail=b"retry: 0\n\n")
        if message["http"] == "DELETE" or "id" not in message:
            return httpx2.Response(202)
        response = respond(results()(message) or {}, message)
        response.headers["mcp-session-id"] = "one"
        return response

    async def go() -> None:
        async with over_http(answer, mode="legacy"):
            await often.wait()

    run(go())


# mcp_client/transports/http.py: why HTTP with server-sent events is not the SDK's


@asynccontextmanager
async def over_sse(stream: httpx2.AsyncByteStream, post: httpx2.Response) -> AsyncIterator[Client]:
    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST":
            return post
        return httpx2.Response(200, headers={"content-type": EVENTS}, stream=stream)

    def make_client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(handle), headers=headers, timeout=timeout, auth=auth)

    async with Client(sse_client(URL, httpx_client_factory=make_client), mode=MODERN) as client:
        yield client


class _OpenStream(httpx2.AsyncByteStream):
    """The events of a server that stays; `pieces` follow the address for messages."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"event: endpoint\ndata: /messages\n\n"
        for piece in self.pieces:
            yield piece
        await asyncio.Event().wait()


def test_a_refused_message_over_sse_is_lost() -> None:
    async def go() -> Any:
        async with over_sse(_OpenStream(), httpx2.Response(500)) as client:
            return await outcome(client.call_tool("act", read_timeout_seconds=SHORT_S))

    assert run(go())[0] == REQUEST_TIMEOUT


def test_an_event_of_over_a_megabyte_ends_the_client_over_sse() -> None:
    large = b"event: message\ndata: " + b"x" * (1 << 20) + b"\n\n"

    async def go() -> Any:
        async with over_sse(_OpenStream(large), httpx2.Response(202)) as client:
            return await outcome(client.call_tool("act", read_timeout_seconds=SHORT_S))

    with pytest.raises(BaseException) as caught:
        run(go())
    assert "SSEError" in repr(caught.value)


# mcp_client/auth/login.py


def test_an_unreadable_token_response_is_in_the_error_and_its_log() -> None:
    response = httpx2.Response(200, content="access_token=secret-token&token_type=bearer")
    with pytest.raises(Exception, match="secret-token") as caught:
        run(handle_token_response_scopes(response))
    assert isinstance(caught.value.__cause__ or caught.value.__context__, ValidationError)
    assert mcp.client.auth.oauth2.logger.name.startswith("mcp.client.auth")


# cli/mcp_tool/output_formats.py


def test_a_value_that_is_no_object_is_wrapped_as_result() -> None:
    server = MCPServer("s")

    @server.tool()
    def count() -> int:
        return 3

    async def go() -> Any:
        async with Client(server) as client:
            return (await client.call_tool("count")).structured_content

    assert run(go()) == {"result": 3}
