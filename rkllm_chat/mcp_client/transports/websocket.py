"""Transport over WebSocket: one JSON-RPC message per text frame, subprotocol "mcp".

The MCP specification has no such transport; this is what its SDKs implemented before 2026. A call is cancelled by
`notifications/cancelled`, as over stdio. The websockets library implements framing, limits and keep-alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from ...config.servers import ServerConfig
from ...core.errors import ConnectError
from ..error_messages import describe_connect_error
from ..protocol.framing import BoundedBytes, CutText
from ..protocol.limits import MB
from .addresses import check_headers, check_peer, check_url, is_loopback, redact_url
from .base import Transport

_SUBPROTOCOL = "mcp"
_OPEN_S = 10.0
_PING_S = 20.0
_CLOSE_S = 1.0
_MAX_FRAME_BYTES = 16 * MB
"""Size of a message that is received, to be cut to the limit: the library keeps a whole frame of it in memory."""
_LOCAL_CLOSE_REASONS = {
    1000: "was closed",
    1002: "broke the rules of WebSocket",
    1009: "sent a message of more than {} MB",
    1011: f"did not answer a ping within {_PING_S:g} s",
}


class ConnectWithoutRedirect(connect):
    """A connection that follows no redirect, because its headers are for the configured server."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Refuse every redirect."""
        return exc


class CheckedConnection(ClientConnection):
    """A connection that checks the peer's address before the handshake."""

    def __init__(self, check: Callable[[str], None], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._check_peer = check

    async def handshake(self, *arguments: Any, **options: Any) -> None:
        """Check the peer's address, then perform the handshake."""
        self._check_peer(str(self.remote_address[0]))
        await super().handshake(*arguments, **options)


class WebSocketTransport(Transport):
    """Raises ConnectError on entering if the server is unreachable or does not support the subprotocol."""

    def __init__(self, server: ServerConfig, log: Path) -> None:
        super().__init__(server, log)
        self.kind = "websocket"
        self._unsent: asyncio.Queue[str] = asyncio.Queue()
        self._connection: ClientConnection | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def _open(self) -> None:
        check_headers(self.server)
        is_public = await check_url(self.server)
        try:
            connection = self._connection = await self._connect(is_public)
        except (OSError, WebSocketException, asyncio.TimeoutError) as error:
            if isinstance(error, InvalidStatus):
                self._note_status(error)
            raise self._refuse(f"cannot be opened: {describe_connect_error(error)}") from error
        if connection.subprotocol != _SUBPROTOCOL:
            raise self._refuse(f'does not support the subprotocol "{_SUBPROTOCOL}"')
        self._tasks = [asyncio.create_task(work(connection)) for work in (self._read, self._write)]

    def _refuse(self, reason: str) -> ConnectError:
        url = redact_url(self.server.url)
        return ConnectError(f'Server "{self.server.name}": {url} {reason}.', server=self.server.name, url=url)

    async def _connect(self, is_public: bool) -> ClientConnection:
        check = partial(check_peer, self.server, is_public_name=is_public)
        return await ConnectWithoutRedirect(
            self.server.url,
            subprotocols=[Subprotocol(_SUBPROTOCOL)],
            additional_headers=dict(self.server.headers),
            proxy=None if is_loopback(self.server.url) else True,
            create_connection=cast("type[ClientConnection]", partial(CheckedConnection, check)),
            compression=None,  # a small frame could inflate to the limit, for which the library holds twice as much
            max_size=max(self.max_bytes, _MAX_FRAME_BYTES),
            open_timeout=_OPEN_S,
            ping_interval=_PING_S,
            ping_timeout=_PING_S,
            close_timeout=_CLOSE_S,
            logger=logging.getLogger("rkllm_chat.websockets"),
        )

    def _note_status(self, error: InvalidStatus) -> None:
        response = error.response
        self.problem = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        self.challenge = response.headers.get("WWW-Authenticate", "")

    async def _read(self, connection: ClientConnection) -> None:
        reason = "cannot be read"
        try:
            while True:
                message = BoundedBytes(self.max_bytes)
                async for part in connection.recv_streaming(decode=False):
                    message.add(part)
                session = self._driver.session
                if message.discarded and isinstance(cut := message.take_text(), CutText):
                    self._driver.deliver(session.receive_cut(cut))
                else:
                    self._driver.deliver(session.receive_line(message.content))
        except ConnectionClosed as error:
            reason = _describe_close(error).format(max(self.max_bytes, _MAX_FRAME_BYTES) // MB)
        finally:
            self._end(reason)

    async def _write(self, connection: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await connection.send(await self._unsent.get())

    def _put(self, message: dict[str, Any], text: bytes) -> None:  # noqa: ARG002 - only the text is sent
        # sending waits for a server that reads slowly, which this must not
        self._unsent.put_nowait(text.decode())

    async def _close(self) -> None:
        if self._connection:
            # a server that answers no closing frame is not waited for
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._connection.close(), 2 * _CLOSE_S)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_S)


def _describe_close(error: ConnectionClosed) -> str:
    """Return why the connection ended, as words that follow "it"."""
    if error.sent and not error.rcvd_then_sent:
        return _LOCAL_CLOSE_REASONS.get(error.sent.code, f"was closed with {error.sent.code}")
    if error.rcvd is None:
        return "closed the connection without a closing frame"
    return f"closed the connection with {error.rcvd.code} {error.rcvd.reason}".strip()
