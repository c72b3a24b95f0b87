"""An OpenAI-compatible service in a thread of the test, and MODES: how it answers a request for a reply.

Standard library only. It writes the same reply in five pieces whatever it is asked, unless the mode spoils it.
"""

from __future__ import annotations

import json
import select
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any

from servers.chaos_http import Listener

PIECES = ("It ", "works", " as", " it", " should.")
REPLY = "".join(PIECES)
USAGE = {"prompt_tokens": 30, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 10}}
PAGE = b"<!DOCTYPE html><html><body>Welcome to nginx!</body></html>"
BLOCK = b"x" * 65536
GONE_S = 10.0


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Any


class Service(Listener):
    """`asked` is all that came for a reply, `others` the paths of the rest; `gone` is set when a client hangs up on it.

    `answers` has what it says at other paths (JSON); `elsewhere` is where it sends people on to.
    """

    request_queue_size = 128

    def __init__(self, mode: str = "ok", port: int = 0, names: Sequence[str] = ("qwen3-small",)) -> None:
        super().__init__(port, Handler)
        self.mode, self.elsewhere = mode, ""
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.asked: list[Asked] = []
        self.others: list[Asked] = []
        self.gone = threading.Event()
        self.asked_now = threading.Event()
        self.go_on = threading.Event()
        models = [{"id": name, "object": "model", "owned_by": "vllm", "max_model_len": 4096} for name in names]
        self.answers: dict[str, Any] = {"/v1/models": {"object": "list", "data": models}}
        self.calls: list[dict[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    server: Service
    protocol_version = "HTTP/1.1"
    body: Any = None
    wbufsize = 0

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        self.answer(None)

    def do_POST(self) -> None:
        self.answer(json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"null"))

    def answer(self, body: Any) -> None:
        self.body = body
        asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        site = self.server
        if self.path.endswith("/completions"):
            site.asked.append(asked)
            site.asked_now.set()
            try:
                MODES[site.mode](self)
            except OSError:
                site.gone.set()
                raise
            return
        site.others.append(asked)
        if site.mode in EVERYWHERE:
            MODES[site.mode](self)
        elif (found := site.answers.get(self.path)) is not None:
            self.send_json(200, found(body) if callable(found) else found)
        else:
            self.send_json(404, {"detail": "Not Found"})

    def send_json(self, status: int, value: Any, **headers: str) -> None:
        self.send_body(status, json.dumps(value).encode(), "application/json", **headers)

    def send_body(self, status: int, data: bytes, kind: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def begin(self, **headers: str) -> None:
        """The head of a stream of events."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def write(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, value: Any) -> None:
        self.write(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode())

    def say(self, text: str, ended: str | None = None) -> None:
        choice: dict[str, Any] = {"index": 0, "finish_reason": ended}
        is_chat = self.path.endswith("/chat/completions")
        self.event({"choices": [{**choice, **({"delta": {"content": text}} if is_chat else {"text": text})}]})

    def end(self, usage: Any = None, ended: str = "stop") -> None:
        self.say("", ended)
        if usage:
            self.event({"choices": [], "usage": usage})
        self.event("[DONE]")
        self.write(b"")

    def hang_up(self) -> None:
        self.close_connection = True

    def wait_until_gone(self) -> None:
        """Says nothing until the client hangs up."""
        ready, _, _ = select.select([self.connection], [], [], GONE_S)
        with suppress(ConnectionResetError):
            assert ready and not self.connection.recv(1)
        self.server.gone.set()
        self.hang_up()

    def write_until_gone(self, data: Callable[[], bytes]) -> None:
        """Writes until the client hangs up."""
        limit = time.monotonic() + GONE_S
        with suppress(OSError):
            while time.monotonic() < limit:
                self.write(data())
        self.server.gone.set()
        self.hang_up()


Mode = Callable[[Handler], None]
MODES: dict[str, Mode] = {}
EVERYWHERE = {"unauthorized everywhere", "a page everywhere", "on to elsewhere everywhere", "loading"}
"""Modes that spoil the question what there is, too."""


def mode(name: str) -> Callable[[Mode], Mode]:
    def note(function: Mode) -> Mode:
        MODES[name] = function
        return function

    return note


@mode("ok")
def answer_well(handler: Handler) -> None:
    handler.begin()
    for piece in PIECES:
        handler.say(piece)
    handler.end(USAGE)


@mode("no usage")
def tell_no_usage(handler: Handler) -> None:
    handler.begin()
    for piece in PIECES:
        handler.say(piece)
    handler.end()


@mode("echo")
def echo(handler: Handler) -> None:
    """Says the last line it was told, letter by letter."""
    if messages := handler.body.get("messages"):
        prompt = told = messages[-1]["content"]
    else:
        prompt = handler.body["prompt"]
        told = prompt.rpartition("<|im_start|>user\n")[2].partition("<|im_end|>")[0]
    handler.begin()
    for letter in told:
        handler.say(letter)
    handler.end({"prompt_tokens": len(prompt) // 4, "completion_tokens": len(told)})


@mode("tool calls")
def call_tools(handler: Handler) -> None:
    """Calls what stands in `calls`, a piece at a time; when there are results behind it, answers."""
    if handler.body["messages"][-1]["role"] == "tool":
        answer_well(handler)
        return
    handler.begin()
    for index, call in enumerate(handler.server.calls):
        written = call["arguments"]
        parts = [{"name": call["name"], "arguments": ""}, {"arguments": written[:5]}, {"arguments": written[5:]}]
        for function in parts:
            delta = {"tool_calls": [{"index": index, "id": f"x{index}", "type": "function", "function": function}]}
            handler.event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    handler.end(USAGE, "tool_calls")


@mode("thoughts")
def think(handler: Handler) -> None:
    handler.begin()
    for delta in ({"role": "assistant"}, {"reasoning_content": "Let me "}, {"reasoning_content": "see."}):
        handler.event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    handler.say("Yes.")
    handler.end(USAGE)


@mode("progress")
def tell_progress(handler: Handler) -> None:
    """As llama.cpp's server does when it is asked for return_progress."""
    handler.begin()
    for done in (100, 300):
        handler.event({"choices": [], "prompt_progress": {"total": 300, "cache": 50, "processed": done, "time_ms": 9}})
    handler.say(REPLY)
    figures = {"cache_n": 50, "prompt_n": 250, "prompt_ms": 500.0, "predicted_n": 5, "predicted_ms": 250.0}
    handler.event({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}], "timings": figures})
    handler.event("[DONE]")
    handler.write(b"")


