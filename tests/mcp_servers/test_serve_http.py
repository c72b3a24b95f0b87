"""`rkllm-chat serve NAME --http PORT` as a process: which requests it accepts, and how it ends."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_servers.serving import Served, serve
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.mcp_client.toolbox import Toolbox
from stage import PROGRAM, OpenScreen, Run

LIMIT_S = 20.0  # on a busy machine
MODERN, LEGACY = "2026-07-28", "2025-11-25"
TOKEN = "correct-horse-battery-staple"
JSON_OR_EVENTS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
MB = 1024 * 1024
MOST_SESSIONS = 100

# A bundled server that is added by one row, with a tool that nothing can stop.
STUCK = """
import sys, threading
from rkllm_chat import mcp_servers
from rkllm_chat.cli import main

def add_options(parser):
    parser.add_argument("--greeting", required=True)

def build_server(options):
    from mcp.server.mcpserver import MCPServer
    server = MCPServer("stuck")

    @server.tool()
    def sit() -> str:
        print(options.greeting, file=sys.stderr, flush=True)
        threading.Event().wait()
        return ""

    return server

mcp_servers.BUNDLED["stuck"] = __name__
sys.exit(main.main(sys.argv[1:]))
"""


Serve = Callable[..., Served]


@pytest.fixture
def start(environment: dict[str, str], folder: Path) -> Iterator[Serve]:
    """Starts the board over HTTP, or another server."""
    with ExitStack() as stack:
        yield lambda *options, name="board", program=PROGRAM: stack.enter_context(
            serve(name, *options, env=environment, cwd=folder, program=program)
        )


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A board that keeps nothing of what it is asked."""
    with serve("board", "--folder", "/", env={**os.environ, "HOME": str(tmp_path_factory.mktemp("home"))}) as served:
        yield served
        code, log = served.end()
        assert code == 128 + signal.SIGTERM
        assert_refusals(log, 421, 403)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    """A board behind a token, on all addresses."""
    environment = {**os.environ, "KEY": TOKEN}
    with serve("board", "--host", "0.0.0.0", "--token-env", "KEY", env=environment) as served:
        yield served
        code, log = served.end()
        assert code == 128 + signal.SIGTERM
        assert_refusals(log, 421, 401)


def assert_refusals(log: str, *statuses: int) -> None:
    """The log has a line per refused request, and none of others."""
    shape = re.compile(r"rkllm-chat: refused POST from 127\.0\.0\.\d with HTTP (\d+) \(.*\)")
    found = [shape.fullmatch(line) for line in log.splitlines()]
    assert all(found), log
    assert {int(match[1]) for match in found if match} <= set(statuses)


def message(method: str, version: str = LEGACY, **params: Any) -> bytes:
    """A request as a client of an era writes it."""
    if version == MODERN:
        keys = {"protocolVersion": version, "clientCapabilities": {}}
        params["_meta"] = {f"io.modelcontextprotocol/{key}": value for key, value in keys.items()}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


