"""The remote server through our own client, over stdio, before a small service of the test's own on loopback."""

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

from rkllm_chat.config import ServerConfig
from rkllm_chat.messages import ToolResult
from rkllm_chat.servers.toolbox import Toolbox

LIMIT_S = 40.0  # a busy machine
KEY = "sk-the-secret-of-husum"
SAID = {
    "model": "big-1",
    "choices": [{"message": {"role": "assistant", "content": "Forty-two."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3},
}
SHAPE = {"text": "Forty-two.", "model": "big-1", "complete": True, "prompt_tokens": 7, "completion_tokens": 3}

Play = Callable[["Talk"], Awaitable[None]]


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


class Talk:
    """A client that is connected. `told` has the progress of all calls, in words."""

    def __init__(self, box: Toolbox) -> None:
        self.box = box
        self.told: list[str] = []

    async def __call__(self, prompt: str, **arguments: Any) -> ToolResult:
        (tool,) = self.box.tools
        assert (tool.full_name, tool.read_only) == ("remote__ask_remote", False)
        arguments = {"prompt": prompt, **arguments}
        return await self.box.call(tool, arguments, lambda _done, _total, text: self.told.append(text))

    async def fault(self, prompt: str, **arguments: Any) -> str:
        result = await self(prompt, **arguments)
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
def talk(environment: dict[str, str], folder: Path) -> Callable[..., None]:
    """Starts the server with options, plays, and ends it."""

    def run(play: Play, url: str, *options: str) -> None:
        args = ("serve", "remote", "--url", url, "--model", "big", *options)
        server = ServerConfig("remote", command="rkllm-chat", args=args, env={**environment, "KEY": KEY})

        async def go() -> None:
            async with Toolbox([server], folder / "logs") as box:
                assert not box.failures
                await play(Talk(box))

        asyncio.run(asyncio.wait_for(go(), LIMIT_S))
        assert KEY not in (folder / "logs/remote.log").read_text(encoding="utf-8")

    return run


def test_a_question_is_asked_with_the_key_and_answered_in_words_and_in_data(
    service: Service, talk: Callable[..., None]
) -> None:
    async def play(call: Talk) -> None:
        result = await call("What is 6 * 7? ä", system="Be short.", max_tokens=20, temperature=0)
        assert (result.status, result.text, result.structured) == ("completed", "Forty-two.", SHAPE)
        assert f"waits for big at 127.0.0.1:{service.server_port}" in call.told
        service.responses = [Response({"choices": [{"message": {"content": "cut"}, "finish_reason": "length"}]})]
        plain = await call("Go on.", max_tokens=5000)
        assert plain.structured == {
            "text": "cut",
            "model": "big",
            "complete": False,
            "prompt_tokens": 0,
            "completion_tokens": 0,
        }
        parts = [{"type": "text", "text": "one "}, {"type": "image"}, {"type": "text", "text": "two"}]
        service.responses = [Response({"choices": [{"message": {"content": parts}}]})]
        assert (await call("And?")).text == "one two"

    talk(play, service.url, "--key-env", "KEY", "--max-tokens", "100")
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


def test_no_key_is_sent_that_was_not_named(service: Service, talk: Callable[..., None]) -> None:
    async def play(call: Talk) -> None:
        assert (await call("Hello")).status == "completed"

    talk(play, f"{service.url}/chat/completions/")
    assert [one["key"] for one in service.asked] == [None]


def test_what_goes_wrong_is_said_in_words_without_the_key(service: Service, talk: Callable[..., None]) -> None:
    host = f"127.0.0.1:{service.server_port}"
    error = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
    faults: list[tuple[Response, str]] = [
        (
            Response(error, 401),
            f"{host} does not accept the key in KEY (HTTP 401): Incorrect API key provided: [redacted]",
        ),
        (Response({"error": "no"}, 404), f'{host} has no model "big", or no /v1/chat/completions (HTTP 404): no'),
        (Response({"detail": "bad"}, 400), f"{host} answered with HTTP 400: bad"),
        (Response(b"<html>oops</html>", 500), f"{host} answered with HTTP 500: <html>oops</html>"),
        (Response(b"", 502), f"{host} answered with HTTP 502."),
        (Response({}, 429, {"retry-after": "99"}), f"{host} is too busy (HTTP 429); it asks to wait 99 s: {{}}"),
        (
            Response(b"", 307, {"location": "http://elsewhere.example/"}),
            f"{host} has moved to http://elsewhere.example/ (HTTP 307), which is not followed.",
        ),
        (Response(b"Hello."), f"What {host} sent is no answer; it begins: Hello."),
        (Response({"choices": []}), f'What {host} sent is no answer; it begins: {{"choices": []}}'),
        (
            Response({"choices": [{"message": {"content": None}}]}),
            f'What {host} sent is no answer; it begins: {{"choices": [{{"message": {{"content": null}}}}]}}',
        ),
        (Response(b"[" * 100_000), f"What {host} sent is no answer; it begins: {'[' * 500}"),
        (
            Response(b" " * (4 << 20) + b"{}"),
            f"The answer of {host} was cut off: result too large, limit 4 MB.",
        ),
    ]

    async def play(call: Talk) -> None:
        for response, said in faults:
            service.responses = [response]
            assert await call.fault("Hello") == said
        service.responses = [Response(b'{"choices": ', claims=1000)]
        assert (await call.fault("Hello")).startswith(f"The answer of {host} was cut off: ")
        assert await call.fault(" ") == "The prompt is empty."
        assert await call.fault("Hello", max_tokens=-1) == "max_tokens must be 1 or more."
        long = await call.fault("x" * (1 << 20), system="x")
        assert long == "The question is 1048577 characters long; at most 1048576 are sent."
        service.responses = [Response()]
        assert (await call("Hello")).status == "completed"

    talk(play, service.url, "--key-env", "KEY")
    assert len(service.asked) == len(faults) + 2


def test_a_busy_service_is_asked_again_as_it_says_and_a_limit_goes_under_its_newer_name(
    service: Service, talk: Callable[..., None]
) -> None:
    wants = {"error": {"message": "Unsupported parameter: use 'max_completion_tokens' instead."}}
    service.responses = [Response({}, 429, {"retry-after": "0"}), Response(wants, 400), Response()]

    async def play(call: Talk) -> None:
        assert (await call("Hello", max_tokens=5)).structured == SHAPE
        service.responses = [Response({}, 503, {"retry-after": "0"})]
        assert "is too busy (HTTP 503); it asks to wait 0 s" in await call.fault("Hello")

    talk(play, service.url)
    limits = [(one.get("max_tokens"), one.get("max_completion_tokens")) for one in service.asked[:3]]
    assert limits == [(5, None), (5, None), (None, 5)]
    assert len(service.asked) == 3 + 3


def test_a_service_that_is_silent_or_not_there_is_given_up(service: Service, talk: Callable[..., None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def silent(call: Talk) -> None:
        said = await call.fault("wait")
        assert said == f"127.0.0.1:{service.server_port} did not answer within 1 seconds."

    async def absent(call: Talk) -> None:
        assert (await call.fault("Hello")).startswith(f"127.0.0.1:{port} cannot be reached: ")

    async def metadata(call: Talk) -> None:
        assert "169.254.169.254 is a link-local address" in await call.fault("Hello")

    talk(silent, service.url, "--timeout", "1")
    assert service.gone.wait(5)
    talk(absent, f"http://127.0.0.1:{port}/v1")
    talk(metadata, "http://169.254.169.254/v1")


def test_a_request_that_is_cancelled_hangs_up_on_the_service(service: Service, talk: Callable[..., None]) -> None:
    async def play(call: Talk) -> None:
        asking = asyncio.create_task(call("wait"))
        assert await asyncio.to_thread(service.came.wait, 5)
        asking.cancel()
        assert await asyncio.to_thread(service.gone.wait, 5)
        assert (await call("Hello")).status == "completed"

    talk(play, service.url)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (["--model", "m"], "--url"),
        (["--url", "http://h/v1"], "--model"),
        (["--url", "h/v1", "--model", "m"], '"h/v1" is no URL of a service.'),
        (["--url", "http://h:x/v1", "--model", "m"], "is no URL of a service."),
        (["--url", "https://u:p@h/v1", "--model", "m"], "The --url holds a user, a password or a query."),
        (["--url", "https://h/v1", "--model", "m", "--key-env", "NO_SUCH"], "The variable NO_SUCH"),
        (["--url", "https://h/v1", "--model", "m", "--timeout", "0"], "--timeout must be from 1"),
    ],
)
def test_a_wrong_command_line_is_told_in_words(options: list[str], cause: str, program: Any) -> None:
    done = program("serve", "remote", *options, code=2)
    assert cause in done.stderr and "Traceback" not in done.stderr
