"""The asyncio driver of a `JsonRpcSession`: a request is a future by its id, a task answers a request of the server.

A transport passes on what the server has written, `deliver`, and sends what it is given, `put`. When the connection
ends, the results that came just before it are delivered first; then the requests that are left fail.

A request of the server is part of one of ours (MCP 2025-11-25, client/sampling), and ends with it where that is
cancelled: nobody would read the answer, and the user would be asked, or the model be busy, for nothing. With HTTP the
response that carries it says which one it is part of. Else it may be any that was in flight; the last of these decides.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..protocol.dialog import FIRST_ID, UNCANCELLABLE, read_progress
from ..protocol.faults import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNUSABLE_CODE,
    make_unusable,
)
from ..protocol.session import Event, JsonRpcSession
from ..timing import PausableDeadlines

if TYPE_CHECKING:
    from .server_log import ServerLog

    Message = dict[str, Any]
    RequestId = int | str
    OnProgress = Callable[[float, float | None, str], None]

log = logging.getLogger(__name__)


class AnswerError(Exception):
    """A JSON-RPC error: the server's answer to a request, one in place of it, or ours to a request of the server."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def to_json(self) -> dict[str, Any]:
        """Return the error as a member of a response."""
        return {"code": self.code, "message": self.message} | ({} if self.data is None else {"data": self.data})


class ConnectionEndedError(Exception):
    """The connection has ended."""


async def _refuse(_method: str, _params: Message) -> Message:
    raise AnswerError(METHOD_NOT_FOUND, "This client does not support this method.")


def _ignore(_method: str, _params: Message) -> None:
    """Do nothing with a notification."""


@dataclass(eq=False)
class _ServerRequest:
    """A request of the server that is being answered.

    Attributes:
        origins: Those of our requests that it may be part of and that still wait for their answer.
        is_void: Whether one of them was cancelled.
        task: Answers it.
    """

    origins: set[RequestId]
    is_void: bool = False
    task: asyncio.Task[None] | None = None

    def end_origin(self, request_id: RequestId, was_cancelled: bool) -> None:
        """Note that one of our requests has ended, and end with the last one if any of them was cancelled."""
        if request_id not in self.origins:
            return
        self.origins.remove(request_id)
        self.is_void |= was_cancelled
        if self.is_void and not self.origins and self.task:
            self.task.cancel()


