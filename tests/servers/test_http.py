"""Streamable HTTP and SSE over real sockets: what leaves, how much comes back, and what went wrong in words."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import socket
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from mcp import Client

from rkllm_chat.config import ServerConfig
from rkllm_chat.errors import ConfigError, ConnectError
from rkllm_chat.servers.addresses import check_address, show_url
from rkllm_chat.servers.lines import LONGEST
from rkllm_chat.servers.transport import Transport
from rkllm_chat.servers.transports import open_transport

from .talks import LIMIT_S, MODERN, Heard, call, wait_until

UNUSABLE, INTERNAL, CLOSED = -32700, -32603, -32000
SECRETS = {"Authorization": "Bearer secret", "X-Api-Key": "secret"}
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
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    site = Site(answer)
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=tls)
    site.url = f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
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
            transport = open_transport(server, folder / "logs/server.log")
            async with Client(transport, mode=mode, read_timeout_seconds=LIMIT_S) as client:
                if mode == MODERN:
                    await client.list_tools()
                return await then(client, transport, site)

    return asyncio.run(asyncio.wait_for(go(), 4 * LIMIT_S))


async def act_and_echo(client: Client, transport: Transport, _: Site) -> tuple[Heard, str, str, str]:
    heard = await call(client)
    problem = transport.problem
    return heard, problem, (await call(client, "echo")).text, transport.ended


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_header_goes_to_where_another_server_is(status: int, tmp_path: Path) -> None:
    async def go() -> tuple[Heard, list[Request], str]:
        async with serving(on_act(lambda message: respond(200, make_result(message)))) as other:
            redirect = respond(status, location=other.url)
            async with serving(on_act(lambda _: redirect)) as site:
                server = ServerConfig("web", url=site.url, transport="http", headers=SECRETS)
                async with Client(open_transport(server, tmp_path / "log"), mode=MODERN) as client:
                    heard = await call(client)
                assert site.requests[0].headers["x-api-key"] == "secret"
                return heard, other.requests, other.url

    heard, others, url = asyncio.run(go())
    assert others == []
    assert heard.code and url in heard.text and "not followed" in heard.text


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_within_the_server_is_followed_with_its_headers(status: int, tmp_path: Path) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.path == "/mcp":
            writer.write(respond(status, location="/mcp/"))
        else:
            await on_act(lambda message: respond(200, make_result(message)))(request, writer)

    async def go(client: Client, _: Transport, site: Site) -> tuple[str, list[str], str]:
        text = (await call(client)).text
        return text, [request.path for request in site.requests[-2:]], site.requests[-1].headers["x-api-key"]

    assert visit(answer, go, tmp_path, headers=SECRETS) == ("fine", ["/mcp", "/mcp/"], "secret")


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/mcp",
        "http://2852039166/mcp",
        "http://[::ffff:169.254.169.254]/mcp",
        "http://[fe80::1]/mcp",
        "http://[fe80::1%25lo]/mcp",
        "ws://169.254.169.254/mcp",
    ],
)
@pytest.mark.parametrize("transport", ["", "sse"])
def test_a_link_local_address_is_never_called(url: str, transport: str, tmp_path: Path) -> None:
    server = ServerConfig("web", url=url, transport="" if url.startswith("ws") else transport)

    async def go() -> None:
        async with open_transport(server, tmp_path / "log"):
            pass

    begun = time.monotonic()
    with pytest.raises(ConnectError, match="link-local"):
        asyncio.run(go())
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize(
    ("addresses", "is_refused"),
    [
        (["10.0.0.1", "169.254.169.254"], True),
        (["fe80::1"], True),
        (["192.168.0.2", "fe80::1"], False),
        (["10.0.0.1"], False),
        ([], False),
    ],
    ids=["one of two", "IPv6", "a name in the home", "another machine", "unknown here"],
)
def test_a_name_is_looked_up_before_it_is_called(
    addresses: list[str], is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        if not addresses:
            raise socket.gaierror(f"{host} is unknown")
        return [(socket.AF_UNSPEC, socket.SOCK_STREAM, 0, "", (address, 80)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    server = ServerConfig("web", url="http://name.example/mcp")
    if is_refused:
        with pytest.raises(ConnectError, match="link-local"):
            asyncio.run(check_address(server))
    else:
        asyncio.run(check_address(server))


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http:///mcp", "http://127.0.0.1:port/", "nothing"])
def test_what_is_no_url_is_a_configuration_error(url: str, tmp_path: Path) -> None:
    async def go() -> None:
        async with open_transport(ServerConfig("web", url=url), tmp_path / "log"):
            pass

    with pytest.raises(ConfigError, match="is no URL"):
        asyncio.run(go())


def test_what_may_be_secret_in_a_url_is_not_shown() -> None:
    assert show_url("https://me:secret@host.example:8443/mcp?key=secret#secret") == "https://host.example:8443/mcp"


@pytest.mark.parametrize(("host", "asked"), [("127.0.0.1", 0), ("localhost", 0), ("server.example", 1)])
def test_a_proxy_is_asked_for_other_machines_only(
    host: str, asked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> tuple[int, str]:
        answer = on_act(lambda message: respond(200, make_result(message)))
        async with serving(answer) as proxy, serving(answer) as site:
            monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/mcp"))
            monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/mcp"))
            url = site.url.replace("127.0.0.1", host)
            transport = open_transport(ServerConfig("web", url=url, transport="http"), tmp_path / "log")
            async with Client(transport, mode=MODERN) as client:
                await client.list_tools()
                return len(proxy.requests), (await call(client)).text

    assert asyncio.run(go()) == (asked, "fine")


def make_certificate(folder: Path) -> ssl.SSLContext:
    """A certificate for 127.0.0.1 that only itself vouches for, in `folder`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(timezone.utc)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(1)
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(pem)
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


