"""A misbehaving MCP server over WebSocket, in threads of the test, and SOCKET_MODES. Standard library only."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from socketserver import StreamRequestHandler
from typing import Any

from .chaos_http import BLOCK, Listener, Voice, lengthen, make_big_image, pack_zeros, serving
from .chaos_server import Message

KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
FINAL, PACKED = 0x80, 0x40


class Exchange(Listener):
    """`messages` is all that came, `keys` X-Api-Key of each handshake; `elsewhere` is where a redirect leads."""

    def __init__(self, mode: str, elsewhere: str = "") -> None:
        super().__init__(0, Line)
        self.mode, self.elsewhere = mode, elsewhere
        self.keys: list[str] = []
        self.url = f"ws://127.0.0.1:{self.port}/mcp"
        self.messages: list[Message] = []

    def called(self, name: str) -> int:
        return sum(message.get("params", {}).get("name") == name for message in self.messages)


def open_exchange(mode: str, **options: str) -> AbstractContextManager[Exchange]:
    return serving(Exchange(mode, **options))


class Line(StreamRequestHandler):
    server: Exchange

    def handle(self) -> None:
        with suppress(OSError, EOFError):
            self.voice = Voice("both")
            if self._shake_hands():
                while True:
                    self._receive()

    def _shake_hands(self) -> bool:
        if not self.rfile.readline():  # whoever came has nothing to say
            return False
        headers: dict[str, str] = {}
        while (line := self.rfile.readline().strip()) != b"":
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        self.server.keys.append(headers.get("x-api-key", ""))
        if self.server.mode in REFUSALS:
            self.wfile.write(REFUSALS[self.server.mode].replace(b"ELSEWHERE", self.server.elsewhere.encode()))
            if not REFUSALS[self.server.mode]:
                self.server.is_closing.wait()
            return False
        digest = base64.b64encode(hashlib.sha1(headers["sec-websocket-key"].encode() + KEY).digest()).decode()
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Accept: {digest}"]
        lines += ["Sec-WebSocket-Protocol: mcp"] * (self.server.mode != "start-no-subprotocol")
        if self.server.mode == "call-bomb" and "permessage-deflate" in headers.get("sec-websocket-extensions", ""):
            alone = "server_no_context_takeover; client_no_context_takeover"
            lines += [f"Sec-WebSocket-Extensions: permessage-deflate; {alone}"]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode())
        return True

    def _receive(self) -> None:
        first, second = self._read(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", self._read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self._read(8))
        mask = self._read(4)
        data = bytes(byte ^ mask[place % 4] for place, byte in enumerate(self._read(size)))
        kind = first & 0x0F
        if kind == CLOSE:
            if self.server.mode == "close-silent":
                self.server.is_closing.wait()
            self.send(data, CLOSE)
            raise EOFError
        if kind == PING:
            self.send(data, PONG)
        elif kind == TEXT:
            if first & PACKED:
                data = zlib.decompressobj(-15).decompress(data + b"\0\0\xff\xff")
            self._take(json.loads(data))

    def _take(self, message: Message) -> None:
        self.server.messages.append(message)
        is_act = message.get("method") == "tools/call" and message["params"]["name"] == "act"
        said = self.voice.hear(message)
        if is_act and self.server.mode in SOCKET_MODES:
            SOCKET_MODES[self.server.mode](self, said)
        elif said:
            self.send(said)

    def _read(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def send_each(self, *frames: tuple[Any, ...]) -> None:
        for frame in frames:
            self.send(*frame)

    def send(self, data: bytes, kind: int = TEXT, flags: int = FINAL) -> None:
        """A frame; a server does not mask."""
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", flags | kind, size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", flags | kind, 126, size)
        else:
            head = struct.pack("!BBQ", flags | kind, 127, size)
        self.wfile.write(head + data)


# Modes that answer the handshake with something else; b"" is silence.
REFUSALS = {
    "start-silent": b"",
    "start-403": b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    "start-200": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi",
    "start-no-http": b"220 mail.example ESMTP\r\n",
    "start-302": b"HTTP/1.1 302 Found\r\nlocation: ELSEWHERE\r\ncontent-length: 0\r\n\r\n",
    "start-401": b"HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\ncontent-length: 0\r\n\r\n",
}

# Modes that answer a call with something else than one text frame.
SOCKET_MODES: dict[str, Callable[[Line, bytes], object]] = {
    "call-strays": lambda line, said: line.send_each((b"stray one",), (b"",), (b"{}",), (b"\xef\xbb\xbf" + said,)),
    "call-bytes": lambda line, said: line.send(said, BINARY),
    "call-fragments": lambda line, said: line.send_each((said[:9], TEXT, 0), (said[9:], 0)),
    "call-cut-message": lambda line, said: line.send(said[:-5]),
    "call-1011": lambda line, _: line.send(struct.pack("!H", 1011) + b"out of order", CLOSE),
    "call-1000": lambda line, _: line.send(struct.pack("!H", 1000), CLOSE),
    "call-bad-frame": lambda line, said: line.send(said, 7),  # a kind that there is not
    "call-bad-utf8": lambda line, said: line.send(said.replace(b"done", b"don\xe9")),
    "call-silent": lambda line, _: line.send(b"", PING),
    "call-long-text": lambda line, said: line.send(lengthen(said)),
    "call-big-image": lambda line, said: line.send(make_big_image(json.loads(said)["id"])),
    # 1 MB that unpacks to 1 GB
    "call-bomb": lambda line, _: line.send(pack_zeros() * 100, TEXT, FINAL | PACKED),
}


def send_huge(line: Line, _said: bytes) -> None:
    """A frame of 50 MB."""
    line.wfile.write(struct.pack("!BBQ", FINAL | TEXT, 127, 50_000_000))
    for _ in range(50):
        line.wfile.write(BLOCK)


def send_for_ever(line: Line, said: bytes) -> None:
    """A message in pieces that never ends."""
    line.send(said[:10], TEXT, 0)
    while True:
        line.send(BLOCK, 0, 0)


def cut(line: Line, said: bytes) -> None:
    """The connection breaks off in the middle of a frame."""
    line.wfile.write(struct.pack("!BBH", FINAL | TEXT, 126, 1000) + said[:20])
    raise EOFError


SOCKET_MODES.update({"call-huge": send_huge, "call-endless-fragments": send_for_ever, "call-cut": cut})
