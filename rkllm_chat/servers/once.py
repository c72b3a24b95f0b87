"""One server, asked a few things and left, through the SDK: for what `wire/` does not speak. It has no event loop of
others around it: it runs its own, for as long as each question takes.
"""

from __future__ import annotations

import asyncio
import logging
import time
import warnings
from collections.abc import Coroutine
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

from mcp import Client
from mcp_types import Request
from pydantic import BaseModel, ConfigDict

from ..config import ServerConfig
from ..discover import state_folder
from ..errors import ChatError, ProtocolError
from ..places import LOGINS
from .connection import Connection
from .login import Login
from .tap import Tap

LAST_WORDS = 4096

Given = TypeVar("Given")


class Anything(BaseModel):
    """A result of which nothing is known."""

    model_config = ConfigDict(extra="allow")


class Question(Request[dict[str, Any], str]):
    """A request of any kind."""


class Recorded(Connection):
    """A connection that keeps the last result of each method, as the server wrote it."""

    def __init__(self, config: ServerConfig, log_file: Path) -> None:
        super().__init__(config, log_file)
        self.results: dict[str, Any] = {}

    def _open_tap(self) -> Tap:
        tap = super()._open_tap()
        tap.results = self.results
        return tap


class Once:
    """The same as `wire.client.Client`, by other means. Every method raises ChatErrors alone."""

    def __init__(self, server: ServerConfig) -> None:
        self.server = server
        self.seconds: dict[str, float] = {}
        logging.getLogger().addHandler(logging.NullHandler())  # else the SDK's warnings go to standard error
        warnings.simplefilter("ignore")
        self._loop = asyncio.new_event_loop()
        self._log = Path(mkdtemp(prefix="rkllm-chat-")) / "server.log"
        self._connection = Recorded(server, self._log)
        self._connection.login = Login(server, state_folder() / LOGINS, self._connection.asks)
        self._is_open = False

    @property
    def last_words(self) -> str:
        """The end of its log, where it is a process of ours."""
        log = self._log.read_bytes()[-LAST_WORDS:] if self._log.exists() else b""
        return log.decode("utf-8", errors="replace").strip()

    @property
    def info(self) -> dict[str, Any]:
        info = self._connection.server_info
        return info.model_dump(by_alias=True, exclude_none=True, mode="json") if info else {}

    @property
    def version(self) -> str:
        return self._connection.protocol_version

    def explain_denial(self, text: str) -> str:
        """Whether the server's sandbox is why it complains in a text, and what allows it; else ""."""
        return self._connection.explain_denial(text)

    def open(self) -> None:
        if self._is_open:
            return
        self._run(self._connection.open(), "start")
        if error := self._connection.error:
            error.details.setdefault("phase", "start")
            raise error
        self._is_open = True

    def offers(self, what: str) -> bool:
        """Whether the server says that it has such things ("tools")."""
        self.open()
        return getattr(self._connection.capabilities, what) is not None

    def ask(self, method: str, params: dict[str, Any], phase: str, limit_s: float) -> dict[str, Any]:
        """The result of one request, as the server wrote it."""
        self.open()

        async def send(client: Client) -> Anything:
            return await client.session.send_request(Question(method=method, params=params), Anything, limit_s)

        self._run(self._connection.request(send, limit_s, repeat=False), phase)
        result: dict[str, Any] = self._connection.results[method]
        if (kind := result.get("resultType", "complete")) != "complete":
            text = f'Server "{self.server.name}" asks for more ({kind}), which a one-shot command cannot give.'
            raise ProtocolError(text, "Use it in the chat.", server=self.server.name, got=kind)
        return result

    def _run(self, work: Coroutine[Any, Any, Given], phase: str) -> Given:
        begun = time.monotonic()
        try:
            return self._loop.run_until_complete(work)
        except ChatError as error:
            error.details["phase"] = phase
            raise
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.monotonic() - begun

    def close(self, is_patient: bool = True) -> None:  # noqa: ARG002 - the connection has its own limits
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._connection.aclose())
            self._loop.close()
            self._log.unlink(missing_ok=True)
            self._log.parent.rmdir()
