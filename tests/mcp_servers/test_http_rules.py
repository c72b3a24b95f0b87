"""One rule for every HTTP server of the program: token, Host, Origin, media type and log, for MCP and for the API."""

from __future__ import annotations

import http.client
import json
import re
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from mcp_servers.serving import LIMIT_S, Served, serve
from stage import OpenScreen, Run, Script

Start = Callable[..., Served]
API = "openai"
HELLO = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/list",
        "params": {},
        "messages": [{"role": "user", "content": "Hello"}],
    }
)
FLOOD = 400


@pytest.fixture(params=["board", API])
def name(request: pytest.FixtureRequest) -> str:
    """A server of each kind."""
    return str(request.param)


@pytest.fixture
def start(name: str, environment: dict[str, str], folder: Path, script: Script) -> Iterator[Callable[..., Served]]:
    """Start the server with options."""
    with ExitStack() as stack:
        model = ("--model", script(*["yes"] * 20)) if name == API else ()
        port = "--port" if name == API else "--http"
        yield lambda *options: stack.enter_context(
            serve(name, *model, *options, port_option=port, env=environment, cwd=folder)
        )


def ask(served: Served, **headers: str) -> int:
    """Return the status of a request; headers are written with _ for -, over the usual ones."""
    path = "/mcp" if served.url.endswith("/mcp") else "/v1/chat/completions"
    usual = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
        **{name.lower(): value for name, value in served.headers.items()},
    }
    given = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=LIMIT_S)) as connection:
        connection.request("POST", path, HELLO, {**usual, **given})
        return connection.getresponse().status


def passes(status: int) -> bool:
    """Whether the guard let a request through; the MCP server then misses a session."""
    return status in (200, 400)


@pytest.mark.parametrize("name", ["board", "claude", API])
def test_a_token_is_made_and_stored_also_on_loopback(name: str, start: Start, environment: dict[str, str]) -> None:
    """What it writes, which is no terminal here, may be in a journal that others read."""
    served = start()
    path = Path(environment["HOME"]) / ".local/state/rkllm-chat/tokens" / name
    token = path.read_text(encoding="ascii")
    assert len(token) > 40 and stat.S_IMODE(path.stat().st_mode) == 0o600
    said = f"rkllm-chat: requests need the header Authorization: Bearer TOKEN (stored in {path})\n"
    assert said in served.lines[-2:] and token not in "".join(served.lines)
    assert ask(served, Authorization="") == ask(served, Authorization="Bearer guess") == 401
    assert passes(ask(served))
    path.chmod(0o644)
    assert said in start().lines[-2:]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_is_shown_on_a_terminal(open_screen: OpenScreen, environment: dict[str, str]) -> None:
    screen = open_screen("serve", "board", "--http", "0", size=(200, 20))
    shown = "\n".join(screen.wait_for("listens at"))
    assert (Path(environment["HOME"]) / ".local/state/rkllm-chat/tokens/board").read_text(encoding="ascii") in shown


def test_a_token_is_turned_off_by_an_option_and_that_is_said(start: Start) -> None:
    served = start("--no-token")
    assert "every user of this machine can call this server" in served.lines[-2]
    assert served.headers == {} and passes(ask(served))


RULES = [
    ("Host", "127.0.0.1:1", 200),
    ("Host", "localhost", 200),
    ("Host", "LOCALHOST:{port}", 200),
    ("Host", "localhost:9090", 200),
    ("Host", "[::1]:{port}", 200),
    ("Host", "attacker.example", 421),
    ("Host", "127.0.0.1.attacker.example:{port}", 421),
    ("Host", "127.0.0.1:80@evil.example", 421),
    ("Host", "localhost.attacker.example", 421),
    ("Host", "localhost:80.evil.example", 421),
    ("Host", "localhost.", 421),
    ("Host", "192.0.2.1:{port}", 421),
    ("Host", "", 421),
    ("Origin", "http://localhost:{port}", 200),
    ("Origin", "http://localhost.attacker.example:{port}", 403),
    ("Origin", "http://localhost:80.evil.example", 403),
    ("Origin", "http://localhost:1", 403),
    ("Origin", "https://localhost:{port}", 403),
    ("Origin", "https://attacker.example:{port}", 403),
    ("Origin", "null", 403),
    ("Content-Type", "application/json; charset=utf-8", 200),
]


@pytest.mark.parametrize("name", [API])
def test_a_body_of_another_type_is_refused_only_where_a_web_page_may_have_sent_it_unasked(start: Start) -> None:
    """As Ollama's documentation writes its requests; with a token, a browser asks before it sends them."""
    with_token, without_token = start(), start("--no-token")
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert passes(ask(with_token, Content_Type=kind, Origin=f"http://localhost:{with_token.port}"))
        assert passes(ask(without_token, Content_Type=kind))
        assert ask(without_token, Content_Type=kind, Origin=f"http://localhost:{without_token.port}") == 415


def test_host_origin_and_media_type_are_compared_exactly(start: Start) -> None:
    served = start("--no-token")
    for header, value, status in RULES:
        found = ask(served, **{header.replace("-", "_"): value.format(port=served.port)})
        assert found == status or (status == 200 and passes(found)), value
    log = [line for line in served.end()[1].splitlines() if " is ignored" not in line]
    assert log[0] == "rkllm-chat: refused POST from 127.0.0.1 with HTTP 421 (host attacker.example)"
    assert all(re.fullmatch(r"rkllm-chat: refused POST from 127\.0\.0\.1 with HTTP 4\d\d \(.*\)", line) for line in log)


def test_no_bytes_of_a_client_reach_the_log_and_it_does_not_grow_with_requests(start: Start) -> None:
    served = start()
    for number in range(FLOOD):
        with socket.create_connection(("127.0.0.1", served.port), LIMIT_S) as client:
            origin = b"http://x\x1b[31m\xc2\x9b" + b"y" * 3000
            host = b"localhost" if number % 2 else b"\x1b]0;x"
            client.sendall(b"POST /mcp HTTP/1.1\r\nHost: " + host + b"\r\nOrigin: " + origin + b"\r\n\r\n")
            assert client.recv(12)
    log = served.end()[1]
    lines = log.splitlines()
    assert "\x1b" not in log and "\x9b" not in log
    assert 1 <= len(lines) <= FLOOD / 4 and max(map(len, lines)) < 600


def test_tools_without_a_token_need_a_second_word(program: Run) -> None:
    serve_api = ("serve", API, "--port", "0", "--no-token")
    assert "every user of this machine could call the tools" in program(*serve_api, "--mcp", code=2).stderr
    assert "or fill its disk" in program(*serve_api, "--allow-pull", code=2).stderr
    assert "exclude each other" in program(*serve_api, "--token-env", "KEY", code=2).stderr
    assert "requires a token" in program(*serve_api, "--host", "0.0.0.0", code=2).stderr


@pytest.mark.parametrize("name", [API])
def test_with_that_word_they_are_served(start: Start) -> None:
    assert ask(start("--no-token", "--mcp", "--yes-without-token")) == 200
