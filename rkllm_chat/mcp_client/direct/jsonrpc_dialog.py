"""The JSON-RPC 2.0 and MCP logic of a session, on dictionaries. No I/O.

Source: the MCP specification, revisions 2024-11-05 to 2025-11-25 (lifecycle) and 2026-07-28 (stateless requests).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...core.errors import ProtocolError
from ...core.redact import truncate_at_word
from ...core.version import __version__
from ..protocol.faults import METHOD_NOT_FOUND, UNREADABLE_REQUEST_CODES, explain_wrong_id, is_same_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    AskForm = Callable[[dict[str, Any]], dict[str, Any]]
    """Fills a form of the server, or shows a URL: parameters and result of `elicitation/create`."""

_NEWEST_VERSION = "2025-11-25"
STATELESS_VERSION = "2026-07-28"
_SUPPORTED_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", _NEWEST_VERSION)
_CLIENT_INFO = {"name": "rkllm_chat", "version": __version__}
MAX_MESSAGE_CHARS = 300
_FIRST_ID = 100
"""Number of the first request: some servers send a response with id 1 before any request."""
_META_PREFIX = "io.modelcontextprotocol/"


class UnsupportedByDirectClient(Exception):  # noqa: N818 - not an error
    """Raised before any side effect when the server needs what only the SDK client supports.

    That is a redirect, a proxy, OAuth, or HTTP with SSE. The caller retries with `sdk_session`.
    """


class JsonRpcDialog:
    """One session with a server.

    Without a handshake (MCP 2026-07-28) no roots are announced: the server would ask for them by a result that requires
    input.

    Args:
        server: The server's name.
        roots: Absolute paths of the folders to announce.
        ask_form: Answers the server's forms; None if there is nobody to ask.

    Attributes:
        server: The server's name.
        version: The negotiated protocol version, "" before.
        response: The response to the last request, once received.
        doubtful_response: A response with a wrong or missing id. The channel uses it as the answer if no better one
            arrives soon.
        progress_count: Number of progress notifications of the last request, and of forms that were answered.
        refused_methods: Requests of the server that were not supported.
    """

    def __init__(self, server: str, roots: Sequence[str] = (), ask_form: AskForm | None = None) -> None:
        self.server, self._roots, self._ask_form = server, roots, ask_form
        self.refused_methods: set[str] = set()
        self.version = ""
        self.response: dict[str, Any] | None = None
        self.doubtful_response: dict[str, Any] | None = None
        self.progress_count = 0
        self._first = self._last_id = _FIRST_ID
        self._is_waiting = False

    def start_ids_after(self, number: int) -> None:
        """Number requests after `number`; earlier clients have used those numbers and may still get late responses."""
        if number:
            self._first, self._last_id = 0, number

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
        self.response = self.doubtful_response = None
        self.progress_count = 0
        self._last_id += 1
        self._is_waiting = True
        meta: dict[str, Any] = {"progressToken": self._last_id} if method == "tools/call" else {}
        if self.version == STATELESS_VERSION:
            client = {"protocolVersion": STATELESS_VERSION, "clientInfo": _CLIENT_INFO, "clientCapabilities": {}}
            meta.update({f"{_META_PREFIX}{key}": value for key, value in client.items()})
        if meta:
            params = {**params, "_meta": meta}
        return {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}

    def make_initialize(self) -> dict[str, Any]:
        """Return the `initialize` request."""
        capabilities: dict[str, Any] = {"roots": {}} if self._roots else {}
        if self._ask_form:
            capabilities["elicitation"] = {"form": {}, "url": {}}
        return self.make_request(
            "initialize", {"protocolVersion": _NEWEST_VERSION, "capabilities": capabilities, "clientInfo": _CLIENT_INFO}
        )

    def accept_initialize(self, result: dict[str, Any]) -> dict[str, Any]:
        """Process the result of `initialize`; return the next message. Raises ProtocolError for an unknown version."""
        version = result.get("protocolVersion")
        if version not in _SUPPORTED_VERSIONS:
            known = ", ".join(_SUPPORTED_VERSIONS)
            raise ProtocolError(
                f'Server "{self.server}" uses protocol version {repr(version)[:60]}.',
                f"Supported are {known}.",
                got=str(version)[:60],
            )
        self.version = version
        return {"jsonrpc": "2.0", "method": "notifications/initialized"}

    def receive(self, value: Any) -> list[dict[str, Any]]:
        """Process a received JSON value; return the replies to its requests, and ignore anything unrelated."""
        if isinstance(value, list):  # a batch (MCP 2025-03-26)
            return [reply for item in value for reply in self.receive(item)]
        if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
            return []
        if "method" in value:
            if "id" in value:
                return [self._reply(value)]
            self._count_progress(value)
            return []
        response_id = value.get("id")
        if is_same_id(response_id, self._last_id):
            self.response = value
        elif (
            response_id is None
            and isinstance(error := value.get("error"), dict)
            and error.get("code") in UNREADABLE_REQUEST_CODES
        ):
            self.doubtful_response = value
        elif self.version and response_id not in range(self._first, self._last_id):
            self.doubtful_response = {"error": {"message": explain_wrong_id(response_id, self._last_id)}}
        return []

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
            return {**reply, "result": {"roots": [_describe_root(path) for path in self._roots]}}
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
            ProtocolError: The response is an error, is incomplete, or has no result.
        """
        self._is_waiting = False
        answer, server = self.response or {}, self.server
        result, error = answer.get("result"), answer.get("error")
        if error is not None:
            raise self._translate_error(error if isinstance(error, dict) else {"message": error}, method)
        if not isinstance(result, dict):
            raise ProtocolError(f'Server "{server}" violated the protocol: its result is not an object.', server=server)
        kind = result.get("resultType", "complete")
        if kind == "input_required":
            text = f'Server "{server}" requires input from the user, which a one-shot command cannot provide.'
            raise ProtocolError(text, "Use the tool in the chat.", server=server, got=kind)
        if kind != "complete":
            text = f'Server "{server}" violated the protocol: its result has the unknown type {str(kind)[:40]!r}.'
            raise ProtocolError(text, server=server, got=str(kind)[:40])
        return result

    def _translate_error(self, error: dict[str, Any], method: str) -> ProtocolError:
        """Convert an error response."""
        from ...core.sanitize import sanitize_line  # 5 ms, most of it for regular expressions

        code, message = (
            error.get("code"),
            sanitize_line(truncate_at_word(str(error.get("message", "")), MAX_MESSAGE_CHARS)),
        )
        number = f"error {code}" if isinstance(code, int) else "an error"
        text = f'Server "{self.server}" answered with {number}: {message}'
        return ProtocolError(text, server=self.server, method=method, code=code, data=error.get("data"))


def _describe_root(path: str) -> dict[str, str]:
    from urllib.parse import quote

    return {"uri": f"file://{quote(path, errors='surrogateescape')}", "name": os.path.basename(path)}
