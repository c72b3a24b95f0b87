"""Sends the HTTP requests of a transport: what may leave, how much may come back, and what went wrong in words.

No redirect to another origin is followed (the SDK's rule, kept), TLS is always verified, and nothing is read beyond
LONGEST bytes after decoding. It knows JSON-RPC only so far as to tell requests from the rest.
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import httpx2

from ..config import ServerConfig
from ..errors import ChatError
from .addresses import is_loopback, judge_peer
from .lines import LONGEST, MB

if TYPE_CHECKING:
    from .login import Login

CONNECT_S = 10.0
WRITE_S = 30.0
SPARE_S = 10.0
DELETE_S = 1.0
PATIENCE_S = 10.0
TOLD_S = 10.0
MOST_STREAMS, STREAMS_S = 10, 10.0
PIECE = 1 << 16
GZIP_OR_ZLIB = 47
TURNED_AWAY = (400, 404, 405, 406, 410, 415, 501)
UNTOLD = ("content-encoding", "content-length", "transfer-encoding")


class UnreadableError(httpx2.SSEError):
    """More came than is read, or what cannot be decoded. The SDK takes an SSEError for the end of one call (2.3.0)."""


class Watcher(Protocol):
    """Whoever wants to know how requests fare."""

    kind: str
    problem: str
    challenge: str

    def note_broken(self, reason: str) -> None:
        """The server cannot be reached, or has forgotten this client."""

    def note_turned_away(self) -> None:
        """A POST was answered as by a server that does not know of them."""


class Caller(httpx2.AsyncClient):
    """An HTTP client for one server; its headers go to that server's origin alone. `is_out`: see `judge_peer`."""

    def __init__(
        self, server: ServerConfig, watcher: Watcher, login: Login | None = None, is_out: bool = False
    ) -> None:
        read_s = max(server.timeout_s, server.connect_s) + SPARE_S
        super().__init__(
            headers={**server.headers, "accept-encoding": "gzip"},
            timeout=httpx2.Timeout(CONNECT_S, read=read_s, write=WRITE_S),
            follow_redirects=False,
            verify=httpx2.create_ssl_context(),
            trust_env=not is_loopback(server.url),  # which is its proxies
        )
        self._server, self._is_out = server, is_out
        self._watcher, self._login = watcher, login
        self._streams: deque[float] = deque(maxlen=MOST_STREAMS)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Sends it, and again to where it is redirected on the same origin, with the same method (307, 308)."""
        set_patience(request)
        response = await self._send_once(request, options)
        for _ in range(self.max_redirects):
            following = response.next_request
            if (
                following is None
                or following.method != request.method
                or not has_same_origin(following.url, request.url)
            ):
                break
            await response.aclose()
            response = await self._send_once(following, options)
        return response

    async def _send_once(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        options = {**options, "stream": True, "follow_redirects": False}
        match request.method:
            case "DELETE":
                return await self._say_goodbye(request, options)
            case "GET":
                await self._pace()
                return await self._send_known(request, options)
        try:
            response = await self._send_known(request, options)
            if wait_s := read_patience(response):
                await anyio.sleep(wait_s)
                response = await self._send_known(request, options)
            return response
        except ChatError as error:
            self._watcher.problem = error.message
            return answer_instead(request, error.message, begin="")
        except httpx2.ReadTimeout:
            return answer_instead(request, "no answer came")
        except httpx2.TransportError as error:
            reason = str(error) or type(error).__name__
            self._watcher.note_broken(f"cannot be reached: {reason}")
            return answer_instead(request, reason)

    async def _send_known(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Sends it with a login, if there is one; a person is asked for one only by what somebody waits for."""
        send = partial(self._send_judged, options=options)
        if self._login is None:
            return await send(request)
        return await self._login.send(request, send, request.method != "GET" or self._watcher.kind == "sse")

    async def _send_judged(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        if self._login:
            self._watcher.problem = ""  # a 401 that a login has mended
        request.extensions["trace"] = self._look_at_peer
        return await self._judge(await super().send(request, **options))

    async def _look_at_peer(self, event: str, info: Mapping[str, Any]) -> None:
        """Each new connection, before anything is sent on it (httpx, Extensions, "trace")."""
        if event == "connection.connect_tcp.complete":
            stream = info["return_value"]
            try:
                judge_peer(self._server, str(stream.get_extra_info("server_addr")[0]), self._is_out)
            except ChatError:
                await stream.aclose()
                raise

    async def _say_goodbye(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """The end of a session is told, and not waited for."""
        with anyio.move_on_after(DELETE_S):
            try:
                if self._login:
                    self._login.put_token(request)
                return await self._send_judged(request, options)
            except (httpx2.HTTPError, ChatError):
                pass
        return httpx2.Response(204, request=request)

    async def _pace(self) -> None:
        """A server that ends its event streams at once is not asked for the next at once (python-sdk #3257)."""
        if len(self._streams) == MOST_STREAMS:
            await anyio.sleep(max(0.0, self._streams[0] + STREAMS_S - time.monotonic()))
        self._streams.append(time.monotonic())

    async def _judge(self, response: httpx2.Response) -> httpx2.Response:
        """The response with a body that is bounded, and what its status says noted."""
        body = Body(response)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.is_success and kind == "text/event-stream":
            self._watcher.problem = ""
            return remake(response, stream=body)
        try:
            content = await body.read_all()
        except UnreadableError as error:
            return answer_instead(response.request, str(error))
        finally:
            await response.aclose()
        if response.is_success:
            self._watcher.problem = ""
            return remake(response, content=content)
        return self._note_status(remake(response, content=content))

    def _note_status(self, response: httpx2.Response) -> httpx2.Response:
        request, status = response.request, response.status_code
        self._watcher.problem = f"HTTP {status} {response.reason_phrase}".strip()
        self._watcher.challenge = response.headers.get("www-authenticate", "")
        if status == 404 and "mcp-session-id" in request.headers:
            self._watcher.note_broken("has forgotten the session")
        elif request.method == "POST" and status in TURNED_AWAY and not holds_error(response.content):
            self._watcher.note_turned_away()
        return response


class Body(httpx2.AsyncByteStream):
    """A response's bytes, decoded piece by piece: a small one cannot become a large one at once."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._encoding = response.headers.get("content-encoding", "identity").strip().lower()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding not in ("identity", "gzip", "x-gzip", "deflate", ""):
            raise UnreadableError(f"it is encoded as {self._encoding}, which was not asked for")
        inflate = None if self._encoding in ("identity", "") else zlib.decompressobj(GZIP_OR_ZLIB)
        async for chunk in self._response.aiter_raw():
            if inflate is None:
                yield chunk
                continue
            while chunk:
                try:
                    piece = inflate.decompress(chunk, PIECE)
                except zlib.error as error:
                    raise UnreadableError(f"it is no {self._encoding}: {error}") from error
                chunk = inflate.unconsumed_tail
                if piece:
                    yield piece

    async def read_all(self) -> bytes:
        """Raises UnreadableError beyond LONGEST."""
        content = bytearray()
        async for piece in self:
            content += piece
            if len(content) > LONGEST:
                raise UnreadableError(f"result too large, limit {LONGEST // MB} MB")
        return bytes(content)

    async def aclose(self) -> None:
        await self._response.aclose()


def remake(response: httpx2.Response, **body: Any) -> httpx2.Response:
    """The response with another body, which is decoded."""
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in UNTOLD]
    made = httpx2.Response(
        response.status_code,
        headers=headers,
        request=response.request,
        extensions=response.extensions,
        **body,
    )
    made.next_request = response.next_request
    return made


def holds_error(content: bytes) -> bool:
    """Whether a body is a JSON-RPC message, so that whoever sent it speaks the protocol."""
    try:
        return "jsonrpc" in json.loads(content)
    except (ValueError, TypeError, RecursionError):
        return False


def set_patience(request: httpx2.Request) -> None:
    """How long the server may be silent: for ever in a stream of events, not for long where no answer is expected.

    The SDK sends nothing else before a notification is taken (2.3.0).
    """
    if request.method == "GET" or not expects_answer(request):
        read_s = None if request.method == "GET" else TOLD_S
        request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "read": read_s}


def expects_answer(request: httpx2.Request) -> bool:
    """Whether a POST carries a JSON-RPC request, and not a notification or an answer."""
    try:
        message = json.loads(request.content)
    except ValueError:
        return False
    return "method" in message and "id" in message


def read_patience(response: httpx2.Response) -> float:
    """How long a server that is too busy (429) asks to wait, if it says so and it is not for long; else 0."""
    said = response.headers.get("retry-after", "")
    wait_s = float(said) if said.isdecimal() else math.inf
    return wait_s if response.status_code == 429 and wait_s <= PATIENCE_S else 0.0


def answer_instead(request: httpx2.Request, reason: str, begin: str = "The answer cannot be used: ") -> httpx2.Response:
    """What the SDK takes for this request's error; any other trouble ends its whole client."""
    error = {"code": -32603, "message": f"{begin}{reason}"}
    return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)


def has_same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)
