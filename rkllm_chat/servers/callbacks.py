"""The answers to what a server asks, in the form the SDK wants them. It knows the questions and not the answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from mcp import MCPError
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types import (
    INVALID_REQUEST,
    ErrorData,
    ListRootsResult,
    ProgressNotification,
    Root,
    SamplingCapability,
)
from pydantic import FileUrl

from ..clean import clean_line
from ..errors import ProtocolError
from ..values import LOG_LEVELS
from .asks import Asks
from .listening import name_change
from .progress import Reports

LOGS_PER_SECOND = 20
SHOWN_LEVELS = LOG_LEVELS[LOG_LEVELS.index("warning") :]
DECLINED_CODE = -1  # MCP 2025-11-25, client/sampling, error handling
MOST_OPEN_QUESTIONS = 8


class Answers:
    """What one server gets to hear. What nobody answers is not offered (`given`).

    `heard` is told of changes, `write_log` of each line of its log. `listeners` are those who wait for calls: they are
    told of progress by its token, and have patience while the server is answered.
    """

    def __init__(
        self,
        server: str,
        asks: Asks,
        heard: Callable[[str], None],
        listeners: Mapping[str, Reports],
        write_log: Callable[[str], None],
    ) -> None:
        self._server, self._asks, self._heard = server, asks, heard
        self._listeners, self._write_log = listeners, write_log
        self._pace = Pace(LOGS_PER_SECOND)
        self._open_questions = 0

    def given(self) -> dict[str, Any]:
        """The keyword arguments of a Client."""
        given: dict[str, Any] = {"logging_callback": self.take_log, "message_handler": self.take_message}
        if self._asks.sample:
            given |= {"sampling_callback": self.sample, "sampling_capabilities": SamplingCapability()}
        if self._asks.elicit:
            given["elicitation_callback"] = self.elicit
        if self._asks.roots:
            given["list_roots_callback"] = self.list_roots
        return given

    async def sample(self, _context: Any, params: Any) -> Any:
        assert self._asks.sample is not None
        answer = await self._ask(self._asks.sample, params)
        return answer or ErrorData(code=DECLINED_CODE, message="The user declined.")

    async def elicit(self, _context: Any, params: Any) -> Any:
        assert self._asks.elicit is not None
        answer = await self._ask(self._asks.elicit, params)
        return answer or ErrorData(code=INVALID_REQUEST, message="Too many questions at once.")

    async def list_roots(self, _context: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl(path.as_uri()), name=path.name) for path in self._asks.roots])

    async def take_log(self, params: Any) -> None:
        """All of it goes into the server's log file, what is worth a look also to whoever sits there."""
        data = params.data if isinstance(params.data, str) else json.dumps(params.data, ensure_ascii=False)
        text = self._asks.secrets.hide_all(clean_line(data))
        self._write_log(f"[{params.level}] {text}")
        if params.level in SHOWN_LEVELS and self._pace.allows():
            self._asks.on_log(self._server, str(params.level), text)

    async def take_message(self, message: Any) -> None:
        if what := name_change(message):
            self._heard(what)
        elif isinstance(message, ProgressNotification):
            said = message.params
            if listener := self._listeners.get(str(said.progress_token)):
                await listener.take(said.progress, said.total, said.message)

    async def _ask(self, ask: Callable[[str, Any], Any], params: Any) -> Any:
        """The answer of a person or a model; a flood of questions is turned down."""
        if self._open_questions >= MOST_OPEN_QUESTIONS:
            return None
        self._open_questions += 1
        try:
            with ExitStack() as calls:
                for one in self._listeners.values():
                    calls.enter_context(one.patience.during_question())
                return await ask(self._server, params)
        finally:
            self._open_questions -= 1


async def visit_pages(server: str, asks: Asks, error: MCPError) -> None:
    """Asks the user to visit the pages that a call needs first. Raises ProtocolError that names them if he does not."""
    for page in UrlElicitationRequiredError.from_error(error.error).elicitations:
        answer = await asks.elicit(server, page) if asks.elicit else None
        if answer is None or answer.action != "accept":
            text = f'Server "{server}" wants a page to be visited first: {clean_line(page.url)}'
            raise ProtocolError(text, clean_line(page.message), server=server, url=page.url)


class Pace:
    """Lets so many through in each second, and drops the rest."""

    def __init__(self, most: int) -> None:
        self._most, self._second, self._count = most, 0, 0

    def allows(self) -> bool:
        now = int(time.monotonic())
        if now != self._second:
            self._second, self._count = now, 0
        self._count += 1
        return self._count <= self._most
