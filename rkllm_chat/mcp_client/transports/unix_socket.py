"""Transport to a server that listens on a Unix socket, `unix:///run/notes.sock`: one JSON-RPC message per line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ...config.servers import ServerConfig
from ...core.errors import ConnectError
from ..error_messages import describe_connect_error
from ..protocol.limits import MAX_DISCARDED_BYTES, MB
from .base import Transport

_OPEN_S = 10.0
_READ_SIZE = 1 << 18
_MAX_UNWRITTEN_BYTES = 32 * MB


class UnixSocketTransport(Transport):
    """Raises ConnectError on entering if nothing listens there."""

    def __init__(self, server: ServerConfig, log: Path) -> None:
        super().__init__(server, log)
        self.kind = "unix"
        self._work: asyncio.Task[None] | None = None

    async def _open(self) -> None:
        path = unquote(urlsplit(self.server.url).path)
        try:
            opened = await asyncio.wait_for(asyncio.open_unix_connection(path), _OPEN_S)
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            text = f'Server "{self.server.name}": {path} cannot be opened: {describe_connect_error(error)}.'
            raise ConnectError(text, "Check that the server runs.", server=self.server.name) from error
        self._writer = opened[1]
        self._work = asyncio.create_task(self._read(opened[0]))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        session, reason = self._driver.session, "closed the connection"
        try:
            while data := await reader.read(_READ_SIZE):
                self._driver.deliver(session.receive_bytes(data))
                if session.discarded > MAX_DISCARDED_BYTES:
                    self._driver.deliver(session.receive_unfinished())
                    reason = f"sent more than {MAX_DISCARDED_BYTES // MB} MB on one line"
                    break
        except OSError as error:
            reason = f"cannot be read: {describe_connect_error(error)}"
        finally:
            self._end(reason)

    def _put(self, message: dict[str, Any], text: bytes) -> None:  # noqa: ARG002 - only the text is sent
        self._writer.write(text + b"\n")
        if self._writer.transport.get_write_buffer_size() > _MAX_UNWRITTEN_BYTES:
            self._end("does not read its input")

    async def _close(self) -> None:
        if self._work:
            self._work.cancel()
            self._writer.close()
            await asyncio.wait([self._work], timeout=_OPEN_S)
