"""What is open during one sitting: model, servers and chat, opened side by side and closed together.

This is where the parts meet. It shows nothing and asks nobody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from . import language
from .backends import open_backend
from .chat import Backend, Chat, Onward, decline_all, stop_at_limit
from .chosen import Chosen
from .config import Settings
from .elicitation import Elicitation, Person
from .errors import ChatError
from .language import Words
from .messages import Tool, ToolResult
from .policy import Consent
from .rounds import OnProgress
from .sampling import Sampler
from .servers.asks import Asks

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams

    from .servers.toolbox import Toolbox as Box


FIRST_S = 5.0
"""How long a sitting with a person waits for its servers; whoever is later is told when it is there."""


class Sitter(Person, Protocol):
    """A person who is asked about calls, and told what happens beside the talk."""

    async def approve(self, tool: Tool, arguments: Mapping[str, Any]) -> Consent: ...

    async def at_limit(self, rounds: int) -> Onward: ...

    def news(self, text: str) -> None: ...


class NoTools:
    """The toolbox of a sitting without servers."""

    tools: Sequence[Tool] = ()

    async def call(self, tool: Tool, _arguments: Mapping[str, Any], _on_progress: OnProgress) -> ToolResult:
        raise KeyError(tool.full_name)


@dataclass
class Desk:
    """The open parts. `servers` has the connections where there are servers, None in a sitting without.

    `toolbox` is what the chat uses: the tools of the servers but for those that were switched off. `person` is who
    sits here, None for a script.
    """

    settings: Settings
    words: Words
    backend: Backend
    servers: Box | None
    toolbox: Chosen
    chat: Chat
    person: Sitter | None = None

    @property
    def failures(self) -> Mapping[str, ChatError]:
        """Server -> why it is not there."""
        return self.servers.failures if self.servers else {}

    @property
    def starting(self) -> Sequence[str]:
        """The servers that are not there yet."""
        connections = self.servers.connections.values() if self.servers else ()
        return [one.config.name for one in connections if one.state == "starting"]


@asynccontextmanager
async def open_desk(settings: Settings, state: Path, person: Sitter | None = None) -> AsyncIterator[Desk]:
    """Opens what the settings ask for. A server that fails is told in `failures`; raises ModelError and the like.

    `person` answers what servers ask and what the policy leaves open; without one, the answer is no.
    """
    words = language.load(settings.language)
    loading = asyncio.ensure_future(asyncio.to_thread(open_backend, settings))
    servers = make_servers(settings, state, make_asks(settings, words, loading, person))
    backend: Backend | None = None
    try:
        opening = servers.open(FIRST_S if person else None) if servers else asyncio.sleep(0)
        loaded, _ = await asyncio.gather(loading, opening)
        backend = loaded
        toolbox = Chosen(servers or NoTools())
        approve, at_limit = (person.approve, person.at_limit) if person else (decline_all, stop_at_limit)
        chat = Chat(loaded, toolbox, settings, words, approve, at_limit=at_limit)
        yield Desk(settings, words, loaded, servers, toolbox, chat, person)
    finally:
        closing = [part.aclose() for part in (servers, backend) if part]
        await asyncio.gather(*closing)


def make_asks(settings: Settings, words: Words, loading: asyncio.Future[Backend], person: Sitter | None) -> Asks:
    """Who answers the servers: the person, and for replies of the model the backend, once it is loaded."""
    if person is None:
        return Asks()
    sampler: list[Sampler] = []

    async def sample(server: str, params: CreateMessageRequestParams) -> Any:
        if not sampler:
            sampler.append(Sampler(await asyncio.shield(loading), settings, words, person.agree))
        return await sampler[0](server, params)

    def on_change(server: str, what: str) -> None:
        if what in ("open", "gone") and time.monotonic() - begun > FIRST_S:
            person.news(words(f"servers.{what}", server=server))

    begun = time.monotonic()
    return Asks(sample, Elicitation(person, words), roots=(Path.cwd(),), on_change=on_change)


def make_servers(settings: Settings, state: Path, asks: Asks) -> Box | None:
    """The servers of the settings, not yet open; None where there are none, so that the SDK is not imported."""
    if not settings.servers:
        return None
    from .servers.toolbox import Toolbox as Box

    return Box(settings.servers, state / "logs", asks)
