"""A misbehaving MCP server over HTTP with server-sent events, as the protocol had it in 2024, in a thread of the test.

Answers come as events of one long GET; messages go as POSTs to the address that its first event names.
"""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager, suppress
from typing import Any

from .chaos_http import BLOCK, JSON, Handler, Site, make_big_image, serving
from .chaos_server import Message


class EventSite(Site):
    """`stream` is the connection on which it answers."""

    stream: EventHandler

    def __init__(self, mode: str, elsewhere: str = "") -> None:
        super().__init__("ok", "handshake", elsewhere)
        self.RequestHandlerClass = EventHandler
        self.sse_mode = mode


def open_event_site(mode: str, **options: Any) -> AbstractContextManager[EventSite]:
    return serving(EventSite(mode, **options))


class EventHandler(Handler):
    server: EventSite

    def take_get(self) -> None:
        self.server.stream = self
        if self.server.sse_mode in ("start-404", "start-html"):
            self.give({"start-404": 404}.get(self.server.sse_mode, 200), b"<html>", "text/html")
            return
        with suppress(OSError):
            self.begin_events()
            if self.server.sse_mode != "start-nowhere":
                place = self.server.elsewhere if self.server.sse_mode == "start-elsewhere" else "/messages"
                self.wfile.write(f"event: endpoint\ndata: {place}\n\n".encode())
            self.server.is_closing.wait()

    def take(self, message: Message) -> None:
        is_act = message.get("method") == "tools/call" and message["params"]["name"] == "act"
        if self.server.sse_mode == "start-405" and self.path == "/mcp":
            self.give(405, b"", JSON)
            return
        if is_act and self.server.sse_mode == "call-500":
            self.give(500, b"No.", "text/plain")
            return
        if is_act and self.server.sse_mode == "call-deaf":
            self.server.is_closing.wait()
            return
        self.give(202, b"", JSON)
        self._answer(message, self.server.sse_mode if is_act else "")

    def _answer(self, message: Message, mode: str) -> None:
        write, said = self.server.stream.wfile.write, self.server.voice.hear(message)
        if mode == "call-cut":
            write(b"event: message\ndata: " + said[:20])
            self.server.stream.connection.shutdown(socket.SHUT_RDWR)
        elif mode == "call-huge":
            write(b"event: message\ndata: ")
            for _ in range(100):
                write(BLOCK)
            write(b"\n\n")
        elif mode == "call-big-image":
            write(b"event: message\ndata: " + make_big_image(message["id"]) + b"\n\n")
        elif mode == "call-no-json":
            write(b"event: message\ndata: {not json\n\n")
        elif said and mode != "call-silent":
            write(b"event: message\ndata: " + said + b"\n\n")
