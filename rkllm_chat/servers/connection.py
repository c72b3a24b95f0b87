"""One server and what is asked of it: its tools are called, and whatever else is sent. It knows no other server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from typing import Any, TypeVar, cast

from mcp import Client, MCPError
from mcp_types import LOG_LEVEL_META_KEY, URL_ELICITATION_REQUIRED, CallToolResult, RequestParamsMeta
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..errors import ConnectError, ProtocolError, TimeLimitError, UsageError, ValidationError
from ..messages import Tool
from ..pins import refuse_held
from ..values import LOG_LEVELS
from .callbacks import visit_pages
from .life import LIST_S, Life
from .lines import find_half_key
from .progress import OnProgress, Patience, Reports
from .sandbox import Sandbox
from .tasks import Begun, Handle, ModernTask, OlderTask, Task, begin
from .traffic import log_fault
from .trouble import explain_call

Result = TypeVar("Result")
Send = Callable[[Client], Awaitable[Result]]


class Connection(Life):
    """Open it, use it, close it. What is asked of a server that is down starts it first."""

    @property
    def sandbox(self) -> Sandbox | None:
        """That of its process, or why it has none; None where none is wanted."""
        return getattr(self._transport, "sandbox", None)

    def explain_denial(self, text: str) -> str:
        """Why its sandbox made it complain in such a text, "" if it did not."""
        return self._transport.explain_denial(text) if self._transport else ""

    def _tell_open(self) -> None:
        super()._tell_open()
        if self.sandbox and self.sandbox.missing:
            self.asks.on_change(self.config.name, "bare")

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress, meant: Tool | None = None
    ) -> CallToolResult:
        """Calls a tool; the server's `timeout_s` counts from its last sign of progress. Raises ChatError.

        `meant` is the tool as it was listed to whoever calls: it is not called if it is another one now. If the
        server dies in the middle, a tool that may be repeated is called again; any other may have done its work.
        A call that becomes a task is waited for like any other, and its task is cancelled with it.
        """
        if (key := find_half_key(arguments)) is not None:
            raise self._refuse_key(name, key)
        patience = Patience(self.config.timeout_s, self.login.clock)
        with self._use.during(), closing(Reports(on_progress, patience, self._listeners)) as reports:
            outcome = await self._begin(name, arguments, meant, patience, reports)
            return await self._see_through(outcome, patience) if isinstance(outcome, Task) else outcome

    async def _begin(
        self, name: str, arguments: Mapping[str, Any], meant: Tool | None, patience: Patience, reports: Reports
    ) -> CallToolResult | Task:
        """The result of a call, or the task that it became."""
        meant = meant or next((tool for tool in self.tools if tool.name == name), None)
        repeat = meant is not None and (meant.idempotent or meant.read_only)

        async def send_once(client: Client) -> CallToolResult | Task:
            patience.extend()  # what came before was no waiting for the tool
            with patience.bound():
                return await self._send_call(client, name, arguments, patience, reports)

        async def send(client: Client) -> CallToolResult | Task:
            self._check_unchanged(name, meant)
            try:
                return await send_once(client)
            except MCPError as error:
                if error.code != URL_ELICITATION_REQUIRED:
                    raise
                await visit_pages(self.config.name, self.asks, error)
            return await send_once(client)

        return await self.request(send, patience.limit_s, repeat)

    async def _send_call(
        self, client: Client, name: str, arguments: Mapping[str, Any], patience: Patience, reports: Reports
    ) -> CallToolResult | Task:
        if name in self._as_tasks:
            task = await begin(client, name, arguments, patience.longest_s, {"progress_token": reports.token})
            return self._follow(OlderTask, name, task, patience, reports)
        try:
            return await client.call_tool(
                name, dict(arguments), patience.longest_s, reports.take, meta=self.make_meta(client)
            )
        except Begun as begun:
            return self._follow(ModernTask, name, begun.task, patience, reports)

    def _follow(self, kind: type[Task], name: str, begun: Handle, patience: Patience, reports: Reports) -> Task:
        return kind(self.config.name, name, begun, self.request, reports.take, patience.longest_s)

    async def _see_through(self, task: Task, patience: Patience) -> CallToolResult:
        """The result of a task; a task that is not waited for to its end is cancelled at the server."""
        try:
            with patience.bound():
                return await task.wait()
        except TimeoutError as error:
            if client := self._client:
                self._checking = asyncio.create_task(self._check_alive(client))
            explained = explain_call(self.config.name, error, patience.limit_s, self._transport)
            raise log_fault(explained, self.asks.secrets) from error
        finally:
            if client := self._client:
                self.run_errand(task.cancel(client))

    async def request(self, send: Send[Result], limit_s: float = LIST_S, repeat: bool = True) -> Result:
        """Sends something to the server, which is started first if it has to be. Raises ChatError."""
        with self._use.during():
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
            explained = explain_call(self.config.name, error, limit_s, self._transport)
            explained = log_fault(explained, self.asks.secrets)
            if isinstance(explained, ConnectError):
                await self._let_go()
            elif isinstance(explained, TimeLimitError):
                self._checking = asyncio.create_task(self._check_alive(client))
            raise explained from error

    def _check_unchanged(self, name: str, meant: Tool | None) -> None:
        """Raises ProtocolError if the tool is another one than the one that was meant, or is gone."""
        if name in self.why_held:
            raise refuse_held(self.config.name, name, self.why_held[name])
        now = next((tool for tool in self.tools if tool.name == name), None)
        if meant is not None and now != meant:
            what = "is gone" if now is None else "has changed"
            text = f'The tool "{name}" of server "{self.config.name}" {what} since it was listed; it was not called.'
            raise ProtocolError(text, server=self.config.name)

    def _refuse_key(self, name: str, key: str) -> ValidationError:
        shown = key.encode(errors="backslashreplace").decode()
        what = f'The tool "{name}" of server "{self.config.name}" was not called'
        return ValidationError(f'{what}: the argument name "{shown}" is no text.', server=self.config.name)

    async def set_log_level(self, level: str) -> None:
        """From which level on the server is to write to its log, one of LOG_LEVELS. Raises ChatError.

        It holds for later starts, too. In 2026-07-28 each call says it anew; before, the server is told at once.
        """
        if level not in LOG_LEVELS:
            raise UsageError(f'There is no log level "{level}".', f"Known are {', '.join(LOG_LEVELS)}.")
        self.log_level = level
        if self._client and self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await self.request(self.send_level)

    def make_meta(self, client: Client) -> RequestParamsMeta | None:
        """What a request says besides: the log level, where it is another one than when the server was opened."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or client.log_level == self.log_level:
            return None
        return cast("RequestParamsMeta", {LOG_LEVEL_META_KEY: self.log_level})
