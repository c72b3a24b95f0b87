"""One server, owned by one task from its start to its end. It does not know the other servers.

A client of the SDK must be left by the task that entered it, else it hangs for ever (mcp 2.3.0, measured); so a task
enters it, waits, and leaves it, and everybody else calls through it. Every wait has a limit: the SDK has none.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TextIO

import pydantic
from mcp import Client, MCPError
from mcp_types import CallToolResult, Implementation

from .. import __version__
from ..config import ServerConfig
from ..errors import ChatError, ConnectError, ProtocolError, TimeLimitError
from ..messages import Tool
from .transports import open_transport

MOST_PAGES = 50
MOST_TOOLS = 1000
CLOSE_S = 5.0
LOG_LINES = 5

TIMEOUT_CODE = -32001
CLOSED_CODE = -32000


class Connection:
    """Open it, call its tools, close it. `tools` is filled by `open`; `error` says why it failed."""

    def __init__(self, config: ServerConfig, log_file: Path) -> None:
        self.config = config
        self.log_file = log_file
        self.tools: list[Tool] = []
        self.error: ChatError | None = None
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._closing = asyncio.Event()
        self._gave_up = False

    @property
    def is_open(self) -> bool:
        return self._client is not None

    async def open(self) -> None:
        """Starts the server and lists its tools. A failure is kept in `error`, not raised: the others go on."""
        self._owner = asyncio.create_task(self._own(), name=f"server {self.config.name}")
        await self._ready.wait()

    async def aclose(self) -> None:
        """Ends the server; gives up on a graceful end after CLOSE_S seconds."""
        self._closing.set()
        if self._owner is None:
            return
        if not self._ready.is_set():
            self._owner.cancel()
        _, unfinished = await asyncio.wait([self._owner], timeout=CLOSE_S)
        if unfinished:
            self._owner.cancel()
            await asyncio.wait([self._owner], timeout=CLOSE_S)

    async def call(self, tool: str, arguments: Mapping[str, Any], on_progress: Any) -> CallToolResult:
        """Calls a tool and waits at most the server's `timeout_s`. Raises ChatError."""
        if self._client is None:
            raise self.error or ConnectError(f'Server "{self.config.name}" is not open.')
        limit = self.config.timeout_s
        try:
            return await self._client.call_tool(
                tool, dict(arguments), read_timeout_seconds=limit, progress_callback=on_progress
            )
        except MCPError as error:
            raise self._translate(error, limit) from error
        except (RuntimeError, pydantic.ValidationError) as error:
            raise ProtocolError(f'Server "{self.config.name}" broke the protocol: {first_line(error)}') from error

    async def _own(self) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self.config.connect_s, self._give_up)
        try:
            async with AsyncExitStack() as stack:
                log = stack.enter_context(open_log(self.log_file))
                client = await stack.enter_async_context(self._make_client(log))
                self.tools = await self._list_tools(client)
                timer.cancel()
                self._client = client
                self._ready.set()
                await self._closing.wait()
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not self._gave_up:
                raise
            self.error = self._explain(error)
        finally:
            timer.cancel()
            self._client = None
            self._ready.set()

    def _make_client(self, log: TextIO) -> Client:
        info = Implementation(name="rkllm_chat", version=__version__)
        return Client(open_transport(self.config, log), read_timeout_seconds=self.config.connect_s, client_info=info)

    def _give_up(self) -> None:
        self._gave_up = True
        if self._owner:
            self._owner.cancel()

    async def _list_tools(self, client: Client) -> list[Tool]:
        """All pages, until there is no next one, one comes twice, or a cap is reached."""
        if client.server_capabilities.tools is None:
            return []
        tools: dict[str, Tool] = {}
        cursors: set[str | None] = set()
        cursor: str | None = None
        while cursor not in cursors and len(cursors) < MOST_PAGES and len(tools) < MOST_TOOLS:
            cursors.add(cursor)
            page = await client.list_tools(cursor=cursor)
            for tool in page.tools:
                hints = tool.annotations
                found = Tool(
                    name=tool.name,
                    description=tool.description or tool.title or "",
                    schema=tool.input_schema,
                    server=self.config.name,
                    read_only=bool(hints and hints.read_only_hint),
                    trusted=self.config.trust == "trusted",
                )
                tools.setdefault(tool.name, found)
            cursor = page.next_cursor
            if not cursor:
                break
        return [tool for tool in tools.values() if self._offers(tool.name)]

    def _offers(self, name: str) -> bool:
        allow = self.config.tools_allow
        return (not allow or name in allow) and name not in self.config.tools_deny

    def _translate(self, error: MCPError, limit: float) -> ChatError:
        name = self.config.name
        if error.code == TIMEOUT_CODE:
            return TimeLimitError(f'Server "{name}" did not answer within {limit:g} s.', "Raise its timeout_s.")
        if error.code == CLOSED_CODE:
            return ConnectError(f'Server "{name}" has gone away.{self._last_words()}')
        return ProtocolError(f'Server "{name}" answered with error {error.code}: {error.message}')

    def _explain(self, error: BaseException) -> ChatError:
        """Why the server could not be opened, in words."""
        leaf = first_leaf(error)
        name = self.config.name
        if isinstance(leaf, ChatError):
            return leaf
        if self._gave_up or isinstance(leaf, asyncio.CancelledError | TimeoutError):
            seconds = f"{self.config.connect_s:g} s"
            return TimeLimitError(
                f'Server "{name}" did not start within {seconds}.{self._last_words()}', "Raise connect_s."
            )
        if isinstance(leaf, MCPError) and leaf.code == CLOSED_CODE:
            return ConnectError(f'Server "{name}" ended before it answered.{self._last_words()}')
        return ConnectError(f'Server "{name}" cannot be opened: {first_line(leaf)}.{self._last_words()}')

    def _last_words(self) -> str:
        """The end of the server's own log, where it has one."""
        try:
            lines = self.log_file.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-LOG_LINES:]
        except OSError:
            return ""
        return " Its last words:\n  " + "\n  ".join(lines) if lines else ""


def open_log(path: Path) -> TextIO:
    """A fresh log file that only its owner can read; nowhere, where there is no place to write."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        return path.open("w", encoding="utf-8", errors="replace")
    except OSError:
        return Path(os.devnull).open("w", encoding="utf-8")


def first_leaf(error: BaseException) -> BaseException:
    """The first real error in nested groups of them."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return error


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
