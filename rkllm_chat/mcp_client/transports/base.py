"""Base class of transports: context managers that yield the `Driver` of their connection."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import anyio

from ...config.secrets import make_redactor
from ...config.servers import ServerConfig
from ...core.thread_end import wait_for_end
from ..protocol.limits import MAX_MESSAGE_BYTES
from ..timing import PausableDeadlines
from .driver import Driver
from .server_log import ServerLog

if TYPE_CHECKING:
    from ..auth.login import Login
    from ..process.denials import Denial
    from ..process.start import Sandbox

log = logging.getLogger(__name__)


class Transport(AbstractAsyncContextManager[Driver], ABC):
    """A connection to one server. Enter and leave it once, in any task.

    Attributes:
        server: The server's configuration.
        mode: How to begin: "auto", or "legacy" with the handshake of MCP 2025-11-25 and before.
        kind: Its name in TRANSPORTS, once it is known.
        end_reason: Why the connection ended, as words that follow "it" ("exited with 3"); "" before.
        exit_code: Exit code of the process, negative for a signal; None if there is none.
        problem: Problem of the last HTTP response ("HTTP 401 Unauthorized"), or "".
        status: The status of that response; 0 if there was none.
        challenge: The WWW-Authenticate header of that response, or "".
        login: The OAuth login, used by HTTP transports; None while there is no token and no server has asked for one.
        load_login: Makes it. Takes a second, and is called in a thread; None if there is no login.
        sandbox: The sandbox of the process, set by transports that start one.
        roots: Folders that the process may read.
        max_bytes: Limit of a message from the server.
        is_ready: Whether the server has answered all that its start needs.
        secrets: Masks secrets in the server's log.
        deadlines: Limit requests; they pause while the user logs in.
        has_ended: Set when all that came was delivered and nothing more will.
    """

    def __init__(self, server: ServerConfig, log: Path) -> None:
        self.server = server
        self.mode: Literal["auto", "legacy"] = "auto"
        self.kind = ""
        self.end_reason = ""
        self.exit_code: int | None = None
        self.problem = ""
        self.status = 0
        self.challenge = ""
        self.login: Login | None = None
        self.load_login: Callable[[], Login] | None = None
        self.sandbox: Sandbox | None = None
        self.roots: tuple[str, ...] = ()
        self.max_bytes = MAX_MESSAGE_BYTES
        self.is_ready = False
        self.secrets = make_redactor(server)
        self.deadlines = PausableDeadlines()
        self.has_ended = asyncio.Event()
        self._log_path = log
        self._is_entered = False

    @property
    def stderr_tail(self) -> str:
        """The last part of the server's standard error."""
        return self._log.stderr_tail.decode("utf-8", errors="replace") if self._is_entered else ""

    @property
    def sent_methods(self) -> set[str]:
        """Methods of the requests that were sent."""
        return self._driver.sent_methods if self._is_entered else set()

    @property
    def has_session(self) -> bool:
        """Whether the server keeps a session that it may lose while the connection goes on."""
        return False

    def find_denial(self, text: str, arguments: Mapping[str, object], is_error: bool) -> Denial | None:  # noqa: ARG002
        """Return what the sandbox denied the server; None if it was not that, or without a sandbox, as at a URL."""
        return None

    def find_fatal_denial(self) -> Denial | None:
        """Return what the sandbox denied the server so that it ended; None if it was not that."""
        return None

    def write_log(self, line: str) -> None:
        """Append a line to the server's own log file."""
        if self._is_entered:
            self._log.write(f"{line}\n".encode(errors="replace"))

    def mark_ready(self) -> None:
        """Record that the server has answered all that its start needs."""
        self.is_ready = True

    async def __aenter__(self) -> Driver:
        self._log, self._is_entered = ServerLog(self._log_path, self.secrets), True
        if self._log.open_error:
            log.warning("The log of a server cannot be written: %s", self._log.open_error)
        self._driver = Driver(self._log, self._put, self.max_bytes, self.has_ended, self.deadlines)
        try:
            await self._open()
        # also after a cancellation: nothing else ends what `_open` has started
        except BaseException:
            await self._finish()
            raise
        return self._driver

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._finish()

    async def _finish(self) -> None:
        try:
            # a cancelled scope of anyio around the caller would cancel each wait of the closing again, in a busy loop
            with anyio.CancelScope(shield=True):
                await run_uninterrupted(self._close())
        finally:
            self._driver.end()
            self._log.close()

    def note_broken(self, reason: str) -> None:
        """End the connection, for a reason as words that follow "it"."""
        self._end(reason)

    def _end(self, reason: str) -> None:
        """Mark the connection as ended; the first reason counts."""
        self.end_reason = self.end_reason or reason
        self._log.finish()
        self._driver.end()

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _close(self) -> None:
        """Release everything that `_open` acquired, even in part, within a few seconds."""

    @abstractmethod
    def _put(self, message: dict[str, Any], text: bytes) -> None:
        """Send or queue a message without waiting; `text` is its JSON."""


async def run_uninterrupted(work: Coroutine[Any, Any, None]) -> None:
    """Await `work` to its end even if this task is cancelled meanwhile; then raise the cancellation."""
    task = asyncio.ensure_future(work)
    try:
        await wait_for_end(task)
    finally:
        task.result()
