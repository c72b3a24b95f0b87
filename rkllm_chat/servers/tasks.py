"""Calls that become tasks: followed until they end, their questions answered, given up when the call is given up.

Two protocols, one course. By the extension io.modelcontextprotocol/tasks (its specification of 2026-07-28) a server may
make a task of any call, and what it asks and gives stands in the task's state. In the experiment of 2025-11-25 a tool
says that it is to be called as a task, and `tasks/result` brings both. It knows no process and no chat.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from mcp import Client, MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientRequestContext
from mcp_types import (
    INTERNAL_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    ErrorData,
    InputRequest,
    Request,
    RequestParams,
    RequestParamsMeta,
    Result,
    TaskMetadata,
    TaskStatus,
)

from ..errors import ProtocolError
from .mend import mend_content
from .trouble import shorten

POLL_S = 1.0
SHORTEST_POLL_S, LONGEST_POLL_S = 0.05, 10.0
MOST_QUESTIONS = 32
ENDED: tuple[TaskStatus, ...] = ("completed", "failed", "cancelled")

T = TypeVar("T")
R = TypeVar("R", bound=Result)
News = Callable[[float, None, str], Awaitable[None]]
"""Told when a task moves: how often it has, None, and what the server says about it."""


class Ask(Protocol):
    """Sends a request to the server, which may have been started again since the last one. Raises ChatError."""

    async def __call__(self, send: Callable[[Client], Awaitable[T]], limit_s: float = ..., repeat: bool = ...) -> T: ...


class Handle(Result):
    """A task as both protocols describe it; the interval is in milliseconds."""

    task_id: str
    status: TaskStatus
    status_message: str | None = None
    last_updated_at: str | None = None
    poll_interval: float | None = None
    poll_interval_ms: float | None = None


class Claimed(Handle):
    """The answer to a call that the server made a task of (2026-07-28)."""

    result_type: Literal["task"] = "task"


class Created(Result):
    """The answer to a call that was sent to become a task (2025-11-25)."""

    task: Handle


class Snapshot(Handle):
    """The answer to `tasks/get`; what follows is there in 2026-07-28 alone."""

    result: dict[str, Any] | None = None
    error: ErrorData | None = None
    input_requests: dict[str, InputRequest] | None = None


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[TaskParams, str]):
    """`tasks/get`, `tasks/update`, `tasks/result` or `tasks/cancel`. Over HTTP its header Mcp-Name is the task."""

    name_param: ClassVar[str | None] = "taskId"


class Begun(Exception):  # noqa: N818 - it is no error
    """A call has become a task."""

    def __init__(self, task: Claimed) -> None:
        super().__init__(task.task_id)
        self.task = task


class Tasks(ClientExtension):
    """Tells servers of 2026-07-28 that they may make tasks of calls; such a call raises Begun."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=Claimed, resolve=hand_over),)


async def hand_over(task: Claimed, _context: ClaimContext) -> CallToolResult:
    raise Begun(task)


async def begin(
    client: Client, name: str, arguments: Mapping[str, Any], longest_s: float, meta: RequestParamsMeta
) -> Handle:
    """Calls a tool of 2025-11-25 as a task that the server is to remember for `longest_s`."""
    task = TaskMetadata(ttl=round(1000 * longest_s))
    params = CallToolRequestParams(name=name, arguments=dict(arguments), task=task, _meta=meta)
    return (await client.session.send_request(CallToolRequest(params=params), Created)).task


class Task(ABC):
    """One task of the tool `name` of a server. `ask` sends its requests; `news` is told how it moves."""

    def __init__(self, server: str, name: str, begun: Handle, ask: Ask, news: News, longest_s: float) -> None:
        self._server, self._name, self._id = server, name, begun.task_id
        self._state: Handle = begun
        self._ask, self._news, self._longest_s = ask, news, longest_s
        self._told: tuple[str | None, ...] = ()
        self._moves = 0

    async def wait(self) -> CallToolResult:
        """What the call gives in the end. Raises ChatError; whoever stops waiting should `cancel` it."""
        while self._state.status not in ENDED:
            await self._tell_news()
            await self._pause(find_pause(self._state))
            await self._look()
            await self._heed_questions()
        if self._state.status == "cancelled":
            said = f": {shorten(self._state.status_message)}" if self._state.status_message else "."
            raise ProtocolError(f'Server "{self._server}" has cancelled the task of "{self._name}"{said}')
        return await self._take_result()

    async def cancel(self, client: Client) -> None:
        """Tells the server that nobody waits any more; it may have ended, or forget it anyway."""
        if self._state.status not in ENDED:
            with contextlib.suppress(Exception):
                await send(client, "tasks/cancel", EmptyResult, self._id)

    async def _look(self) -> None:
        self._state = await self._ask(lambda client: send(client, "tasks/get", Snapshot, self._id))

    async def _tell_news(self) -> None:
        state = self._state
        now = (state.status, state.status_message, state.last_updated_at)
        if now != self._told:
            self._told = now
            self._moves += 1
            await self._news(self._moves, None, shorten(state.status_message or state.status))

    async def _pause(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)

    @abstractmethod
    async def _heed_questions(self) -> None:
        """Has what the task asks answered, each question once."""

    @abstractmethod
    async def _take_result(self) -> CallToolResult:
        """What came of a task that has ended. Raises ChatError if it failed."""


