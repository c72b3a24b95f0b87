"""JSON-RPC over streamable HTTP, by `http.client`: a POST for each message. It knows no protocol above that.

What it does not do (redirects, proxies, HTTP with SSE as of 2024, logins) it leaves to `servers/`, with Elsewhere.
Bodies are at most 4 MB, and every wait has a limit. TLS is always verified.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import quote, urlsplit

from ..clean import clean_line
from ..errors import AuthError, ConfigError, ConnectError, ProtocolError
from ..places import has_logins
from ..servers.addresses import (
    LOOK_UP_S,
    Address,
    check_headers,
    has_proxy,
    judge_addresses,
    judge_peer,
    leads_out,
    read_address,
    show_url,
    split_address,
)
from ..servers.lines import LONGEST, MB, read_values
from .silence import explain_silence
from .talk import STATELESS, Elsewhere

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..config import ServerConfig
    from .talk import Talk

CONNECT_S = 10.0
GOODBYE_S = 1.0
PATIENCE_S = 10.0
PIECE = 1 << 16
PLAIN = "%/:?@!$&'()*+,;=~-._"
TURNED_AWAY = (400, 404, 405, 406, 410, 415, 501)
HEADER_MISMATCH = -32020
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""What stands in the header Mcp-Name (2026-07-28, transports)."""


