"""Transport to a server object of the MCP SDK in this process, for tests and programs that embed servers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from mcp.client._memory import InMemoryTransport
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from ...config.servers import ServerConfig
from .base import Transport

_CLOSE_S = 3.0


class InProcessTransport(Transport):
    """Runs the server in a task of its own, which also enters and leaves its streams."""

    def __init__(self, server: ServerConfig, log: Path, source: Any) -> None:
        super().__init__(server, log)
        self.kind = "in process"
        self._source = source
        self._unsent: asyncio.Queue[SessionMessage | None] = asyncio.Queue()
        self._work: asyncio.Task[None] | None = None

    async def _open(self) -> None:
        self._work = asyncio.create_task(self._run())

    async def _run(self) -> None:
        reason = "was closed"
        try:
            async with InMemoryTransport(self._source) as (incoming, outgoing):
                reading = asyncio.create_task(self._read(incoming))
                while (message := await self._unsent.get()) is not None:
                    await outgoing.send(message)
                reading.cancel()
        except Exception as error:
            reason = f"failed: {error}"
        finally:
            self._end(reason)

    async def _read(self, incoming: Any) -> None:
        async for item in incoming:
            if isinstance(item, SessionMessage):
                value = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                self._driver.deliver(self._driver.session.receive_value(value))
        self._unsent.put_nowait(None)  # the server has ended

    def _put(self, message: dict[str, Any], text: bytes) -> None:  # noqa: ARG002 - as JSON would carry it
        self._unsent.put_nowait(SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False)))

    async def _close(self) -> None:
        self._unsent.put_nowait(None)
        if self._work:
            _, unfinished = await asyncio.wait([self._work], timeout=_CLOSE_S)
            if unfinished:
                self._work.cancel()
                await asyncio.wait([self._work], timeout=_CLOSE_S)
