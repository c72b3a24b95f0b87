"""The MCP client of programs that keep servers open: negotiation, requests, subscriptions. A `Driver` moves the bytes.

Results are JSON as the server sent it, in the form of `protocol.normalize`; `sdk_types` converts what a program asks
for.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from ..core.errors import ProtocolError
from .protocol.dialog import (
    HANDSHAKE_VERSIONS,
    INITIALIZED,
    META_PREFIX,
    STATELESS_VERSION,
    make_initialize_params,
    make_stateless_meta,
    read_object,
    read_version,
)
from .protocol.faults import INVALID_REQUEST, SERVER_INFO_META, UNUSABLE, UNUSABLE_CODE, explain_list_fault
from .protocol.limits import LIST_TIMEOUT_S
from .protocol.paging import ListPages
from .transports.driver import AnswerError, Driver

if TYPE_CHECKING:
    from .server_requests import ServerRequests
    from .transports.driver import OnProgress

    OnNotification = Callable[[str, dict[str, Any]], None]

DISCOVER_S = 2.0
"""Servers of older protocols may not answer `server/discover`."""
_UNSUPPORTED_VERSION = -32022
_RESULT_TYPES = ("complete", "input_required", "task")
_MAX_ROUNDS, _MAX_QUESTIONS = 10, 8
_ROUND_S = 0.25
_listen_numbers = itertools.count(1)


@dataclass
class Listing:
    """The pages of a list that were read; its entries that are objects, their number, and why it is unusable, or ""."""

    entries: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    pages: ListPages = field(default_factory=ListPages)
    total: int = 0
    fault: str = ""


class Client:
    """The requests of this program to one open server.

    Args:
        server: The server's name.
        driver: Its connection.
        requests: Answers what the server asks.
        log_level: The level of log messages that the server is to send.

    Attributes:
        version: The negotiated protocol version, "" before.
        capabilities: What the server declared.
        info: Its name and version; empty if it does not say.
        instructions: What it says about its use.
        header_arguments: Arguments that are also sent as HTTP headers, by tool.
    """

    def __init__(self, server: str, driver: Driver, requests: ServerRequests, log_level: str) -> None:
        self._server, self._driver, self._requests, self._log_level = server, driver, requests, log_level
        self.version = self.instructions = ""
        self.capabilities: dict[str, Any] = {}
        self.info: dict[str, Any] = {}
        self.header_arguments = driver.header_arguments
        self._listeners: dict[str, OnNotification] = {}
        driver.on_request, driver.on_notification = self._answer, self._handle_notification

    @property
    def is_stateless(self) -> bool:
        """Whether the server is used without a handshake (MCP 2026-07-28)."""
        return self.version == STATELESS_VERSION

    async def open(self, is_legacy: bool) -> None:
        """Negotiate the protocol: first ask for the newest, unless `is_legacy`; else begin with the handshake.

        Raises:
            AnswerError: The server refuses both, or has only versions that are unknown here.
            ProtocolError: Its answer is unusable.
        """
        if is_legacy or not await self._discover():
            try:
                result = await self._driver.request(
                    "initialize", make_initialize_params(self._requests.make_capabilities())
                )
            except AnswerError as error:
                # a late answer to the first question may have fixed the version meanwhile
                if STATELESS_VERSION not in _read_supported(error) or not await self._discover():
                    raise
                return
            self._adopt(result, read_version(self._server, result))
            self.info = read_object(self._server, result, "serverInfo")
            self._driver.send(INITIALIZED)

    async def _discover(self, may_repeat: bool = True) -> bool:
        """Ask a server what it has without a handshake; return whether it answers in the newest version.

        Args:
            may_repeat: Whether to ask once more where the server refuses the version and names it as supported.
        """
        try:
            result = await self.discover()
        # servers before 2026-07-28 may answer nothing; what comes late is dropped by its id
        except TimeoutError:
            return False
        except AnswerError as error:
            known = _read_supported(error)
            if STATELESS_VERSION in known and may_repeat:
                return await self._discover(may_repeat=False)
            if known and not any(version in known for version in HANDSHAKE_VERSIONS):
                raise
            return False
        supported, capabilities = result.get("supportedVersions"), result.get("capabilities")
        if not isinstance(supported, list) or STATELESS_VERSION not in supported or not isinstance(capabilities, dict):
            return False
        self._adopt(result, STATELESS_VERSION)
        meta = result.get("_meta")
        info = meta.get(SERVER_INFO_META) if isinstance(meta, dict) else None
        self.info = info if isinstance(info, dict) else {}
        return True

    async def discover(self, limit_s: float = DISCOVER_S) -> dict[str, Any]:
        """Send `server/discover` and return its result. Raises as `request`."""
        params = {"_meta": make_stateless_meta(self._requests.make_capabilities(is_stateless=True))}
        return await self._driver.request("server/discover", params, limit_s)

    def _adopt(self, result: dict[str, Any], version: str) -> None:
        self.capabilities, self.version = read_object(self._server, result, "capabilities"), version
        self._driver.version = version
        text = result.get("instructions")
        self.instructions = text if isinstance(text, str) else ""

    def declares(self, capability: str, member: str = "") -> bool:
        """Tell whether the server declared a capability, and a member of it such as "listChanged"."""
        value = self.capabilities.get(capability)
        if member:
            value = value.get(member) if isinstance(value, dict) else None
        return value is not None and value is not False

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        limit_s: float = math.inf,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Send a request and return its result; what it requires of the user is asked, and the request repeated.

        A call may return a task, with the `resultType` "task".

        Raises:
            AnswerError: The answer is an error.
            TimeoutError: No answer came within the limit.
            ConnectionEndedError: The connection has ended.
            ProtocolError: The server requires input again and again.
        """
        params = params or {}
        result = await self._send(method, params, limit_s, on_progress)
        for _ in range(_MAX_ROUNDS):
            if result.get("resultType") != "input_required":
                return result
            again = {**params, **await self._fulfil(result)}
            result = await self._send(method, again, limit_s, on_progress)
        text = f'Server "{self._server}" requires input again and again.'
        raise ProtocolError(text, server=self._server)

    async def _send(
        self, method: str, params: dict[str, Any], limit_s: float, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        result = await self._driver.request(method, self._stamp(params), limit_s, on_progress)
        kind = result.get("resultType", "complete")
        if kind not in _RESULT_TYPES:
            raise AnswerError(UNUSABLE_CODE, f"The result is of an unknown type: {str(kind)[:40]!r}", UNUSABLE)
        return result

    def _stamp(self, params: dict[str, Any]) -> dict[str, Any]:
        """Add what every request without a handshake carries."""
        if not self.is_stateless:
            return params
        meta = make_stateless_meta(self._requests.make_capabilities(is_stateless=True))
        meta[f"{META_PREFIX}logLevel"] = self._log_level
        return {**params, "_meta": {**meta, **params.get("_meta", {})}}

    async def _fulfil(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the members of the next request that answer an incomplete result (MCP 2026-07-28)."""
        asked, state = result.get("inputRequests"), result.get("requestState")
        answer = {} if state is None else {"requestState": state}
        if not asked:
            await asyncio.sleep(_ROUND_S)
            return answer
        return {**answer, "inputResponses": await self.answer_all(asked)}

    async def answer_all(self, asked: object) -> dict[str, Any]:
        """Return the answers to embedded requests of the server by key. Raises AnswerError if one is refused."""
        if not isinstance(asked, dict) or not all(isinstance(question, dict) for question in asked.values()):
            raise AnswerError(UNUSABLE_CODE, "Its questions are malformed", UNUSABLE)
        if len(asked) > _MAX_QUESTIONS:
            raise AnswerError(INVALID_REQUEST, "Too many questions at once.")
        return {
            key: await self._requests.answer(str(question.get("method")), question.get("params") or {})
            for key, question in asked.items()
        }

    async def list_all(self, method: str, key: str) -> Listing:
        """Return the entries of all pages of a list, see `ListPages`.

        Raises:
            TimeoutError: All pages together took longer than 10 seconds.
            AnswerError: A page was refused.
        """
        listing = Listing()
        pages = listing.pages
        with anyio.fail_after(LIST_TIMEOUT_S):
            while not pages.is_complete:
                try:
                    page = await self.request(method, {} if pages.cursor is None else {"cursor": pages.cursor})
                except AnswerError:
                    if pages.end_at_empty_cursor():
                        break
                    raise
                if fault := explain_list_fault(page, key):
                    listing.fault = fault
                    break
                entries = [entry for entry in page[key] if isinstance(entry, dict)]
                listing.total += len(entries)
                listing.entries += pages.add(entries, page.get("nextCursor"))
        return listing

    async def listen(self, wanted: dict[str, Any], on_event: OnNotification, limit_s: float) -> None:
        """Subscribe (MCP 2026-07-28) until the server ends it.

        Args:
            wanted: What is to be reported.
            on_event: Receives the acknowledgment, and then the notifications.
            limit_s: Limit of the acknowledgment.

        Raises:
            AnswerError: The server refuses, or the stream broke off.
            TimeoutError: The server did not acknowledge the subscription.
        """
        request_id = f"listen-{next(_listen_numbers)}"
        acknowledged = asyncio.Event()

        def handle(method: str, params: dict[str, Any]) -> None:
            if method == _ACKNOWLEDGED or acknowledged.is_set():
                acknowledged.set()
                on_event(method, params)

        # before the request is sent: the acknowledgment may come with the next bytes that are read
        self._listeners[request_id] = handle
        request = self._driver.request(
            "subscriptions/listen", self._stamp({"notifications": wanted}), request_id=request_id
        )
        work = asyncio.ensure_future(request)
        waiting = asyncio.ensure_future(acknowledged.wait())
        try:
            done, _ = await asyncio.wait([work, waiting], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise TimeoutError
            await work
        finally:
            del self._listeners[request_id]
            for task in (work, waiting):
                task.cancel()

    def _handle_notification(self, method: str, params: dict[str, Any]) -> None:
        meta = params.get("_meta")
        subscription = meta.get(f"{META_PREFIX}subscriptionId") if isinstance(meta, dict) else None
        if isinstance(subscription, str) and subscription in self._listeners:
            self._listeners[subscription](method, params)
        elif method == "notifications/cancelled" and params.get("requestId") in self._listeners:
            self._driver.fail_request(params["requestId"], "the server has ended the subscription")
        else:
            self._requests.handle_notification(method, params)

    async def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self._requests.answer(method, params, is_direct=not self.is_stateless)


_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def _read_supported(error: AnswerError) -> list[Any]:
    """Return the versions in an error about an unsupported one; empty for other errors."""
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    return supported if error.code == _UNSUPPORTED_VERSION and isinstance(supported, list) else []
