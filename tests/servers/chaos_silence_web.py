"""Servers at a URL that fall silent amid what HTTP, its events and WebSocket frame, in threads of the test."""

from __future__ import annotations

import time
from contextlib import suppress

from .chaos_http import EVENTS, JSON, Handler, Site, mode
from .chaos_server import Message
from .chaos_sse import EventHandler, EventSite
from .chaos_websocket import CLOSE, Exchange, Line


@mode("start-headers", "start", "stops in the middle of a header")
@mode("call-headers", "call", "stops in the middle of a header of the answer to a call")
def stop_in_header(handler: Handler, _: Message) -> None:
    stop_after(handler, b"HTTP/1.1 200 OK\r\ncontent-ty")


@mode("start-body", "start", "stops in the middle of a body")
@mode("call-body", "call", "stops in the middle of the body that answers a call")
def stop_in_body(handler: Handler, _: Message) -> None:
    stop_after(handler, f"HTTP/1.1 200 OK\r\ncontent-type: {JSON}\r\ncontent-length: 99\r\n\r\n{{".encode())


@mode("call-chunk", "call", "stops in the middle of a chunk")
def stop_in_chunk(handler: Handler, _: Message) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {EVENTS}\r\ntransfer-encoding: chunked\r\n\r\n"
    stop_after(handler, f"{head}40\r\ndata: ".encode())


def stop_after(handler: Handler, data: bytes) -> None:
    handler.close_connection = True
    handler.wfile.write(data)
    handler.server.is_closing.wait()


@mode("start-dribble", "start", "gives a byte of a body now and then, and never its end")
@mode("call-dribble", "call", "answers a call with a byte now and then, and never the last one")
def dribble(handler: Handler, _: Message) -> None:
    handler.close_connection = True
    handler.begin(200, JSON, content_length="1000000")
    while not handler.server.is_closing.is_set():
        handler.wfile.write(b" ")
        time.sleep(0.05)


class SilentSite(Site):
    """A good server that takes requests of one kind, GET or DELETE, and answers none of them."""

    def __init__(self, verb: str) -> None:
        super().__init__("ok", "handshake")
        self.RequestHandlerClass = SilentHandler
        self.verb = verb


class SilentHandler(Handler):
    server: SilentSite

    def take_get(self) -> None:
        self._keep_waiting("GET")
        super().take_get()

    def do_DELETE(self) -> None:  # noqa: N802 - the library's word
        self._keep_waiting("DELETE")
        super().do_DELETE()

    def _keep_waiting(self, verb: str) -> None:
        if self.server.verb == verb:
            self.server.is_closing.wait()


class DeafEventSite(EventSite):
    """A good server of 2024 that takes a POST and answers it neither there nor in its events."""

    def __init__(self) -> None:
        super().__init__("ok")
        self.RequestHandlerClass = DeafEventHandler


class DeafEventHandler(EventHandler):
    def take(self, message: Message) -> None:
        if message.get("method") == "tools/call":
            self.server.is_closing.wait()
        else:
            super().take(message)


class StayingExchange(Exchange):
    """A good server over WebSocket that does not answer the frame that closes."""

    def __init__(self) -> None:
        super().__init__("ok")
        self.RequestHandlerClass = StayingLine


class StayingLine(Line):
    def send(self, data: bytes, kind: int = 1, flags: int = 0x80) -> None:
        if kind == CLOSE:
            self.server.is_closing.wait()
        with suppress(OSError):
            super().send(data, kind, flags)