@pytest.mark.parametrize("is_trusted", [False, True], ids=["unknown", "trusted by the user"])
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_a_certificate_that_nobody_vouches_for_is_refused(
    is_trusted: bool, transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> tuple[str, list[str]]:
        tls = make_certificate(tmp_path)
        if is_trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        async with serving(on_act(lambda message: respond(200, make_result(message))), tls) as site:
            opened = open_transport(ServerConfig("web", url=site.url, transport=transport), tmp_path / "log")
            try:
                async with Client(opened, mode=MODERN) as client:
                    await call(client)
            except ConnectError:
                pass
            return opened.ended, site.methods()

    ended, methods = asyncio.run(go())
    assert ("certificate verify failed" in ended.lower()) is not is_trusted
    assert bool(methods) is is_trusted


def pack(data: bytes) -> bytes:
    return respond(200, gzip.compress(data), content_encoding="gzip")


def as_event(data: bytes) -> bytes:
    return respond(200, b"event: message\ndata: " + data + b"\n\n", EVENTS)


def make_bomb(megabytes: int, start: bytes = b"") -> bytes:
    """That many megabytes of blanks as gzip, which is a thousandth of it."""
    packer = zlib.compressobj(9, wbits=31)
    blanks = b" " * (1 << 20)
    return packer.compress(start) + b"".join(packer.compress(blanks) for _ in range(megabytes)) + packer.flush()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda message: respond(200, make_result(message)),
        lambda message: pack(make_result(message)),
        lambda message: as_event(make_result(message)),
        lambda message: respond(
            200, gzip.compress(b"data: " + make_result(message) + b"\n\n"), EVENTS, content_encoding="gzip"
        ),
        lambda message: respond(200, zlib.compress(make_result(message)), content_encoding="deflate"),
    ],
    ids=["JSON", "packed JSON", "an event", "packed events", "deflated"],
)
def test_an_answer_is_read_in_whatever_form_it_comes(spoil: Callable[[Any], bytes], tmp_path: Path) -> None:
    heard, problem, echo, ended = visit(on_act(spoil), act_and_echo, tmp_path)
    assert (heard.text, problem, echo, ended) == ("fine", "", "echo", "")


