"""A chaos server in this process, behind either client: for rules of messages, which need no process or socket."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.mcp_client.direct.client import Channel, make_timeout_error
from rkllm_chat.mcp_client.protocol.dialog import Dialog
from rkllm_chat.mcp_client.protocol.limits import MAX_RESULT_BYTES
from rkllm_chat.mcp_client.protocol.session import Event, JsonRpcSession
from rkllm_chat.mcp_client.transports.base import Transport

from . import chaos as _all_modes  # noqa: F401 - it fills MODES
from .chaos_server import MODES, Message, Server

MEMORY = "memory"
"""The name of the transport, for TRANSPORTS."""
OPENED: Counter[str] = Counter()
"""How often a transport was opened, by the server's name."""


class MemoryServer(Server):
    """What it writes is given to `give`, what it does later to `wait`, with the seconds."""

    def __init__(
        self, config: ServerConfig, give: Callable[[bytes], object], wait: Callable[[float, Callable[[], None]], object]
    ) -> None:
        _, eras, mode = config.url.split(":")
        super().__init__(MODES[mode], 0.1, None, None, eras)
        self._give, self._wait = give, wait
        self.heard: list[Message] = []
        self._spoil("start", {})

    def receive(self, message: Message) -> None:
        self.heard.append(message)
        super().receive(message)

    def write(self, data: bytes) -> None:
        self._give(data)

    def later(self, action: Callable[[], None]) -> None:
        self._wait(self.delay_s, action)


class MemoryTransport(Transport):
    """Under the toolbox and the asyncio client."""

    def __init__(self, server: ServerConfig, log: Path) -> None:
        super().__init__(server, log)
        self.kind = MEMORY

    async def _open(self) -> None:
        self._loop = asyncio.get_running_loop()
        OPENED[self.server.name] += 1
        self._other = MemoryServer(self.server, self._receive, self._loop.call_later)

    async def _close(self) -> None: ...

    def _receive(self, data: bytes) -> None:
        self._driver.deliver(self._driver.session.receive_bytes(data))

    def _put(self, message: Message, text: bytes) -> None:
        del message
        self._loop.call_soon(self._other.receive, json.loads(text))


class MemoryChannel(Channel):
    """Under the direct client; its clock is advanced to whatever is due next."""

    def __init__(self, config: ServerConfig) -> None:
        self.name, self._now = config.name, 0.0
        self.session = JsonRpcSession(MAX_RESULT_BYTES, clock=lambda: self._now)
        self._events: list[Event] = []
        self._due: list[tuple[float, Callable[[], None]]] = []
        self.server = MemoryServer(config, self._receive, lambda s, action: self._due.append((self._now + s, action)))

    def _receive(self, data: bytes) -> None:
        self._events += self.session.receive_bytes(data)

    def send(self, message: dict[str, Any]) -> None:
        self.server.receive(json.loads(self.session.send(message)))

    def exchange(self, dialog: Dialog, phase: str, limit_s: float) -> None:
        while True:
            events, self._events = self._events, []
            for reply in dialog.receive(events):
                self.send(reply)
            if dialog.response is not None:
                return
            if self._events:
                continue
            wake_at = self.session.wake_at
            times = [when for when, _ in self._due] + ([wake_at] if wake_at is not None else [])
            if not times:
                raise make_timeout_error(f'Server "{self.name}"', phase, limit_s, "", {})
            self._now = min(times)
            due, self._due = self._due, []
            for when, action in due:
                self._due += [] if when <= self._now else [(when, action)]
                if when <= self._now:
                    action()
            self._events += self.session.expire()

    def close(self, is_patient: bool = True) -> None: ...


def in_memory(mode: str, eras: str = "", **options: Any) -> ServerConfig:
    """A server that does what its mode says, for the transport MEMORY."""
    return ServerConfig(mode, url=f"{MEMORY}:{eras or MODES[mode].eras}:{mode}", transport=MEMORY, **options)