class Web:
    """A server at a URL. Raises ConnectError for an address that is refused."""

    session: dict[str, Any] | None = None
    first = 0

    def __init__(self, server: ServerConfig) -> None:
        self._server, self._shown = server, show_url(server.url)
        self._host, self._port = split_address(server)
        parts = urlsplit(server.url)
        if has_proxy(server.url) or parts.username:
            raise Elsewhere
        self._path = quote(parts.path or "/", safe=PLAIN) + (
            f"?{quote(parts.query, safe=PLAIN)}" if parts.query else ""
        )
        addresses = find_addresses(self._host, self._port)
        judge_addresses(server, self._host, addresses)
        check_headers(server)
        self._is_out = leads_out(server.url, addresses)
        self._connection: HTTPConnection | None = None
        self._response: HTTPResponse | None = None
        self._unsent: list[dict[str, Any]] = []
        self._session = self._version = ""
        self._is_settled = self._has_waited = False
        self._has_token = "authorization" in {name.lower() for name in server.headers}

    def guard(self) -> None:
        """There is no process to stand by."""

    def agreed(self, session: dict[str, Any]) -> None:
        """What was agreed on is over with this session."""

    def last_words(self) -> str:
        return ""

    def explain_denial(self, text: str) -> str:  # noqa: ARG002 - it has no sandbox of ours
        return ""

    def tell(self, message: dict[str, Any]) -> None:
        """Keeps a message; `exchange` sends it."""
        self._unsent.append(message)

    def exchange(self, talk: Talk, phase: str, limit_s: float) -> None:
        """Sends what is to be sent until the talk has its answer.

        Raises TimeLimitError, ConnectError if the server cannot be reached, AuthError, ProtocolError, Elsewhere.
        """
        end = time.monotonic() + limit_s
        self._version = talk.version
        try:
            while self._unsent:
                self._post(self._unsent.pop(0), talk, phase, end)
            talk.answer = talk.answer or talk.doubt
            if talk.answer is None:
                raise ConnectError(f"{self._name} broke off in the middle of an answer.", **self._details(phase))
        except TimeoutError:
            raise explain_silence(self._name, phase, limit_s, "", self._details(phase)) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "strerror", None) or clean_line(str(error)) or type(error).__name__
            text = f"{self._name} cannot be reached: {reason}."
            raise ConnectError(text, "Does it run, and is the URL right?", **self._details(phase)) from error
        refusal = talk.answer.get("error")
        if isinstance(refusal, dict) and refusal.get("code") == HEADER_MISMATCH:
            raise Elsewhere
        self._is_settled = True

    @property
    def _name(self) -> str:
        return f'Server "{self._server.name}" at {self._shown}'

    def _details(self, phase: str) -> dict[str, Any]:
        return {"server": self._server.name, "url": self._shown, "phase": phase}

    def _post(self, message: dict[str, Any], talk: Talk, phase: str, end: float) -> None:
        """Sends one message and reads what comes back, up to the answer."""
        response = self._request("POST", json.dumps(message, ensure_ascii=False).encode(), self._headers(message), end)
        self._session = response.headers.get("mcp-session-id", "") or self._session
        if response.status >= 300:
            self._judge(response, message, talk, phase, end)
        elif "id" not in message or "method" not in message:
            self._drain(response, end)
        elif response.headers.get_content_type() == "text/event-stream":
            self._follow(response, talk, end)
        else:
            for value in self._values(self._read(response, end)):
                talk.take(value)

    def _headers(self, message: dict[str, Any]) -> dict[str, str]:
        headers = {
            **self._server.headers,
            "accept": "application/json, text/event-stream",
            "accept-encoding": "identity",
            "content-type": "application/json",
        }
        if self._session:
            headers["mcp-session-id"] = self._session
        if self._version:
            headers["mcp-protocol-version"] = self._version
        method = message.get("method", "")
        if self._version == STATELESS and method:
            headers["mcp-method"] = method
            if name := message["params"].get(NAMED_BY.get(method, "")):
                headers["mcp-name"] = write_header(name)
        return headers

    def _request(self, method: str, body: bytes, headers: dict[str, str], end: float) -> HTTPResponse:
        """Sends a request once: a call that broke may have done its work."""
        if self._connection and self._connection.sock and is_readable(self._connection.sock):
            self.drop()  # the server has closed it meanwhile
        connection = self._connection = self._connection or self._connect(end)
        if connection.sock is None:
            self._dial(connection)
        self._hurry(end)
        try:
            connection.request(method, self._path, body, headers)
        except ValueError:
            text = f'Server "{self._server.name}": its headers hold what HTTP cannot carry.'
            raise ConfigError(text, "Use plain letters, without line breaks.", path=self._server.source) from None
        self._response = connection.getresponse()
        return self._response

    def _dial(self, connection: HTTPConnection) -> None:
        connection.connect()
        judge_peer(self._server, str(connection.sock.getpeername()[0]), self._is_out)

    def _connect(self, end: float) -> HTTPConnection:
        limit_s = min(CONNECT_S, max(0.001, end - time.monotonic()))
        if not self._server.url.startswith("https:"):
            return HTTPConnection(self._host, self._port, timeout=limit_s)
        import ssl

        return HTTPSConnection(self._host, self._port, timeout=limit_s, context=ssl.create_default_context())

    def _hurry(self, end: float) -> None:
        """What is read or written next may take until then. Raises TimeoutError if that is over."""
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if self._connection and self._connection.sock:
            self._connection.sock.settimeout(left)

    def _read(self, response: HTTPResponse, end: float) -> bytes:
        body = bytearray()
        while True:
            self._hurry(end)
            piece = response.read1(PIECE)
            body += piece
            if not piece:
                response.close()
                return bytes(body)
            if len(body) > LONGEST:
                raise self._unusable(f"result too large, limit {LONGEST // MB} MB")

    def _drain(self, response: HTTPResponse, end: float) -> None:
        """What comes for a message that needs no answer; a stream is not waited for."""
        if response.headers.get_content_type() == "text/event-stream":
            self.drop()
        else:
            self._read(response, end)

    def _follow(self, response: HTTPResponse, talk: Talk, end: float) -> None:
        """The events of a stream, up to the answer. The server's own questions are answered before anything else."""
        for data in self._events(response, end):
            for value in self._values(data):
                if reply := talk.take(value):
                    self._unsent.insert(0, reply)
            if talk.answer is not None:
                break
        self.drop()

    def _events(self, response: HTTPResponse, end: float) -> Iterator[bytes]:
        """The data of the events in a stream (WHATWG HTML, 9.2.6, without ids and names)."""
        rest, lines = b"", []
        while True:
            self._hurry(end)
            piece = response.read1(PIECE)
            *whole, rest = (rest + piece).replace(b"\r\n", b"\n").split(b"\n")
            for line in whole:
                if line.startswith(b"data:"):
                    lines.append(line[5:].removeprefix(b" "))
                elif not line and lines:
                    yield b"\n".join(lines)
                    lines = []
            if not piece:
                return
            if len(rest) + sum(map(len, lines)) > LONGEST:
                raise self._unusable(f"result too large, limit {LONGEST // MB} MB")

    def _values(self, data: bytes) -> list[Any]:
        try:
            return read_values(data.decode("utf-8", errors="replace").strip())
        except ValueError as error:
            raise self._unusable(str(error)) from None

    def _unusable(self, reason: str) -> ProtocolError:
        return ProtocolError(f"{self._name} gave an answer that cannot be used: {reason}.", server=self._server.name)

    def _judge(self, response: HTTPResponse, message: dict[str, Any], talk: Talk, phase: str, end: float) -> None:
        """A status that is none of success: an answer all the same, somebody else's way, or an error."""
        status, how = response.status, f"HTTP {response.status} {response.reason}".strip()
        body = self._read(response, end)
        with contextlib.suppress(ProtocolError):
            for value in self._values(body):
                talk.take(value)
        details = {**self._details(phase), "status": status}
        if status == 401 and not self._is_settled and not self._has_token and has_logins():
            raise Elsewhere  # one of those may be for it
        if status in (401, 403):
            raise self._explain_refusal(response, how, details)
        if talk.answer is not None:
            return
        if not self._is_settled and (status < 400 or (status in TURNED_AWAY and not self._server.transport)):
            raise Elsewhere
        if status == 429 and not self._has_waited and (wait_s := read_patience(response)):
            self._has_waited = True
            self._hurry(end - wait_s)
            time.sleep(wait_s)
            self._unsent.insert(0, message)
            return
        raise ConnectError(f"{self._name} answered {how}.", "Is the URL right?", **details)

    def _explain_refusal(self, response: HTTPResponse, how: str, details: dict[str, Any]) -> AuthError:
        challenge = response.headers.get("www-authenticate", "")[:500]
        if self._has_token:
            text = f"{self._name} does not take the token in its headers ({how})."
            hint = "Is it the right one, and is it still valid?"
        elif response.status == 403:
            text, hint = f"{self._name} refuses this ({how}).", "Does it want a token in its headers?"
        else:
            source = self._server.source or "the configuration"
            text = f"{self._name} wants to know who asks ({how})."
            hint = f'Give it headers = {{ Authorization = "Bearer ${{TOKEN}}" }} in {source}, and set TOKEN;'
            hint += f" or log in once in the chat, with /mcp auth {self._server.name}."
        return AuthError(text, hint, challenge=challenge, **details)

    def drop(self) -> None:
        """Closes the connection, which also tells the server to stop what it does (2026-07-28)."""
        for part in (self._response, self._connection):
            if part:
                part.close()
        self._response = self._connection = None

    def close(self, is_patient: bool = True) -> None:
        """Tells the server that the session is over, where there is one, and does not wait for long."""
        if self._response and not self._response.isclosed():
            self.drop()  # it is not read to its end, and never will be
        if self._session and is_patient:
            with contextlib.suppress(OSError, HTTPException):
                end = time.monotonic() + GOODBYE_S
                self._request("DELETE", b"", self._headers({}), end)
        self._session = ""
        self.drop()


def is_readable(connection: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(0))


def read_patience(response: HTTPResponse) -> float:
    """How many seconds a server that is too busy asks to wait, if it says so and it is not for long; else 0."""
    said = response.headers.get("retry-after", "")
    return float(said) if said.isdecimal() and float(said) <= PATIENCE_S else 0.0


def find_addresses(host: str, port: int | None) -> list[Address]:
    """All addresses of a name, none where it is not known; the system's own look-up has no limit, so it gets one."""
    if address := read_address(host):
        return [address]
    import threading

    found: list[Address] = []

    def look_up() -> None:
        with contextlib.suppress(OSError, UnicodeError):
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.extend(filter(None, (read_address(str(entry[4][0])) for entry in entries)))

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(LOOK_UP_S)
    return found


def write_header(value: str) -> str:
    """A value as an HTTP header; what is not plain is in base64 (2026-07-28, transports)."""
    if value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?base64?"):
        return value
    from base64 import b64encode

    return f"=?base64?{b64encode(value.encode()).decode()}?="
