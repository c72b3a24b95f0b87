"""WebSocket over real sockets: the subprotocol, what a server may send, and how a connection ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from cpu_time import allow_s
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import ConnectError
from rkllm_chat.mcp_client.transports.base import Transport
from rkllm_chat.mcp_client.transports.registry import make_transport

from .talks import LIMIT_S, MODERN, Heard, call, read_log

UNUSABLE, CLOSED = -32700, -32000

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
    transport = make_transport(server, folder / "logs/server.log")
    async with Client(transport, mode=MODERN, read_timeout_seconds=LIMIT_S) as client:
        await client.list_tools()
        return await then(client, transport)


@asynccontextmanager
async def serving(act: Act = answer_well, **options: Any) -> AsyncIterator[str]:
    """A server on a free port; gives its URL."""
    given = {"subprotocols": [Subprotocol("mcp")], "max_size": None, **options}
    async with serve(on_act(act), "127.0.0.1", 0, **given) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def visit(act: Act, then: Then[T], folder: Path, **options: Any) -> T:
    """Open a client to such a server, run `then`, and leave."""

    async def go() -> T:
        async with serving(act, **options) as url:
            return await use(url, folder, then)

    return asyncio.run(asyncio.wait_for(go(), 4 * LIMIT_S))


async def act_and_echo(client: Client, transport: Transport) -> tuple[Heard, str, str]:
    return await call(client), (await call(client, "echo")).text, transport.end_reason


FRAMES: dict[str, Callable[[Any], list[Any]]] = {
    "strays first": lambda message: ["stray one", "", "{}", b"\xff\xfe", "stray two", make_result(message)],
    "an answer for nobody first": lambda message: [make_result({"id": 99}), make_result(message)],
    "a byte order mark": lambda message: ["\ufeff" + make_result(message)],
    "bytes": lambda message: [make_result(message).encode()],
    "fragments": lambda message: [[make_result(message)[:10], make_result(message)[10:]]],
    "cut short": lambda message: [make_result(message)[:-5]],
}


def test_an_answer_is_read_in_every_form_and_an_unusable_one_fails_its_call_alone(tmp_path: Path) -> None:
    async def act(connection: ServerConnection, message: dict[str, Any]) -> None:
        for frame in FRAMES[message["params"]["arguments"]["form"]](message):
            await connection.send(frame)

    async def go(client: Client, transport: Transport) -> tuple[dict[str, Heard], str, str]:
        heard = {form: await call(client, form=form) for form in FRAMES}
        return heard, (await call(client, "echo")).text, transport.end_reason

    heard, echo, ended = visit(act, go, tmp_path)
    unusable = heard.pop("cut short")
    assert {form: one.text for form, one in heard.items()} == dict.fromkeys(heard, "fine")
    assert unusable.code == UNUSABLE
    assert unusable.seconds < allow_s(0.5) and (echo, ended) == ("echo", "")
    assert read_log(tmp_path) == "[rkllm-chat] Ignored: it is not a JSON object or array: b'stray one'\n"


async def break_off(connection: ServerConnection) -> None:
    connection.transport.abort()


@pytest.mark.parametrize(
    ("leave", "ended"),
    [
        (lambda connection: connection.close(1011, "out of order"), "closed the connection with 1011 out of order"),
        (lambda connection: connection.close(), "closed the connection with 1000"),
        (break_off, "closed the connection without a closing frame"),
    ],
    ids=["1011", "1000", "reset"],
)
def test_a_server_that_closes_fails_the_call_at_once_with_how_it_closed(
    leave: Callable[[ServerConnection], Awaitable[None]], ended: str, tmp_path: Path
) -> None:
    async def act(connection: ServerConnection, _: dict[str, Any]) -> None:
        await leave(connection)

    heard, _, said = visit(act, act_and_echo, tmp_path)
    assert (heard.code, said) == (CLOSED, ended)
    assert heard.seconds < allow_s(0.5)


def test_a_server_without_the_subprotocol_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match='subprotocol "mcp"'):
        visit(answer_well, act_and_echo, tmp_path, subprotocols=None)


def respond(connection: ServerConnection, status: HTTPStatus, **headers: str) -> Response:
    response = connection.respond(status, "")
    response.headers.update(headers)
    return response


def test_a_status_is_kept_with_how_to_log_in(tmp_path: Path) -> None:
    def refuse(connection: ServerConnection, _: Request) -> Response:
        return respond(connection, HTTPStatus.UNAUTHORIZED, **{"WWW-Authenticate": "Bearer"})

    async def go() -> None:
        async with serving(process_request=refuse) as url:
            transport = make_transport(ServerConfig("ws", url=url), tmp_path / "log")
            with pytest.raises(ConnectError, match="401"):
                await transport.__aenter__()
            assert (transport.problem, transport.challenge) == ("HTTP 401 Unauthorized", "Bearer")

    asyncio.run(go())


def test_headers_are_sent_with_the_handshake_and_follow_no_redirect(tmp_path: Path) -> None:
    asked: list[str] = []
    keys: list[str | None] = []

    def note(_: ServerConnection, request: Request) -> None:
        asked.append(request.path)

    async def go() -> None:
        async with serving(process_request=note) as other:

            def redirect(connection: ServerConnection, request: Request) -> Response:
                keys.append(request.headers.get("X-Api-Key"))
                return respond(connection, HTTPStatus.FOUND, Location=other)

            async with serving(process_request=redirect) as url:
                await use(url, tmp_path, act_and_echo, headers={"X-Api-Key": "secret"})

    with pytest.raises(ConnectError, match="302"):
        asyncio.run(go())
    assert (keys, asked) == (["secret"], [])


@pytest.mark.parametrize("url", ["ws://127.0.0.1:1/", "wss://127.0.0.1:1/"])
def test_a_server_that_is_not_there_cannot_be_opened(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=f"{url} cannot be opened"):
        asyncio.run(use(url, tmp_path, act_and_echo))


@pytest.mark.slow
def test_leaving_does_not_wait_for_a_server_that_does_not_read(tmp_path: Path) -> None:
    async def act(connection: ServerConnection, message: dict[str, Any]) -> None:
        connection.transport.pause_reading()  # it will not see that the connection is closed
        await connection.send(make_result(message))

    async def go(client: Client, _: Transport) -> float:
        assert (await call(client)).text == "fine"
        return time.monotonic()

    begun = visit(act, go, tmp_path, close_timeout=0.1)
    assert 0.9 < time.monotonic() - begun < allow_s(1)
