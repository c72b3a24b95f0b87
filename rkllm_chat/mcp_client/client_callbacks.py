"""Adapt the front end's handlers to the callbacks of the SDK's client."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from mcp import MCPError
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ErrorData,
    ListRootsResult,
    ProgressNotification,
    Root,
    SamplingCapability,
    SamplingToolsCapability,
)
from pydantic import FileUrl

from ..config.settings import ServerConfig
from ..config.value_checks import LOG_LEVELS
from ..core.errors import ChatError, ProtocolError
from ..core.sanitize import sanitize_line
from .handlers import ClientHandlers
from .progress import ProgressReporter
from .protocol.limits import RateLimit
from .subscriptions import OnChange, identify_change

_MAX_LOGS_PER_SECOND = 20
_SHOWN_LEVELS = LOG_LEVELS[LOG_LEVELS.index("warning") :]
_DECLINED_CODE = -1  # MCP 2025-11-25, client/sampling, error handling
_MAX_OPEN_QUESTIONS = 8
_SAMPLING = SamplingCapability(tools=SamplingToolsCapability())


class ClientCallbacks:
    """The client callbacks for one server; requests without a handler are not offered (`client_arguments`).

    Args:
        config: The server.
        handlers: The front end's handlers.
        on_change: Called with what changed.
        reporters: Calls in progress by progress token; their deadlines pause while a question is answered.
        write_log: Receives each log message as a line.
    """

    def __init__(
        self,
        config: ServerConfig,
        handlers: ClientHandlers,
        on_change: OnChange,
        reporters: Mapping[str, ProgressReporter],
        write_log: Callable[[str], None],
    ) -> None:
        self._server, self._handlers, self._on_change = config.name, handlers, on_change
        self._roots = handlers.find_roots(config)
        self._reporters, self._write_log = reporters, write_log
        self._log_rate = RateLimit(_MAX_LOGS_PER_SECOND, 1.0)
        self._open_questions = 0

    def client_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments for `mcp.Client`."""
        arguments: dict[str, Any] = {"logging_callback": self.handle_log, "message_handler": self.handle_message}
        if self._handlers.sample:
            arguments |= {"sampling_callback": self.sample, "sampling_capabilities": _SAMPLING}
        if self._handlers.elicit:
            arguments["elicitation_callback"] = self.elicit
        if self._roots:
            arguments["list_roots_callback"] = self.list_roots
        return arguments

    async def sample(self, _context: Any, params: Any) -> Any:
        """Answer a sampling request; an error if it was declined, failed, or there are too many."""
        assert self._handlers.sample is not None
        try:
            answer = await self._ask(self._handlers.sample, params)
        except ChatError as error:
            return ErrorData(code=INTERNAL_ERROR, message=error.message)
        return answer or ErrorData(code=_DECLINED_CODE, message="The user declined.")

    async def elicit(self, _context: Any, params: Any) -> Any:
        """Answer an elicitation request; an error if there are too many."""
        assert self._handlers.elicit is not None
        answer = await self._ask(self._handlers.elicit, params)
        return answer or ErrorData(code=INVALID_REQUEST, message="Too many questions at once.")

    async def list_roots(self, _context: Any) -> ListRootsResult:
        """Answer a roots request."""
        return ListRootsResult(roots=[Root(uri=FileUrl(path.as_uri()), name=path.name) for path in self._roots])

    async def handle_log(self, params: Any) -> None:
        """Write a log message to the server's log file; warnings and above also go to the front end."""
        data = params.data if isinstance(params.data, str) else json.dumps(params.data, ensure_ascii=False)
        text = self._handlers.secrets.redact_all(sanitize_line(data))
        self._write_log(f"[{params.level}] {text}")
        if params.level in _SHOWN_LEVELS and self._log_rate.try_acquire():
            self._handlers.on_log(self._server, str(params.level), text)

    async def handle_message(self, message: Any) -> None:
        """Handle a notification: a change of lists, or the progress of a task."""
        if change := identify_change(message):
            self._on_change(*change)
        elif isinstance(message, ProgressNotification):
            progress = message.params
            if reporter := self._reporters.get(str(progress.progress_token)):
                await reporter.handle_progress(progress.progress, progress.total, progress.message)

    async def _ask(self, ask: Callable[[str, Any], Any], params: Any) -> Any:
        """Return the answer of a user or model; None if eight questions are already open."""
        if self._open_questions >= _MAX_OPEN_QUESTIONS:
            return None
        self._open_questions += 1
        try:
            with ExitStack() as pauses:
                for reporter in self._reporters.values():
                    pauses.enter_context(reporter.deadline.pause_for_question())
                return await ask(self._server, params)
        finally:
            self._open_questions -= 1


async def ask_to_visit_urls(server: str, handlers: ClientHandlers, error: MCPError) -> None:
    """Ask the user to visit the pages that a call requires first.

    Raises:
        ProtocolError: The user declined; it names the page.
    """
    for page in UrlElicitationRequiredError.from_error(error.error).elicitations:
        answer = await handlers.elicit(server, page) if handlers.elicit else None
        if answer is None or answer.action != "accept":
            text = f'Server "{server}" requires a visit to a page first: {sanitize_line(page.url)}'
            raise ProtocolError(text, sanitize_line(page.message), server=server, url=page.url)
