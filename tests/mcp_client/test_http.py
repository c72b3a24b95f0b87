"""Streamable HTTP and SSE over real sockets: redirects, encodings, limits, and how failures are reported."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client

from cpu_time import allow_s
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import ConnectError
from rkllm_chat.mcp_client.protocol.limits import MAX_MESSAGE_BYTES
from rkllm_chat.mcp_client.transports.base import Transport
from rkllm_chat.mcp_client.transports.http_client import MAX_STREAMS
from rkllm_chat.mcp_client.transports.registry import make_transport

from .faults import wait_for
from .talks import LIMIT_S, MODERN, Heard, call

EVENTS = "text/event-stream"
DEEP = b"[" * 101 + b"]" * 101

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    message: dict[str, Any]


Answer = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Site:
    """An HTTP server of one function. `requests` are all that came."""

    answer: Answer
    url: str = ""
    requests: list[Request] = field(default_factory=list[Request])

    def methods(self) -> list[str]:
        return [request.message.get("method", request.method) for request in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method, path, _ = first.split(" ")
                request = Request(method, path, headers, json.loads(body) if body else {})
                self.requests.append(request)
                await self.answer(request, writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has left
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Site]:
    site = Site(answer)
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    try:
        yield site
    finally:
        server.close()


def respond(status: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> bytes:
    given = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return (
        f"HTTP/1.1 {status} Odd\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{given}\r\n".encode() + body
    )


def make_result(message: dict[str, Any], text: str = "fine") -> bytes:
    result = {"resultType": "complete", "content": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


def list_tools(message: dict[str, Any]) -> bytes:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("act", "echo")]
    result = {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}
    return respond(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())


def on_act(spoil: Callable[[dict[str, Any]], bytes]) -> Answer:
    """A good server of the 2026 protocol, but for the tool `act`."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        message = request.message
        match message.get("method"), message.get("params", {}).get("name"):
            case "tools/list", _:
                writer.write(list_tools(message))
            case "tools/call", "act":
                writer.write(spoil(message))
            case "tools/call", _:
                writer.write(respond(200, make_result(message, "echo")))
            case _:
                writer.write(respond(405))

    return answer


def visit(
    answer: Answer,
    then: Callable[[Client, Transport, Site], Awaitable[T]],
    folder: Path,
    mode: str = MODERN,
    **options: Any,
) -> T:
    """Opens a client to such a site, does `then`, and leaves."""

    async def go() -> T:
        async with serving(answer) as site:
            server = ServerConfig("web", url=site.url, **{"transport": "http", "timeout_s": LIMIT_S, **options})
            transport = make_transport(server, folder / "logs/server.log")
            async with Client(transport, mode=mode, read_timeout_seconds=LIMIT_S) as client:
                if mode == MODERN:
                    await client.list_tools()
                return await then(client, transport, site)

    return asyncio.run(asyncio.wait_for(go(), 4 * LIMIT_S))


async def act_and_echo(client: Client, transport: Transport, _: Site) -> tuple[Heard, str, str]:
    return await call(client), (await call(client, "echo")).text, transport.end_reason


def test_a_redirect_within_the_server_is_followed_with_its_headers(tmp_path: Path) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.path == "/mcp":
            writer.write(respond(307, location="/mcp/"))
        else:
            await on_act(lambda message: respond(200, make_result(message)))(request, writer)

    async def go(client: Client, _: Transport, site: Site) -> tuple[str, list[str], str]:
        text = (await call(client)).text
        return text, [request.path for request in site.requests[-2:]], site.requests[-1].headers["x-api-key"]

    assert visit(answer, go, tmp_path, headers={"X-Api-Key": "secret"}) == ("fine", ["/mcp", "/mcp/"], "secret")


