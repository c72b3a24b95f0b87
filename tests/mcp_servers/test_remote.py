"""The remote server through our own client, with a small service on loopback behind it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mcp_servers.serving import Caller, connect, serve
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.messages import ToolResult

KEY = "sk-the-secret-of-husum"
SAID = {
    "model": "big-1",
    "choices": [{"message": {"role": "assistant", "content": "Forty-two."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3},
}
SHAPE = {"text": "Forty-two.", "model": "big-1", "complete": True, "prompt_tokens": 7, "completion_tokens": 3}

Play = Callable[["Talk"], Awaitable[None]]
Start = Callable[..., None]


@dataclass
class Response:
    """What the service answers. `body`: bytes as they are, else as JSON; `claims`: how long it says that it is."""

    body: Any = field(default_factory=lambda: SAID)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    claims: int | None = None


class Service(ThreadingHTTPServer):
    """Gives its responses one after the other, the last again and again; `asked` has what came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.responses = [Response()]
        self.asked: list[dict[str, Any]] = []
        self.came, self.gone = threading.Event(), threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Answering(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        service = self.server
        service.asked.append({"path": self.path, "key": self.headers["authorization"], **body})
        if body["messages"][-1]["content"] == "wait":
            service.came.set()
            self.connection.recv(1)  # until the other end goes away
            service.gone.set()
            return
        response = service.responses.pop(0) if len(service.responses) > 1 else service.responses[0]
        data = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
        self.send_response(response.status)
        for name, value in {"content-length": str(response.claims or len(data)), **response.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        return


class Talk(Caller):
    async def ask(self, prompt: str, **arguments: Any) -> ToolResult:
        (tool,) = self.box.tools
        assert (tool.full_name, tool.read_only) == ("remote__ask_remote", False)
        return await self.call("ask_remote", prompt=prompt, **arguments)

    async def fail(self, prompt: str, **arguments: Any) -> str:
        """The text of a call that fails."""
        result = await self.ask(prompt, **arguments)
        assert (result.status, result.structured) == ("failed", None), result.text
        assert KEY not in result.text
        return result.text


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.02,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


@pytest.fixture
def talk(environment: dict[str, str], folder: Path) -> Start:
    """Starts the server with options, plays, and ends it."""

    def run(play: Play, url: str, *options: str, over_stdio: bool = False) -> None:
        options, env = ("--url", url, "--model", "big", *options), {**environment, "KEY": KEY}
        if over_stdio:
            args = ("serve", "remote", *options)
            connect(ServerConfig("remote", command="rkllm-chat", args=args, env=env), folder / "logs", play, Talk)
            assert KEY not in (folder / "logs/remote.log").read_text(encoding="utf-8")
            return
        with serve("remote", *options, env=env, cwd=folder) as served:
            connect(served.entry("remote"), folder / "logs", play, Talk)
        assert KEY not in served.log

    return run


@pytest.mark.slow
def test_a_question_is_sent_with_the_key_and_answered_as_text_and_data(service: Service, talk: Start) -> None:
    async def play(call: Talk) -> None:
        result = await call.ask("What is 6 * 7? ä", system="Be short.", max_tokens=20, temperature=0)
        assert (result.status, result.text, result.structured) == ("completed", "Forty-two.", SHAPE)
        await call.wait_for_progress(f"waits for big at 127.0.0.1:{service.server_port}")
        service.responses = [Response({"choices": [{"message": {"content": "cut"}, "finish_reason": "length"}]})]
        plain = await call.ask("Go on.", max_tokens=5000)
        no_tokens = {"prompt_tokens": 0, "completion_tokens": 0}
        assert plain.structured == {"text": "cut", "model": "big", "complete": False, **no_tokens}
        parts = [{"type": "text", "text": "one "}, {"type": "image"}, {"type": "text", "text": "two"}]
        service.responses = [Response({"choices": [{"message": {"content": parts}}]})]
        assert (await call.ask("And?")).text == "one two"

    talk(play, service.url, "--key-env", "KEY", "--max-tokens", "100", over_stdio=True)
    first, second, _ = service.asked
    assert first == {
        "path": "/v1/chat/completions",
        "key": f"Bearer {KEY}",
        "model": "big",
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "What is 6 * 7? ä"}],
        "max_tokens": 20,
        "temperature": 0,
    }
    assert second["messages"] == [{"role": "user", "content": "Go on."}]
    assert second["max_tokens"] == 100


