"""JSON-RPC over streamable HTTP with `http.client`: one POST per message.

An exchange in order of time: the queued messages are posted one after another. The answer is the body of the last
response, or an event of its stream; what the server asks meanwhile is answered on another connection, because it may
wait for that. A stream that ends without the answer is resumed with GET after its last event, if the server gave that
an id (until MCP 2025-11-25). The server forgets a session with 404; that request was not processed, and is sent again
in a new session.

Redirects, proxies, HTTP+SSE (MCP 2024-11-05) and logins are left to the client of the chat, by raising
UnsupportedByDirectClient. Bodies are limited, an exchange (connect, headers, body, trailers) has one deadline, and TLS
is always verified.
"""

from __future__ import annotations

import contextlib
import io
import select
import socket
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from ...config.files import has_logins
from ...config.servers import ServerConfig
from ...core.errors import AuthError, ChatError, ConfigError, ConnectError, ProtocolError
from ...core.sanitize import sanitize_line
from ..protocol.dialog import STATELESS_VERSION
from ..protocol.event_stream import EventParser, resume_wait_s
from ..protocol.faults import SessionLostError, hint_for_status, retry_wait_s
from ..protocol.framing import BoundedBytes, CutText, parse_values
from ..protocol.http_answer import adopt_error, parse_small, quote_error_body, reports_lost_session
from ..protocol.http_body import CHUNK_BYTES, BodyDecoder
from ..protocol.http_headers import SESSION_HEADER, make_message_headers, make_stream_headers
from ..protocol.limits import MAX_RESULT_BYTES, ProgressDeadline
from ..protocol.session import JsonRpcSession
from ..transports.addresses import (
    LOOKUP_TIMEOUT_S,
    check_headers,
    check_peer,
    check_resolved_addresses,
    has_proxy,
    is_public,
    look_up,
    redact_url,
    resolve,
    split_url,
)
from .client import Channel, UnsupportedByDirectClient, make_timeout_error

if TYPE_CHECKING:
    from ..protocol.dialog import Dialog

_CONNECT_S = 10.0
_DELETE_S = 1.0
URL_SAFE_CHARACTERS = "%/:?@!$&'()*+,;=~-._"
_REJECTING_STATUSES = (400, 404, 405, 406, 410, 415, 501)
_HEADER_MISMATCH = -32020