@pytest.mark.parametrize(("host", "asked"), [("localhost", 0), ("server.example", 1)])
def test_a_proxy_is_asked_for_other_machines_only(
    host: str, asked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> tuple[int, str]:
        answer = on_act(lambda message: respond(200, make_result(message)))
        async with serving(answer) as proxy, serving(answer) as site:
            monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/mcp"))
            monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/mcp"))
            url = site.url.replace("127.0.0.1", host)
            transport = make_transport(ServerConfig("web", url=url, transport="http"), tmp_path / "log")
            async with Client(transport, mode=MODERN) as client:
                await client.list_tools()
                return len(proxy.requests), (await call(client)).text

    assert asyncio.run(go()) == (asked, "fine")


def pack(data: bytes) -> bytes:
    return respond(200, gzip.compress(data), content_encoding="gzip")


def as_event(data: bytes) -> bytes:
    return respond(200, b"event: message\ndata: " + data + b"\n\n", EVENTS)


def make_bomb(megabytes: int, start: bytes = b"") -> bytes:
    """That many megabytes of blanks as gzip, which is a thousandth of it."""
    packer = zlib.compressobj(9, wbits=31)
    blanks = b" " * (1 << 20)
    return packer.compress(start) + b"".join(packer.compress(blanks) for _ in range(megabytes)) + packer.flush()


READ: dict[str, Callable[[Any], bytes]] = {
    "gzip": lambda message: pack(make_result(message)),
    "deflate": lambda message: respond(200, zlib.compress(make_result(message)), content_encoding="deflate"),
    "an event": lambda message: as_event(make_result(message)),
    "packed events": lambda message: respond(
        200, gzip.compress(b"data: " + make_result(message) + b"\n\n"), EVENTS, content_encoding="gzip"
    ),
}
# Form -> the answer, `problem` of the transport, a part of the error.
REFUSED: dict[str, tuple[Callable[[Any], bytes], str, str]] = {
    "401": (lambda _: respond(401, www_authenticate='Bearer realm="x"'), "HTTP 401 Odd", ""),
    "500": (lambda _: respond(500, b"<html>", "text/html"), "HTTP 500 Odd", ""),
    "a large error": (lambda _: respond(503, b" " * (5 << 20)), "", "too large"),
    "202": (lambda _: respond(202), "", "202"),
    "HTML": (lambda _: respond(200, b"<html>", "text/html"), "", "text/html"),
    "no JSON": (lambda _: respond(200, b"no json"), "", "JSON"),
    "no gzip": (lambda _: respond(200, b"xx", content_encoding="gzip"), "", "gzip"),
    "another encoding": (lambda _: respond(200, b"xx", content_encoding="br"), "", "br"),
    "a large event": (lambda message: as_event(make_result(message, "x" * MAX_MESSAGE_BYTES)), "", "byte limit"),
    "a bomb": (lambda _: respond(200, make_bomb(8), content_encoding="gzip"), "", "too large"),
    "a bomb of events": (
        lambda _: respond(200, make_bomb(8, b"data: "), EVENTS, content_encoding="gzip"),
        "",
        "too large, limit 4 MB",
    ),
    "deep": (lambda message: respond(200, make_result(message, "@").replace(b'"@"', DEEP)), "", "too deep"),
}


def in_form(message: dict[str, Any]) -> bytes:
    """The answer to a call in the form that its argument names."""
    form = message["params"]["arguments"]["form"]
    return REFUSED[form][0](message) if form in REFUSED else READ[form](message)


def test_an_answer_is_read_in_every_form(tmp_path: Path) -> None:
    async def go(client: Client, transport: Transport, _: Site) -> tuple[dict[str, str], str, str]:
        return {form: (await call(client, form=form)).text for form in READ}, transport.problem, transport.end_reason

    assert visit(on_act(in_form), go, tmp_path) == (dict.fromkeys(READ, "fine"), "", "")


def test_an_unusable_answer_fails_its_call_soon_and_alone(tmp_path: Path) -> None:
    async def go(client: Client, transport: Transport, _: Site) -> None:
        for form, (_answer, problem, cause) in REFUSED.items():
            heard = await call(client, form=form)
            assert heard.code and cause in heard.text and heard.seconds < allow_s(2 / 3), form
            assert transport.problem == problem, form
            assert transport.challenge == ('Bearer realm="x"' if form == "401" else ""), form
            assert (await call(client, "echo")).text == "echo"
        assert transport.end_reason == ""

    visit(on_act(in_form), go, tmp_path)


@pytest.mark.slow
def test_a_server_that_is_busy_is_asked_again_after_a_short_time_only(tmp_path: Path) -> None:
    answers = [respond(429, retry_after="1"), b"", respond(429, retry_after="11")]
    spoil = on_act(lambda message: answers.pop(0) or respond(200, make_result(message)))

    async def go(client: Client, transport: Transport, _: Site) -> None:
        heard = await call(client)
        assert heard.text == "fine" and 1 <= heard.seconds < 1 + allow_s(2 / 3)
        assert (await call(client)).code and transport.problem == "HTTP 429 Odd"

    visit(spoil, go, tmp_path)


def old_server(**others: bytes | None) -> Answer:
    """A server of the 2025 protocol with a session. Others: "call" or an HTTP method -> its answer; None: never one."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        message, method = request.message, request.message.get("method", "")
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}
        if method == "initialize":
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": about}).encode()
            writer.write(respond(200, body, mcp_session_id="one"))
        elif method == "tools/list":
            writer.write(list_tools(message))
        elif method == "notifications/initialized":
            writer.write(respond(202))
        elif method == "tools/call" and "call" not in others:
            writer.write(respond(200, make_result(message)))
        elif given := others.get("call" if method == "tools/call" else request.method, respond(202)):
            writer.write(given)
        else:
            await writer.wait_closed()

    return answer


@pytest.mark.slow
def test_leaving_waits_neither_for_an_answer_nor_for_the_end_of_a_session(tmp_path: Path) -> None:
    async def go(client: Client, _: Transport, site: Site) -> tuple[float, Site]:
        waiting = asyncio.create_task(call(client))
        await wait_for(lambda: "tools/call" in site.methods())
        waiting.cancel()
        return time.monotonic(), site

    began, site = visit(old_server(call=None, POST=None, GET=None, DELETE=None), go, tmp_path, mode="legacy")
    assert time.monotonic() - began < allow_s(1)
    assert "DELETE" in site.methods()


def test_a_stream_that_the_server_always_ends_is_opened_a_limited_number_of_times(tmp_path: Path) -> None:
    async def go(client: Client, __: Transport, site: Site) -> int:
        await wait_for(lambda: site.methods().count("GET") == MAX_STREAMS)
        for _ in range(20):
            await call(client)
        return site.methods().count("GET")

    answer = old_server(GET=respond(200, b"retry: 0\n\n", EVENTS))
    assert visit(answer, go, tmp_path, mode="legacy") == MAX_STREAMS


def make_sse(endpoint: str = "/post") -> Answer:
    """A server of the 2024 protocol: its answers come as events."""
    streams: list[asyncio.StreamWriter] = []

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET":
            writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-type: {EVENTS}\r\n\r\nevent: endpoint\ndata: {endpoint}\n\n".encode()
            )
            streams.append(writer)
            return
        writer.write(respond(202))
        message = request.message
        if message.get("method") == "tools/list":
            streams[0].write(b"data: " + list_tools(message).partition(b"\r\n\r\n")[2] + b"\n\n")
        elif message.get("params", {}).get("name") == "echo":
            streams[0].write(b"data: " + make_result(message, "echo") + b"\n\n")

    return answer


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1/post", "//example.org/post", "https://127.0.0.1/post"])
def test_an_sse_server_cannot_have_its_messages_sent_elsewhere(endpoint: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="another server"):
        visit(make_sse(endpoint), act_and_echo, tmp_path, transport="sse")


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (respond(404), "HTTP 404"),
        (respond(200, b"<html>", "text/html"), "text/html"),
        (respond(200, b": no endpoint\n\n", EVENTS), "event stream"),
    ],
    ids=["404", "HTML", "no endpoint"],
)
def test_a_server_that_does_not_speak_sse_is_refused(answer: bytes, cause: str, tmp_path: Path) -> None:
    async def give(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    with pytest.raises(ConnectError, match=cause):
        visit(give, act_and_echo, tmp_path, transport="sse")


def test_a_server_that_rejects_a_post_is_tried_with_sse(tmp_path: Path) -> None:
    sse = make_sse()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "POST" and request.path == "/mcp":
            writer.write(respond(405))
        else:
            await sse(request, writer)

    async def go(client: Client, transport: Transport, _: Site) -> tuple[str, str]:
        return transport.kind, (await call(client, "echo")).text

    assert visit(answer, go, tmp_path, transport="") == ("sse", "echo")


def test_a_server_that_rejects_only_the_newer_protocol_is_spoken_to_in_the_older(tmp_path: Path) -> None:
    async def go(client: Client, transport: Transport, _: Site) -> tuple[str, str]:
        return (await call(client)).text, transport.kind

    answer = old_server(GET=respond(405), POST=respond(400), DELETE=respond(400))
    assert visit(answer, go, tmp_path, mode="auto", transport="") == ("fine", "http")


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_that_speaks_neither_is_reported_with_its_first_status(status: int, tmp_path: Path) -> None:
    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(respond(status))

    async def go() -> tuple[str, list[str]]:
        async with serving(answer) as site:
            transport = make_transport(ServerConfig("web", url=site.url), tmp_path / "log")
            with pytest.raises(Exception, match="TaskGroup"):  # a group around the MCPError
                async with Client(transport, mode="auto", read_timeout_seconds=LIMIT_S):
                    pass
            return transport.problem, site.methods()

    problem, methods = asyncio.run(go())
    assert problem == f"HTTP {status} Odd"
    assert ("GET" in methods) is (status == 404)
