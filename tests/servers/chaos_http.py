"""A misbehaving MCP server over streamable HTTP, in a thread of the test, and HTTP_MODES: how it answers a POST.

A mode spoils every POST ("start") or only the call of the tool `act` ("call"). Standard library only.
"""

from __future__ import annotations

import gzip
import json
import socket
import sys
import threading
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
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
        """What it answers."""
        with self._turn:
            self._written = b""
            self.receive(message)
            return self._written.strip()


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    verb: str
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
        self.mode, self.elsewhere = mode, elsewhere
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.voice = Voice(eras)
        self.requests: list[Request] = []
        self.has_forgotten = False

    def called(self, name: str) -> int:
        """How often a tool was called."""
        return sum(request.message.get("params", {}).get("name") == name for request in self.requests)


def open_site(mode: str, **options: Any) -> AbstractContextManager[Site]:
    return serving(Site(mode, **options))


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Site

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        self.server.requests.append(Request("GET", dict(self.headers)))
        self.take_get()

    def do_DELETE(self) -> None:
        self.server.requests.append(Request("DELETE", dict(self.headers)))
        self.give(200, b"", JSON)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if len(body) < int(self.headers["content-length"]):
            return
        message = json.loads(body)
        self.server.requests.append(Request("POST", dict(self.headers), message))
        with suppress(OSError):  # a client that leaves is no news
            self.take(message)

    def take_get(self) -> None:
        self.give(405, b"", JSON)

    def take(self, message: Message) -> None:
        """A message that came."""
        moment, _, spoil = HTTP_MODES[self.server.mode]
        is_act = message.get("method") == "tools/call" and message["params"]["name"] == "act"
        if is_act or moment == "start":
            spoil(self, message)
        else:
            self.answer(message)

    def answer(self, message: Message) -> None:
        """The right thing."""
        said = self.server.voice.hear(message)
        if message.get("method") == "subscriptions/listen":
            self.begin_events()
            self.wfile.write(b"data: " + said + b"\n\n")
            self.server.is_closing.wait()
        elif message.get("method") == "initialize":
            self.give(200, said, JSON, mcp_session_id="one")
        else:
            self.give(200 if said else 202, said, JSON)

    def give(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        """A whole response."""
        headers = {"content-length": str(len(body)), **headers}
        self.begin(status, kind, **headers)
        self.wfile.write(body)

    def begin(self, status: int, kind: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def begin_events(self) -> None:
        self.close_connection = True
        self.begin(200, EVENTS, connection="close")


Spoil = Callable[[Handler, Message], None]
# Mode -> when, what it does, how.
HTTP_MODES: dict[str, tuple[str, str, Spoil]] = {"ok": ("call", "does nothing wrong", Handler.answer)}


def mode(name: str, moment: str, says: str) -> Callable[[Spoil], Spoil]:
    """Enters a function in HTTP_MODES."""

    def enter(spoil: Spoil) -> Spoil:
        HTTP_MODES[name] = (moment, says, spoil)
        return spoil

    return enter


def answer_status(status: int) -> Spoil:
    return lambda handler, _: handler.give(status, b"No.", "text/plain", retry_after="1")


for number in (401, 403, 404, 405, 429, 500, 503):
    mode(f"start-{number}", "start", f"answers everything with {number}")(answer_status(number))
    mode(f"call-{number}", "call", f"answers a call with {number}")(answer_status(number))


@mode("start-302", "start", "sends everything elsewhere")
@mode("call-302", "call", "sends a call elsewhere")
def redirect(handler: Handler, _: Message) -> None:
    handler.give(302, b"", "text/plain", location=handler.server.elsewhere)


@mode("call-307", "call", "sends a call elsewhere, with its body")
def redirect_post(handler: Handler, _: Message) -> None:
    handler.give(307, b"", "text/plain", location=handler.server.elsewhere)


@mode("start-html", "start", "answers everything with a page for people")
@mode("call-html", "call", "answers a call with a page for people")
def show_page(handler: Handler, _: Message) -> None:
    handler.give(200, b"<!doctype html><title>Welcome</title>", "text/html")


@mode("start-silent", "start", "answers nothing")
@mode("call-silent", "call", "does not answer a call")
def stay_silent(handler: Handler, _: Message) -> None:
    handler.close_connection = True
    handler.server.is_closing.wait()


@mode("start-no-http", "start", "answers what is no HTTP")
@mode("call-no-http", "call", "answers a call with what is no HTTP")
def speak_other(handler: Handler, _: Message) -> None:
    handler.close_connection = True
    handler.wfile.write(b"220 mail.example ESMTP\r\n")


@mode("session-gone", "call", "has forgotten the session at the first call")
def forget(handler: Handler, message: Message) -> None:
    if handler.server.has_forgotten:
        handler.answer(message)
    else:
        handler.server.has_forgotten = True
        handler.give(404, b"", JSON)


@mode("call-empty", "call", "answers a call with nothing")
def give_nothing(handler: Handler, _: Message) -> None:
    handler.give(200, b"", JSON)


@mode("call-202", "call", "takes a call as if it were a notification")
def take_note(handler: Handler, _: Message) -> None:
    handler.give(202, b"", JSON)


@mode("call-no-json", "call", "answers a call with what is no JSON")
def give_garbage(handler: Handler, _: Message) -> None:
    handler.give(200, b"{not json", JSON)


@mode("call-other-id", "call", "answers a call under another id")
def give_other(handler: Handler, message: Message) -> None:
    handler.give(200, handler.server.voice.hear({**message, "id": 4711}), JSON)


@mode("call-huge", "call", "answers a call with 100 MB")
def give_huge(handler: Handler, _message: Message) -> None:
    handler.close_connection = True
    handler.begin(200, JSON, connection="close")
    for _ in range(100):
        handler.wfile.write(BLOCK)


@mode("call-bomb", "call", "answers a call with 10 MB that unpack to 10 GB")
def give_bomb(handler: Handler, _message: Message) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(10_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
    handler.close_connection = True
    handler.begin(200, JSON, connection="close", content_encoding="gzip")
    handler.wfile.write(gzip.compress(b"")[:10])
    for _ in range(1000):
        handler.wfile.write(piece)


@mode("call-packed", "call", "answers a call with a body that is packed, as it may")
def give_packed(handler: Handler, message: Message) -> None:
    handler.give(200, gzip.compress(handler.server.voice.hear(message)), JSON, content_encoding="gzip")


@mode("call-lying-encoding", "call", "says of a plain body that it is packed")
def give_unpacked(handler: Handler, message: Message) -> None:
    handler.give(200, handler.server.voice.hear(message), JSON, content_encoding="gzip")


@mode("call-short", "call", "promises more than it gives")
def give_half(handler: Handler, message: Message) -> None:
    body = handler.server.voice.hear(message)
    handler.close_connection = True
    handler.begin(200, JSON, content_length=str(2 * len(body)))
    handler.wfile.write(body)


@mode("call-bad-chunk", "call", "answers in chunks whose size is no number")
def give_bad_chunks(handler: Handler, _: Message) -> None:
    handler.close_connection = True
    handler.begin(200, JSON, transfer_encoding="chunked")
    handler.wfile.write(b"zz\r\n{}\r\n")


@mode("call-events", "call", "answers with events, comments, and blank lines of Windows, as it may")
def give_events(handler: Handler, message: Message) -> None:
    handler.begin_events()
    said = handler.server.voice.hear(message)
    handler.wfile.write(b": hello\r\n\r\nevent: message\r\nid: 1\r\ndata: " + said + b"\r\n\r\n")


@mode("call-endless-event", "call", "answers with an event that never ends")
def never_end(handler: Handler, _: Message) -> None:
    handler.begin_events()
    handler.wfile.write(b"data: ")
    while True:
        handler.wfile.write(BLOCK)


@mode("call-open-event", "call", "answers with an event whose end does not come")
def leave_open(handler: Handler, message: Message) -> None:
    handler.begin_events()
    handler.wfile.write(b"event: message\ndata: " + handler.server.voice.hear(message) + b"\n")
    handler.server.is_closing.wait()


@mode("call-cut", "call", "breaks off in the middle of an event")
def cut(handler: Handler, message: Message) -> None:
    handler.begin_events()
    handler.wfile.write(b"event: message\ndata: " + handler.server.voice.hear(message)[:20])


@mode("call-no-event", "call", "ends its events without an answer")
def end_early(handler: Handler, _: Message) -> None:
    handler.begin_events()
    handler.wfile.write(b": nothing to say\n\n")
