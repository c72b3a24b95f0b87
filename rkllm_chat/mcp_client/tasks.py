"""Poll tool calls that became tasks, answer their questions, and cancel them.

Two protocols. With the extension io.modelcontextprotocol/tasks (specification of 2026-07-28) a server may turn any call
into a task, and questions and result are part of the task's state. In the experiment of 2025-11-25 a tool declares that
it must be called as a task, and `tasks/result` delivers both.
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

from ..core.errors import ProtocolError
from ..core.sanitize import shorten_line
from .repair_messages import repair_content

_POLL_S = 1.0
_SHORTEST_POLL_S, _LONGEST_POLL_S = 0.05, 10.0
_MAX_QUESTIONS = 32
_FINAL_STATES: tuple[TaskStatus, ...] = ("completed", "failed", "cancelled")

T = TypeVar("T")
R = TypeVar("R", bound=Result)
_OnTaskUpdate = Callable[[float, None, str], Awaitable[None]]
"""Called when a task's state changes: number of changes so far, None, and the server's status message."""


class _SendRequest(Protocol):
    """Send a request to the server, which may have been restarted since the last one. Raises ChatError."""

    async def __call__(self, send: Callable[[Client], Awaitable[T]], limit_s: float = ..., repeat: bool = ...) -> T: ...


class TaskHandle(Result):
    """A task as both protocols describe it; intervals are in milliseconds."""

    task_id: str
    status: TaskStatus
    status_message: str | None = None
    last_updated_at: str | None = None
    poll_interval: float | None = None
    poll_interval_ms: float | None = None


class _CallBecameTask(TaskHandle):
    """The result of a call that the server turned into a task (2026-07-28)."""

    result_type: Literal["task"] = "task"


class _TaskCreated(Result):
    """The result of a call that was sent as a task (2025-11-25)."""

    task: TaskHandle


class _TaskState(TaskHandle):
    """The result of `tasks/get`; its own fields exist only in 2026-07-28."""

    result: dict[str, Any] | None = None
    error: ErrorData | None = None
    input_requests: dict[str, InputRequest] | None = None


class _TaskParams(RequestParams):
    """The parameters of a task request."""

    task_id: str
    input_responses: dict[str, Any] | None = None


class _TaskRequest(Request[_TaskParams, str]):
    """`tasks/get`, `tasks/update`, `tasks/result` or `tasks/cancel`. Over HTTP its header Mcp-Name is the task."""

    name_param: ClassVar[str | None] = "taskId"


class TaskStarted(Exception):  # noqa: N818 - not an error
    """Raised out of the SDK's call when the call has become a task."""

    def __init__(self, task: _CallBecameTask) -> None:
        super().__init__(task.task_id)
        self.task = task


class TasksExtension(ClientExtension):
    """The client extension that allows servers of 2026-07-28 to create tasks; such a call raises TaskStarted."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Return the result type that the SDK hands over to this extension."""
        return (ResultClaim(result_type="task", model=_CallBecameTask, resolve=_raise_task_started),)


async def _raise_task_started(task: _CallBecameTask, _context: ClaimContext) -> CallToolResult:
    raise TaskStarted(task)


async def start_task(
    client: Client, name: str, arguments: Mapping[str, Any], max_s: float, meta: RequestParamsMeta
) -> TaskHandle:
    """Call a tool of MCP 2025-11-25 as a task that the server keeps for `max_s` seconds."""
    task = TaskMetadata(ttl=round(1000 * max_s))
    params = CallToolRequestParams(name=name, arguments=dict(arguments), task=task, _meta=meta)
    return (await client.session.send_request(CallToolRequest(params=params), _TaskCreated)).task


class ServerTask(ABC):
    """One task of the tool `name` of a server.

    Args:
        server: The server's name.
        name: The tool's name.
        handle: The task as first described.
        send: Sends its requests.
        on_update: Called when its state changes.
        max_s: Limit for answering questions and for the result.
    """

    def __init__(
        self, server: str, name: str, handle: TaskHandle, send: _SendRequest, on_update: _OnTaskUpdate, max_s: float
    ) -> None:
        self._server, self._name, self._id = server, name, handle.task_id
        self._state: TaskHandle = handle
        self._send, self._on_update, self._max_s = send, on_update, max_s
        self._reported: tuple[str | None, ...] = ()
        self._updates = 0

    async def wait(self) -> CallToolResult:
        """Poll until the task ends and return the call's result.

        A caller that stops waiting must call `cancel`.

        Raises:
            ChatError: The task failed or was cancelled, or the server cannot be reached.
        """
        while self._state.status not in _FINAL_STATES:
            await self._report_update()
            await self._wait_for_poll(_poll_interval_s(self._state))
            await self._poll()
            await self._answer_questions()
        if self._state.status == "cancelled":
            reason = f": {shorten_line(self._state.status_message)}" if self._state.status_message else "."
            raise ProtocolError(f'Server "{self._server}" cancelled the task of "{self._name}"{reason}')
        return await self._get_result()

    async def cancel(self, client: Client) -> None:
        """Cancel the task at the server; failures are ignored because it may have ended."""
        if self._state.status not in _FINAL_STATES:
            with contextlib.suppress(Exception):
                await send_task_request(client, "tasks/cancel", EmptyResult, self._id)

    async def _poll(self) -> None:
        self._state = await self._send(lambda client: send_task_request(client, "tasks/get", _TaskState, self._id))

    async def _report_update(self) -> None:
        state = self._state
        update = (state.status, state.status_message, state.last_updated_at)
        if update != self._reported:
            self._reported = update
            self._updates += 1
            await self._on_update(self._updates, None, shorten_line(state.status_message or state.status))

    async def _wait_for_poll(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)

    @abstractmethod
    async def _answer_questions(self) -> None:
        """Answer each new question of the task once."""

    @abstractmethod
    async def _get_result(self) -> CallToolResult:
        """Return the result of a completed task. Raises ChatError if it failed."""