def test_no_key_is_sent_that_was_not_named(service: Service, talk: Start) -> None:
    async def play(call: Talk) -> None:
        assert (await call.ask("Hello")).status == "completed"

    talk(play, f"{service.url}/chat/completions/")
    assert [one["key"] for one in service.asked] == [None]


REFUSAL = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
# a response -> words of the error
FAULTS: list[tuple[Response, tuple[str, ...]]] = [
    (Response(REFUSAL, 401), ("KEY", "HTTP 401", "Incorrect API key provided: [redacted]")),
    (Response({"error": "no"}, 404), ('"big"', "/v1/chat/completions", "HTTP 404", "no")),
    (Response({"detail": "bad"}, 400), ("HTTP 400", "bad")),
    (Response(b"<html>oops</html>", 500), ("HTTP 500", "<html>oops</html>")),
    (Response(b"", 502), ("HTTP 502",)),
    (Response({}, 429, {"retry-after": "99"}), ("HTTP 429", "99 s")),
    (Response(b"", 307, {"location": "http://elsewhere.example/"}), ("http://elsewhere.example/", "HTTP 307")),
    (Response(b"Hello."), ("no answer", "Hello.")),
    (Response({"choices": []}), ("no answer", '{"choices": []}')),
    (Response({"choices": [{"message": {"content": None}}]}), ("no answer", '"content": null')),
    (Response({"choices": [{"message": {"content": ["part"]}}]}), ("no answer", '"content": ["part"]')),
    (Response(b"[" * 100_000), ("no answer", "[" * 500)),
    (Response(b" " * (4 << 20) + b"{}"), ("cut off", "limit 4 MB")),
    (Response(b'{"choices": ', claims=1000), ("cut off",)),
]


@pytest.mark.slow
def test_a_failure_names_its_cause_without_the_key(service: Service, talk: Start) -> None:
    host = f"127.0.0.1:{service.server_port}"

    async def play(call: Talk) -> None:
        for response, words in FAULTS:
            service.responses = [response]
            text = await call.fail("Hello")
            assert all(word in text for word in (host, *words)), text
            assert len(text) < 700
        assert "empty" in await call.fail(" ")
        assert "max_tokens" in await call.fail("Hello", max_tokens=-1)
        assert "1048577" in await call.fail("x" * (1 << 20), system="x")
        service.responses = [Response()]
        assert (await call.ask("Hello")).status == "completed"

    talk(play, service.url, "--key-env", "KEY")
    assert len(service.asked) == len(FAULTS) + 1


def test_a_busy_service_is_asked_again_and_the_limit_is_renamed(service: Service, talk: Start) -> None:
    wants = {"error": {"message": "Unsupported parameter: use 'max_completion_tokens' instead."}}
    service.responses = [Response({}, 429, {"retry-after": "0"}), Response(wants, 400), Response()]

    async def play(call: Talk) -> None:
        assert (await call.ask("Hello", max_tokens=5)).structured == SHAPE
        service.responses = [Response({}, 503, {"retry-after": "0"})]
        text = await call.fail("Hello")
        assert "HTTP 503" in text and "0 s" in text

    talk(play, service.url)
    limits = [(one.get("max_tokens"), one.get("max_completion_tokens")) for one in service.asked[:3]]
    assert limits == [(5, None), (5, None), (None, 5)]
    assert len(service.asked) == 3 + 3


@pytest.mark.slow
def test_an_unreachable_or_forbidden_address_is_an_error(talk: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for host, words in ((f"127.0.0.1:{port}", "cannot be reached"), ("169.254.169.254", "link-local")):

        async def play(call: Talk, host: str = host, words: str = words) -> None:
            text = await call.fail("Hello")
            assert host in text and words in text

        talk(play, f"http://{host}/v1")


@pytest.mark.slow  # the shortest timeout is a second
def test_a_silent_service_times_out(service: Service, talk: Start) -> None:
    async def play(call: Talk) -> None:
        assert "within 1 seconds" in await call.fail("wait")

    talk(play, service.url, "--timeout", "1")
    assert service.gone.wait(5)


def test_a_cancelled_request_closes_its_connection(service: Service, talk: Start) -> None:
    async def play(call: Talk) -> None:
        asking = asyncio.create_task(call.ask("wait"))
        assert await asyncio.to_thread(service.came.wait, 5)
        asking.cancel()
        assert await asyncio.to_thread(service.gone.wait, 5)
        assert (await call.ask("Hello")).status == "completed"

    talk(play, service.url)
