"""Tests of logins: a simulated user who visits pages, and a toolbox with one server that requires a login."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import ChatError
from rkllm_chat.mcp_client.handlers import ClientHandlers
from rkllm_chat.mcp_client.toolbox import Toolbox

from .gate import Gate
from .talks import LIMIT_S

T = TypeVar("T")


class Person:
    """A user who visits the page of a login. `ways` says how each visit ends; the last one is repeated.

    "browser" comes back to the waiting port, "paste" gives the address, "never" does nothing; "slow" is the browser
    `slow_s` later, and "stranger" the browser after a request with another state. All else is what is typed.
    """

    def __init__(self, *ways: str, slow_s: float = 0.0) -> None:
        self.ways, self.slow_s = list(ways), slow_s
        self.asked: list[str] = []
        self.agreed_to: list[str] = []
        self.agrees = True
        self.urls: list[str] = []
        self.pages: list[tuple[int, str]] = []

    async def agree(self, _server: str, url: str) -> bool:
        self.agreed_to.append(url)
        return self.agrees

    async def __call__(self, server: str, url: str, reason: str) -> str:
        assert server == "gate"
        self.asked.append(reason)
        self.urls.append(url)
        way = self.ways.pop(0) if len(self.ways) > 1 else self.ways[0]
        if way not in ("browser", "paste", "stranger", "slow", "never"):
            return way
        if way == "never":
            await asyncio.Event().wait()
        if way == "slow":
            await asyncio.sleep(self.slow_s)
        address = (await asyncio.to_thread(fetch, url))[2]
        if way == "paste":
            return address
        if way == "stranger":
            await asyncio.to_thread(self._end_at, f"{address}0")
        await asyncio.to_thread(self._end_at, address)
        await asyncio.Event().wait()
        return ""

    def _end_at(self, address: str) -> None:
        """Notes the page by itself: whoever asked may have gone on when it is read."""
        self.pages.append(fetch(address)[:2])


def fetch(url: str) -> tuple[int, str, str]:
    """What a browser gets that does not follow and writes no log: status, text, and where it is sent to."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=LIMIT_S)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        response = connection.getresponse()
        return response.status, response.read().decode(), response.getheader("location", "")
    finally:
        connection.close()


def make_server(gate: Gate, **options: Any) -> ServerConfig:
    return ServerConfig("gate", url=gate.url, **{"transport": "http", "timeout_s": LIMIT_S, **options})


def sit(
    server: ServerConfig, folder: Path, then: Callable[[Toolbox], Awaitable[T]], person: Person | None, **more: Any
) -> T:
    """Opens the server, does `then`, and closes it; the whole within a limit."""

    async def go() -> T:
        handlers = ClientHandlers(log_in=person, agree_to_login=person.agree if person else None, **more)
        async with Toolbox([server], folder / "logs", handlers) as toolbox:
            return await then(toolbox)

    return asyncio.run(asyncio.wait_for(go(), 4 * LIMIT_S))


async def act(toolbox: Toolbox, tool: str = "act") -> str:
    """The text of a call, or the error that says why the server is not open."""
    if error := toolbox.failures.get("gate"):
        raise error
    named = {tool.name: tool for tool in toolbox.tools}
    return (await toolbox.call(named[tool], {}, lambda *_: None)).text


def refusal(server: ServerConfig, folder: Path, person: Person | None, **more: Any) -> ChatError:
    """Why the server is not open."""

    async def look(toolbox: Toolbox) -> ChatError:
        return toolbox.failures["gate"]

    return sit(server, folder, look, person, **more)


def find_file(folder: Path) -> Path:
    (path,) = (folder / "logins").glob("*.json")
    return path


def make_stale(folder: Path) -> None:
    """The access token that is kept has expired long ago."""
    path = find_file(folder)
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "stale_at": 1.0}), encoding="utf-8")