@pytest.mark.parametrize(
    ("spoil", "problem", "cause"),
    [
        (lambda _: respond(401, www_authenticate="Bearer"), "HTTP 401 Odd", ""),
        (lambda _: respond(403), "HTTP 403 Odd", ""),
        (lambda _: respond(500, b"<html>", "text/html"), "HTTP 500 Odd", ""),
        (lambda _: respond(503, b" " * (5 << 20)), "", "too large"),
        (lambda _: respond(202), "", "202"),
        (lambda _: respond(200, b"<html>", "text/html"), "", "text/html"),
        (lambda _: respond(200, b"no json"), "", "JSON"),
        (lambda _: respond(200, b"xx", content_encoding="gzip"), "", "no gzip"),
        (lambda _: respond(200, b"xx", content_encoding="br"), "", "encoded as br"),
        (lambda message: respond(200, make_result(message, "x" * LONGEST)), "", "result too large, limit 4 MB"),
        (lambda message: as_event(make_result(message, "x" * LONGEST)), "", "byte limit"),
        (lambda _: respond(200, make_bomb(200), content_encoding="gzip"), "", "result too large, limit 4 MB"),
        (lambda _: respond(200, make_bomb(200, b"data: "), EVENTS, content_encoding="gzip"), "", "byte limit"),
        (lambda _: respond(200, b"data: no gzip", EVENTS, content_encoding="gzip"), "", "no gzip"),
        (lambda message: respond(200, make_result(message, "@").replace(b'"@"', DEEP)), "", "too deep"),
    ],
    ids=[
        "401", "403", "500", "a large error", "202", "HTML", "no JSON", "no gzip", "another encoding", "5 MB",
        "an event of 5 MB", "a bomb", "a bomb of events", "no gzip of events", "deep",
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_used_fails_its_call_soon_and_alone(
    spoil: Callable[[Any], bytes], problem: str, cause: str, tmp_path: Path
) -> None:
    heard, said, echo, ended = visit(on_act(spoil), act_and_echo, tmp_path)
    assert heard.code and cause in heard.text
    assert said == problem
    assert heard.seconds < 2
    assert (echo, ended) == ("echo", "")


def test_who_has_to_log_in_is_told_how(tmp_path: Path) -> None:
    async def go(client: Client, transport: Transport, _: Site) -> tuple[str, str]:
        await call(client)
        return transport.problem, transport.challenge

    spoil = on_act(lambda _: respond(401, www_authenticate='Bearer realm="x"'))
    assert visit(spoil, go, tmp_path) == ("HTTP 401 Odd", 'Bearer realm="x"')


def test_numbers_that_json_does_not_have_become_null(tmp_path: Path) -> None:
    def spoil(message: dict[str, Any]) -> bytes:
        result = {"resultType": "complete", "content": [], "structuredContent": {"n": [math.nan, 1.5]}}
        return respond(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    async def go(client: Client, _: Transport, __: Site) -> Any:
        return (await client.session.call_tool("act", {})).structured_content

    assert visit(on_act(spoil), go, tmp_path) == {"n": [None, 1.5]}


def test_a_server_that_asks_for_a_moment_gets_it(tmp_path: Path) -> None:
    answers = [respond(429, retry_after="1"), b""]
    spoil = on_act(lambda message: answers.pop(0) or respond(200, make_result(message)))
    heard, *_ = visit(spoil, act_and_echo, tmp_path)
    assert heard.text == "fine" and 1 <= heard.seconds < 3


def test_a_server_that_asks_for_an_hour_does_not_get_it(tmp_path: Path) -> None:
    heard, problem, *_ = visit(on_act(lambda _: respond(429, retry_after="3600")), act_and_echo, tmp_path)
    assert heard.code and problem == "HTTP 429 Odd"


@pytest.mark.parametrize(
    ("spoil", "ended"),
    [
        (lambda _: b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "cannot be reached"),
        (lambda _: b"no HTTP at all\r\n\r\n", "cannot be reached"),
        (lambda _: respond(200, b"data: 1", EVENTS).replace(b"length: 7", b"length: 9"), "broke off"),
    ],
    ids=["no body", "no HTTP", "no event"],
)
def test_a_server_that_breaks_off_fails_the_call_at_once(
    spoil: Callable[[Any], bytes], ended: str, tmp_path: Path
) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        await on_act(spoil)(request, writer)
        if request.message.get("method") == "tools/call":
            writer.close()

    heard, _, echo, said = visit(answer, act_and_echo, tmp_path)
    assert heard.code and heard.seconds < 1.5
    assert said.startswith(ended) and "closed" in echo


def test_a_server_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    async def go(transport: str) -> tuple[str, str]:
        server = ServerConfig("web", url="http://127.0.0.1:1/mcp", transport=transport)
        opened = open_transport(server, tmp_path / "log")
        try:
            async with Client(opened, mode=MODERN) as client:
                return (await call(client)).text, opened.ended
        except ConnectError as error:
            return error.message, opened.ended

    for transport in ("http", "sse", ""):
        said, ended = asyncio.run(go(transport))
        assert ended.startswith("cannot be reached") and ("closed" in said or "cannot be reached" in said)


def welcome(request: Request) -> bytes:
    """The answer to `initialize`, with a session."""
    info = {"name": "old", "version": "1"}
    result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
    body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result}).encode()
    return respond(200, body, mcp_session_id="one")


def test_a_session_that_the_server_has_forgotten_ends_the_connection(tmp_path: Path) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        match request.message.get("method"):
            case "initialize":
                writer.write(welcome(request))
            case "notifications/initialized":
                writer.write(respond(202))
            case _:
                writer.write(respond(404 if request.method == "POST" else 405))

    async def go(client: Client, transport: Transport, site: Site) -> tuple[int | None, str, str]:
        return (await call(client)).code, transport.ended, site.requests[-1].headers["mcp-session-id"]

    assert visit(answer, go, tmp_path, mode="legacy") == (CLOSED, "has forgotten the session", "one")


def test_leaving_does_not_wait_for_a_server_that_is_silent(tmp_path: Path) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.message.get("method") == "tools/list":
            writer.write(list_tools(request.message))
        else:
            await writer.wait_closed()

    async def go(client: Client, _: Transport, site: Site) -> float:
        waiting = asyncio.create_task(call(client))
        await wait_until(lambda: "tools/call" in site.methods())
        waiting.cancel()
        return time.monotonic()

    assert time.monotonic() - visit(answer, go, tmp_path) < 3


def test_leaving_does_not_wait_for_the_end_of_a_session(tmp_path: Path) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.message.get("method") == "initialize":
            writer.write(welcome(request))
        elif request.method == "POST":
            writer.write(respond(202))
        else:
            await writer.wait_closed()

    async def go(_: Client, __: Transport, site: Site) -> tuple[float, Site]:
        return time.monotonic(), site

    began, site = visit(answer, go, tmp_path, mode="legacy")
    assert time.monotonic() - began < 1.8
    assert "DELETE" in site.methods()


def test_a_stream_that_the_server_ends_at_once_is_not_asked_for_without_end(tmp_path: Path) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        match request.message.get("method", request.method):
            case "initialize":
                writer.write(welcome(request))
            case "GET":
                writer.write(respond(200, b"retry: 0\n\n", EVENTS))
            case _:
                writer.write(respond(202))

    async def go(_: Client, __: Transport, site: Site) -> int:
        await asyncio.sleep(1)
        return site.methods().count("GET")

    assert 1 <= visit(answer, go, tmp_path, mode="legacy") <= 12


def make_sse(answer_post: Callable[[Request], bytes], endpoint: str = "/post") -> Answer:
    """A server of the 2024 protocol: its answers come as events, each POST is answered by the function."""
    streams: list[asyncio.StreamWriter] = []

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET":
            writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-type: {EVENTS}\r\n\r\nevent: endpoint\ndata: {endpoint}\n\n".encode()
            )
            streams.append(writer)
            return
        writer.write(answer_post(request))
        message = request.message
        if message.get("method") == "tools/list":
            streams[0].write(b"data: " + list_tools(message).partition(b"\r\n\r\n")[2] + b"\n\n")
        elif message.get("params", {}).get("name") == "echo":
            streams[0].write(b"data: " + make_result(message, "echo") + b"\n\n")
        elif message.get("params", {}).get("name") == "act":
            streams[0].write(b"data: " + make_result(message)[:-9] + b"\n\n")

    return answer


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_a_message_that_an_sse_server_refuses_fails_its_call_at_once(status: int, tmp_path: Path) -> None:
    def refuse(request: Request) -> bytes:
        return respond(status if request.message.get("params", {}).get("name") == "refused" else 202)

    async def go(client: Client, _: Transport, __: Site) -> tuple[Heard, str]:
        return await call(client, "refused"), (await call(client, "echo")).text

    heard, echo = visit(make_sse(refuse), go, tmp_path, transport="sse")
    assert (heard.code, heard.text, echo) == (INTERNAL, f"HTTP {status} Odd", "echo")
    assert heard.seconds < 1


