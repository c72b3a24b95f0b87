"""What is open during one sitting: model, servers and chat, opened side by side and closed together.

This is where the parts meet. It shows nothing and asks nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import language
from .backends import open_backend
from .chat import Backend, Chat, Toolbox
from .config import Settings
from .errors import ChatError
from .language import Words
from .messages import Tool, ToolResult
from .rounds import Approve, OnProgress

if TYPE_CHECKING:
    from .servers.toolbox import Servers


class NoTools:
    """The toolbox of a sitting without servers."""

    tools: Sequence[Tool] = ()

    async def call(self, tool: Tool, _arguments: Mapping[str, Any], _on_progress: OnProgress) -> ToolResult:
        raise KeyError(tool.full_name)


@dataclass
class Desk:
    """The open parts. `failures`: server -> why it is not there."""

    settings: Settings
    words: Words
    backend: Backend
    toolbox: Toolbox
    failures: Mapping[str, ChatError]
    chat: Chat


@asynccontextmanager
async def open_desk(settings: Settings, approve: Approve, state: Path) -> AsyncIterator[Desk]:
    """Opens what the settings ask for. A server that fails is told in `failures`; raises ModelError and the like."""
    words = language.load(settings.language)
    loading = asyncio.ensure_future(asyncio.to_thread(open_backend, settings))
    servers = make_servers(settings, state)
    backend: Backend | None = None
    try:
        opening = servers.open() if servers else asyncio.sleep(0)
        loaded, _ = await asyncio.gather(loading, opening)
        backend = loaded
        toolbox = servers or NoTools()
        chat = Chat(loaded, toolbox, settings, words, approve)
        yield Desk(settings, words, loaded, toolbox, servers.failures if servers else {}, chat)
    finally:
        closing = [part.aclose() for part in (servers, backend) if part]
        await asyncio.gather(*closing)


def make_servers(settings: Settings, state: Path) -> Servers | None:
    """The servers of the settings, not yet open; None where there are none, so that the SDK is not imported."""
    if not settings.servers:
        return None
    from .servers.toolbox import Servers

    return Servers(settings.servers, state / "logs")
