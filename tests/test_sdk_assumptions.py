"""What this program works around in the MCP SDK, or relies on: a test for each behaviour, below the code that needs it.

A failure means that a release of the SDK behaves differently: look at the named place, and simplify it if it can be.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any, Literal, TypeVar

import anyio
import httpx2
import mcp.client.session
import pytest
from mcp import Client, MCPError
from mcp.client.auth.utils import handle_token_response_scopes
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    REQUEST_TIMEOUT,
    CallToolResult,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    LoggingMessageNotificationParams,
    Result,
    methods,
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


class Wire:
    """A transport in memory to a server that is a function; None leaves a request without an answer."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.methods = answer, list[str]()

    async def __aenter__(self) -> tuple[Any, Any]:
        self.to_client, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](10)
        outgoing, from_client = anyio.create_memory_object_stream[SessionMessage](10)
        self.work = asyncio.create_task(self.serve(from_client))
        return incoming, outgoing

    async def __aexit__(self, *_: object) -> None:
        self.work.cancel()
        await asyncio.wait([self.work])
        self.to_client.close()

    async def serve(self, from_client: Any) -> None:
        async with from_client:
            async for item in from_client:
                self.methods.append(item.message.method)
                if isinstance(item.message, JSONRPCRequest):
                    result = self.answer({"method": item.message.method, "params": item.message.params})
                    if result is not None:
                        response = JSONRPCResponse(jsonrpc="2.0", id=item.message.id, result=result)
                        await self.to_client.send(SessionMessage(response))


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, LIMIT_S))


def on_wire(answer: Answer, then: Callable[[Client, Wire], Awaitable[T]], mode: str = MODERN, **options: Any) -> T:
    """Open a client of the SDK to such a server, and do `then`."""

    async def go() -> T:
        wire = Wire(answer)
        async with Client(wire, mode=mode, **options) as client:
            return await then(client, wire)

    return run(go())


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


async def raised(call: Awaitable[object]) -> BaseException | None:
    """The exception of a call, before the client wraps it into a group."""
    try:
        await call
    except Exception as error:
        return error
    return None


async def outcome(call: Awaitable[CallToolResult]) -> Any:
    """Text of the result, or code and message of the error."""
    try:
        block = (await call).content[0]
    except MCPError as error:
        return error.code, error.message
    return getattr(block, "text", block)


def events(*messages: Message, tail: bytes = b"") -> httpx2.Response:
    body = b"".join(b"event: message\ndata: " + json.dumps(one).encode() + b"\n\n" for one in messages)
    return httpx2.Response(200, headers={"content-type": EVENTS}, content=body + tail)


# mcp_client/lifecycle.py: one owner task enters the client, and leaves it


def test_a_client_cannot_be_left_by_another_task() -> None:
    async def go() -> None:
        client = Client(Wire(results()), mode=MODERN)
        await asyncio.create_task(enter(client))
        await client.__aexit__(None, None, None)

    async def enter(client: Client) -> None:
        await client.__aenter__()

    with pytest.raises(RuntimeError, match="different task"):
        run(go())


# mcp_client/transports/sdk_streams.py, mcp_client/liveness.py


def test_nothing_tells_that_an_idle_server_has_ended() -> None:
    heard: list[object] = []

    async def hear(message: object) -> None:
        heard.append(message)

    async def end(client: Client, wire: Wire) -> Any:
        wire.to_client.close()
        await anyio.wait_all_tasks_blocked()
        return list(heard), await outcome(client.call_tool("act"))

    assert on_wire(results(), end, message_handler=hear) == ([], (CONNECTION_CLOSED, "Connection closed"))


def test_the_limit_of_the_first_request_is_read_when_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp.client.session, "DISCOVER_TIMEOUT_SECONDS", SHORT_S)

    async def tell(client: Client, wire: Wire) -> Any:
        return client.protocol_version, wire.methods[:2]

    assert on_wire(results(), tell, mode="auto") == (LEGACY, ["server/discover", "initialize"])


class StreamWithContext:
    """A stream of messages that reports the context of their sender."""

    def __init__(self, inner: Any, context: Context) -> None:
        self.inner, self.last_context = inner, context

    async def __aenter__(self) -> StreamWithContext:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.inner.close()

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in self.inner:
            yield item


