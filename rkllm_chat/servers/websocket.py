"""Servers over WebSocket: one JSON-RPC message in each text frame, under the subprotocol "mcp".

The protocol's specification has no such transport; this is what its SDKs spoke before 2026. A call is cancelled by
`notifications/cancelled`, as over stdio. Framing, limits and keep-alive are the websockets library's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from mcp.shared.message import SessionMessage
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from ..config import ServerConfig
from ..errors import ConnectError
from .addresses import check_address, check_headers, is_loopback, judge_peer, show_url
from .lines import LONGEST, MB
from .transport import Transport

SUBPROTOCOL = "mcp"
OPEN_S = 10.0
PING_S = 20.0
CLOSE_S = 1.0
OUR_REASONS = {
    1000: "was closed",
    1009: f"sent a message of more than {LONGEST // MB} MB",
    1011: f"did not answer a ping within {PING_S:g} s",
}


class NoRedirect(connect):
    """A connection that goes where it was told to: its headers are for that server."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Judged(ClientConnection):
    """A connection whose other end is looked at before anything is said."""

    def __init__(self, judge: Callable[[str], None], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._judge = judge

    async def handshake(self, *arguments: Any, **options: Any) -> None:
        self._judge(str(self.remote_address[0]))
        await super().handshake(*arguments, **options)


class WebSocket(Transport):
    """Raises ConnectError if the server cannot be reached or does not speak the subprotocol."""

    def __init__(self, server: ServerConfig, log: Path) -> None:
        super().__init__(server, log)
        self.kind = "websocket"
        self._unsent: asyncio.Queue[str] = asyncio.Queue()
        self._connection: ClientConnection | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def _open(self) -> None:
        check_headers(self.server)
        is_out = await check_address(self.server)
        try:
            connection = self._connection = await self._connect(is_out)
        except (OSError, WebSocketException, asyncio.TimeoutError) as error:
            if isinstance(error, InvalidStatus):
                self._note_status(error)
            raise self._refuse(f"cannot be opened: {error}") from error
        if connection.subprotocol != SUBPROTOCOL:
            raise self._refuse(f'does not speak the subprotocol "{SUBPROTOCOL}"')
        self._tasks = [asyncio.create_task(work(connection)) for work in (self._read, self._write)]

    def _refuse(self, reason: str) -> ConnectError:
        url = show_url(self.server.url)
        return ConnectError(f'Server "{self.server.name}": {url} {reason}.', server=self.server.name, url=url)

    async def _connect(self, is_out: bool) -> ClientConnection:
        judge = partial(judge_peer, self.server, is_out=is_out)
        return await NoRedirect(
            self.server.url,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            additional_headers=dict(self.server.headers),
            proxy=None if is_loopback(self.server.url) else True,
            create_connection=cast("type[ClientConnection]", partial(Judged, judge)),
            max_size=LONGEST,
            open_timeout=OPEN_S,
            ping_interval=PING_S,
            ping_timeout=PING_S,
            close_timeout=CLOSE_S,
            logger=logging.getLogger("rkllm_chat.websockets"),
        )

    def _note_status(self, error: InvalidStatus) -> None:
        response = error.response
        self.problem = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        self.challenge = response.headers.get("WWW-Authenticate", "")

    async def _read(self, connection: ClientConnection) -> None:
        reason = "cannot be read from"
        try:
            while True:
                self._exchange.take_line(await connection.recv(decode=False))
        except ConnectionClosed as error:
            reason = describe_close(error)
        finally:
            self._end(reason)

    async def _write(self, connection: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await connection.send(await self._unsent.get())

    def _put(self, message: SessionMessage, text: str) -> None:  # noqa: ARG002 - the text is all there is
        self._unsent.put_nowait(text)

    async def _close(self) -> None:
        if self._connection:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._connection.close(), 2 * CLOSE_S)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_S)


def describe_close(error: ConnectionClosed) -> str:
    """Why the connection ended, in words that follow "it"."""
    if error.sent and not error.rcvd_then_sent:
        return OUR_REASONS.get(error.sent.code, f"was left with {error.sent.code}")
    if error.rcvd is None:
        return "broke off the connection"
    return f"closed the connection with {error.rcvd.code} {error.rcvd.reason}".strip()
