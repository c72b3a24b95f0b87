"""One server, asked a few things and left: the same questions over a pipe or over HTTP. It prints nothing."""

from __future__ import annotations

import time

from ..errors import ProtocolError
from .talk import STATELESS, Elsewhere, Talk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from ..config import ServerConfig

    class Channel(Protocol):
        """What carries messages; see `pipe.py`."""

        session: dict[str, Any] | None
        first: int

        def guard(self) -> None: ...
        def agreed(self, session: dict[str, Any]) -> None: ...
        def tell(self, message: dict[str, Any]) -> None: ...
        def exchange(self, talk: Talk, phase: str, limit_s: float) -> None: ...
        def last_words(self) -> str: ...
        def explain_denial(self, text: str) -> str: ...
        def close(self, is_patient: bool = True) -> None: ...


__all__ = ["Client", "Elsewhere"]
SESSION = ("version", "info", "capabilities")
NO_HANDSHAKE = (-32022, -32601)
"""How a server of 2026-07-28 alone answers `initialize`; another error may be the true reason why nothing works."""


class Client:
    """A server that is being opened: `begin` sends the first question, and the answer is awaited when it is needed.

    Every method raises ChatErrors alone. `seconds` says what each phase took.
    """

    def __init__(self, server: ServerConfig, channel: Channel) -> None:
        self.server = server
        self.seconds: dict[str, float] = {}
        self.info: dict[str, Any] = {}
        self._channel, self._talk = channel, Talk(server.name)
        self._capabilities: dict[str, Any] | None = None
        self._is_agreed = False
        self._refusal: ProtocolError | None = None
        self._talk.count_from(channel.first)
        if channel.session is None:
            self._channel.tell(self._talk.begin())
        else:
            self._resume(channel.session)
        self._channel.guard()

    def _resume(self, session: dict[str, Any]) -> None:
        """Goes on with a server that another call has agreed with."""
        self._talk.version, self.info, self._capabilities = (session[key] for key in SESSION)
        self._is_agreed = True

    @property
    def version(self) -> str:
        return self._talk.version

    @property
    def last_words(self) -> str:
        return self._channel.last_words()

    def explain_denial(self, text: str) -> str:
        """Whether the server's sandbox is why it complains in a text, and what allows it; else ""."""
        return self._channel.explain_denial(text)

    def open(self) -> None:
        """Agrees on the protocol. A server that does not know `initialize` is asked in the stateless form."""
        if self._is_agreed:
            return
        self._wait("start", self.server.connect_s)
        self._is_agreed = True
        try:
            result = self._talk.read_result("initialize")
        except ProtocolError as error:
            self._talk.version = STATELESS
            self._refusal = None if error.details.get("code") in NO_HANDSHAKE else error
        else:
            self.info, self._capabilities = result.get("serverInfo") or {}, result.get("capabilities") or {}
            self._channel.tell(self._talk.agree(result))
        values = (self._talk.version, self.info, self._capabilities)
        self._channel.agreed(dict(zip(SESSION, values, strict=True)))

    def offers(self, what: str) -> bool:
        """Whether the server says that it has such things ("tools"); one of 2026-07-28 is not asked."""
        self.open()
        return self._capabilities is None or self._capabilities.get(what) is not None

    def ask(self, method: str, params: dict[str, Any], phase: str, limit_s: float) -> dict[str, Any]:
        """The result of one request, as the server wrote it."""
        self.open()
        self._channel.tell(self._talk.ask(method, params))
        self._wait(phase, limit_s)
        try:
            return self._talk.read_result(method)
        except ProtocolError as error:
            raise self._refusal or error from None

    def _wait(self, phase: str, limit_s: float) -> None:
        begun = time.monotonic()
        try:
            self._channel.exchange(self._talk, phase, limit_s)
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.monotonic() - begun

    def close(self, is_patient: bool = True) -> None:
        if self._is_agreed and (cancellation := self._talk.give_up()):
            self._channel.tell(cancellation)  # the server may live on
        self._channel.close(is_patient)
