"""One server and what is asked of it: its tools are called, and whatever else is sent. It knows no other server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import anyio
from mcp import Client, MCPError
from mcp_types import URL_ELICITATION_REQUIRED, CallToolResult

from ..errors import ConnectError, ProtocolError, TimeLimitError
from ..messages import Tool
from .callbacks import visit_pages
from .life import LIST_S, Life
from .trouble import explain_call

MOST_EXTENSIONS = 20
"""How many times its limit a call may take that keeps reporting progress."""

Result = TypeVar("Result")
Progress = Callable[[float, "float | None", "str | None"], Awaitable[None]]


class Connection(Life):
    """Open it, use it, close it. What is asked of a server that is down starts it first."""

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: Progress, meant: Tool | None = None
    ) -> CallToolResult:
        """Calls a tool; the server's `timeout_s` counts from its last sign of progress. Raises ChatError.

        `meant` is the tool as it was listed to whoever calls: it is not called if it is another one now. If the
        server dies in the middle, a tool that may be repeated is called again; any other may have done its work.
        """
        meant = meant or next((tool for tool in self.tools if tool.name == name), None)
        repeat = meant is not None and (meant.idempotent or meant.read_only)

        async def send(client: Client) -> CallToolResult:
            self._check_unchanged(name, meant)
            try:
                return await self._call_with_patience(client, name, arguments, on_progress)
            except MCPError as error:
                if error.code != URL_ELICITATION_REQUIRED:
                    raise
                await visit_pages(self.config.name, self.asks, error)
            return await self._call_with_patience(client, name, arguments, on_progress)

        return await self.request(send, self.config.timeout_s, repeat)

    async def request(
        self, send: Callable[[Client], Awaitable[Result]], limit_s: float = LIST_S, repeat: bool = True
    ) -> Result:
        """Sends something to the server, which is started first if it has to be. Raises ChatError."""
        try:
            return await self._send(send, limit_s)
        except ConnectError:
            if not repeat or self._closing.is_set():
                raise
        return await self._send(send, limit_s)

    async def _send(self, send: Callable[[Client], Awaitable[Result]], limit_s: float) -> Result:
        client = await self._get_client()
        try:
            return await send(client)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # the SDK raises groups of anything
            explained = explain_call(self.config.name, error, limit_s, self._transport, self.log_file)
            if isinstance(explained, ConnectError):
                await self._let_go()
            elif isinstance(explained, TimeLimitError):
                self._checking = asyncio.create_task(self._check_alive(client))
            raise explained from error

    async def _call_with_patience(
        self, client: Client, tool: str, arguments: Mapping[str, Any], on_progress: Progress
    ) -> CallToolResult:
        limit = self.config.timeout_s
        end = anyio.current_time() + MOST_EXTENSIONS * limit
        with anyio.move_on_after(limit) as scope:

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                scope.deadline = min(end, anyio.current_time() + limit)
                await on_progress(progress, total, message)

            return await client.call_tool(tool, dict(arguments), end, progress)
        raise TimeoutError

    def _check_unchanged(self, name: str, meant: Tool | None) -> None:
        """Raises ProtocolError if the tool is another one than the one that was meant, or is gone."""
        now = next((tool for tool in self.tools if tool.name == name), None)
        if meant is not None and now != meant:
            what = "is gone" if now is None else "has changed"
            text = f'The tool "{name}" of server "{self.config.name}" {what} since it was listed; it was not called.'
            raise ProtocolError(text, server=self.config.name)
