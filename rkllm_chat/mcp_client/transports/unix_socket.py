"""Transport to a server that listens on a Unix socket, `unix:///run/notes.sock`: one JSON-RPC message per line."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import struct
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ...config.oauth import OAuth
from ...config.servers import ServerConfig
from ...core.errors import ConfigError, ConnectError
from ..error_messages import describe_connect_error
from ..protocol.limits import MAX_DISCARDED_BYTES, MB
from .base import Transport

_OPEN_S = 10.0
_READ_SIZE = 1 << 18
_MAX_UNWRITTEN_BYTES = 32 * MB


class UnixSocketTransport(Transport):
    """Raises ChatError on entering if nothing listens there, or another user, or if the configuration does not fit."""

    def __init__(self, server: ServerConfig, log: Path) -> None:
        super().__init__(server, log)
        self.kind = "unix"
        self._work: asyncio.Task[None] | None = None

    async def _open(self) -> None:
        self._check_configuration()
        path = unquote(urlsplit(self.server.url).path)
        try:
            opened = await asyncio.wait_for(asyncio.open_unix_connection(path), _OPEN_S)
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            text = f'Server "{self.server.name}": {path} cannot be opened: {describe_connect_error(error)}.'
            raise ConnectError(text, "Check that the server runs.", server=self.server.name) from error
        self._writer = opened[1]
        self._check_owner(path, _find_owner(self._writer.get_extra_info("socket"), path))
        self._work = asyncio.create_task(self._read(opened[0]))

    def _check_configuration(self) -> None:
        given = "headers" if self.server.headers else "oauth" if self.server.oauth != OAuth() else ""
        if given:
            text = f'Server "{self.server.name}" has {given}, which a server on a Unix socket does not get.'
            raise ConfigError(text, f"Remove {given}; the rights of the socket decide.", path=self.server.source)

    def _check_owner(self, path: str, owner: int) -> None:
        """Refuse a server of another user, who would read what a model sends."""
        if owner in (0, os.geteuid()) or self.server.allow_insecure:
            return
        self._writer.close()
        text = f'Server "{self.server.name}": at {path} listens another user, {_name_user(owner)}.'
        hint = "Set allow_insecure = true if you trust that user with what is sent."
        raise ConnectError(text, hint, server=self.server.name)

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


def _find_owner(connection: socket.socket, path: str) -> int:
    """Return the id of the user who listens; on macOS that of the owner of the file."""
    if not hasattr(socket, "SO_PEERCRED"):
        return Path(path).stat().st_uid
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def _name_user(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"number {user}"
