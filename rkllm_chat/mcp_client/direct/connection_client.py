"""A one-shot session through the client of the chat, for servers that the small client does not support.

Synchronous: each method runs its own event loop until it is done.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
import warnings
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeVar

from ...config.files import LOGINS_FOLDER
from ...config.loader import state_folder
from ...config.servers import ServerConfig
from ...core.errors import ChatError
from ..connection import Connection
from ..handlers import ClientHandlers, ElicitHandler, ignore
from ..progress import CallDeadline
from ..protocol.limits import MAX_RESULT_BYTES

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

    from ..client import Client
    from ..protocol.dialog import AskForm
    from ..transports.base import Transport

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_T = TypeVar("_T")


class ConnectionClient:
    """A session with the interface of `DirectClient`, through a `Connection`. Every method raises only ChatErrors.

    Attributes:
        server: The server's configuration.
        phase_seconds: Duration of each phase so far.
        needs: "": what is asked of the client without being offered is refused.
        may_require_tasks: False: tasks are run here.
    """

    needs = ""
    may_require_tasks = False

    def __init__(
        self,
        server: ServerConfig,
        max_bytes: int = MAX_RESULT_BYTES,
        ask_form: AskForm | None = None,
        as_chat: bool = False,
    ) -> None:
        self.server = server
        self.phase_seconds: dict[str, float] = {}
        logging.getLogger().addHandler(logging.NullHandler())  # keeps the SDK's warnings off standard error
        warnings.simplefilter("ignore")
        self._loop = asyncio.new_event_loop()
        self._log_file = Path(mkdtemp(prefix="rkllm-chat-")) / "server.log"
        handlers = ClientHandlers(elicit=_make_elicit_handler(ask_form) if ask_form else None)
        if as_chat:
            elicit = _make_elicit_handler(_decline_form)
            handlers = ClientHandlers(sample=_decline, elicit=elicit, default_root=Path.cwd())
        self._max_bytes = max_bytes
        self._connection = Connection(server, self._log_file, handlers)
        self._lifecycle = self._connection.lifecycle
        self._lifecycle.on_transport = self._prepare_transport
        self._lifecycle.login_folder = state_folder() / LOGINS_FOLDER
        self._is_open = False

    def _prepare_transport(self, transport: Transport) -> None:
        """Use this session's limit of a message."""
        transport.max_bytes = self._max_bytes

    @property
    def no_sandbox(self) -> str:
        """Why the server's process has no sandbox although one is configured, else ""."""
        sandbox = self._connection.sandbox
        return sandbox.unavailable_reason if sandbox else ""

    @property
    def stderr_tail(self) -> str:
        """The end of the server's standard error, if it is a process."""
        return self._lifecycle.transport.stderr_tail.strip() if self._lifecycle.transport else ""

    @property
    def info(self) -> dict[str, Any]:
        """The server's name and version."""
        return dict(self._lifecycle.server_info)

    @property
    def instructions(self) -> str:
        """What the server says about its use."""
        return self._lifecycle.instructions

    @property
    def version(self) -> str:
        """The negotiated protocol version."""
        return self._lifecycle.protocol_version

    def explain_denial(self, text: str) -> str:
        """Return which sandbox setting would allow what the server complains about, else ""."""
        denial = self._connection.find_denial(text, {})
        return denial.text if denial else ""

    def open(self) -> None:
        """Start or connect the server and negotiate the protocol."""
        if self._is_open:
            return
        self._run(self._lifecycle.open(), "start")
        if error := self._lifecycle.error:
            error.details.setdefault("phase", "start")
            raise error
        self._is_open = True

    def has_capability(self, name: str) -> bool:
        """Tell whether the server declares a capability such as "tools"."""
        self.open()
        return self._lifecycle.declares(name)

    def request(self, method: str, params: dict[str, Any], phase: str, limit_s: float) -> dict[str, Any]:
        """Send a request and return its result as the server wrote it; arguments as for `DirectClient.request`."""
        self.open()
        if method == "tools/call":
            call = self._connection.call_raw(params["name"], params["arguments"], ignore, limit_s=limit_s)
            return self._run(call, phase)

        async def send(client: Client) -> dict[str, Any]:
            deadline = CallDeadline(limit_s, self._lifecycle.deadlines)
            with deadline.enforce():
                return await client.request(method, params, deadline.max_s)

        return self._run(self._connection.request(send, limit_s, repeat=False), phase)

    def _run(self, work: Coroutine[Any, Any, _T], phase: str) -> _T:
        started_at = time.monotonic()
        task = self._loop.create_task(work)
        try:
            with _signals_cancel(task, self._loop):
                return self._loop.run_until_complete(task)
        except ChatError as error:
            error.details["phase"] = phase
            raise
        finally:
            self.phase_seconds[phase] = self.phase_seconds.get(phase, 0.0) + time.monotonic() - started_at

    def close(self, is_patient: bool = True) -> None:  # noqa: ARG002 - the connection has its own limits
        """Close the connection and delete the log."""
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._lifecycle.aclose())
            self._loop.close()
            self._log_file.unlink(missing_ok=True)
            self._log_file.parent.rmdir()


async def _decline(_server: str, _params: Any) -> None:
    """Decline a sampling request."""


def _decline_form(_params: dict[str, Any]) -> dict[str, Any]:
    return {"action": "decline"}


def _make_elicit_handler(ask_form: AskForm) -> ElicitHandler:
    async def elicit(_server: str, params: ElicitRequestParams) -> ElicitResult:
        from mcp_types import ElicitResult

        asked = params.model_dump(by_alias=True, exclude_none=True, mode="json")
        # on a thread, because reading the terminal blocks and the server is to be answered meanwhile
        return ElicitResult.model_validate(await asyncio.to_thread(ask_form, asked), by_name=False)

    return elicit


@contextmanager
def _signals_cancel(task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let a signal that has a handler cancel `task`, and run its handler when the task has ended.

    A handler that raises would otherwise raise inside the coroutine that runs just then, where the exception is taken
    for a failure of the server.
    """
    received: list[int] = []

    def cancel(number: int, _frame: object) -> None:
        received.append(number)
        loop.call_soon_threadsafe(task.cancel)  # also wakes the loop

    previous_handlers = {}
    if threading.current_thread() is threading.main_thread():
        previous_handlers = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    replaced = {number: handler for number, handler in previous_handlers.items() if callable(handler)}
    for number in replaced:
        signal.signal(number, cancel)
    try:
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])