class ModernTask(ServerTask):
    """A task of MCP 2026-07-28."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._answered: set[str] = set()

    async def _answer_questions(self) -> None:
        questions = (self._state.input_requests if isinstance(self._state, _TaskState) else None) or {}
        new = {key: question for key, question in questions.items() if key not in self._answered}
        if len(self._answered) + len(new) > _MAX_QUESTIONS:
            text = f'Server "{self._server}" asked more than {_MAX_QUESTIONS} questions in the task of "{self._name}".'
            raise ProtocolError(text, server=self._server)
        if new and self._state.status == "input_required":
            self._answered |= new.keys()
            await self._report_update()
            await self._send(lambda client: answer_questions(client, self._id, new), self._max_s, repeat=False)

    async def _get_result(self) -> CallToolResult:
        if not isinstance(self._state, _TaskState):  # it was already complete when created
            await self._poll()
        return await self._send(self._read_result)

    async def _read_result(self, _client: Client) -> CallToolResult:
        state = self._state
        error = getattr(state, "error", None)
        if state.status == "failed":
            raise MCPError.from_error_data(error or ErrorData(code=INTERNAL_ERROR, message=state.status_message or "?"))
        return CallToolResult.model_validate(repair_content(getattr(state, "result", None) or {}), by_name=False)


class LegacyTask(ServerTask):
    """A task of MCP 2025-11-25. Its questions arrive as requests while `tasks/result` is pending."""

    _result: asyncio.Task[CallToolResult] | None = None

    async def wait(self) -> CallToolResult:
        """Poll until the task ends; see `ServerTask.wait`."""
        try:
            return await super().wait()
        finally:
            if self._result:
                self._result.cancel()
                await asyncio.gather(self._result, return_exceptions=True)

    async def _poll(self) -> None:
        if self._result and self._result.done():
            self._state = self._state.model_copy(update={"status": "completed"})
        else:
            await super()._poll()

    async def _wait_for_poll(self, wait_s: float) -> None:
        if self._result:
            await asyncio.wait([self._result], timeout=wait_s)
        else:
            await super()._wait_for_poll(wait_s)

    async def _answer_questions(self) -> None:
        if self._state.status == "input_required" and self._result is None:
            self._result = asyncio.create_task(self._send(self._fetch_result, self._max_s))

    async def _get_result(self) -> CallToolResult:
        return await (self._result or self._send(self._fetch_result, self._max_s))

    async def _fetch_result(self, client: Client) -> CallToolResult:
        return await send_task_request(client, "tasks/result", CallToolResult, self._id, self._max_s)


def _poll_interval_s(state: TaskHandle) -> float:
    """Return the seconds until the next poll: the server's wish, limited to 0.05 to 10 s."""
    requested_ms = state.poll_interval_ms if state.poll_interval is None else state.poll_interval
    return _POLL_S if requested_ms is None else min(max(requested_ms / 1000, _SHORTEST_POLL_S), _LONGEST_POLL_S)


async def send_task_request(
    client: Client, method: str, kind: type[R], task_id: str, limit_s: float | None = None, **params: Any
) -> R:
    """Send one of a task's requests, with `limit_s` or the session's deadline."""
    request = _TaskRequest(method=method, params=_TaskParams(task_id=task_id, **params))
    return await client.session.send_request(request, kind, limit_s)


async def answer_questions(client: Client, task_id: str, questions: Mapping[str, InputRequest]) -> None:
    """Answer the questions of a task with the client's callbacks. Raises MCPError if one is refused."""
    responses: dict[str, Any] = {}
    for key, question in questions.items():
        meta = question.params.meta if question.params else None
        context = ClientRequestContext(session=client.session, request_id=key, meta=meta)
        response = await client.session.dispatch_input_request(context, question)
        if isinstance(response, ErrorData):
            raise MCPError.from_error_data(response)
        responses[key] = response
    await send_task_request(client, "tasks/update", EmptyResult, task_id, input_responses=responses)