@mode("whole")
def answer_whole(handler: Handler) -> None:
    """As a service that does not stream."""
    choice = {"index": 0, "text": REPLY, "message": {"role": "assistant", "content": REPLY}, "finish_reason": "stop"}
    handler.send_json(200, {"choices": [choice], "usage": USAGE})


@mode("unauthorized")
@mode("unauthorized everywhere")
def refuse(handler: Handler) -> None:
    said = f"Incorrect API key provided: {handler.headers.get('authorization', 'none')}"
    handler.send_json(401, {"error": {"message": said, "type": "invalid_request_error", "code": "invalid_api_key"}})


@mode("no such model")
def know_no_model(handler: Handler) -> None:
    handler.send_json(404, {"error": {"message": 'model "x" not found, try pulling it first', "type": "api_error"}})


@mode("too long")
def find_it_too_long(handler: Handler) -> None:
    said = "the request exceeds the available context size, try increasing it"
    handler.send_json(400, {"error": {"code": 400, "message": said, "type": "exceed_context_size_error"}})


@mode("not here")
def have_no_such_path(handler: Handler) -> None:
    handler.send_json(404, {"detail": "Not Found"})


def busy(status: int, wait: str) -> Mode:
    def ask_to_wait(handler: Handler) -> None:
        """Once."""
        handler.server.mode = "ok"
        handler.send_json(status, {"error": {"message": "Loading model"}}, **({"retry_after": wait} if wait else {}))

    return ask_to_wait


MODES["busy"] = busy(429, "0")
MODES["busy by date"] = busy(503, formatdate(time.time() - 60, usegmt=True))
MODES["loading"] = busy(503, "")
MODES["busy, says nonsense"] = busy(503, "soon")


@mode("busy for long")
def be_busy(handler: Handler) -> None:
    handler.send_json(429, {"error": {"message": "Quota exceeded"}}, retry_after="3600")


@mode("busy for ever")
def be_busy_for_ever(handler: Handler) -> None:
    handler.send_json(503, {"error": {"message": "No slot"}}, retry_after="0")


@mode("a bad gateway")
def be_a_bad_gateway(handler: Handler) -> None:
    handler.send_body(502, PAGE, "text/html")


@mode("broken")
def be_broken(handler: Handler) -> None:
    handler.send_json(500, {"error": {"message": f"CUDA error, key {handler.headers.get('authorization')}"}})