class ModernTask(Task):
    """A task of 2026-07-28."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._answered: set[str] = set()

    async def _heed_questions(self) -> None:
        asked = (self._state.input_requests if isinstance(self._state, Snapshot) else None) or {}
        new = {key: question for key, question in asked.items() if key not in self._answered}
        if len(self._answered) + len(new) > MOST_QUESTIONS:
            text = f'Server "{self._server}" asks more than {MOST_QUESTIONS} questions in the task of "{self._name}".'
            raise ProtocolError(text, server=self._server)
        if new and self._state.status == "input_required":
            self._answered |= new.keys()
            await self._tell_news()
            await self._ask(lambda client: answer(client, self._id, new), self._longest_s, repeat=False)

    async def _take_result(self) -> CallToolResult:
        if not isinstance(self._state, Snapshot):  # it had ended when it began
            await self._look()
        return await self._ask(self._read_result)

    async def _read_result(self, client: Client) -> CallToolResult:
        state = self._state
        error = getattr(state, "error", None)
        if state.status == "failed":
            raise MCPError.from_error_data(error or ErrorData(code=INTERNAL_ERROR, message=state.status_message or "?"))
        result = CallToolResult.model_validate(mend_content(getattr(state, "result", None) or {}), by_name=False)
        return await check_result(client, self._name, result)


class OlderTask(Task):
    """A task of 2025-11-25. What it asks comes as requests of the server, while the result is waited for."""

    _result: asyncio.Task[CallToolResult] | None = None

    async def wait(self) -> CallToolResult:
        try:
            return await super().wait()
        finally:
            if self._result:
                self._result.cancel()
                await asyncio.gather(self._result, return_exceptions=True)

    async def _look(self) -> None:
        if self._result and self._result.done():
            self._state = self._state.model_copy(update={"status": "completed"})
        else:
            await super()._look()

    async def _pause(self, wait_s: float) -> None:
        if self._result:
            await asyncio.wait([self._result], timeout=wait_s)
        else:
            await super()._pause(wait_s)

    async def _heed_questions(self) -> None:
        if self._state.status == "input_required" and self._result is None:
            self._result = asyncio.create_task(self._ask(self._fetch_result, self._longest_s))

    async def _take_result(self) -> CallToolResult:
        return await (self._result or self._ask(self._fetch_result, self._longest_s))

    async def _fetch_result(self, client: Client) -> CallToolResult:
        result = await send(client, "tasks/result", CallToolResult, self._id, self._longest_s)
        return await check_result(client, self._name, result)


def find_pause(state: Handle) -> float:
    """Seconds until the state is asked for again: as the server wishes, within reason."""
    wished_ms = state.poll_interval_ms if state.poll_interval is None else state.poll_interval
    return POLL_S if wished_ms is None else min(max(wished_ms / 1000, SHORTEST_POLL_S), LONGEST_POLL_S)


async def check_result(client: Client, name: str, result: CallToolResult) -> CallToolResult:
    """The result, checked against the tool's output schema as the SDK does it with results that come at once."""
    if not result.is_error:
        await client.session.validate_tool_result(name, result)
    return result


async def send(
    client: Client, method: str, kind: type[R], task_id: str, limit_s: float | None = None, **more: Any
) -> R:
    """Sends one of a task's requests; within `limit_s` seconds, else within the session's limit."""
    request = TaskRequest(method=method, params=TaskParams(task_id=task_id, **more))
    return await client.session.send_request(request, kind, limit_s)


async def answer(client: Client, task_id: str, questions: Mapping[str, InputRequest]) -> None:
    """Puts questions to whoever answers them, and sends the answers. Raises MCPError where one is refused."""
    replies: dict[str, Any] = {}
    for key, question in questions.items():
        meta = question.params.meta if question.params else None
        context = ClientRequestContext(session=client.session, request_id=key, meta=meta)
        reply = await client.session.dispatch_input_request(context, question)
        if isinstance(reply, ErrorData):
            raise MCPError.from_error_data(reply)
        replies[key] = reply
    await send(client, "tasks/update", EmptyResult, task_id, input_responses=replies)
