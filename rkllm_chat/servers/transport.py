"""What every transport is: entering it gives a read and a write stream. It says how it fared, and reaches nothing."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage
from typing_extensions import Self

from ..config import ServerConfig
from ..redact import Redactor
from .exchange import Exchange
from .serverlog import ServerLog

if TYPE_CHECKING:
    from .login import Login
    from .sandbox import Sandbox

log = logging.getLogger(__name__)

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Streams = tuple[Incoming, "Outgoing"]


class Transport(AbstractAsyncContextManager[Streams], ABC):
    """Enter it and leave it once, in any task. The read stream's end is the connection's end.

    `mode` is how `mcp.Client` is to begin, `kind` the row of TRANSPORTS that it is, once that is known. `ended` says
    why the connection ended, in words that follow "it" ("exited with 3"); `exit_code` is the process's, negative for a
    signal. `problem` is what the last HTTP answer had below the protocol ("HTTP 401 Unauthorized"), `challenge` its
    WWW-Authenticate. All are empty while there is nothing to tell. `login` is used by those that speak HTTP, `sandbox`
    by those that start a process, which may read `roots`. What is in `secrets` comes into no log.
    """

    def __init__(self, server: ServerConfig, log: Path) -> None:
        self.server = server
        self.mode: Literal["auto", "legacy"] = "auto"
        self.kind = ""
        self.ended = ""
        self.exit_code: int | None = None
        self.problem = ""
        self.challenge = ""
        self.login: Login | None = None
        self.sandbox: Sandbox | None = None
        self.roots: tuple[str, ...] = ()
        self.secrets = Redactor(server)
        self._log_path = log

    @property
    def said(self) -> bytes:
        """The last that the server wrote to its standard error."""
        return self._log.said

    def explain_denial(self, text: str) -> str:  # noqa: ARG002 - what is reached over a network has no sandbox of ours
        """Whether the sandbox is why the server complains, in a sentence that says what allows it; else ""."""
        return ""

    def write_log(self, line: str) -> None:
        """Adds a line to the server's own log file."""
        self._log.write(f"{line}\n".encode(errors="replace"))

    async def __aenter__(self) -> Streams:
        self._log = ServerLog(self._log_path, self.secrets)
        if self._log.trouble:
            log.warning("The log of a server cannot be written: %s", self._log.trouble)
        self._exchange = Exchange(self._log, self._put)
        try:
            await self._open()
        except BaseException:
            await self._finish()
            raise
        return self._exchange.incoming, Outgoing(self._exchange)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._finish()

    async def _finish(self) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await uninterrupted(self._close())
        finally:
            self._exchange.close()
            self._log.close()

    def _end(self, reason: str) -> None:
        """The connection is over; the first reason counts."""
        self.ended = self.ended or reason
        self._log.finish()
        self._exchange.end()

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _close(self) -> None:
        """Ends everything that was begun, were it only in part, within a few seconds."""

    @abstractmethod
    def _put(self, message: SessionMessage, text: str) -> None:
        """Sends a message, of which `text` is the JSON, or keeps it to be sent; does not wait."""


class Outgoing:
    """What the session writes to. It does not wait: what cannot be written yet is kept."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._is_closed = False

    async def send(self, item: SessionMessage, /) -> None:
        if self._is_closed:
            raise anyio.ClosedResourceError
        self._exchange.send(item)
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self._is_closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed = True


async def uninterrupted(work: Coroutine[Any, Any, None]) -> None:
    """Waits for something to be done however often this task is cancelled meanwhile; passes the cancellation on."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled:
        raise cancelled