@mode("a page")
@mode("a page everywhere")
def send_page(handler: Handler) -> None:
    handler.send_body(200, PAGE, "text/html; charset=utf-8")


@mode("on to elsewhere")
@mode("on to elsewhere everywhere")
def send_on(handler: Handler) -> None:
    handler.send_body(307, b"", "text/plain", location=f"{handler.server.elsewhere}?token=abc")


@mode("closed at once")
def close_at_once(handler: Handler) -> None:
    handler.hang_up()


@mode("closed behind the head")
def close_behind_head(handler: Handler) -> None:
    handler.begin()
    handler.hang_up()


@mode("cut")
def cut(handler: Handler) -> None:
    handler.begin()
    handler.say("It ")
    handler.say("works")
    handler.hang_up()


@mode("cut cleanly")
def cut_cleanly(handler: Handler) -> None:
    """The stream ends as a stream does, and the reply does not."""
    handler.begin()
    handler.say("It ")
    handler.event("[DONE]")
    handler.write(b"")


@mode("no done")
def say_no_done(handler: Handler) -> None:
    """The reply is whole, and then the connection is lost."""
    handler.begin()
    handler.say(REPLY)
    handler.say("", "stop")
    handler.hang_up()


@mode("silent")
def be_silent(handler: Handler) -> None:
    handler.begin()
    handler.wait_until_gone()


@mode("no head")
def send_no_head(handler: Handler) -> None:
    handler.wait_until_gone()


@mode("silent in the middle")
def fall_silent(handler: Handler) -> None:
    handler.begin()
    handler.say("It ")
    handler.wait_until_gone()


@mode("silent behind the end")
def never_close(handler: Handler) -> None:
    handler.begin()
    handler.say(REPLY)
    handler.say("", "stop")
    handler.wait_until_gone()


@mode("pings")
def ping(handler: Handler) -> None:
    """Keeps the connection busy and says nothing."""
    handler.begin()
    handler.say("It ")
    handler.write_until_gone(lambda: b": ping\n\n")


@mode("empty events")
def send_empty_events(handler: Handler) -> None:
    handler.begin()
    handler.say("It ")
    handler.write_until_gone(lambda: b'data: {"choices": []}\n\n')


@mode("an endless line")
def write_endless_line(handler: Handler) -> None:
    handler.begin()
    handler.write(b"data: ")
    handler.write_until_gone(lambda: BLOCK)


@mode("an endless reply")
def write_endless_reply(handler: Handler) -> None:
    """Minds no max_tokens."""
    numbers = iter(range(10**9))
    handler.begin()
    handler.write_until_gone(lambda: f'data: {{"choices": [{{"text": "{next(numbers)} "}}]}}\n\n'.encode())


@mode("circles")
def go_in_circles(handler: Handler) -> None:
    handler.begin()
    handler.write_until_gone(lambda: b'data: {"choices": [{"text": "no, no, no, no, "}]}\n\n')


@mode("bad JSON")
def write_bad_json(handler: Handler) -> None:
    handler.begin()
    handler.event('{"choices": [{"text": "It')
    handler.end()


@mode("wrong types")
def write_wrong_types(handler: Handler) -> None:
    handler.begin()
    value: Any
    for value in (None, 7, [], {"choices": {}}, {"choices": [7]}, {"choices": [{"text": 7, "delta": "x"}]}):
        handler.event({"usage": value, "choices": [{"delta": {"content": value, "tool_calls": value}}]})
        handler.event(json.dumps(value))
    handler.end({"prompt_tokens": "many", "completion_tokens": -1})


@mode("an error in the middle")
def fail_in_the_middle(handler: Handler) -> None:
    handler.begin()
    handler.say("It ")
    handler.event({"error": {"message": "EngineDead\x1b[31m", "code": 500}})
    handler.end()


@mode("packed")
def pack(handler: Handler) -> None:
    handler.begin(content_encoding="gzip")
    handler.write(b"\x1f\x8b")
    handler.hang_up()


@mode("slow")
def be_slow(handler: Handler) -> None:
    """The first word comes when the test says so."""
    handler.begin()
    handler.server.go_on.wait(GONE_S)
    handler.say(REPLY)
    handler.end(USAGE)


@mode("a word, then slow")
def pause(handler: Handler) -> None:
    handler.begin()
    handler.say("It ")
    handler.server.go_on.wait(GONE_S)
    handler.say("works.")
    handler.end(USAGE)
