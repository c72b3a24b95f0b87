"""Send requests to one MCP server: tool calls and everything else, with deadlines, retries and error translation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..config.servers import ServerConfig
from ..config.tool_pins import quarantine_error
from ..core.errors import ChatError, ConnectError, ProtocolError, TimeLimitError, ValidationError
from ..core.messages import Tool
from .advertised_tools import AdvertisedTools
from .call_log import log_fault
from .client import Client
from .error_messages import translate_call_error
from .handlers import ClientHandlers
from .lifecycle import ServerLifecycle
from .lifecycle_state import SessionDoubt
from .process.denials import Denial
from .process.start import Sandbox
from .progress import CallDeadline, OnProgress, ProgressReporter
from .protocol.cut_result import read_cut_size
from .protocol.faults import INVALID_REQUEST, SessionLostError, make_output_error
from .protocol.framing import find_surrogate_key
from .protocol.limits import LIST_TIMEOUT_S
from .protocol.output_check import NO_STRUCTURED_CONTENT, explain_output_mismatch
from .server_requests import ask_to_visit_urls
from .tasks import LegacyTask, ModernTask, ServerTask, State, read_state, start_task
from .transports.driver import AnswerError

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_URL_ELICITATION_REQUIRED = -32042
_HEADER_MISMATCH = -32020
_OTHER_REFUSALS = (401, 403, 429)
"""Statuses of HTTP that say that it is not the session."""
Result = TypeVar("Result")
SendRequest = Callable[[Client], Awaitable[Result]]


class Connection:
    """Send requests to one configured server. A request to a server that is down starts it first.

    Args:
        config: The server's configuration.
        log_file: File for the server's standard error and log messages.
        handlers: Handlers of requests and notifications from the server.
        source: A server in this process (an `MCPServer`), in place of what the configuration names.

    Attributes:
        config: The server's configuration.
        advertised: The tools and texts of the server.
        lifecycle: Starts, watches and stops it.
    """

    def __init__(
        self, config: ServerConfig, log_file: Path, handlers: ClientHandlers | None = None, source: Any = None
    ) -> None:
        self.config = config
        self.advertised = AdvertisedTools(config)
        self.lifecycle = ServerLifecycle(config, log_file, self.advertised, handlers, source)
        self._doubt = SessionDoubt()

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox of the server's process, or why it has none; None if none is configured."""
        return self.lifecycle.transport.sandbox if self.lifecycle.transport else None

    def find_denial(self, text: str, arguments: Mapping[str, object], is_error: bool = True) -> Denial | None:
        """Return what the sandbox denied in a call with this result; None if it was not that."""
        return self.lifecycle.transport.find_denial(text, arguments, is_error) if self.lifecycle.transport else None

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        on_progress: OnProgress,
        expected: Tool | None = None,
        limit_s: float | None = None,
    ) -> CallToolResult:
        """Call a tool and return its result as an object of the SDK's types; see `call_raw`."""
        raw = await self.call_raw(name, arguments, on_progress, expected, limit_s)
        from .sdk_types import read_result  # 0.2 s

        try:
            result: CallToolResult = read_result(self.config.name, "CallToolResult", raw)
        except ProtocolError as error:
            raise log_fault(error, self.lifecycle.handlers.secrets) from error
        return result

    async def call_raw(
        self,
        name: str,
        arguments: Mapping[str, Any],
        on_progress: OnProgress,
        expected: Tool | None = None,
        limit_s: float | None = None,
    ) -> dict[str, Any]:
        """Call a tool and return its result as the server wrote it. Raises ChatError.

        The deadline is counted from the last progress notification. If the server dies
        during the call, an idempotent or read-only tool is called again; any other may already have had its effect and
        is not. A call that becomes a task is awaited like any other, and its task is cancelled with it.

        Args:
            name: Name of the tool at its server.
            arguments: Its arguments.
            on_progress: Called with progress, total and message.
            expected: The tool as the caller saw it; the call is refused if the server has changed it since.
            limit_s: The deadline; by default that of the tool or of the server.
        """
        # a value with half of a surrogate pair is repaired; another key would be another argument
        if (key := find_surrogate_key(arguments)) is not None:
            raise self._key_error(name, key)
        deadline = CallDeadline(limit_s or self.config.get_timeout_s(name), self.lifecycle.deadlines)
        reporters = self.lifecycle.reporters
        with self.lifecycle.use.track(), closing(ProgressReporter(on_progress, deadline, reporters)) as reporter:
            outcome = await self._start_call(name, arguments, expected, deadline, reporter)
            result = await self._wait_for_task(outcome, deadline) if isinstance(outcome, ServerTask) else outcome
            if size := read_cut_size(result):
                self.lifecycle.report_cut_result(name, size)
            else:
                self._check_output(name, result)
            return result

    def _check_output(self, name: str, result: Mapping[str, Any]) -> None:
        """Check a result against the output schema of its tool, and report one without structured content, once.

        Raises:
            ProtocolError: The structured content does not match.
        """
        tool = next((tool for tool in self.advertised.tools if tool.name == name), None)
        if tool is None or result.get("isError") or not isinstance(tool.output_schema, Mapping):
            return
        if "structuredContent" not in result:
            self.lifecycle.report_output_fault(name, NO_STRUCTURED_CONTENT)
        elif reason := explain_output_mismatch(tool.output_schema, result["structuredContent"]):
            raise log_fault(make_output_error(self.config.name, reason), self.lifecycle.handlers.secrets)

    async def _start_call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        expected: Tool | None,
        deadline: CallDeadline,
        reporter: ProgressReporter,
    ) -> dict[str, Any] | ServerTask:
        """Send the call; return its result, or the task that it became."""
        expected = expected or next((tool for tool in self.advertised.tools if tool.name == name), None)
        repeat = expected is not None and (expected.idempotent or expected.read_only)

        async def send_once(client: Client) -> dict[str, Any] | ServerTask:
            deadline.extend()  # time spent before this point is not the tool's
            with deadline.enforce():
                return await self._send_call(client, name, arguments, deadline, reporter)

        async def send(client: Client) -> dict[str, Any] | ServerTask:
            # here and not before: the server may just have been started again, with other tools
            self._check_unchanged(name, expected)
            try:
                return await send_once(client)
            except AnswerError as error:
                if error.code == _URL_ELICITATION_REQUIRED:
                    await ask_to_visit_urls(self.config.name, self.lifecycle.handlers, error)
                elif error.code == _HEADER_MISMATCH and client.is_stateless:  # its list of tools is out of date
                    await self.lifecycle.list_again(client)
                else:
                    raise
            return await send_once(client)

        return await self.request(send, deadline.limit_s, repeat)

    async def _send_call(
        self,
        client: Client,
        name: str,
        arguments: Mapping[str, Any],
        deadline: CallDeadline,
        reporter: ProgressReporter,
    ) -> dict[str, Any] | ServerTask:
        if name in self.advertised.task_only:
            task = await start_task(client, name, arguments, deadline.max_s, reporter.token)
            return self._make_task(LegacyTask, name, task, deadline, reporter)
        params = {"name": name, "arguments": dict(arguments)}
        result = await client.request("tools/call", params, deadline.max_s, reporter.handle_progress)
        if result.get("resultType") == "task":
            return self._make_task(ModernTask, name, read_state(result), deadline, reporter)
        return result

    def _make_task(
        self, kind: type[ServerTask], name: str, state: State, deadline: CallDeadline, reporter: ProgressReporter
    ) -> ServerTask:
        return kind(self.config.name, name, state, self.request, reporter.handle_progress, deadline.max_s)

    async def _wait_for_task(self, task: ServerTask, deadline: CallDeadline) -> dict[str, Any]:
        """Return the result of a task; cancel the task at the server if the wait ends early."""
        try:
            with deadline.enforce():
                return await task.wait()
        except TimeoutError as error:
            if client := self.lifecycle.client:
                self.lifecycle.check_alive(client)
            failure = translate_call_error(self.config.name, error, deadline.limit_s, self.lifecycle.transport)
            raise log_fault(failure, self.lifecycle.handlers.secrets) from error
        finally:
            # not awaited: a caller that is cancelled would wait once more for a server that may be silent
            if client := self.lifecycle.client:
                self.lifecycle.run_in_background(task.cancel(client))

    async def request(self, send: SendRequest[Result], limit_s: float = LIST_TIMEOUT_S, repeat: bool = True) -> Result:
        """Send a request, starting the server first if it is down. Raises ChatError.

        Args:
            send: Sends the request with the client that it is given.
            limit_s: The deadline that an error message names.
            repeat: Whether to retry once if the server dies during the request; one that it did not process, because it
                had lost the session, is always retried.
        """
        with self.lifecycle.use.track():
            try:
                return await self._send(send, limit_s)
            except ConnectError as error:
                if not (repeat or isinstance(error, SessionLostError)) or self.lifecycle.is_closing:
                    raise
            return await self._send(send, limit_s)

    async def _send(self, send: Callable[[Client], Awaitable[Result]], limit_s: float) -> Result:
        # now and not at the failure: while a server is down, a right that names a tool alone allows nothing
        if self._doubt.is_due and self.lifecycle.transport:
            self._doubt.note_tried()
            self.lifecycle.transport.note_broken("failed twice in a row")
            await self.lifecycle.stop_owner()
        client = await self.lifecycle.get_client()
        try:
            result = await send(client)
        except Exception as error:
            failure = translate_call_error(self.config.name, error, limit_s, self.lifecycle.transport)
            failure = log_fault(failure, self.lifecycle.handlers.secrets)
            # the owner ends a connection that is marked as broken; the next `get_client` begins another session
            if isinstance(failure, SessionLostError) and self.lifecycle.transport:
                self.lifecycle.transport.note_broken("has lost the session")
            if isinstance(failure, ConnectError):
                await self.lifecycle.stop_owner()
            elif isinstance(failure, TimeLimitError):
                self.lifecycle.check_alive(client)
            elif self._may_have_lost_session(failure):
                self._doubt.note_failure()
            raise failure from error
        self._doubt.note_success()
        return result

    def _may_have_lost_session(self, failure: ChatError) -> bool:
        """Tell whether a request may have failed because the server does not know its session any more."""
        transport = self.lifecycle.transport
        if not isinstance(failure, ProtocolError) or transport is None or not transport.has_session:
            return False
        is_refused = bool(transport.problem) and transport.status >= 400 and transport.status not in _OTHER_REFUSALS
        return is_refused or failure.details.get("code") == INVALID_REQUEST

    def _check_unchanged(self, name: str, expected: Tool | None) -> None:
        """Raise ProtocolError if the tool is quarantined, removed, or differs from `expected`."""
        if name in self.advertised.quarantine_reasons:
            raise quarantine_error(self.config.name, name, self.advertised.quarantine_reasons[name])
        current = next((tool for tool in self.advertised.tools if tool.name == name), None)
        if expected is not None and current != expected:
            what = "was removed" if current is None else "has changed"
            text = f'The tool "{name}" of server "{self.config.name}" {what} since it was listed; it was not called.'
            raise ProtocolError(text, server=self.config.name)

    def _key_error(self, name: str, key: str) -> ValidationError:
        shown = key.encode(errors="backslashreplace").decode()
        text = f'The tool "{name}" of server "{self.config.name}" was not called'
        return ValidationError(f'{text}: the argument name "{shown}" is not valid Unicode.', server=self.config.name)
