"""`rkllm-chat serve NAME --http PORT` as a process: who is let in, how much, how many, and how it ends."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp import Client

from rkllm_chat.config import ServerConfig
from rkllm_chat.servers.toolbox import Toolbox
from rkllm_chat.servers.transports import open_transport
from stage import PROGRAM

LIMIT_S = 20.0  # a busy machine
END_S = 5.0
MODERN, LEGACY = "2026-07-28", "2025-11-25"
TOKEN = "correct-horse-battery-staple"
JSON_OR_EVENTS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
MB = 1024 * 1024

# A bundled server of the test's own: one row, and a tool that nothing can stop.
ROW = """
import sys, threading
from rkllm_chat import bundled, cli

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

bundled.BUNDLED["stuck"] = __name__
sys.exit(cli.main(sys.argv[1:]))
"""


@dataclass
class Served:
    """A running server. `line` is what it said on standard error when it listened."""

    process: subprocess.Popen[str]
    line: str

    @property
    def url(self) -> str:
        return self.line.split()[-1]

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Sends a signal; gives the exit code and what was said since it listened."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=END_S)
        return self.process.returncode, said


Serve = Callable[..., Served]


@pytest.fixture
def serve(environment: dict[str, str], folder: Path) -> Iterator[Serve]:
    """Starts `rkllm-chat serve`, the board over HTTP by default, and waits until it listens."""
    served: list[Served] = []

    def start(*options: str, name: str = "board", program: Sequence[str] = PROGRAM, **variables: str) -> Served:
        process = subprocess.Popen(
            [*program, "serve", name, "--http", "0", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**environment, **variables},
            cwd=folder,
        )
        assert process.stderr
        served.append(Served(process, process.stderr.readline()))
        assert "http://" in served[-1].line, served[-1].line
        return served[-1]

    yield start
    for one in served:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


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
    connection.request(method, "/mcp", body, {**JSON_OR_EVENTS, **given}, encode_chunked=not isinstance(body, bytes))
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
            calls = (box.call(tool, {"expression": one}, lambda *_: None) for one in sums)
            return [result.text for result in await asyncio.gather(*calls)]

    return asyncio.run(asyncio.wait_for(go(), LIMIT_S))


def test_the_board_says_its_url_and_answers_our_client_over_http(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    assert re.fullmatch(r"rkllm-chat: board listens at http://127\.0\.0\.1:\d+/mcp\n", served.line)
    server = ServerConfig("board", url=served.url, transport="http")
    assert ask_box(tmp_path, server, "6 * 7", "1 + 1") == ["6 * 7 = 42", "1 + 1 = 2"]
    assert served.end() == (128 + signal.SIGTERM, "")


@pytest.mark.parametrize(("mode", "version"), [("auto", MODERN), ("legacy", LEGACY)])
def test_both_eras_of_the_protocol_are_spoken(mode: Any, version: str, serve: Serve, tmp_path: Path) -> None:
    server = ServerConfig("board", url=serve("--folder", "/").url, transport="http")

    async def go() -> tuple[str, int, bool]:
        async with Client(open_transport(server, tmp_path / "log"), mode=mode, read_timeout_seconds=LIMIT_S) as client:
            tools = (await client.list_tools()).tools
            failed = await client.call_tool("list_files", {"path": "no such folder"})
            return client.protocol_version, len(tools), failed.is_error

    assert asyncio.run(asyncio.wait_for(go(), LIMIT_S)) == (version, 9, True)


def test_two_clients_talk_at_once(serve: Serve, tmp_path: Path) -> None:
    server = ServerConfig("board", url=serve().url, transport="http")

    async def go() -> tuple[str, str]:
        one = Client(open_transport(server, tmp_path / "one"), mode="legacy", read_timeout_seconds=LIMIT_S)
        two = Client(open_transport(server, tmp_path / "two"), mode=MODERN, read_timeout_seconds=LIMIT_S)
        async with one, two:
            first, second = await asyncio.gather(
                one.call_tool("calculate", {"expression": "2 * 3"}), two.call_tool("calculate", {"expression": "3 * 3"})
            )
        return first.structured_content["value"], second.structured_content["value"]

    assert asyncio.run(asyncio.wait_for(go(), LIMIT_S)) == ("6", "9")


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("Host", "127.0.0.1:1", 200),
        ("Host", "localhost:{port}", 200),
        ("Host", "localhost", 200),
        ("Host", "[::1]:{port}", 200),
        ("Host", "attacker.example:{port}", 421),
        ("Host", "127.0.0.1.attacker.example:{port}", 421),
        ("Host", "localhost.attacker.example", 421),
        ("Host", "192.0.2.1:{port}", 421),
        ("Host", "", 421),
        ("Origin", "http://localhost:{port}", 200),
        ("Origin", "http://127.0.0.1:6274", 200),
        ("Origin", "http://attacker.example", 403),
        ("Origin", "http://localhost.attacker.example:{port}", 403),
        ("Origin", "https://attacker.example:{port}", 403),
        ("Origin", "null", 403),
    ],
)
@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_web_page_does_not_come_in_under_a_foreign_name(
    name: str, value: str, status: int, version: str, shared: Served
) -> None:
    body, more = HELLO, {}
    if version == MODERN:
        body, more = message("tools/list", MODERN), {"MCP_Protocol_Version": MODERN, "Mcp_Method": "tools/list"}
    assert status_of(shared, body, **more, **{name: value.format(port=shared.port)}) == status


@pytest.fixture(scope="module")
def shared() -> Iterator[Served]:
    """A board that is asked many things and keeps nothing of them."""
    command = [*PROGRAM, "serve", "board", "--http", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stderr
        served = Served(process, process.stderr.readline())
        yield served
        code, said = served.end()
    assert (code, said) == (128 + signal.SIGTERM, "")  # no access log, no word about those turned away


@pytest.mark.parametrize(("size", "status"), [(4 * MB, 200), (4 * MB + 1, 413)])
@pytest.mark.parametrize("counted", [True, False], ids=["with a length", "in chunks"])
def test_a_body_may_have_four_megabytes(size: int, status: int, counted: bool, shared: Served) -> None:
    body = HELLO.ljust(size)
    pieces = (body[start : start + MB] for start in range(0, size, MB))
    assert status_of(shared, body if counted else pieces) == status


@pytest.mark.parametrize(
    ("headers", "status", "challenge"),
    [
        ({"Authorization": f"Bearer {TOKEN}"}, 200, None),
        ({"Authorization": f"bearer {TOKEN}"}, 200, None),
        ({}, 401, "Bearer"),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401, 'Bearer error="invalid_token"'),
        ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401, 'Bearer error="invalid_token"'),
        ({"Authorization": "Bearer \xe9"}, 401, 'Bearer error="invalid_token"'),
        ({"Authorization": "Bearer "}, 401, "Bearer"),
        ({"Authorization": TOKEN}, 401, "Bearer"),
        ({"Authorization": f"Basic {TOKEN}"}, 401, 'Bearer error="invalid_token"'),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "attacker.example"}, 421, None),
    ],
)
def test_where_there_is_a_token_nobody_comes_in_without_it(
    headers: dict[str, str], status: int, challenge: str | None, guarded: Served
) -> None:
    with ask(guarded, HELLO, **headers) as answer:
        assert (answer.status, answer.headers["www-authenticate"]) == (status, challenge)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    """A board behind a token, on all addresses."""
    command = [*PROGRAM, "serve", "board", "--http", "0", "--host", "0.0.0.0", "--token-env", "KEY"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, encoding="utf-8", env={**os.environ, "KEY": TOKEN}
    ) as process:
        assert process.stderr
        served = Served(process, process.stderr.readline())
        yield served
        code, said = served.end()
    assert (code, said) == (128 + signal.SIGTERM, "")


@pytest.mark.parametrize(
    ("address", "name", "status"),
    [
        ("127.0.0.1", "{machine}:{port}", 200),
        ("127.0.0.1", "{machine}.local:{port}", 200),
        ("127.0.0.2", "127.0.0.2:{port}", 200),
        ("127.0.0.2", "127.0.0.3:{port}", 421),
    ],
)
def test_on_all_addresses_it_answers_to_its_own_names_and_the_address_that_was_called(
    address: str, name: str, status: int, guarded: Served
) -> None:
    host = name.format(machine=socket.gethostname(), port=guarded.port)
    assert guarded.url == f"http://{socket.gethostname()}:{guarded.port}/mcp"
    assert status_of(guarded, address=address, Authorization=f"Bearer {TOKEN}", Host=host) == status


def test_our_client_brings_the_token_from_its_configuration(guarded: Served, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{guarded.port}/mcp"
    server = ServerConfig("board", url=url, headers={"Authorization": f"Bearer {TOKEN}"}, transport="http")
    assert ask_box(tmp_path, server, "6 * 7") == ["6 * 7 = 42"]
    (refusal,) = ask_box(tmp_path, ServerConfig("board", url=url, transport="http"), "6 * 7")
    assert "wants a login" in refusal


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once_while_a_stream_is_open(version: str, number: int, serve: Serve) -> None:
    served = serve()
    with open_stream(served, version) as stream:
        assert served.end(number) == (128 + number, "")
        with pytest.raises(http.client.IncompleteRead):
            stream.read()


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_further_server_is_one_row_and_ends_even_when_a_tool_cannot_be_stopped(
    version: str, serve: Serve, folder: Path
) -> None:
    (folder / "stuck.py").write_text(ROW, encoding="utf-8")
    served = serve("--greeting", "sitting", name="stuck", program=[sys.executable, "stuck.py"])
    headers = {"mcp-protocol-version": version, "mcp-method": "tools/call", "mcp-name": "sit"}
    if version == LEGACY:
        with ask(served) as response:
            headers["mcp-session-id"] = response.headers["mcp-session-id"]
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=LIMIT_S)) as connection:
        body = message("tools/call", version, name="sit", arguments={})
        connection.request("POST", "/mcp", body, {**JSON_OR_EVENTS, **headers})
        assert served.process.stderr and served.process.stderr.readline() == "sitting\n"
        assert served.end() == (-signal.SIGTERM, "")


def test_a_port_in_use_is_told_in_one_line(serve: Serve, program: Any) -> None:
    port = str(serve().port)
    done = program("serve", "board", "--http", port, code=5)
    assert done.stderr == f"rkllm-chat: Port {port} on 127.0.0.1 is in use. Choose another, or 0 for a free one.\n"
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("options", "code", "cause"),
    [
        (["--http", "65536"], 2, "must be from 0 to 65535"),
        (["--http", "-1"], 2, "--http"),
        (["--http", "no"], 2, "invalid port value"),
        (["--host", "127.0.0.1"], 2, "--host and --token-env are for --http."),
        (["--token-env", "KEY"], 2, "--host and --token-env are for --http."),
        (["--http", "0", "--host", "0.0.0.0"], 2, "it needs a token"),
        (["--http", "0", "--host", "0.0.0.0", "--token-env", "NO_SUCH"], 2, "NO_SUCH, which --token-env names, is not"),
        (["--http", "0", "--token-env", "PATH"], 2, "has characters that a bearer token cannot have"),
        (["--http", "0", "--host", "192.0.2.1", "--token-env", "TERM"], 5, "cannot be opened: Cannot assign requested"),
        (["--http", "0", "--host", "no..such", "--token-env", "TERM"], 5, 'There is no address "no..such"'),
        (["--http", "0", "--folder", "/no/such"], 2, "There is no folder /no/such"),
    ],
)
def test_a_wrong_command_line_is_told_in_words(options: list[str], code: int, cause: str, program: Any) -> None:
    done = program("serve", "board", *options, code=code)
    assert cause in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""
