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
from itertools import count
from typing import Any

from mcp_client.chaos_http import Listener, Replier

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
        self.limit_characters = 0
        self.refusal: dict[str, Any] = {}


class Handler(Replier):
    server: Service
    body: Any = None
    wbufsize = 0

    def do_GET(self) -> None:  # noqa: N802 - the standard library looks for it
        self.answer(None)

    def do_POST(self) -> None:  # noqa: N802
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
        self.give(status, json.dumps(value).encode(), "application/json", **headers)

    def begin(self, **headers: str) -> None:
        """The head of a stream of events."""
        self.begin_response(200, "text/event-stream", transfer_encoding="chunked", **headers)

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
EVERYWHERE = {"unauthorized everywhere", "a page everywhere", "on to elsewhere everywhere", "loading"}
"""Modes that apply to the list of models, too."""


def streamed(*steps: str | Mode) -> Mode:
    """A stream of events: texts are pieces of the reply, functions do something else."""

    def answer(handler: Handler) -> None:
        handler.begin()
        for step in steps:
            handler.say(step) if isinstance(step, str) else step(handler)

    return answer


def end(handler: Handler) -> None:
    handler.end(USAGE)


def stop(handler: Handler) -> None:
    """The reply is whole; the stream has not ended."""
    handler.say("", "stop")


def send(*events: Any) -> Mode:
    def answer(handler: Handler) -> None:
        for event in events:
            handler.event(event)

    return answer


def write_until_gone(data: Callable[[], bytes]) -> Mode:
    return lambda handler: handler.write_until_gone(data)


def answered(status: int, value: Any, **headers: str) -> Mode:
    """One answer in JSON, or a page."""

    def answer(handler: Handler) -> None:
        if isinstance(value, bytes):
            handler.give(status, value, "text/html; charset=utf-8", **headers)
        else:
            handler.send_json(status, value, **headers)

    return answer


def refused(status: int, message: str, **more: Any) -> Mode:
    """An error that repeats the key it was given."""

    def answer(handler: Handler) -> None:
        text = message.replace("KEY", handler.headers.get("authorization", "none"))
        handler.send_json(status, {"error": {"message": text, **more}})

    return answer


def busy_once(status: int, wait: str) -> Mode:
    def answer(handler: Handler) -> None:
        handler.server.mode = "ok"
        handler.send_json(status, {"error": {"message": "Loading model"}}, retry_after=wait)

    return answer


