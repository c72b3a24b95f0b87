"""Poll tool calls that became tasks, answer their questions, and cancel them.

Two protocols. With the extension io.modelcontextprotocol/tasks (specification of 2026-07-28) a server may turn any call
into a task, and questions and result are part of the task's state. In the experiment of 2025-11-25 a tool declares that
it must be called as a task, and `tasks/result` delivers both.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..core.errors import ProtocolError
from ..core.sanitize import shorten_line
from .protocol.faults import INTERNAL_ERROR, UNUSABLE, UNUSABLE_CODE
from .protocol.normalize import normalize_result
from .transports.driver import AnswerError

if TYPE_CHECKING:
    from .client import Client

_POLL_S = 1.0
_SHORTEST_POLL_S, _LONGEST_POLL_S = 0.05, 10.0
_MAX_QUESTIONS = 32
_REQUEST_S = 10.0
_FINAL_STATES = ("completed", "failed", "cancelled")

T = TypeVar("T")
State = dict[str, Any]
"""A task as both protocols describe it; intervals are in milliseconds."""
_OnTaskUpdate = Callable[[float, None, str], None]
"""Called when a task's state changes: number of changes so far, None, and the server's status message."""


class _SendRequest(Protocol):
    """Send a request to the server, which may have been restarted since the last one. Raises ChatError."""

    async def __call__(self, send: Callable[[Client], Awaitable[T]], limit_s: float = ..., repeat: bool = ...) -> T: ...


async def start_task(client: Client, name: str, arguments: Mapping[str, Any], max_s: float, token: str) -> State:
    """Call a tool of MCP 2025-11-25 as a task that the server keeps for `max_s` seconds."""
    params = {"name": name, "arguments": dict(arguments), "task": {"ttl": round(1000 * max_s)}}
    result = await client.request("tools/call", {**params, "_meta": {"progressToken": token}}, _REQUEST_S)
    return read_state(result.get("task"))


def read_state(value: Any) -> State:
    """Return the state of a task. Raises AnswerError if it is malformed."""
    if isinstance(value, dict) and isinstance(value.get("taskId"), str) and isinstance(value.get("status"), str):
        return value
    raise AnswerError(UNUSABLE_CODE, "its task has no id or no status", UNUSABLE)


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
        self, server: str, name: str, handle: State, send: _SendRequest, on_update: _OnTaskUpdate, max_s: float
    ) -> None:
        self._server, self._name, self._id = server, name, handle["taskId"]
        self._state: State = handle
        self._send, self._on_update, self._max_s = send, on_update, max_s
        self._reported: tuple[Any, ...] = ()
        self._updates = 0

    async def wait(self) -> dict[str, Any]:
        """Poll until the task ends and return the call's result.

        A caller that stops waiting must call `cancel`.

        Raises:
            ChatError: The task failed or was cancelled, or the server cannot be reached.
        """
        while self._state["status"] not in _FINAL_STATES:
            self._report_update()
            await self._wait_for_poll(_poll_interval_s(self._state))
            await self._poll()
            await self._answer_questions()
        if self._state["status"] == "cancelled":
            said = self._state.get("statusMessage")
            reason = f": {shorten_line(str(said))}" if said else "."
            raise ProtocolError(f'Server "{self._server}" cancelled the task of "{self._name}"{reason}')
        return await self._get_result()

    async def cancel(self, client: Client) -> None:
        """Cancel the task at the server; failures are ignored because it may have ended."""
        if self._state["status"] not in _FINAL_STATES:
            with contextlib.suppress(Exception):
                await send_task_request(client, "tasks/cancel", self._id)

    async def _poll(self) -> None:
        async def get(client: Client) -> State:
            return read_state(await send_task_request(client, "tasks/get", self._id))

        self._state = await self._send(get)

    def _report_update(self) -> None:
        state = self._state
        update = (state["status"], state.get("statusMessage"), state.get("lastUpdatedAt"))
        if update != self._reported:
            self._reported = update
            self._updates += 1
            said = state.get("statusMessage") or state["status"]
            self._on_update(self._updates, None, shorten_line(str(said)))

    async def _wait_for_poll(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)

    @abstractmethod
    async def _answer_questions(self) -> None:
        """Answer each new question of the task once."""

    @abstractmethod
    async def _get_result(self) -> dict[str, Any]:
        """Return the result of a completed task. Raises ChatError if it failed."""


class ModernTask(ServerTask):
    """A task of MCP 2026-07-28."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._answered: set[str] = set()
        self._has_polled = False

    async def _poll(self) -> None:
        await super()._poll()
        self._has_polled = True

    async def _answer_questions(self) -> None:
        questions = self._state.get("inputRequests")
        questions = questions if isinstance(questions, dict) else {}
        new = {key: question for key, question in questions.items() if key not in self._answered}
        if len(self._answered) + len(new) > _MAX_QUESTIONS:
            text = f'Server "{self._server}" asked more than {_MAX_QUESTIONS} questions in the task of "{self._name}".'
            raise ProtocolError(text, server=self._server)
        if new and self._state["status"] == "input_required":
            self._answered |= new.keys()
            self._report_update()
            await self._send(lambda client: answer_questions(client, self._id, new), self._max_s, repeat=False)

    async def _get_result(self) -> dict[str, Any]:
        if not self._has_polled:  # it was already complete when created
            await self._poll()
        return await self._send(self._read_result)

    async def _read_result(self, _client: Client) -> dict[str, Any]:
        error, result = self._state.get("error"), self._state.get("result")
        if self._state["status"] == "failed":
            error = error if isinstance(error, dict) else {}
            text = error.get("message") or self._state.get("statusMessage") or "?"
            raise AnswerError(error.get("code", INTERNAL_ERROR), str(text), error.get("data"))
        return normalize_result("tools/call", result) if isinstance(result, dict) else {}