def test_an_sse_answer_that_cannot_be_used_fails_its_call_soon_and_alone(tmp_path: Path) -> None:
    heard, _, echo, _ = visit(make_sse(lambda _: respond(202)), act_and_echo, tmp_path, transport="sse")
    assert (heard.code, heard.text, echo) == (UNUSABLE, "The answer cannot be used: it is cut short", "echo")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1/post", "//example.org/post", "https://127.0.0.1/post"])
def test_an_sse_server_cannot_have_its_messages_sent_elsewhere(endpoint: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="another server"):
        visit(make_sse(lambda _: respond(202), endpoint), act_and_echo, tmp_path, transport="sse")


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (respond(404), "HTTP 404"),
        (respond(401), "HTTP 401"),
        (respond(200, b"<html>", "text/html"), "text/html"),
        (respond(200, b": no endpoint\n\n", EVENTS), "ended its stream"),
    ],
    ids=["404", "401", "HTML", "no endpoint"],
)
def test_what_does_not_speak_sse_is_said_to(answer: bytes, cause: str, tmp_path: Path) -> None:
    async def give(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    with pytest.raises(ConnectError, match=cause):
        visit(give, act_and_echo, tmp_path, transport="sse")


def test_an_sse_server_that_ends_its_stream_has_gone(tmp_path: Path) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        await sse(request, writer)
        if request.message.get("params", {}).get("name") == "act":
            for stream in streams:
                stream.close()
        if request.method == "GET":
            streams.append(writer)

    streams: list[asyncio.StreamWriter] = []
    sse = make_sse(lambda _: respond(202))
    heard, _, _, ended = visit(answer, act_and_echo, tmp_path, transport="sse")
    assert heard.seconds < 1 and ended


@pytest.mark.parametrize("status", [400, 404, 405])
def test_a_server_that_turns_a_post_away_is_tried_with_sse(status: int, tmp_path: Path) -> None:
    sse = make_sse(lambda _: respond(202))

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "POST" and request.path == "/mcp":
            writer.write(respond(status))
        else:
            await sse(request, writer)

    async def go(client: Client, transport: Transport, _: Site) -> tuple[str, str]:
        return transport.kind, (await call(client, "echo")).text

    assert visit(answer, go, tmp_path, transport="") == ("sse", "echo")


def test_a_server_that_turns_only_the_new_question_away_is_spoken_to_as_before(tmp_path: Path) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        match request.message.get("method"):
            case "initialize":
                writer.write(welcome(request))
            case "notifications/initialized":
                writer.write(respond(202))
            case "tools/list":
                writer.write(list_tools(request.message))
            case "tools/call":
                writer.write(respond(200, make_result(request.message)))
            case _:
                writer.write(respond(405 if request.method == "GET" else 400))

    async def go(client: Client, transport: Transport, _: Site) -> tuple[str, str]:
        return (await call(client)).text, transport.kind

    assert visit(answer, go, tmp_path, mode="auto", transport="") == ("fine", "http")


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_server_that_speaks_neither_tells_its_first_trouble(status: int, tmp_path: Path) -> None:
    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(respond(status))

    async def go() -> tuple[str, list[str]]:
        async with serving(answer) as site:
            transport = open_transport(ServerConfig("web", url=site.url), tmp_path / "log")
            with pytest.raises(Exception, match="TaskGroup"):  # a group around the MCPError
                async with Client(transport, mode="auto", read_timeout_seconds=LIMIT_S):
                    pass
            return transport.problem, site.methods()

    problem, methods = asyncio.run(go())
    assert problem == f"HTTP {status} Odd"
    assert ("GET" in methods) is (status == 404)