def test_a_message_is_handled_in_the_context_that_its_stream_reports() -> None:
    sender: ContextVar[str] = ContextVar("sender", default="")
    context = copy_context()
    context.run(sender.set, "the server")

    class WireWithContext(Wire):
        async def __aenter__(self) -> tuple[Any, Any]:
            incoming, outgoing = await super().__aenter__()
            return StreamWithContext(incoming, context), outgoing

    async def go() -> str:
        handled: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def note_context(params: LoggingMessageNotificationParams) -> None:  # noqa: ARG001 - by the SDK's name
            handled.set_result(sender.get())

        wire = WireWithContext(results())
        async with Client(wire, mode="legacy", logging_callback=note_context):
            params = {"level": "info", "data": "x"}
            logged = JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params=params)
            await wire.to_client.send(SessionMessage(logged))
            return await handled

    assert run(go()) == "the server"


# mcp_client/error_messages.py: SDK_CODES


def test_an_expired_limit_is_an_error_with_a_code_that_a_server_may_send_too() -> None:
    async def call(client: Client, _wire: Wire) -> Any:
        return await outcome(client.call_tool("act", read_timeout_seconds=SHORT_S))

    code, _ = on_wire(results(tools_call=None), call)
    assert code == REQUEST_TIMEOUT


# mcp_client/repair_messages.py


def test_one_invalid_tool_invalidates_the_whole_list() -> None:
    def list_tools(*tools: Message) -> BaseException | None:
        return on_wire(results(tools_list=list_page(*tools)), lambda client, _: raised(client.list_tools()))

    assert isinstance(list_tools(tool_entry(), {"name": "bad"}), ValidationError)
    assert list_tools(tool_entry()) is None


def test_one_unknown_block_invalidates_the_whole_result() -> None:
    content = [{"type": "text", "text": "fine"}, {"type": "hologram"}]
    answer = results(tools_call={"content": content, "resultType": "complete"})
    assert isinstance(on_wire(answer, lambda client, _: raised(client.call_tool("act"))), ValidationError)


def test_a_page_is_validated_against_the_version_or_the_method_is_unknown_to_it() -> None:
    page = list_page(tool_entry())
    methods.validate_server_result("tools/list", MODERN, page)
    with pytest.raises(ValidationError):
        methods.validate_server_result("tools/list", MODERN, {"tools": [{"name": "bad"}]})
    with pytest.raises(KeyError):
        methods.validate_server_result("tools/nothing", MODERN, page)


# mcp_client/connection.py, mcp_client/lifecycle.py, mcp_client/tasks.py


def test_a_result_that_violates_the_output_schema_is_a_runtime_error() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wrong = {"content": [], "structuredContent": {"n": "x"}, "resultType": "complete"}
    answer = results(tools_list=list_page(tool_entry(outputSchema=schema)), tools_call=wrong)
    assert isinstance(on_wire(answer, lambda client, _: raised(client.call_tool("act"))), RuntimeError)


class CallBecameTask(Result):
    result_type: Literal["task"] = "task"


class TaskStarted(Exception):  # noqa: N818 - not an error
    pass


async def raise_task_started(_result: CallBecameTask, _context: ClaimContext) -> CallToolResult:
    raise TaskStarted


class Tasks(ClientExtension):
    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=CallBecameTask, resolve=raise_task_started),)


def test_an_exception_of_an_extension_leaves_the_call_as_it_is() -> None:
    answer = results(tools_call={"resultType": "task"})
    error = on_wire(answer, lambda client, _: raised(client.call_tool("act")), extensions=[Tasks()])
    assert isinstance(error, TaskStarted)


def test_an_exception_that_leaves_the_client_is_in_a_group() -> None:
    async def fail(_client: Client, _wire: Wire) -> None:
        raise TaskStarted

    with pytest.raises(BaseException) as caught:
        on_wire(results(), fail)
    assert [type(error) for error in getattr(caught.value, "exceptions", ())] == [TaskStarted]


# mcp_client/transports/http.py


def test_a_request_that_breaks_over_http_ends_the_task_that_entered_the_client() -> None:
    def refuse(_: Message) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    with pytest.raises(BaseException) as caught:
        call_over_http(refuse)
    assert "refused" in repr(caught.value)


def test_a_message_is_posted_in_the_context_of_its_sender() -> None:
    sender: ContextVar[str] = ContextVar("sender", default="")
    seen: list[str] = []

    async def answer(message: Message) -> httpx2.Response:
        seen.append(sender.get())
        return respond(results()(message) or {}, message)

    async def go() -> None:
        async with over_http(answer) as client:
            sender.set("the call")
            await client.call_tool("act")

    run(go())
    assert "the call" in seen


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
