"""An MCP session with one server over any `Channel`: open, send requests, close."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ...config.servers import ServerConfig
from ...core.errors import ProtocolError, TimeLimitError, ValidationError
from ..protocol.dialog import STATELESS_VERSION, Dialog, read_object
from ..protocol.faults import NEEDS, SessionLostError
from ..roots import find_roots
from .known_versions import is_stateless, note_stateless

if TYPE_CHECKING:
    from ..protocol.dialog import AskForm
    from ..protocol.session import JsonRpcSession


class Channel:
    """Carries messages to a server and back; see `stdio_channel` and `http_channel`.

    Attributes:
        session: The requests in flight.
    """

    session: JsonRpcSession

    def send(self, message: dict[str, Any]) -> None:
        """Send or queue a message; `exchange` sends the rest. Raises ValueError if it cannot be sent."""
        raise NotImplementedError

    def exchange(self, dialog: Dialog, phase: str, limit_s: float) -> None:
        """Wait until `dialog` has its answer, and answer the server meanwhile; progress extends the limit."""
        raise NotImplementedError

    def stderr_tail(self) -> str:
        """Return the end of the server's standard error; "" if there is none."""
        return ""

    def explain_denial(self, text: str) -> str:  # noqa: ARG002 - remote servers have no sandbox
        """Return which sandbox setting would allow what the server complains about, else ""."""
        return ""

    def close(self, is_patient: bool = True) -> None:
        """Stop the server, or end the session."""
        raise NotImplementedError


class UnsupportedByDirectClient(Exception):  # noqa: N818 - not an error
    """Raised before any side effect when the server needs what only the client of the chat supports.

    That is a redirect, a proxy, OAuth, or HTTP with SSE. The caller retries with `connection_client`.
    """


__all__ = ["DirectClient", "UnsupportedByDirectClient"]
_AWAITED = {"start": "start", "list": "list what it has", "call": "answer the call"}
_NO_HANDSHAKE = (-32022, -32601)
"""Errors that mean the server has no `initialize` and supports only 2026-07-28.

Any other error may be the real cause of a later failure and is reported then.
"""


_NOT_PROCESSED = (-32600, -32601, -32602, -32002, *_NO_HANDSHAKE)
"""Errors with which a server that wants `initialize` first answers other requests, without having processed them."""


