"""A misbehaving MCP server over streamable HTTP, in a thread of the test, and HTTP_MODES: how it answers a POST.

A mode spoils every POST ("start") or only the call of the tool `act` ("call"); one of FLOODS sends without end what it
was not asked for. Standard library only. `python -m mcp_client.chaos_http MODE` in tests/ is a process of its own.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from itertools import count
from socketserver import BaseRequestHandler, TCPServer, ThreadingMixIn
from typing import Any, TypeVar

from .chaos_server import MODES, Message, Server

BLOCK = b"x" * 1_000_000
JSON = "application/json"
EVENTS = "text/event-stream"


class Voice(Server):
    """The good server; what it would have written is kept."""

    def __init__(self, eras: str) -> None:
        super().__init__(MODES["ok"], 0, None, None, eras)
        self._written = b""
        self._turn = threading.Lock()

    def write(self, data: bytes) -> None:
        self._written += data

    def hear(self, message: Message) -> bytes:
        with self._turn:
            self._written = b""
            self.receive(message)
            return self._written.strip()


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    verb: str
    path: str
    headers: dict[str, str]
    message: Message = field(default_factory=dict[str, Any])


class Listener(ThreadingMixIn, TCPServer):
    """A server in threads; `connections` are all that were made, `troubles` what broke in it."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int, handler: type[BaseRequestHandler]) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.port: int = self.server_address[1]
        self.connections: list[socket.socket] = []
        self.troubles: list[str] = []
        self.is_closing = threading.Event()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def handle_error(self, *_: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a client that leaves is no news
            self.troubles.append(traceback.format_exc())

    def hang_up(self) -> None:
        """Takes no more calls, and breaks those that are open."""
        self.is_closing.set()
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


Served = TypeVar("Served", bound=Listener)


@contextmanager
def serving(listener: Served) -> Iterator[Served]:
    """Serves while the block runs, or until it hangs up."""
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield listener
    finally:
        if not listener.is_closing.is_set():
            listener.hang_up()
        thread.join()
    assert not listener.troubles, "\n".join(listener.troubles)


class Site(Listener):
    """`requests` is all that came; `elsewhere` is where redirects lead."""

    def __init__(self, mode: str, eras: str = "both", elsewhere: str = "", port: int = 0) -> None:
        super().__init__(port, Handler)
        self.mode, self.elsewhere, self.delay_s = mode, elsewhere, 0.0
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.voice = Voice(eras)
        self.requests: list[Request] = []
        self.has_spoiled = False
        self.rests: dict[str, bytes] = {}
        """What a GET gives that names the last event."""

    def called(self, name: str) -> int:
        """How often a tool was called."""
        return sum(request.message.get("params", {}).get("name") == name for request in self.requests)


def open_site(mode: str, **options: Any) -> AbstractContextManager[Site]:
    return serving(Site(mode, **options))


class Replier(BaseHTTPRequestHandler):
    """Gives whole responses, and writes nothing about them."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None: ...

    def give(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        headers = {"content-length": str(len(body)), **headers}
        self.begin_response(status, kind, **headers)
        self.wfile.write(body)

    def begin_response(self, status: int, kind: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()


class Handler(Replier):
    server: Site

    def do_GET(self) -> None:
        self._take_bare("GET")
        self.take_get()

    def do_DELETE(self) -> None:
        self._take_bare("DELETE")
        self.give(200, b"", JSON)

    def _take_bare(self, verb: str) -> None:
        self.server.requests.append(Request(verb, self.path, dict(self.headers)))
        if self.server.mode in (f"silent-{verb}", "call-silent-and-all"):
            self.server.is_closing.wait()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if len(body) < int(self.headers["content-length"]):
            return
        message = json.loads(body)
        self.server.requests.append(Request("POST", self.path, dict(self.headers), message))
        with suppress(OSError):  # a client that leaves is no news
            self.take(message)

    def take_get(self) -> None:
        if flood := FLOODS.get(self.server.mode):
            self.begin_events()
            for number in count():
                self.write_event({**flood, **({"id": number} if flood["method"] == "ping" else {})})
        rest = self.server.rests.pop(self.headers.get("last-event-id", ""), None)
        if self.server.mode == "ended-GET":
            rest = b"retry: 0\n\n"
        if rest is None:
            self.give(404 if self.server.mode == "no-GET" else 405, b"", JSON)
        else:
            self.begin_events()
            self.wfile.write(rest)

    def take(self, message: Message) -> None:
        moment, spoil = HTTP_MODES[self.server.mode]
        is_act = message.get("method") == "tools/call" and message["params"]["name"] == "act"
        if is_act or moment == "start":
            spoil(self, message)
        else:
            self.answer(message)

    def answer(self, message: Message) -> None:
        said = self.server.voice.hear(message)
        if message.get("method") == "subscriptions/listen":
            self.begin_events()
            self.wfile.write(b"data: " + said + b"\n\n")
            self.server.is_closing.wait()
        elif message.get("method") == "initialize":
            self.give(200, said, JSON, mcp_session_id="one")
        else:
            self.give(200 if said else 202, said, JSON)

    def begin_events(self) -> None:
        self.close_connection = True
        self.begin_response(200, EVENTS, connection="close")

    def write_event(self, message: Message) -> None:
        self.wfile.write(b"data: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n")


# Mode -> what its own stream has without end.
FLOODS: dict[str, Message] = {
    "ping-GET": {"method": "ping"},
    "notice-GET": {"method": "notifications/message", "params": {"level": "info", "data": "again"}},
}
Spoil = Callable[[Handler, Message], None]
# Mode -> when, and how.
HTTP_MODES: dict[str, tuple[str, Spoil]] = dict.fromkeys(
    ("ok", "silent-GET", "silent-DELETE", "ended-GET", *FLOODS), ("call", Handler.answer)
)


def mode(name: str) -> Callable[[Spoil], Spoil]:
    """Enters a function in HTTP_MODES; the name begins with its moment, start or call."""

    def enter(spoil: Spoil) -> Spoil:
        HTTP_MODES[name] = (name.partition("-")[0], spoil)
        return spoil

    return enter


def respond(status: int, body: bytes = b"", kind: str = JSON, **headers: str) -> Spoil:
    return lambda handler, _: handler.give(status, body, kind, **headers)


def redirect(status: int) -> Spoil:
    return lambda handler, _: handler.give(status, b"", "text/plain", location=handler.server.elsewhere)


def write_raw(data: bytes, waits: bool = True) -> Spoil:
    """Answers with these bytes and no more, and leaves or stays."""

    def spoil(handler: Handler, _: Message) -> None:
        handler.close_connection = True
        handler.wfile.write(data)
        if waits:
            handler.server.is_closing.wait()

    return spoil


def dribble(handler: Handler, _: Message) -> None:
    """Gives a byte of a body now and then, and never its end."""
    handler.close_connection = True
    handler.begin_response(200, JSON, content_length="1000000")
    while not handler.server.is_closing.is_set():
        handler.wfile.write(b" ")
        time.sleep(0.05)


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STATUSES = {"start": (401, 404, 405, 429, 503), "call": (401, 403, 404, 429, 500)}
for moment, numbers in STATUSES.items():
    for number in numbers:
        mode(f"{moment}-{number}")(respond(number, b"No.", "text/plain", retry_after="1"))
    mode(f"{moment}-302")(redirect(302))
    mode(f"{moment}-html")(respond(200, b"<!doctype html><title>Welcome</title>", "text/html"))
    mode(f"{moment}-silent")(write_raw(b""))
    mode(f"{moment}-no-http")(write_raw(b"220 mail.example ESMTP\r\n", waits=False))
    mode(f"{moment}-headers")(write_raw(OK + b"content-ty"))
    mode(f"{moment}-body")(write_raw(OK + b"content-type: application/json\r\ncontent-length: 99\r\n\r\n{"))
    mode(f"{moment}-dribble")(dribble)
mode("call-chunk")(write_raw(CHUNKED + b"40\r\ndata: "))
mode("call-cut-chunk")(write_raw(CHUNKED + b"40\r\ndata: ", waits=False))
mode("call-bad-chunk")(write_raw(CHUNKED.replace(EVENTS.encode(), JSON.encode()) + b"zz\r\n{}\r\n", waits=False))
mode("call-307")(redirect(307))
mode("call-empty")(respond(200))
mode("call-no-json")(respond(200, b"{not json"))


mode("call-silent-and-all")(write_raw(b""))
mode("call-429-long")(respond(429, retry_after="11"))
mode("call-202")(respond(202))
mode("call-302-here")(respond(302, location="/mcp"))
mode("call-large-error")(respond(503, b" " * (5 << 20)))
mode("call-no-gzip")(respond(200, b"xx", content_encoding="gzip"))


def answer_without_checksum(handler: Handler, message: Message) -> None:
    """The whole answer in gzip, without the eight bytes after it by which one knows that nothing is missing."""
    handler.give(200, gzip.compress(handler.server.voice.hear(message))[:-8], JSON, content_encoding="gzip")


mode("call-cut-gzip")(answer_without_checksum)
mode("call-br")(respond(200, b"xx", content_encoding="br"))


def once(spoil: Spoil) -> Spoil:
    """Spoils the first call; the others are answered."""

    def spoil_first(handler: Handler, message: Message) -> None:
        (handler.answer if handler.server.has_spoiled else partial(spoil, handler))(message)
        handler.server.has_spoiled = True

    return spoil_first


def refuse_session(status: int, code: int) -> Spoil:
    """Says in an error that the session is unknown, as some servers do instead of 404."""

    def spoil(handler: Handler, message: Message) -> None:
        error = {"code": code, "message": "Bad Request: Unknown Mcp-Session-Id header"}
        body = {"jsonrpc": "2.0", "id": message["id"] if status == 200 else None, "error": error}
        handler.give(status, json.dumps(body).encode(), JSON)

    return spoil


@mode("call-500-in-first-session")
def fail_in_first_session(handler: Handler, message: Message) -> None:
    begun = sum(request.message.get("method") == "initialize" for request in handler.server.requests)
    (handler.answer if begun > 1 else partial(respond(500), handler))(message)


def answer_as_text(handler: Handler, message: Message) -> None:
    handler.give(200, handler.server.voice.hear(message), "text/plain")


HTTP_MODES["session-gone"] = ("call", once(respond(404)))
HTTP_MODES["session-gone-410"] = ("call", once(respond(410)))
HTTP_MODES["session-gone-400"] = ("call", once(refuse_session(400, -32000)))
HTTP_MODES["session-gone-error"] = ("call", once(refuse_session(200, -32001)))
HTTP_MODES["session-gone-invalid"] = ("call", once(refuse_session(200, -32600)))
HTTP_MODES["no-GET"] = ("call", Handler.answer)
mode("call-as-text")(answer_as_text)
NULL_ID = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "the disk is full"}}'
mode("call-null-id")(respond(200, NULL_ID))
mode("call-told-500")(respond(500, b'{"error": {"message": "the disk is full"}}'))
HTTP_MODES["call-busy"] = ("call", once(respond(429, retry_after="1")))


@mode("start-within")
def redirect_within(handler: Handler, message: Message) -> None:
    if handler.path == "/mcp":
        handler.give(307, b"", JSON, location="/mcp/")
    else:
        handler.answer(message)


@mode("start-refuses-discover")
def refuse_discover(handler: Handler, message: Message) -> None:
    if message.get("method") == "server/discover":
        handler.give(400, b"", JSON)
    else:
        handler.answer(message)


# Modes that give what the good server says in another body: its bytes, type and encoding.
BODIES: dict[str, tuple[Callable[[bytes], bytes], str, str]] = {
    "call-packed": (gzip.compress, JSON, "gzip"),
    "call-deflate": (zlib.compress, JSON, "deflate"),
    "call-packed-events": (lambda said: gzip.compress(b"data: " + said + b"\n\n"), EVENTS, "gzip"),
    "call-deep": (lambda said: said.replace(b'"act is done"', b"[" * 101 + b"]" * 101), JSON, "identity"),
    "call-long-text": (lambda said: lengthen(said), JSON, "identity"),
    "call-large-event": (lambda said: b"data: " + lengthen(said) + b"\n\n", EVENTS, "identity"),
    "call-event-bomb": (lambda _: gzip.compress(b"data: " + b" " * (8 << 20)), EVENTS, "gzip"),
}


def lengthen(said: bytes) -> bytes:
    """The answer with a text of 5 MB."""
    return said.replace(b"act is done", b"x" * (5 << 20))


def give_body(handler: Handler, message: Message) -> None:
    make, kind, encoding = BODIES[handler.server.mode]
    handler.give(200, make(handler.server.voice.hear(message)), kind, content_encoding=encoding)


for name in BODIES:
    mode(name)(give_body)


@mode("call-other-id")
def give_other(handler: Handler, message: Message) -> None:
    handler.give(200, handler.server.voice.hear({**message, "id": 4711}), JSON)


def make_big_image(request_id: Any) -> bytes:
    """An answer of 7 MB."""
    image = {"type": "image", "data": "A" * (7 << 20), "mimeType": "image/png"}
    result = {"resultType": "complete", "content": [image]}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode()


@mode("call-big-image")
def give_big_image(handler: Handler, message: Message) -> None:
    handler.give(200, make_big_image(message["id"]), JSON)


@mode("call-huge")
def give_huge(handler: Handler, _message: Message) -> None:
    handler.close_connection = True
    handler.begin_response(200, JSON, connection="close")
    for _ in range(100):
        handler.wfile.write(BLOCK)


def pack_zeros() -> bytes:
    """A piece of a raw deflate stream that unpacks to 10 MB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(bytes(10_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)


@mode("call-bomb")
def give_bomb(handler: Handler, _message: Message) -> None:
    """10 MB that unpack to 10 GB."""
    piece = pack_zeros()
    handler.close_connection = True
    handler.begin_response(200, JSON, connection="close", content_encoding="gzip")
    handler.wfile.write(gzip.compress(b"")[:10])
    for _ in range(1000):
        handler.wfile.write(piece)


@mode("call-short")
def give_half(handler: Handler, message: Message) -> None:
    body = handler.server.voice.hear(message)
    handler.close_connection = True
    handler.begin_response(200, JSON, content_length=str(2 * len(body)))
    handler.wfile.write(body)


@mode("call-question")
def ask_first(handler: Handler, message: Message) -> None:
    """Reports progress, and answers when the client has answered its ping."""
    handler.begin_events()
    token = message["params"].get("_meta", {}).get("progressToken")
    for number in range(4):
        handler.write_event(
            {"method": "notifications/progress", "params": {"progressToken": token, "progress": number}}
        )
        time.sleep(handler.server.delay_s)
    handler.write_event({"id": "question", "method": "ping"})
    while not any(request.message.get("id") == "question" for request in handler.server.requests):
        if handler.server.is_closing.wait(0.01):
            return
    handler.write_event(json.loads(handler.server.voice.hear(message)))


@mode("call-endless-event")
def never_end(handler: Handler, _: Message) -> None:
    handler.begin_events()
    handler.wfile.write(b"data: ")
    while True:
        handler.wfile.write(BLOCK)


# Modes that answer with events.
EVENT_BODIES: dict[str, Callable[[bytes], bytes]] = {
    "call-events": lambda said: b": hello\r\n\r\nevent: message\r\nid: 1\r\ndata: " + said + b"\r\n\r\n",
    "call-open-event": lambda said: b"event: message\ndata: " + said + b"\n",
    "call-cr": lambda said: b": hello\revent: message\rdata: " + said + b"\r\r",
    "call-primed": lambda said: b"id: a\nretry: 50\ndata: \n\nid: b\ndata: " + said + b"\n\n",
    "call-other-event": lambda said: (
        b"event: news\ndata: " + said.replace(b"act is done", b"NEWS") + b"\n\ndata: " + said + b"\n\n"
    ),
    "call-other-event-only": lambda said: b"event: news\ndata: " + said + b"\n\n",
    "call-other-id-events": lambda said: b"data: " + re.sub(rb'"id": ?\d+', b'"id": 4711', said) + b"\n\n",
    "call-cut": lambda said: b"event: message\ndata: " + said[:20],
    "call-no-event": lambda _: b": nothing to say\n\n",
}


def give_events(handler: Handler, message: Message) -> None:
    handler.begin_events()
    handler.wfile.write(EVENT_BODIES[handler.server.mode](handler.server.voice.hear(message)))
    if handler.server.mode == "call-open-event":
        handler.server.is_closing.wait()


for name in EVENT_BODIES:
    mode(name)(give_events)


# Modes that end a stream before the answer: what it begins with, and what GET gives after an event.
RESUMED: dict[str, tuple[bytes, Callable[[bytes], dict[str, bytes]]]] = {
    "call-resumed": (b"id: a\nretry: 50\ndata: \n\n", lambda said: {"a": b"id: b\ndata: " + said + b"\n\n"}),
    "call-resumed-bare": (b"id: a\nretry: 50\n\n", lambda said: {"a": b"data: " + said + b"\n\n"}),
    "call-resumed-twice": (
        b"retry: 50\nid: a\ndata: \n\nid: lost\ndata: {",
        lambda said: {"a": b"id: b\ndata: \n\n", "b": b"data: " + said + b"\n\n"},
    ),
    "call-unresumed": (b"id: a\nretry: 50\ndata: \n\n", lambda _: {}),
}


def end_early(handler: Handler, message: Message) -> None:
    begin, make_rests = RESUMED[handler.server.mode]
    handler.server.rests = make_rests(handler.server.voice.hear(message))
    handler.begin_events()
    handler.wfile.write(begin)


for name in RESUMED:
    mode(name)(end_early)


def trickle(begin: bytes, piece: bytes) -> Spoil:
    """Gives a part of a response now and then that never ends it."""

    def spoil(handler: Handler, _: Message) -> None:
        handler.close_connection = True
        handler.wfile.write(begin)
        while not handler.server.is_closing.wait(0.05):
            handler.wfile.write(piece)

    return spoil


TRICKLES = {
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "status": (b"HTTP/1.1 200 ", b"O"),
    "header": (OK + b"x-long: ", b"x"),
    "header-lines": (OK, b"x-more: x\r\n"),
    "chunk-size": (CHUNKED.replace(EVENTS.encode(), JSON.encode()), b"0"),
    "chunk-extension": (CHUNKED.replace(EVENTS.encode(), JSON.encode()) + b"1;", b"x"),
    "chunks": (CHUNKED.replace(EVENTS.encode(), JSON.encode()), b"1\r\n \r\n"),
    "comments": (CHUNKED, b"3\r\n:.\n\r\n"),
    "trailers": (CHUNKED.replace(EVENTS.encode(), JSON.encode()) + b"0\r\n", b"x-more: x\r\n"),
}
for name, parts in TRICKLES.items():
    for moment in ("start", "call"):
        mode(f"{moment}-trickle-{name}")(trickle(*parts))


if __name__ == "__main__":
    with open_site(sys.argv[1], eras="handshake") as alone:
        alone.voice.capabilities["logging"] = {}
        print(alone.url, flush=True)
        alone.is_closing.wait()