class Driver:
    """The messages of one connection.

    Args:
        note: Receives a note about each kind of irregularity.
        put: Called with a message to the server and its JSON; must not wait.
        max_bytes: Limit of a message.
        has_ended: Set when the connection has ended and all that came was delivered.
        deadlines: Limit requests.

    Attributes:
        session: The requests in flight.
        sent_methods: Methods of the requests that were sent.
        version: The version that a handshake has agreed on, "" before; for the headers of HTTP.
        header_arguments: Arguments that are also sent as headers of HTTP, by tool.
        on_request: Answers a request of the server, with its method and parameters. Raises AnswerError.
        on_notification: Receives the other notifications, with method and parameters.
    """

    def __init__(
        self,
        note: ServerLog,
        put: Callable[[Message, bytes], None],
        max_bytes: int,
        has_ended: asyncio.Event,
        deadlines: PausableDeadlines,
    ) -> None:
        self._log, self._put, self._deadlines, self.has_ended = note, put, deadlines, has_ended
        self.session = JsonRpcSession(max_bytes, self._note)
        self.sent_methods: set[str] = set()
        self.version = ""
        self.header_arguments: dict[str, Any] = {}
        self.on_request: Callable[[str, Message], Awaitable[Message]] = _refuse
        self.on_notification: Callable[[str, Message], None] = _ignore
        self._last_id = FIRST_ID
        self._waiting: dict[RequestId, asyncio.Future[Message]] = {}
        self._progress: dict[RequestId, OnProgress] = {}
        self._answering: dict[RequestId, _ServerRequest] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at: float | None = None

    def _note(self, kind: str, what: object) -> None:
        if not self._log.has_note(kind):
            self._log.write_note(kind, f"Ignored: {str(what)[:300]}" if kind == "stray" else str(what))

    async def request(
        self,
        method: str,
        params: Message,
        limit_s: float = math.inf,
        on_progress: OnProgress | None = None,
        request_id: RequestId | None = None,
    ) -> Message:
        """Send a request and return its result; it is cancelled at the server if the wait for it ends early.

        Raises:
            AnswerError: The answer is an error, or the request cannot be sent.
            TimeoutError: No answer came within the limit.
            ConnectionEndedError: The connection has ended.
        """
        if self.has_ended.is_set():
            raise ConnectionEndedError
        if request_id is None:
            self._last_id += 1
            request_id = self._last_id
        if on_progress:
            self._progress[request_id] = on_progress
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": request_id}}
        answer = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        try:
            self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
            self.sent_methods.add(method)
            with self._deadlines.limit(limit_s):
                return _read_answer(await answer)
            raise TimeoutError
        except ValueError as error:
            reason = str(error).splitlines()[0]
            self._note("stray", f"A message to the server cannot be sent: {reason}")
            raise AnswerError(INVALID_PARAMS, f"The request cannot be sent: {reason}") from error
        finally:
            del self._waiting[request_id]
            self._progress.pop(request_id, None)
            # cancelled by its caller or by the limit, whose scope cancels the wait for it
            if answer.cancelled() and method not in UNCANCELLABLE and not self.has_ended.is_set():
                self.notify(
                    "notifications/cancelled", {"requestId": request_id, "reason": "It is not needed any more."}
                )
            for asked in self._answering.values():
                asked.end_origin(request_id, answer.cancelled())

    def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    def send(self, message: Message) -> None:
        """Send a message. Raises ValueError if it cannot be sent."""
        self._put(message, self.session.send(message))
        self._schedule()

    def fail_request(self, request_id: Any, reason: str, code: int = UNUSABLE_CODE) -> None:
        """Answer a request with an error in place of the server; without a code, as unusable."""
        error = make_unusable(reason) if code == UNUSABLE_CODE else {"code": code, "message": reason}
        self.deliver(self.session.fail(request_id, error))

    def fail_with(self, request_id: RequestId, error: Exception) -> None:
        """Raise an error of this program where a request waits for its answer."""
        answer = self._waiting.get(request_id)
        if answer and not answer.done():
            answer.set_exception(error)
        self.fail_request(request_id, "It was not sent, or not answered.")

    def deliver(self, events: Iterable[Event], origin: RequestId | None = None) -> None:
        """Pass events of the session on to those who wait for them.

        Args:
            events: The events.
            origin: The request whose response carries them, if that is known.
        """
        for message, method in events:
            if method:
                answer = self._waiting.get(message["id"])
                if answer and not answer.done():
                    answer.set_result(message)
            elif "id" in message:
                self._answer(message, set(self._waiting) if origin is None else {origin})
            else:
                self._handle_notification(message["method"], message.get("params") or {})
        for refusal in self.session.refusals:
            self._put(refusal, self.session.send(refusal))
        self.session.refusals.clear()
        self._schedule()

    def _handle_notification(self, method: str, params: Message) -> None:
        token, request_id = params.get("progressToken"), params.get("requestId")
        if method == "notifications/progress" and isinstance(token, int | str) and token in self._progress:
            if progress := read_progress(params):
                self._progress[token](*progress)
            return
        if method == "notifications/cancelled" and isinstance(request_id, int | str):
            asked = self._answering.get(request_id)
            _ = asked and asked.task and asked.task.cancel()
        self.on_notification(method, params)

    def _answer(self, message: Message, origins: set[RequestId]) -> None:
        request_id = message["id"]
        asked = self._answering[request_id] = _ServerRequest(origins)
        asked.task = asyncio.get_running_loop().create_task(self._reply(message, asked))

        def finish(_: asyncio.Task[None]) -> None:
            if self._answering.get(request_id) is asked:
                del self._answering[request_id]

        asked.task.add_done_callback(finish)

    async def _reply(self, message: Message, asked: _ServerRequest) -> None:
        reply: Message = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = await self.on_request(message["method"], message.get("params") or {})
        except AnswerError as error:
            reply["error"] = error.to_json()
        except asyncio.CancelledError:
            if not asked.is_void:  # the server has cancelled it, or the connection ends
                raise
            # a server that ignores the cancellation of its call would wait for the answer, and serve nothing else
            void = AnswerError(INVALID_REQUEST, "The call that this request is part of was cancelled.")
            reply["error"] = void.to_json()
        except Exception as error:  # a handler of a program that uses the library
            log.warning("a request of the server could not be answered: %r", error)
            reply["error"] = {"code": INTERNAL_ERROR, "message": "This client failed to answer."}
        if self.has_ended.is_set():
            return
        try:
            self.send(reply)
        except ValueError as error:
            self._note("stray", f"A message to the server cannot be sent: {error}")
            error_reply = AnswerError(INTERNAL_ERROR, "The answer of this client cannot be sent.")
            self.send({"jsonrpc": "2.0", "id": message["id"], "error": error_reply.to_json()})

    def _schedule(self) -> None:
        """Wake when the session wishes it."""
        if self._wake_at == self.session.wake_at:
            return
        if self._timer:
            self._timer.cancel()
        self._wake_at, self._timer = self.session.wake_at, None
        if self._wake_at is not None:
            delay_s = max(0.0, self._wake_at - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._wake_at = None
        self.deliver(self.session.expire())

    def end(self) -> None:
        """Deliver what came, fail all requests that are left, and answer no more."""
        if self.has_ended.is_set():
            return
        self.deliver(self.session.end())
        self.has_ended.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionEndedError())
        for asked in self._answering.values():
            _ = asked.task and asked.task.cancel()


def _read_answer(message: Message) -> Message:
    """Return the result in a response. Raises AnswerError."""
    if error := message.get("error"):
        raise AnswerError(error["code"], error["message"], error.get("data"))
    result: Message = message["result"]
    return result
