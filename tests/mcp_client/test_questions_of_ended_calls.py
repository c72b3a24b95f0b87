"""What a server asks within a call ends with the call: no user is asked and no model is busy for one that is cancelled.

The server is a process that speaks MCP 2025-11-25, in which it may send requests; over HTTP the response to a call
carries them.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.mcp_client.handlers import ClientHandlers
from rkllm_chat.mcp_client.toolbox import Toolbox

LIMIT_S = 20.0
CANCELLED = "The call that this request is part of was cancelled."

# `sample` and `elicit` ask, and answer only when that was answered; they ignore that they are cancelled. `hold` answers
# with the next `release`; `answers` tells what the questions were answered with.
SERVER = """
import json, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MESSAGE = {"role": "user", "content": {"type": "text", "text": "Ahoy"}}
QUESTIONS = {
    "sample": ("sampling/createMessage", {"messages": [MESSAGE], "maxTokens": 5}),
    "elicit": ("elicitation/create", {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}),
}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in (*QUESTIONS, "hold", "release", "answers")]
held, answers, asked_by = [], [], {}

def text(number, said):
    return {"id": number, "result": {"content": [{"type": "text", "text": said}]}}

def handle(message, send):
    number, method = message.get("id"), message.get("method")
    name = message.get("params", {}).get("name")
    if method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "harbour", "version": "1"}}
        send({"id": number, "result": {"protocolVersion": "2025-11-25", **about}})
    elif method == "tools/list":
        send({"id": number, "result": {"tools": TOOLS}})
    elif name in QUESTIONS:
        method, params = QUESTIONS[name]
        asked_by[f"question-{number}"] = (number, send)
        send({"id": f"question-{number}", "method": method, "params": params})
    elif name == "hold":
        held.append((number, send))
    elif name == "release":
        for one, answer in (*held, (number, send)):
            answer(text(one, "released"))
    elif name == "answers":
        send(text(number, json.dumps(answers)))
    elif number in asked_by:
        one, answer = asked_by.pop(number)
        answers.append(message.get("error", {}).get("message", message.get("result")))
        answer(text(one, "was answered"))
    elif method and number is not None:
        send({"id": number, "error": {"code": -32601, "message": "unknown"}})

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_): pass

    def do_GET(self):
        self.send_error(405)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message or "method" not in message:
            handle(message, lambda _: None)
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        is_answered = threading.Event()

        def send(said):
            try:
                self.wfile.write(b"data: " + json.dumps({"jsonrpc": "2.0", **said}).encode() + b"\\n\\n")
                self.wfile.flush()
            except OSError:  # the client has closed the response
                pass
            if "method" not in said:
                is_answered.set()

        handle(message, send)
        is_answered.wait()
        self.close_connection = True

if sys.argv[1] == "stdio":
    for line in sys.stdin:
        handle(json.loads(line), lambda said: print(json.dumps({"jsonrpc": "2.0", **said}), flush=True))
else:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()
"""


class Person:
    """Is asked and never answers; `asked` and `released` tell that."""

    def __init__(self) -> None:
        self.asked, self.released = asyncio.Event(), asyncio.Event()

    async def __call__(self, _server: str, _params: Any) -> Any:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.released.set()


@pytest.fixture
def serve() -> Iterator[Callable[[str], ServerConfig]]:
    """Return the server over a transport."""
    started: list[subprocess.Popen[str]] = []

    def start(transport: str) -> ServerConfig:
        command = [sys.executable, "-S", "-c", SERVER, transport]
        if transport == "stdio":
            return ServerConfig("harbour", command=command[0], args=tuple(command[1:]), sandbox="off")
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[0].stdout
        return ServerConfig(
            "harbour", url=f"http://127.0.0.1:{started[0].stdout.readline().strip()}/", transport="http"
        )

    yield start
    for process in started:
        process.kill()
        process.communicate()


async def end(call: asyncio.Task[Any]) -> None:
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call


@pytest.mark.parametrize("kind", ["sample", "elicit"])
@pytest.mark.parametrize(
    ("transport", "other", "ends_with"),
    [
        ("stdio", "", "the call"),
        ("stdio", "hold", "the last call"),  # which of both asked is not said
        ("http", "", "the call"),
        ("http", "hold", "the call"),
    ],
)
def test_a_question_ends_with_the_cancelled_call_that_it_is_part_of(
    kind: str, transport: str, other: str, ends_with: str, serve: Callable[[str], ServerConfig]
) -> None:
    async def run() -> str:
        person = Person()
        async with Toolbox([serve(transport)], None, ClientHandlers(sample=person, elicit=person)) as toolbox:
            tools = {tool.name: tool for tool in toolbox.tools}

            async def call(name: str) -> str:
                return (await toolbox.call(tools[name], {}, lambda *_: None)).text

            beside = asyncio.create_task(call(other or "answers"))
            asking = asyncio.create_task(call(kind))
            await person.asked.wait()
            await end(asking)
            if ends_with == "the call":
                await person.released.wait()
            assert (await call("answers"), person.released.is_set()) == (
                ("[]", False) if ends_with == "the last call" else (f'["{CANCELLED}"]', True)
            )
            if other:
                assert not beside.done() and await call("release") == await beside == "released"
            await person.released.wait()
            return await call("answers")

    assert asyncio.run(asyncio.wait_for(run(), LIMIT_S)) == f'["{CANCELLED}"]'


def test_a_question_stays_where_another_call_is_cancelled(serve: Callable[[str], ServerConfig]) -> None:
    async def run() -> bool:
        person = Person()
        async with Toolbox([serve("http")], None, ClientHandlers(sample=person)) as toolbox:
            tools = {tool.name: tool for tool in toolbox.tools}
            beside = asyncio.create_task(toolbox.call(tools["hold"], {}, lambda *_: None))
            asking = asyncio.create_task(toolbox.call(tools["sample"], {}, lambda *_: None))
            await person.asked.wait()
            await end(beside)
            await toolbox.call(tools["answers"], {}, lambda *_: None)
            was_released = person.released.is_set()
            await end(asking)
            await person.released.wait()
            return was_released

    assert not asyncio.run(asyncio.wait_for(run(), LIMIT_S))


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_question_ends_with_a_call_that_has_run_out_of_all_its_time(
    transport: str, serve: Callable[[str], ServerConfig]
) -> None:
    """While a question is open the limit pauses, but not beyond 20 times the limit."""

    async def run() -> tuple[str, str]:
        person = Person()
        server = replace(serve(transport), tool_timeouts={"sample": 0.1})
        async with Toolbox([server], None, ClientHandlers(sample=person)) as toolbox:
            tools = {tool.name: tool for tool in toolbox.tools}
            result = await toolbox.call(tools["sample"], {}, lambda *_: None)
            await person.released.wait()
            return result.text, (await toolbox.call(tools["answers"], {}, lambda *_: None)).text

    said, answers = asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    assert "did not answer within 0.1 s" in said and answers == f'["{CANCELLED}"]'