HELLO = message("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo={"name": "test", "version": "1"})


@contextmanager
def ask(
    served: Served, body: Any = HELLO, method: str = "POST", address: str = "127.0.0.1", **headers: str
) -> Iterator[http.client.HTTPResponse]:
    """One request, while it is answered; headers are written with _ for -, and over the usual ones."""
    connection = http.client.HTTPConnection(address, served.port, timeout=LIMIT_S)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(
        method, "/mcp", body, {**JSON_OR_EVENTS, **served.headers, **given}, encode_chunked=not isinstance(body, bytes)
    )
    with closing(connection), connection.getresponse() as response:
        yield response


def status_of(served: Served, body: Any = HELLO, **options: str) -> int:
    with ask(served, body, **options) as response:
        return response.status


@contextmanager
def open_stream(served: Served, version: str) -> Iterator[http.client.HTTPResponse]:
    """A stream of events that stays open: a subscription, or before 2026 the GET of a session."""
    if version == MODERN:
        body = message("subscriptions/listen", MODERN, notifications={"toolsListChanged": True})
        opening = ask(served, body, MCP_Protocol_Version=MODERN, Mcp_Method="subscriptions/listen")
    else:
        with ask(served) as response:
            session = response.headers["mcp-session-id"]
        opening = ask(served, b"", "GET", mcp_session_id=session, mcp_protocol_version=LEGACY)
    with opening as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        yield stream


def ask_box(folder: Path, server: ServerConfig, *sums: str) -> list[str]:
    """What the board answers to our own client, or why it cannot be opened."""

    async def go() -> list[str]:
        async with Toolbox([server], folder) as box:
            if server.name in box.failures:
                return [str(box.failures[server.name])]
            tool = next(tool for tool in box.tools if tool.name == "calculate")
            calls = (box.call(tool, {"expression": expression}, lambda *_: None) for expression in sums)
            return [result.text for result in await asyncio.gather(*calls)]

    return asyncio.run(asyncio.wait_for(go(), LIMIT_S))


def test_the_board_prints_its_url_and_answers_our_client(start: Serve, tmp_path: Path) -> None:
    served = start()
    assert re.fullmatch(r"rkllm-chat: board listens at http://127\.0\.0\.1:\d+/mcp\n", served.line)
    server = served.entry("board")
    assert ask_box(tmp_path, server, "6 * 7", "1 + 1") == ["6 * 7 = 42", "1 + 1 = 2"]
    assert served.end() == (128 + signal.SIGTERM, "")


def test_clients_of_both_protocol_eras_are_served_at_once(shared: Served) -> None:
    server = shared.entry("board")

    async def call(client: Client) -> tuple[str, bool, str, bool]:
        names = {tool.name for tool in (await client.list_tools()).tools}
        failed = await client.call_tool("list_files", {"path": "no such folder"})
        product = await client.call_tool("calculate", {"expression": "2 * 3"})
        return (
            client.protocol_version,
            {"list_files", "calculate"} < names,
            product.structured_content["value"],
            failed.is_error,
        )

    async def go() -> list[tuple[str, bool, str, bool]]:
        async with httpx2.AsyncClient(headers=server.headers) as http, AsyncExitStack() as stack:
            streams = [streamable_http_client(server.url, http_client=http) for _ in range(2)]
            modes = ("legacy", "auto")
            clients = [Client(one, mode=mode) for one, mode in zip(streams, modes, strict=True)]
            return list(await asyncio.gather(*[call(await stack.enter_async_context(client)) for client in clients]))

    found = asyncio.run(asyncio.wait_for(go(), LIMIT_S))
    assert found == [(version, True, "6", True) for version in (LEGACY, MODERN)]


@pytest.mark.parametrize(("size", "status"), [(4 * MB, 200), (4 * MB + 1, 413)])
@pytest.mark.parametrize("has_length", [True, False], ids=["with a length", "in chunks"])
def test_a_body_has_at_most_four_megabytes(size: int, status: int, has_length: bool, shared: Served) -> None:
    body = HELLO.ljust(size)
    pieces = (body[start : start + MB] for start in range(0, size, MB))
    assert status_of(shared, body if has_length else pieces) == status


INVALID = 'Bearer error="invalid_token"'


@pytest.mark.parametrize(
    ("headers", "status", "challenge"),
    [
        ({"Authorization": f"bearer {TOKEN}"}, 200, None),
        ({}, 401, "Bearer"),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401, INVALID),
        ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401, INVALID),
        ({"Authorization": "Bearer \xe9"}, 401, INVALID),
        ({"Authorization": "Bearer "}, 401, "Bearer"),
        ({"Authorization": TOKEN}, 401, "Bearer"),
        ({"Authorization": f"Basic {TOKEN}"}, 401, INVALID),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "attacker.example"}, 421, None),
    ],
)
def test_requests_without_the_token_are_rejected(
    headers: dict[str, str], status: int, challenge: str | None, guarded: Served
) -> None:
    with ask(guarded, HELLO, **headers) as answer:
        assert (answer.status, answer.headers["www-authenticate"]) == (status, challenge)


@pytest.mark.parametrize(
    ("address", "name", "status"),
    [
        ("127.0.0.1", "{machine}:{port}", 200),
        ("127.0.0.1", "{machine}.local:{port}", 200),
        ("127.0.0.2", "127.0.0.2:{port}", 200),
        ("127.0.0.2", "127.0.0.3:{port}", 421),
    ],
)
def test_on_all_addresses_it_answers_to_the_machines_name_and_the_address_called(
    address: str, name: str, status: int, guarded: Served
) -> None:
    host = name.format(machine=socket.gethostname(), port=guarded.port)
    assert guarded.url == f"http://{socket.gethostname()}:{guarded.port}/mcp"
    assert status_of(guarded, address=address, Authorization=f"Bearer {TOKEN}", Host=host) == status


def test_a_token_that_cannot_be_stored_is_shown_on_a_terminal_or_refused(
    open_screen: OpenScreen, program: Run, environment: dict[str, str]
) -> None:
    state = Path(environment["HOME"]) / ".local/state/rkllm-chat"
    state.mkdir(parents=True)
    (state / "tokens").write_text("in the way", encoding="utf-8")
    screen = open_screen("serve", "board", "--http", "0", size=(200, 20))
    assert "(for this run; " in "\n".join(screen.wait_for("listens at"))
    refused = program("serve", "board", "--http", "0", code=5).stderr
    assert f"cannot be stored in {state}/tokens/board" in refused and "--token-env" in refused


@pytest.mark.slow
def test_many_new_sessions_lock_nobody_out(start: Serve) -> None:
    served = start()

    def open_session() -> str:
        with ask(served) as response:
            assert response.status == 200
            return response.headers["mcp-session-id"] or ""

    def use(session: str) -> int:
        return status_of(served, message("tools/list"), mcp_session_id=session, mcp_protocol_version=LEGACY)

    used = open_session()
    assert use(used) == 200
    unused = [open_session() for _ in range(MOST_SESSIONS)]
    assert (use(used), use(unused[0]), use(unused[1]), use(unused[-1])) == (200, 404, 200, 200)
    with ask(served, b"", "GET", mcp_session_id=used, mcp_protocol_version=LEGACY) as stream:
        others = [open_session() for _ in range(MOST_SESSIONS)]
        assert stream.status == 200
        assert [use(headers) for headers in (used, unused[1], unused[-1])] == [200] * 3
        assert [use(other) for other in others] == [404] * 3 + [200] * (MOST_SESSIONS - 3)


