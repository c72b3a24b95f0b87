"""WebSocket over real sockets: the subprotocol, what a server may send, and how a connection ends."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from rkllm_chat.config import ServerConfig
from rkllm_chat.errors import ConnectError
from rkllm_chat.servers.transport import Transport
from rkllm_chat.servers.transports import open_transport

from .talks import LIMIT_S, MODERN, Heard, call, read_log

UNUSABLE, CLOSED = -32700, -32000
MCP = [Subprotocol("mcp")]

T = TypeVar("T")
Act = Callable[[ServerConnection, dict[str, Any]], Awaitable[None]]
Then = Callable[[Client, Transport], Awaitable[T]]


def make_result(message: dict[str, Any], text: str = "fine") -> str:
    result = {"resultType": "complete", "content": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})


def on_act(act: Act) -> Callable[[ServerConnection], Awaitable[None]]:
    """A good server of the 2026 protocol, but for the tool `act`."""

    async def talk(connection: ServerConnection) -> None:
        async for frame in connection:
            message = json.loads(frame)
            match message.get("method"), message.get("params", {}).get("name"):
                case "tools/list", _:
                    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("act", "echo")]
                    listed = {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}
                    await connection.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": listed}))
                case "tools/call", "act":
                    await act(connection, message)
                case "tools/call", _:
                    await connection.send(make_result(message, "echo"))

    return talk


async def answer_well(connection: ServerConnection, message: dict[str, Any]) -> None:
    await connection.send(make_result(message))


async def use(url: str, folder: Path, then: Then[T], **options: Any) -> T:
    server = ServerConfig("ws", url=url, **{"timeout_s": LIMIT_S, **options})
    transport = open_transport(server, folder / "logs/server.log")
    async with Client(transport, mode=MODERN, read_timeout_seconds=LIMIT_S) as client:
        await client.list_tools()
        return await then(client, transport)


def visit(act: Act, then: Then[T], folder: Path, **options: Any) -> T:
    """Opens a client to such a server, does `then`, and leaves."""

    async def go() -> T:
        async with serve(on_act(act), "127.0.0.1", 0, subprotocols=MCP, max_size=None, **options) as server:
            return await use(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/", folder, then)

    return asyncio.run(asyncio.wait_for(go(), 4 * LIMIT_S))


async def act_and_echo(client: Client, transport: Transport) -> tuple[Heard, str, str]:
    return await call(client), (await call(client, "echo")).text, transport.ended


@pytest.mark.parametrize(
    "frames",
    [
        lambda message: [make_result(message)],
        lambda message: [make_result(message).encode()],
        lambda message: [[make_result(message)[:10], make_result(message)[10:]]],
        lambda message: ["no JSON", "", "{}", "\ufeff" + make_result(message)],
        lambda message: [b"\xff\xfe", make_result(message)],
        lambda message: [make_result({"id": 99}), make_result(message)],
    ],
    ids=["a text", "bytes", "fragments", "something else before", "bytes that are no text", "an answer to nobody"],
)
def test_an_answer_is_found_in_whatever_surrounds_it(frames: Callable[[Any], list[Any]], tmp_path: Path) -> None:
    async def act(connection: ServerConnection, message: dict[str, Any]) -> None:
        for frame in frames(message):
            await connection.send(frame)

    heard, echo, ended = visit(act, act_and_echo, tmp_path)
    assert (heard.text, echo, ended) == ("fine", "echo", "")


def test_what_is_passed_over_is_told_once_in_the_log(tmp_path: Path) -> None:
    async def act(connection: ServerConnection, message: dict[str, Any]) -> None:
        for frame in ("stray one", "stray two", make_result(message)):
            await connection.send(frame)

    visit(act, act_and_echo, tmp_path)
    assert read_log(tmp_path) == "[rkllm-chat] Passed over: it is no JSON: b'stray one'\n"


def test_an_answer_that_cannot_be_used_fails_its_call_soon_and_alone(tmp_path: Path) -> None:
    async def act(connection: ServerConnection, message: dict[str, Any]) -> None:
        await connection.send(make_result(message)[:-5])

    heard, echo, ended = visit(act, act_and_echo, tmp_path)
    assert (heard.code, heard.text, echo) == (UNUSABLE, "The answer cannot be used: it is cut short", "echo")
    assert heard.seconds < 1.5 and ended == ""


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_a_message_beyond_the_limit_ends_the_connection(compression: str | None, tmp_path: Path) -> None:
    async def act(connection: ServerConnection, message: dict[str, Any]) -> None:
        await connection.send(make_result(message, "x" * (5 << 20)))

    heard, _, ended = visit(act, act_and_echo, tmp_path, compression=compression)
    assert (heard.code, ended) == (CLOSED, "sent a message of more than 4 MB")
    assert heard.seconds < 1.5


async def break_off(connection: ServerConnection) -> None:
    connection.transport.abort()


@pytest.mark.parametrize(
    ("leave", "ended"),
    [
        (lambda connection: connection.close(1011, "out of order"), "closed the connection with 1011 out of order"),
        (lambda connection: connection.close(), "closed the connection with 1000"),
        (break_off, "broke off the connection"),
    ],
    ids=["1011", "1000", "reset"],
)
def test_a_server_that_closes_fails_the_call_at_once_and_it_is_known_how(
    leave: Callable[[ServerConnection], Awaitable[None]], ended: str, tmp_path: Path
) -> None:
    async def act(connection: ServerConnection, _: dict[str, Any]) -> None:
        await leave(connection)

    heard, _, said = visit(act, act_and_echo, tmp_path)
    assert (heard.code, said) == (CLOSED, ended)
    assert heard.seconds < 1.5


def test_the_headers_of_the_configuration_are_sent_with_the_handshake(tmp_path: Path) -> None:
    seen: list[str | None] = []

    async def go() -> Heard:
        def look(_: ServerConnection, request: Request) -> None:
            seen.append(request.headers.get("X-Api-Key"))

        async with serve(on_act(answer_well), "127.0.0.1", 0, subprotocols=MCP, process_request=look) as server:
            url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            return await use(url, tmp_path, lambda client, _: call(client), headers={"X-Api-Key": "secret"})

    assert asyncio.run(go()).text == "fine"
    assert seen == ["secret"]


def test_a_server_without_the_subprotocol_is_refused(tmp_path: Path) -> None:
    async def go() -> None:
        async with serve(on_act(answer_well), "127.0.0.1", 0) as server:
            await use(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/", tmp_path, act_and_echo)

    with pytest.raises(ConnectError, match='subprotocol "mcp"'):
        asyncio.run(go())


def test_who_has_to_log_in_is_told_how(tmp_path: Path) -> None:
    async def go() -> tuple[str, str, str]:
        def refuse(connection: ServerConnection, _: Request) -> Response:
            response = connection.respond(HTTPStatus.UNAUTHORIZED, "no")
            response.headers["WWW-Authenticate"] = "Bearer"
            return response

        async with serve(on_act(answer_well), "127.0.0.1", 0, process_request=refuse) as server:
            url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            transport = open_transport(ServerConfig("ws", url=url), tmp_path / "log")
            with pytest.raises(ConnectError) as caught:
                await transport.__aenter__()
            return transport.problem, transport.challenge, caught.value.message

    problem, challenge, message = asyncio.run(go())
    assert (problem, challenge) == ("HTTP 401 Unauthorized", "Bearer")
    assert "401" in message


def test_no_redirect_is_followed_and_no_header_goes_along(tmp_path: Path) -> None:
    asked: list[str] = []

    async def go() -> None:
        def note(_: ServerConnection, request: Request) -> None:
            asked.append(request.path)

        async with serve(on_act(answer_well), "127.0.0.1", 0, subprotocols=MCP, process_request=note) as other:

            def redirect(connection: ServerConnection, _: Request) -> Response:
                response = connection.respond(HTTPStatus.FOUND, "there")
                response.headers["Location"] = f"ws://127.0.0.1:{other.sockets[0].getsockname()[1]}/"
                return response

            async with serve(on_act(answer_well), "127.0.0.1", 0, process_request=redirect) as server:
                url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
                await use(url, tmp_path, act_and_echo, headers={"X-Api-Key": "secret"})

    with pytest.raises(ConnectError, match="302"):
        asyncio.run(go())
    assert asked == []


@pytest.mark.parametrize("url", ["ws://127.0.0.1:1/", "wss://127.0.0.1:1/"])
def test_a_server_that_is_not_there_is_said_to_be(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=f"{url} cannot be opened"):
        asyncio.run(use(url, tmp_path, act_and_echo))


def test_leaving_does_not_wait_for_a_server_that_is_silent(tmp_path: Path) -> None:
    async def go() -> float:
        stop = asyncio.Event()

        async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """Shakes hands and then neither reads nor writes."""
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            key = next(line.partition(": ")[2] for line in head.split("\r\n") if line.startswith("Sec-WebSocket-Key"))
            writer.write(shake_hands(key))
            await stop.wait()
            writer.close()

        silent = await asyncio.start_server(be_silent, "127.0.0.1", 0)
        url = f"ws://127.0.0.1:{silent.sockets[0].getsockname()[1]}/"
        loop = asyncio.get_running_loop()
        async with open_transport(ServerConfig("ws", url=url), tmp_path / "log"):
            begun = loop.time()
        stop.set()
        silent.close()
        return loop.time() - begun

    assert asyncio.run(go()) < 3


def shake_hands(key: str) -> bytes:
    """A server's part of the opening handshake (RFC 6455, 4.2.2)."""
    accept = base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"
    ).encode()