class HttpChannel(Channel):
    """A channel to a server at a URL.

    Raises ConnectError or ConfigError for a refused address, UnsupportedByDirectClient for one that needs a proxy.
    """

    def __init__(self, server: ServerConfig, max_bytes: int = MAX_RESULT_BYTES) -> None:
        self._server, self._redacted_url, self._max_bytes = server, redact_url(server.url), max_bytes
        self._host, self._port = split_url(server)
        parts = urlsplit(server.url)
        if has_proxy(server.url) or parts.username:
            raise UnsupportedByDirectClient
        self._path = quote(parts.path or "/", safe=URL_SAFE_CHARACTERS) + (
            f"?{quote(parts.query, safe=URL_SAFE_CHARACTERS)}" if parts.query else ""
        )
        addresses = resolve(self._host, self._port, min(LOOKUP_TIMEOUT_S, server.connect_s))
        check_resolved_addresses(server, self._host, addresses)
        check_headers(server)
        self._is_public = is_public(server.url, addresses)
        self._connection: HTTPConnection | None = None
        self._response: HTTPResponse | None = None
        self._socket: Any = None  # of the response; its connection may have none any more
        self._end = 0.0
        self.session = JsonRpcSession(max_bytes)
        self._unsent: list[tuple[dict[str, Any], bytes]] = []
        self._session_id = self._version = ""
        self._has_answered = self._has_waited = self._has_lost_session = False
        self._request_id: int | str | None = None  # of the stream that is read
        self._has_token = "authorization" in {name.lower() for name in server.headers}

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message; `exchange` sends it. Raises ValueError if it cannot be sent."""
        self._unsent.append((message, self.session.send(message)))

    def exchange(self, dialog: Dialog, phase: str, limit_s: float) -> None:
        """Send the queued messages until `dialog` has its answer; progress extends the limit.

        Raises:
            TimeLimitError: The deadline expired.
            ConnectError: The server cannot be reached, or broke off.
            SessionLostError: The server has forgotten the session; raised once.
            AuthError: The server refuses access.
            ProtocolError: The response is unusable.
            UnsupportedByDirectClient: The server needs what only the client of the chat supports.
        """
        self._deadline, self._progress = ProgressDeadline(limit_s, time.monotonic()), 0
        self._end = self._deadline.end
        self._version = dialog.version
        try:
            while self._unsent:
                self._post(*self._unsent.pop(0), dialog, phase)
            dialog.receive(self.session.end())
            if dialog.response is None:
                raise self._make_cut_error(phase)
        except TimeoutError:
            raise make_timeout_error(self._name, phase, limit_s, "", self._details(phase)) from None
        except IncompleteRead as error:
            raise self._make_cut_error(phase) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "strerror", None) or sanitize_line(str(error)) or type(error).__name__
            text = f"{self._name} cannot be reached: {reason}."
            raise ConnectError(text, "Check that it runs and that the URL is right.", **self._details(phase)) from error
        refusal = dialog.response.get("error")
        if isinstance(refusal, dict) and refusal.get("code") == _HEADER_MISMATCH:
            raise UnsupportedByDirectClient
        self._has_answered = True

    def _make_cut_error(self, phase: str) -> ConnectError:
        text = f"{self._name} closed the connection before the response was complete."
        return ConnectError(text, **self._details(phase))

    @property
    def _name(self) -> str:
        return f'Server "{self._server.name}" at {self._redacted_url}'

    def _details(self, phase: str) -> dict[str, Any]:
        return {"server": self._server.name, "url": self._redacted_url, "phase": phase}

    def _post(self, message: dict[str, Any], body: bytes, dialog: Dialog, phase: str) -> None:
        """Send one message and read the response, up to the answer."""
        response = self._request("POST", body, self._headers(message))
        self._session_id = response.headers.get(SESSION_HEADER, "") or self._session_id
        if response.status >= 300:
            self._handle_status(response, message, dialog, phase)
        elif "id" not in message or "method" not in message:
            self._discard(response)
        elif response.headers.get_content_type() == "text/event-stream":
            self._request_id = message["id"]
            self._read_stream(response, dialog)
        else:
            answer = self._read(response)
            self._check_session(response.status, answer.content, phase)
            self._receive_body(answer, dialog, message["id"])

    def _check_session(self, status: int, body: bytearray, phase: str) -> None:
        """Raise SessionLostError, once, if the body says that the server does not know the session."""
        if self._session_id and not self._has_lost_session and reports_lost_session(status, parse_small(body)):
            self._session_id, self._has_lost_session = "", True
            raise SessionLostError(f"{self._name} has lost the session.", **self._details(phase), status=status)

    def _receive_body(self, body: BoundedBytes, dialog: Dialog, request_id: int | str | None) -> None:
        """Pass on the messages of a body, which is freed before they are parsed: it is as large as a result at most."""
        self._receive_text(body.take_text(), dialog, request_id)

    def _receive_text(self, text: str | CutText, dialog: Dialog, request_id: int | str | None) -> list[dict[str, Any]]:
        """Pass on the messages of a body or an event; return the replies to the server."""
        if isinstance(text, CutText):
            return dialog.receive(self.session.receive_cut(text, request_id))
        return [
            reply
            for value in self._values(text)
            for reply in dialog.receive(self.session.receive_value(adopt_error(value, request_id)))
        ]

    def _headers(self, message: dict[str, Any]) -> dict[str, str]:
        made = make_message_headers(message, self._version, self._session_id)
        return {**self._server.headers, **made, "accept-encoding": "identity"}

    def _request(self, method: str, body: bytes, headers: Mapping[str, Any]) -> HTTPResponse:
        """Send a request once; never repeated, because a broken call may have had its effect."""
        if self._connection and self._connection.sock and _is_readable(self._connection.sock):
            self.close_connection()  # the server has closed the connection meanwhile
        connection = self._connection = self._connection or self._make_connection()
        if connection.sock is None:
            connection.sock = self._connect(connection.port)
        self._socket = connection.sock
        self._socket.end = self._end
        try:
            connection.request(method, self._path, body, headers)
        except ValueError:
            text = f'Server "{self._server.name}": its headers contain characters that HTTP does not allow.'
            raise ConfigError(text, "Use ASCII characters without line breaks.", path=self._server.source) from None
        self._response = connection.getresponse()
        return self._response

    def _make_connection(self) -> HTTPConnection:
        kind = HTTPSConnection if self._server.url.startswith("https:") else HTTPConnection
        return kind(self._host, self._port)

    def _connect(self, port: int) -> TimedSocket:
        """Connect to the first address that accepts, and check it before anything is sent."""
        end = min(self._end, time.monotonic() + _CONNECT_S)
        entries = look_up(self._host, port, _left_s(end))
        for number, (family, kind, protocol, _, address) in enumerate(entries, 1 - len(entries)):
            connection = socket.socket(family, kind, protocol)
            try:
                # each address that is left gets an equal share of the time
                connection.settimeout(_left_s(end) / (1 - number))
                connection.connect(address)
                check_peer(self._server, str(connection.getpeername()[0]), self._is_public)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(_left_s(end))
                return TimedSocket(self._encrypt(connection), self._end)
            except (OSError, ChatError) as error:
                connection.close()
                if isinstance(error, ChatError) or number == 0:
                    raise
        raise OSError("it has no address")

    def _encrypt(self, connection: socket.socket) -> socket.socket:
        if not self._server.url.startswith("https:"):
            return connection
        import ssl

        return ssl.create_default_context().wrap_socket(connection, server_hostname=self._host)

    def _decoder(self, response: HTTPResponse) -> BodyDecoder:
        return BodyDecoder(response.headers.get("content-encoding", ""), self._max_bytes, self._unusable_error)

    def _read(self, response: HTTPResponse) -> BoundedBytes:
        decoder, reads_on = self._decoder(response), True
        while reads_on and (chunk := response.read1(CHUNK_BYTES)):
            reads_on = decoder.add(chunk)
        if not reads_on:
            self.close_connection()
        elif response.length:
            raise OSError("it closed the connection before the response was complete")
        decoder.end()
        response.close()
        return decoder.body

    def _discard(self, response: HTTPResponse) -> None:
        """Discard the response to a message that needs none, without waiting for a stream."""
        if response.headers.get_content_type() == "text/event-stream":
            self.close_connection()
        else:
            self._read(response)

    def _read_stream(self, response: HTTPResponse, dialog: Dialog) -> None:
        """Read the events of a stream up to the answer, also if the stream has to be resumed for that."""
        parser, failures = EventParser(self._max_bytes), 0
        stream: HTTPResponse | None = response
        while True:
            if stream:
                failures = 0
                self._read_events(stream, parser, dialog)
            else:
                failures += 1
            self.close_connection()
            wait_s = resume_wait_s(parser, failures)
            if dialog.response is not None or wait_s is None or self._version == STATELESS_VERSION:
                return
            _left_s(self._end - wait_s)
            time.sleep(wait_s)
            parser.restart()
            stream = self._resume(parser.last_id)

    def _read_events(self, response: HTTPResponse, parser: EventParser, dialog: Dialog) -> None:
        """Read the events of a response up to the answer; requests of the server are answered first.

        A response that breaks off ends like one that is complete if it can be resumed.
        """
        try:
            for data in self._events(response, parser):
                replies = self._receive_text(data, dialog, self._request_id)
                self._extend(dialog.progress_count)
                for reply in replies:
                    self._send_reply(reply)
                if dialog.response is not None:
                    return
        except TimeoutError:
            raise
        except (OSError, HTTPException):
            if not parser.last_id:
                raise

    def _resume(self, last_id: bytes) -> HTTPResponse | None:
        """Request the rest of a stream after an event; None if the server does not give it."""
        made = make_stream_headers(self._version, self._session_id, last_id)
        headers: dict[str, Any] = {**self._server.headers, **made, "accept-encoding": "identity"}
        try:
            response = self._request("GET", b"", headers)
        except TimeoutError:
            raise
        except (OSError, HTTPException):
            return None
        is_stream = response.status == 200 and response.headers.get_content_type() == "text/event-stream"
        return response if is_stream else None

    def _send_reply(self, reply: dict[str, Any]) -> None:
        """Send a reply on another connection: the server may wait for it before it goes on with the stream."""
        # a reply that waited for the end of the stream made the call run into its limit: the server waited for it
        stream = self._connection, self._response, self._socket
        self._connection = self._response = None
        try:
            self._discard(self._request("POST", self.session.send(reply), self._headers(reply)))
        finally:
            self.close_connection()
            self._connection, self._response, self._socket = stream

    def _extend(self, progress_count: int) -> None:
        """Extend the deadline if there was progress, also for the connection that is being read."""
        if progress_count != self._progress:
            self._progress = progress_count
            self._deadline.extend(time.monotonic())
            self._end = self._socket.end = self._deadline.end

    def _events(self, response: HTTPResponse, parser: EventParser) -> Iterator[str | CutText]:
        """Yield the data of the messages in a stream of events."""
        decoder = self._decoder(response)
        while chunk := response.read1(CHUNK_BYTES):
            yield from (data for name, data in decoder.parse(chunk, parser) if name == "message" and data)

    def _values(self, text: str) -> list[Any]:
        try:
            return parse_values(text.strip())
        except ValueError as error:
            raise self._unusable_error(str(error)) from None

    def _unusable_error(self, reason: str) -> ProtocolError:
        return ProtocolError(f"{self._name} sent an unusable response: {reason}.", server=self._server.name)

    def _handle_status(self, response: HTTPResponse, message: dict[str, Any], dialog: Dialog, phase: str) -> None:
        """Handle a status of 300 or more: an answer in the body, a case for the other client, a retry, or an error."""
        status, how = response.status, f"HTTP {response.status} {response.reason}".strip()
        body = self._read(response)
        said = quote_error_body(body.content)
        if status not in (401, 403):
            self._check_session(status, body.content, phase)
        with contextlib.suppress(ProtocolError):
            self._receive_body(body, dialog, message.get("id") if "method" in message else None)
        details = {**self._details(phase), "status": status}
        if status == 401 and not self._has_answered and not self._has_token and has_logins():
            raise UnsupportedByDirectClient  # a stored login may be for this server
        if status in (401, 403):
            raise self._explain_refusal(response, f"{how}: {said}" if said else how, details)
        if dialog.response is not None:
            return
        if not self._has_answered and (status < 400 or (status in _REJECTING_STATUSES and not self._server.transport)):
            raise UnsupportedByDirectClient
        if not self._has_waited and (wait_s := retry_wait_s(status, response.headers.get("retry-after", ""))):
            self._has_waited = True
            _left_s(self._end - wait_s)
            time.sleep(wait_s)
            # sent again before later messages: `notifications/initialized` must precede the first request
            self._unsent.insert(0, (message, self.session.send(message)))
            return
        text = f"{self._name} answered {how}{f': {said}' if said else ''}"
        raise ConnectError(f"{text.rstrip('.')}.", hint_for_status(status), **details)

    def _explain_refusal(self, response: HTTPResponse, how: str, details: dict[str, Any]) -> AuthError:
        challenge = response.headers.get("www-authenticate", "")[:500]
        if self._has_token:
            text = f"{self._name} rejects the token in its headers ({how})."
            hint = "Check that it is the right one and still valid."
        elif response.status == 403:
            text, hint = f"{self._name} denies access ({how}).", "It may require a token in its headers."
        else:
            source = self._server.source or "the configuration"
            text = f"{self._name} requires a login ({how})."
            hint = f'Give it headers = {{ Authorization = "Bearer ${{TOKEN}}" }} in {source}, and set TOKEN;'
            hint += f" or log in once with rkllm-chat mcp auth {self._server.name}."
        return AuthError(text, hint, challenge=challenge, **details)

    def close_connection(self) -> None:
        """Close the connection, which also cancels the request at the server (MCP 2026-07-28)."""
        for part in (self._response, self._connection):
            if part:
                part.close()
        self._response = self._connection = None

    def close(self, is_patient: bool = True) -> None:
        """End the session with a DELETE, waiting at most 1 s, and close the connection."""
        if self._response and not self._response.isclosed():
            self.close_connection()  # its rest will not be read
        if self._session_id and is_patient:
            with contextlib.suppress(OSError, HTTPException):
                self._end = time.monotonic() + _DELETE_S
                self._request("DELETE", b"", self._headers({}))
        self._session_id = ""
        self.close_connection()


class TimedSocket:
    """The part of a socket that `http.client` uses, with a deadline for everything together.

    A timeout of a socket limits each read: a server that sends one byte now and then would never exceed it.

    Attributes:
        end: The deadline on the monotonic clock.
    """

    def __init__(self, connection: socket.socket, end: float) -> None:
        self.end = end
        self._connection = connection
        self.fileno, self.close = connection.fileno, connection.close

    def limit_wait(self) -> None:
        """Limit the next read or write to the time left. Raises TimeoutError if there is none."""
        self._connection.settimeout(_left_s(self.end))

    def sendall(self, data: bytes) -> None:
        """Send all data."""
        self.limit_wait()
        self._connection.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a file that reads from the connection; the connection stays open until it is closed, too."""
        return io.BufferedReader(_TimedReader(self, self._connection.makefile("rb", buffering=0)))


class _TimedReader(io.RawIOBase):
    def __init__(self, timed: TimedSocket, file: io.RawIOBase) -> None:
        self._timed, self._file = timed, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._timed.limit_wait()
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def _left_s(end: float) -> float:
    """Return the time left. Raises TimeoutError if there is none."""
    if (left := end - time.monotonic()) <= 0:
        raise TimeoutError
    return left


def _is_readable(connection: socket.socket | TimedSocket) -> bool:
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(0))
