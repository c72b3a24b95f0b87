"""The requests of an MCP client, from the handshake to a result, on top of a `JsonRpcSession`. No I/O.

Source: the MCP specification, revisions 2024-11-05 to 2025-11-25 (lifecycle) and 2026-07-28 (stateless requests). The
blocking driver uses `Dialog`; the asyncio client has many requests in flight and uses the functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.errors import ProtocolError
from ...core.version import __version__
from .faults import METHOD_NOT_FOUND, is_same_id, make_answer_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .session import Event, JsonRpcSession

    AskForm = Callable[[dict[str, Any]], dict[str, Any]]
    """Fills a form of the server, or shows a URL: parameters and result of `elicitation/create`."""

_NEWEST_VERSION = "2025-11-25"
STATELESS_VERSION = "2026-07-28"
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", _NEWEST_VERSION)
_CLIENT_INFO = {"name": "rkllm_chat", "version": __version__}
FIRST_ID = 100
"""Number of the first request: some servers send a response with id 1 before any request."""
META_PREFIX = "io.modelcontextprotocol/"
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
UNCANCELLABLE = ("initialize", "server/discover")
"""Requests that may not be cancelled (MCP 2025-11-25, cancellation)."""


def make_stateless_meta(capabilities: dict[str, Any]) -> dict[str, Any]:
    """Return the `_meta` of a request without a handshake (MCP 2026-07-28): who asks, and what it offers."""
    client = {"protocolVersion": STATELESS_VERSION, "clientInfo": _CLIENT_INFO, "clientCapabilities": capabilities}
    return {f"{META_PREFIX}{key}": value for key, value in client.items()}


def make_initialize_params(capabilities: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of `initialize`."""
    return {"protocolVersion": _NEWEST_VERSION, "capabilities": capabilities, "clientInfo": _CLIENT_INFO}


def read_version(server: str, result: dict[str, Any]) -> str:
    """Return the version in the result of `initialize`. Raises ProtocolError for an unknown one."""
    version = result.get("protocolVersion")
    if version in HANDSHAKE_VERSIONS:
        return str(version)
    known = ", ".join(HANDSHAKE_VERSIONS)
    text = f'Server "{server}" uses protocol version {repr(version)[:60]}; supported are {known}.'
    raise ProtocolError(text, got=str(version)[:60])


def read_object(server: str, result: dict[str, Any], key: str) -> dict[str, Any]:
    """Return an object in a result of negotiation. Raises ProtocolError if it is something else."""
    value = result.get(key) or {}
    if isinstance(value, dict):
        return value
    text = f'Server "{server}" violated the protocol: its "{key}" is not an object.'
    raise ProtocolError(text, server=server, got=str(value)[:40])


def read_progress(params: dict[str, Any]) -> tuple[float, float | None, str] | None:
    """Return progress, total if known, and message of a progress notification; None if it reports none."""
    progress, total, text = params.get("progress"), params.get("total"), params.get("message")
    if not isinstance(progress, int | float):
        return None
    return progress, total if isinstance(total, int | float) else None, text if isinstance(text, str) else ""