def echo(handler: Handler) -> None:
    """Repeat the last message, letter by letter."""
    if messages := handler.body.get("messages"):
        prompt = text = messages[-1]["content"]
    else:
        prompt = handler.body["prompt"]
        text = prompt.rpartition("<|im_start|>user\n")[2].partition("<|im_end|>")[0]
    handler.begin()
    for letter in text:
        handler.say(letter)
    handler.end({"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text)})


def delta(**said: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": said, "finish_reason": None}]}


def call_tools(handler: Handler) -> None:
    """Call what is in `calls`, a piece at a time; answer when the results are there."""
    if handler.body["messages"][-1]["role"] == "tool":
        MODES["ok"](handler)
        return
    handler.begin()
    for index, call in enumerate(handler.server.calls):
        written = call["arguments"]
        parts = [{"name": call["name"], "arguments": ""}, {"arguments": written[:5]}, {"arguments": written[5:]}]
        for function in parts:
            handler.event(
                delta(tool_calls=[{"index": index, "id": f"x{index}", "type": "function", "function": function}])
            )
    handler.end(USAGE, "tool_calls")


def call_at_one_index(handler: Handler) -> None:
    """Call what is in `calls` as Ollama to 0.20 does: whole, each with its id, and all at one index."""
    if handler.body["messages"][-1]["role"] == "tool":
        MODES["ok"](handler)
        return
    handler.begin()
    for number, call in enumerate(handler.server.calls):
        handler.event(delta(tool_calls=[{"index": 0, "id": f"x{number}", "type": "function", "function": call}]))
    handler.end(USAGE, "tool_calls")


def think_of_a_call(handler: Handler) -> None:
    """Write a call only in the thought, once."""
    handler.server.mode = "ok"
    call = '<tool_call>\n{"name": "get_time", "arguments": {"place": "Tokyo"}}\n</tool_call>'
    handler.begin()
    handler.event(delta(reasoning_content=f"I look.\n{call}"))
    handler.end(USAGE, "stop")


def write_half_a_call(handler: Handler) -> None:
    """Write the beginning of a call and no more."""
    handler.begin()
    function = {"name": "write_file", "arguments": '{"content": "' + 1000 * "x"}
    handler.event(delta(tool_calls=[{"index": 0, "id": "x", "type": "function", "function": function}]))
    handler.wait_until_gone()


def report_progress(handler: Handler) -> None:
    """As llama.cpp's server does when it is asked for return_progress."""
    handler.begin()
    for done in (100, 300):
        handler.event({"choices": [], "prompt_progress": {"total": 300, "cache": 50, "processed": done, "time_ms": 9}})
    handler.say(REPLY)
    timings = {"cache_n": 50, "prompt_n": 250, "prompt_ms": 500.0, "predicted_n": 5, "predicted_ms": 250.0}
    handler.event({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}], "timings": timings})
    handler.event("[DONE]")
    handler.write(b"")


def report_half(handler: Handler) -> None:
    """When told to go on, report that less is to be read than the prompt has, and read on for ever."""
    handler.server.go_on.wait(10)
    handler.begin()
    handler.event({"choices": [], "prompt_progress": {"total": 400, "cache": 250, "processed": 300, "time_ms": 9}})
    handler.wait_until_gone()


def refuse_long_prompts(handler: Handler) -> None:
    """Refuse a prompt of more than `limit_characters` characters with `refusal`; with nothing, only in a stream."""
    if len(handler.body["prompt"]) <= handler.server.limit_characters:
        MODES["no usage"](handler)
    elif handler.body["stream"] and not handler.server.refusal:
        handler.begin()
        handler.hang_up()
    else:
        handler.send_json(400, {"error": handler.server.refusal or OVERFLOW})


def count_prompt(handler: Handler) -> None:
    """Accept a prompt of any length and report how long it is."""
    streamed(*PIECES)(handler)
    handler.end({"prompt_tokens": len(handler.body["prompt"]) // 4, "completion_tokens": 5})


def redirect(handler: Handler) -> None:
    handler.give(307, b"", "text/plain", location=f"{handler.server.elsewhere}?token=abc")


def write_wrong_types(handler: Handler) -> None:
    handler.begin()
    value: Any
    for value in (None, 7, [], {"choices": {}}, {"choices": [7]}, {"choices": [{"text": 7, "delta": "x"}]}):
        handler.event({"usage": value, "choices": [{"delta": {"content": value, "tool_calls": value}}]})
        handler.event(json.dumps(value))
    handler.end({"prompt_tokens": 10**400, "completion_tokens": -1})


def compress(handler: Handler) -> None:
    handler.begin(content_encoding="gzip")
    handler.write(b"\x1f\x8b")
    handler.hang_up()


def wait_for_test(handler: Handler) -> None:
    handler.server.go_on.wait(GONE_S)


NUMBERS = count()
OVERFLOW = {"message": "This model's maximum context length is 2048 tokens, however you requested 2061 tokens"}
WHOLE = {"index": 0, "text": REPLY, "message": {"role": "assistant", "content": REPLY}, "finish_reason": "stop"}
UNAUTHORIZED = refused(401, "Incorrect API key provided: KEY", type="invalid_request_error", code="invalid_api_key")
MODES: dict[str, Mode] = {
    # replies
    "ok": streamed(*PIECES, end),
    "no usage": streamed(*PIECES, Handler.end),
    "ends twice": streamed(REPLY, lambda handler: handler.say("", "length"), end),
    "whole": answered(200, {"choices": [WHOLE], "usage": USAGE}),  # as a service that does not stream
    "echo": echo,
    "tool calls": call_tools,
    "calls at one index": call_at_one_index,
    "half a call": write_half_a_call,
    "a call in a thought": think_of_a_call,
    "thoughts": streamed(
        send(delta(role="assistant"), delta(reasoning_content="Let me "), delta(reasoning_content="see.")), "Yes.", end
    ),
    "only the end of a thought": streamed("It says 3.", "\n</think>\n", "It is 3.", end),
    "progress": report_progress,
    "half read": report_half,
    "slow": streamed(wait_for_test, REPLY, end),
    "a word, then slow": streamed("It ", wait_for_test, "works.", end),
    # errors
    "unauthorized": UNAUTHORIZED,
    "unauthorized everywhere": UNAUTHORIZED,
    "no such model": refused(404, 'model "x" not found, try pulling it first', type="api_error"),
    "too long": refused(400, "the request exceeds the available context size", type="exceed_context_size_error"),
    "any length": count_prompt,
    "small context": refuse_long_prompts,
    "not here": answered(404, {"detail": "Not Found"}),
    "busy": busy_once(429, "0"),
    "busy by date": busy_once(503, formatdate(time.time() - 60, usegmt=True)),
    "loading": busy_once(503, "soon"),
    "busy for long": answered(429, {"error": {"message": "Quota exceeded"}}, retry_after="3600"),
    "busy for ever": answered(503, {"error": {"message": "No slot"}}, retry_after="0"),
    "a bad gateway": answered(502, PAGE),
    "broken": refused(500, "CUDA error, key KEY"),
    "a page": answered(200, PAGE),
    "a page everywhere": answered(200, PAGE),
    "on to elsewhere": redirect,
    "on to elsewhere everywhere": redirect,
    # streams that end early, or not at all
    "closed at once": Handler.hang_up,
    "closed behind the head": streamed(Handler.hang_up),
    "cut": streamed("It ", "works", Handler.hang_up),
    "cut cleanly": streamed("It ", lambda handler: handler.write(b"")),
    "done without a reason": streamed(REPLY, send("[DONE]"), lambda handler: handler.write(b"")),
    "no done": streamed(REPLY, stop, Handler.hang_up),
    "silent": streamed(Handler.wait_until_gone),
    "no head": Handler.wait_until_gone,
    "silent in the middle": streamed("It ", Handler.wait_until_gone),
    "silent behind the end": streamed(REPLY, stop, Handler.wait_until_gone),
    "pings": streamed("It ", write_until_gone(lambda: b": ping\n\n")),
    "empty events": streamed("It ", write_until_gone(lambda: b'data: {"choices": []}\n\n')),
    "an endless line": streamed(lambda handler: handler.write(b"data: "), write_until_gone(lambda: BLOCK)),
    "an endless reply": streamed(
        write_until_gone(lambda: f'data: {{"choices": [{{"text": "{next(NUMBERS)} "}}]}}\n\n'.encode())
    ),
    "circles": streamed(write_until_gone(lambda: b'data: {"choices": [{"text": "no, no, no, no, "}]}\n\n')),
    # streams of something else
    "bad JSON": streamed(send('{"choices": [{"text": "It'), Handler.end),
    "wrong types": write_wrong_types,
    "an error in the middle": streamed("It ", send({"error": {"message": "EngineDead\x1b[31m", "code": 500}}), end),
    "an event called error": streamed(
        "It ", lambda handler: handler.write(b'event: error\ndata: {"message": "slot lost"}\n\n'), end
    ),
    "packed": compress,
}
