"""Answer what one server asks of its client, and handle its notifications, with the front end's handlers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from ..config.settings import ServerConfig
from ..config.value_checks import LOG_LEVELS
from ..core.errors import ChatError, ProtocolError
from ..core.sanitize import sanitize_line
from .handlers import ClientHandlers, OnChange, identify_change
from .progress import ProgressReporter
from .protocol.dialog import describe_root, read_progress
from .protocol.faults import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND
from .protocol.limits import RateLimit
from .transports.driver import AnswerError

_MAX_LOGS_PER_SECOND = 20
_SHOWN_LEVELS = LOG_LEVELS[LOG_LEVELS.index("warning") :]
_DECLINED_CODE = -1  # MCP 2025-11-25, client/sampling, error handling
_MAX_OPEN_QUESTIONS = 8
_MAX_METHOD_CHARS = 60
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"


class ServerRequests:
    """The requests and notifications of one server; requests without a handler are not offered.

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

    def make_capabilities(self, is_stateless: bool = False) -> dict[str, Any]:
        """Return the capabilities to declare; tasks are an extension of MCP 2026-07-28."""
        capabilities: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}} if is_stateless else {}
        if self._handlers.sample:
            capabilities["sampling"] = {"tools": {}}
        if self._handlers.elicit:
            capabilities["elicitation"] = {"form": {}, "url": {}}
        if self._roots:
            capabilities["roots"] = {}
        return capabilities

    async def answer(self, method: str, params: dict[str, Any], is_direct: bool = True) -> dict[str, Any]:
        """Return the answer to a request.

        Args:
            method: Its method.
            params: Its parameters.
            is_direct: Whether a server may send requests; since MCP 2026-07-28 results require input instead.

        Raises:
            AnswerError: It is not supported, was declined, or there are too many.
        """
        handlers = self._handlers
        if method == "ping" and is_direct:
            return {}
        if method == "roots/list" and self._roots:
            return {"roots": [describe_root(str(path)) for path in self._roots]}
        if method == "sampling/createMessage" and handlers.sample:
            try:
                answer = await self._ask(handlers.sample, "CreateMessageRequestParams", params)
            except ChatError as error:
                raise AnswerError(INTERNAL_ERROR, error.message) from error
            if answer is None:
                raise AnswerError(_DECLINED_CODE, "The user declined.")
            return answer
        if method == "elicitation/create" and handlers.elicit:
            return await self._ask(handlers.elicit, "ElicitRequestParams", params) or {"action": "decline"}
        raise AnswerError(METHOD_NOT_FOUND, f"This client does not support {method[:_MAX_METHOD_CHARS]}.")

    def handle_notification(self, method: str, params: dict[str, Any]) -> None:
        """Handle a log message, a change of lists, or the progress of a task."""
        if method == "notifications/message":
            self._handle_log(params)
        elif change := identify_change(method, params):
            self._on_change(*change)
        elif method == "notifications/progress":
            progress, reporter = read_progress(params), self._reporters.get(str(params.get("progressToken")))
            if progress and reporter:
                reporter.handle_progress(*progress)

    def _handle_log(self, params: dict[str, Any]) -> None:
        """Write a log message to the server's log file; warnings and above also go to the front end."""
        level, data = params.get("level"), params.get("data")
        if level not in LOG_LEVELS:
            return
        said = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        text = self._handlers.secrets.redact_all(sanitize_line(said))
        self._write_log(f"[{level}] {text}")
        if level in _SHOWN_LEVELS and self._log_rate.try_acquire():
            self._handlers.on_log(self._server, str(level), text)

    async def _ask(self, ask: Callable[[str, Any], Any], kind: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer of a user or model to a question. Raises AnswerError if eight are open already."""
        from .sdk_types import dump_model, read_params

        question = read_params(kind, params)
        if self._open_questions >= _MAX_OPEN_QUESTIONS:
            raise AnswerError(INVALID_REQUEST, "Too many questions at once.")
        self._open_questions += 1
        try:
            with ExitStack() as pauses:
                for reporter in self._reporters.values():
                    pauses.enter_context(reporter.deadline.pause_for_question())
                answer = await ask(self._server, question)
        finally:
            self._open_questions -= 1
        return None if answer is None else dump_model(answer)


async def ask_to_visit_urls(server: str, handlers: ClientHandlers, error: AnswerError) -> None:
    """Ask the user to visit the pages that a call requires first.

    Raises:
        ProtocolError: The user declined; it names the page.
    """
    from .sdk_types import read_params

    data = error.data if isinstance(error.data, dict) else {}
    for entry in data.get("elicitations") or ():
        page = read_params("ElicitRequestURLParams", entry)
        answer = await handlers.elicit(server, page) if handlers.elicit else None
        if answer is None or answer.action != "accept":
            text = f'Server "{server}" requires a visit to a page first: {sanitize_line(page.url)}'
            raise ProtocolError(text, sanitize_line(page.message), server=server, url=page.url)