@pytest.mark.slow
def test_a_request_that_does_not_arrive_is_closed_and_an_open_stream_is_not(start: Serve) -> None:
    served = start()
    lines = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n"
    authorized = b"".join(f"{name}: {value}\r\n".encode() for name, value in served.headers.items())
    complete = lines + authorized + b"content-length: 2\r\n\r\n{}"
    halves = (b"", lines, lines + authorized + b"content-length: 9\r\n\r\n{", complete + lines)
    begun = time.monotonic()
    with open_stream(served, LEGACY) as stream, ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(("127.0.0.1", served.port))) for _ in halves]
        for connection, half in zip(connections, halves, strict=True):
            connection.settimeout(LIMIT_S)
            connection.sendall(half)
        for connection in connections:
            while connection.recv(1000):
                pass
        assert 9 < time.monotonic() - begun < LIMIT_S
        assert status_of(served) == 200 and not select.select([stream], [], [], 0)[0]


@pytest.mark.parametrize(("version", "number"), [(LEGACY, signal.SIGINT), (MODERN, signal.SIGTERM)])
def test_a_signal_ends_the_server_while_a_stream_is_open(version: str, number: int, start: Serve) -> None:
    served = start()
    with open_stream(served, version) as stream:
        assert served.end(number) == (128 + number, "")
        with pytest.raises(http.client.IncompleteRead):
            stream.read()


@pytest.mark.slow
@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_an_added_server_ends_although_a_tool_cannot_be_stopped(version: str, start: Serve, folder: Path) -> None:
    (folder / "stuck.py").write_text(STUCK, encoding="utf-8")
    served = start("--greeting", "sitting", name="stuck", program=[sys.executable, "stuck.py"])
    headers = {"mcp-protocol-version": version, "mcp-method": "tools/call", "mcp-name": "sit"}
    if version == LEGACY:
        with ask(served) as response:
            headers["mcp-session-id"] = response.headers["mcp-session-id"]
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=LIMIT_S)) as connection:
        body = message("tools/call", version, name="sit", arguments={})
        connection.request("POST", "/mcp", body, {**JSON_OR_EVENTS, **served.headers, **headers})
        assert served.process.stderr and served.process.stderr.readline() == "sitting\n"
        assert served.end() == (-signal.SIGTERM, "")


def test_a_port_in_use_is_an_error(shared: Served, program: Run) -> None:
    port = str(shared.port)
    done = program("serve", "board", "--http", port, code=5)
    assert f"Port {port} on 127.0.0.1 is in use" in done.stderr and done.stderr.count("\n") == 1
    assert done.stdout == ""


# Server -> words of its command line, the exit code, and words of the error.
INVALID_OPTIONS: dict[str, list[tuple[str, int, str]]] = {
    "board": [
        ("--http 65536", 2, "0 to 65535"),
        ("--http -1", 2, "--http"),
        ("--http no", 2, "--http"),
        ("--host 127.0.0.1", 2, "--host"),
        ("--token-env KEY", 2, "--token-env"),
        ("--no-token", 2, "--no-token"),
        ("--http 0 --host 0.0.0.0 --no-token", 2, "requires a token"),
        ("--http 0 --no-token --token-env TERM", 2, "exclude each other"),
        ("--http 0 --host 0.0.0.0 --token-env NO_SUCH", 2, "NO_SUCH"),
        ("--http 0 --token-env PATH", 2, "PATH"),
        ("--http 0 --host 192.0.2.1 --token-env TERM", 5, "Cannot assign requested"),
        ("--http 0 --host no..such --token-env TERM", 5, '"no..such"'),
        ("--http 0 --folder /no/such", 2, "/no/such"),
    ],
    "llm": [
        ("--backend no", 2, '"no"'),
        ("--set context_tokens=-1", 2, "context_tokens"),
        ("--max-tokens 0", 2, "--max-tokens must"),
        ("--folder /no/such", 2, "/no/such"),
        ("--config no.toml", 3, "no.toml: No such file"),
        ("--model http://h:x/v1#m", 3, "is not the URL"),
        ("--model https://u:p@h/v1#m", 3, "password"),
        ("--model https://h/v1#m --key-env NO_SUCH", 3, "NO_SUCH"),
    ],
}


@pytest.mark.parametrize("name", INVALID_OPTIONS)
def test_invalid_options_are_rejected(name: str, program: Run) -> None:
    for options, code, words in INVALID_OPTIONS[name]:
        done = program("serve", name, *options.split(), code=code)
        assert words in done.stderr and "Traceback" not in done.stderr
        assert done.stdout == ""