class DirectClient:
    """A session that is being opened: creating it sends the first request, whose response is read when it is needed.

    A server that is known to have no handshake is asked at once; where that was another server, it gets the handshake.

    Every method raises only ChatErrors, or `UnsupportedByDirectClient` before any side effect.

    Attributes:
        server: The server's configuration.
        no_sandbox: Why its process has no sandbox although one is configured, else "".
        phase_seconds: Duration of each phase so far.
        info: The server's name and version.
        instructions: What the server says about its use.
    """

    def __init__(
        self, server: ServerConfig, channel: Channel, no_sandbox: str = "", ask_form: AskForm | None = None
    ) -> None:
        self.server, self.no_sandbox = server, no_sandbox
        self.phase_seconds: dict[str, float] = {}
        self.info: dict[str, Any] = {}
        self.instructions = ""
        self._channel = channel
        self._dialog = Dialog(server.name, channel.session, find_roots(server), ask_form)
        self._capabilities: dict[str, Any] | None = None
        self._is_open = False
        self._refusal: ProtocolError | None = None
        self._is_assumed = is_stateless(server)
        if self._is_assumed:
            self._dialog.version, self._is_open = STATELESS_VERSION, True
        else:
            self._send(self._dialog.make_initialize())

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._channel.send(message)
        except ValueError as error:
            text = f'The request to server "{self.server.name}" cannot be sent: {error}.'
            raise ValidationError(text, server=self.server.name) from error

    @property
    def version(self) -> str:
        """The negotiated protocol version."""
        return self._dialog.version

    @property
    def stderr_tail(self) -> str:
        """The end of the server's standard error."""
        return self._channel.stderr_tail()

    def explain_denial(self, text: str) -> str:
        """Return which sandbox setting would allow what the server complains about, else ""."""
        return self._channel.explain_denial(text)

    @property
    def needs(self) -> str:
        """What the server has asked for in vain: a key of NEEDS; "" if nothing."""
        return next((method for method in NEEDS if method in self._dialog.refused_methods), "")

    @property
    def may_require_tasks(self) -> bool:
        """Whether tools of this server may have to be called as tasks, which only the client of the chat does."""
        return self.version != STATELESS_VERSION

    def open(self) -> None:
        """Negotiate the protocol; a server without `initialize` is used in the stateless form."""
        if self._is_open:
            return
        self._wait("start", self.server.connect_s)
        self._is_open = True
        try:
            result = self._dialog.read_result("initialize")
        except ProtocolError as error:
            self._dialog.version = STATELESS_VERSION
            self._refusal = None if error.details.get("code") in _NO_HANDSHAKE else error
        else:
            self.info = read_object(self.server.name, result, "serverInfo")
            self._capabilities = read_object(self.server.name, result, "capabilities")
            text = result.get("instructions")
            self.instructions = text if isinstance(text, str) else ""
            self._send(self._dialog.accept_initialize(result))

    def has_capability(self, name: str) -> bool:
        """Tell whether the server declares a capability such as "tools"; always True in the stateless form."""
        self.open()
        return self._capabilities is None or self._capabilities.get(name) is not None

    def request(self, method: str, params: dict[str, Any], phase: str, limit_s: float) -> dict[str, Any]:
        """Send a request and return its result as the server wrote it.

        Args:
            method: Such as "tools/call".
            params: Its parameters.
            phase: Key of `phase_seconds`, and "phase" of an error: "list", "call" ...
            limit_s: The deadline, which progress of a call extends.
        """
        self.open()
        try:
            result = self._request(method, params, phase, limit_s)
        except Exception as error:
            if not self._is_assumed:
                raise
            self._is_assumed = False
            note_stateless(self.server, False)
            # only what was certainly not run is sent again
            if not (isinstance(error, ProtocolError) and error.details.get("code") in _NOT_PROCESSED):
                raise
            self._begin_anew()
            result = self._request(method, params, phase, limit_s)
        if self.version == STATELESS_VERSION and not self._is_assumed and self._refusal is None:
            self._is_assumed = True
            note_stateless(self.server, True)
        return result

    def _request(self, method: str, params: dict[str, Any], phase: str, limit_s: float) -> dict[str, Any]:
        try:
            self._send_request(method, params, phase, limit_s)
        except SessionLostError:
            self._begin_anew()
            self._send_request(method, params, phase, limit_s)
        try:
            return self._dialog.read_result(method)
        except ProtocolError as error:
            raise self._refusal or error from None

    def _send_request(self, method: str, params: dict[str, Any], phase: str, limit_s: float) -> None:
        self._send(self._dialog.make_request(method, params))
        self._wait(phase, limit_s)

    def _begin_anew(self) -> None:
        """Begin another session in place of a lost one (MCP 2025-11-25, transports, session management)."""
        # a handshake carries no version yet
        self._dialog.version, self._is_open = "", False
        self._send(self._dialog.make_initialize())
        self.open()

    def _wait(self, phase: str, limit_s: float) -> None:
        started_at = time.monotonic()
        try:
            self._channel.exchange(self._dialog, phase, limit_s)
        finally:
            self.phase_seconds[phase] = self.phase_seconds.get(phase, 0.0) + time.monotonic() - started_at

    def close(self, is_patient: bool = True) -> None:
        """Cancel a pending request and close the channel."""
        if self._is_open and (cancellation := self._dialog.make_cancellation()):
            self._send(cancellation)  # the server may keep running
        self._channel.close(is_patient)


def make_timeout_error(
    subject: str, phase: str, limit_s: float, suffix: str, details: dict[str, Any]
) -> TimeLimitError:
    """Return the error of an expired deadline.

    Args:
        subject: The beginning of the sentence, which names the server.
        phase: What was awaited: "start", "list", "call" ...
        limit_s: The deadline that expired.
        suffix: The end of the sentence, such as the last stderr lines.
        details: Details of the error.
    """
    key = "connect_s" if phase == "start" else "timeout_s"
    text = f"{subject} did not {_AWAITED.get(phase, 'answer')} within {limit_s:g} s.{suffix}"
    return TimeLimitError(text, f"Raise its {key}, or --timeout.", limit_s=limit_s, **details)