class Dialog:
    """One request after another to a server; what the server asks meanwhile is answered.

    Without a handshake (MCP 2026-07-28) no roots are announced: the server would ask for them by a result that requires
    input.

    Args:
        server: The server's name.
        session: Its JSON-RPC session.
        roots: Absolute paths of the folders to announce.
        ask_form: Answers the server's forms; None if there is nobody to ask.

    Attributes:
        version: The negotiated protocol version, "" before.
        response: The response to the last request, once received.
        progress_count: Number of progress notifications of the last request, and of forms that were answered.
        refused_methods: Requests of the server that were not supported.
    """

    def __init__(
        self, server: str, session: JsonRpcSession, roots: Sequence[str] = (), ask_form: AskForm | None = None
    ) -> None:
        self._server, self._session, self._roots, self._ask_form = server, session, roots, ask_form
        self.refused_methods: set[str] = set()
        self.version = ""
        self.response: dict[str, Any] | None = None
        self.progress_count = 0
        self._last_id = FIRST_ID
        self._is_waiting = False

    def make_cancellation(self) -> dict[str, Any] | None:
        """Return the cancellation of the pending request; None if there is none."""
        if not self._is_waiting:
            return None
        self._is_waiting = False
        params = {"requestId": self._last_id, "reason": "The client has disconnected."}
        return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}

    def make_request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the message of a new request; in the stateless form it carries the client's details.

        A call asks for progress, with the number of the request as token.
        """
        self.response = None
        self.progress_count = 0
        self._last_id += 1
        self._is_waiting = True
        meta: dict[str, Any] = {"progressToken": self._last_id} if method == "tools/call" else {}
        if self.version == STATELESS_VERSION:
            meta |= make_stateless_meta({})
        if meta:
            params = {**params, "_meta": meta}
        return {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}

    def make_initialize(self) -> dict[str, Any]:
        capabilities: dict[str, Any] = {"roots": {}} if self._roots else {}
        if self._ask_form:
            capabilities["elicitation"] = {"form": {}, "url": {}}
        return self.make_request("initialize", make_initialize_params(capabilities))

    def accept_initialize(self, result: dict[str, Any]) -> dict[str, Any]:
        """Process the result of `initialize`; return the next message. Raises ProtocolError for an unknown version."""
        self.version = read_version(self._server, result)
        return INITIALIZED

    def receive(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """Process events of the session; return the replies to the server's requests."""
        replies = []
        for message, method in events:
            if method:
                self.response = message if message["id"] == self._last_id else self.response
            elif "id" in message:
                replies.append(self._reply(message))
            else:
                self._count_progress(message)
        replies += self._session.refusals
        self._session.refusals.clear()
        return replies

    def _count_progress(self, notification: dict[str, Any]) -> None:
        """Count a notification if it reports progress of the last request."""
        params = notification.get("params")
        if notification["method"] == "notifications/progress" and isinstance(params, dict):
            self.progress_count += is_same_id(params.get("progressToken"), self._last_id)

    def _reply(self, value: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": value["id"]}
        if value["method"] == "ping":
            return {**reply, "result": {}}
        if value["method"] == "roots/list" and self._roots:
            return {**reply, "result": {"roots": [describe_root(path) for path in self._roots]}}
        params = value.get("params")
        if value["method"] == "elicitation/create" and self._ask_form and isinstance(params, dict):
            result = self._ask_form(params)
            self.progress_count += 1  # the time of the user is not the server's
            return {**reply, "result": result}
        self.refused_methods.add(str(value["method"]))
        return {**reply, "error": {"code": METHOD_NOT_FOUND, "message": "This client does not support this method."}}

    def read_result(self, method: str) -> dict[str, Any]:
        """Return the result of the last request.

        Raises:
            ProtocolError: The response is an error or incomplete.
        """
        self._is_waiting = False
        answer, server = self.response or {}, self._server
        if "error" in answer:
            error = make_answer_error(server, answer["error"])
            error.details["method"] = method
            raise error
        result: dict[str, Any] = answer["result"]
        kind = result.get("resultType", "complete")
        if kind == "input_required":
            text = f'Server "{server}" requires input from the user, which a one-shot command cannot provide.'
            raise ProtocolError(text, "Use the tool in the chat.", server=server, got=kind)
        if kind != "complete":
            text = f'Server "{server}" violated the protocol: its result has the unknown type {str(kind)[:40]!r}.'
            raise ProtocolError(text, server=server, got=str(kind)[:40])
        return result


def describe_root(path: str) -> dict[str, str]:
    """Return a folder as an MCP root."""
    from urllib.parse import quote

    return {"uri": f"file://{quote(path, errors='surrogateescape')}", "name": path.rpartition("/")[2]}