class LegacyTask(ServerTask):
    """A task of MCP 2025-11-25. Its questions arrive as requests while `tasks/result` is pending."""

    _result: asyncio.Task[dict[str, Any]] | None = None

    async def wait(self) -> dict[str, Any]:
        """Poll until the task ends; see `ServerTask.wait`."""
        try:
            return await super().wait()
        finally:
            if self._result:
                self._result.cancel()
                await asyncio.gather(self._result, return_exceptions=True)

    async def _poll(self) -> None:
        if self._result and self._result.done():
            self._state = {**self._state, "status": "completed"}
        else:
            await super()._poll()

    async def _wait_for_poll(self, wait_s: float) -> None:
        if self._result:
            await asyncio.wait([self._result], timeout=wait_s)
        else:
            await super()._wait_for_poll(wait_s)

    async def _answer_questions(self) -> None:
        if self._state["status"] == "input_required" and self._result is None:
            self._result = asyncio.create_task(self._send(self._fetch_result, self._max_s))

    async def _get_result(self) -> dict[str, Any]:
        return await (self._result or self._send(self._fetch_result, self._max_s))

    async def _fetch_result(self, client: Client) -> dict[str, Any]:
        return await send_task_request(client, "tasks/result", self._id, self._max_s)


def _poll_interval_s(state: State) -> float:
    """Return the seconds until the next poll: the server's wish, limited to 0.05 to 10 s."""
    wishes = (state.get("pollInterval"), state.get("pollIntervalMs"))
    requested_ms = next((wish for wish in wishes if isinstance(wish, int | float)), None)
    return _POLL_S if requested_ms is None else min(max(requested_ms / 1000, _SHORTEST_POLL_S), _LONGEST_POLL_S)


async def send_task_request(
    client: Client, method: str, task_id: str, limit_s: float = _REQUEST_S, **params: Any
) -> dict[str, Any]:
    """Send one of a task's requests."""
    return await client.request(method, {"taskId": task_id, **params}, limit_s)


async def answer_questions(client: Client, task_id: str, questions: Mapping[str, Any]) -> None:
    """Answer the questions of a task with the client's handlers. Raises AnswerError if one is refused."""
    await send_task_request(client, "tasks/update", task_id, inputResponses=await client.answer_all(dict(questions)))
