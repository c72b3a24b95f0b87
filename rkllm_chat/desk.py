"""What is open during one sitting: model, servers and chat, opened side by side and closed together.

This is where the parts meet. It shows nothing and asks nobody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from . import language
from .attach import Attached
from .chat import Backend, Chat, Onward, decline_all, stop_at_limit
from .chosen import Chosen
from .config import ServerConfig, Settings
from .elicitation import Elicitation, LogIn, Visitor
from .errors import ChatError
from .journal import Shelf
from .language import Words
from .loading import load_model
from .messages import Tool, ToolResult
from .policy import Consent
from .replay import Replay, is_session, open_replay
from .rounds import OnProgress
from .sampling import FindBackend, Sampler
from .servers.asks import Asks
from .sessions import Sessions

if TYPE_CHECKING:
    from .servers.toolbox import Toolbox as Box


FIRST_S = 5.0
"""How long a sitting with a person waits for its servers; whoever is later is told when it is there."""


class Sitter(Visitor, Protocol):
    """A person who is asked about calls, and told what happens beside the talk."""

    async def approve(self, tool: Tool, arguments: Mapping[str, Any]) -> Consent: ...

    async def at_limit(self, rounds: int) -> Onward: ...

    def news(self, text: str) -> None: ...


class Source:
    """Where the settings came from: they can be read again, and it is noticed when a file has changed."""

    def __init__(self, read: Callable[[], Settings], when_changed: Callable[[], Mapping[str, int]]) -> None:
        self._read, self._when_changed = read, when_changed
        self._seen = when_changed()

    def read(self) -> Settings:
        """The settings as they are now. Raises ConfigError."""
        self._seen = self._when_changed()
        return self._read()

    def has_changed(self) -> bool:
        """Whether a file has changed; each change is told once."""
        seen, self._seen = self._seen, self._when_changed()
        return seen != self._seen


class NoTools:
    """The toolbox of a sitting without servers."""

    tools: Sequence[Tool] = ()

    async def call(self, tool: Tool, _arguments: Mapping[str, Any], _on_progress: OnProgress) -> ToolResult:
        raise KeyError(tool.full_name)


@dataclass
class Desk:
    """The open parts. `servers` has the connections where there are servers, None in a sitting without.

    `toolbox` is what the chat uses: the tools of the servers but for those that were switched off. `person` is who
    sits here, None for a script. `said` is what is to be told where there is nobody; `replay` the session
    that is played again, if one is.
    """

    settings: Settings
    words: Words
    backend: Backend
    servers: Box | None
    toolbox: Chosen
    chat: Chat
    sessions: Sessions
    said: list[str]
    person: Sitter | None = None
    replay: Replay | None = None
    attached: list[Attached] = field(default_factory=list[Attached])
    state: Path = Path()
    source: Source | None = None
    make_box: Callable[[], Box] | None = None
    switching: asyncio.Future[None] | None = None

    async def apply_servers(self, servers: tuple[ServerConfig, ...]) -> list[str]:
        """Goes on with these servers; gives the names of those that were opened or closed."""
        self.settings = replace(self.settings, servers=servers)
        self.sessions.hide(servers)
        if self.servers is None:
            if self.make_box is None or not servers:
                return []
            self.servers = self.toolbox.box = self.make_box()
        return await self.servers.apply(servers)

    async def reload(self) -> list[str]:
        """Reads the configuration again; gives the names of the servers it touched. Raises ConfigError."""
        if self.source is None:
            return []
        settings = self.source.read()
        self.chat.settings = replace(self.chat.settings, generation=settings.generation, policy=settings.policy)
        return await self.apply_servers(settings.servers)

    async def switch_model(self, settings: Settings) -> None:
        """Goes on with the model of other settings, with the same talk; who gives up waiting does not stop it.

        Raises ModelError; the model before is open again then.
        """
        self.switching = asyncio.ensure_future(self._switch(settings))
        await asyncio.shield(self.switching)

    async def _switch(self, settings: Settings) -> None:
        await self.backend.aclose()
        try:
            self.backend = await load_model(settings, self.state)
            self.settings = settings
        except ChatError:
            self.backend = await load_model(self.settings, self.state)
            raise
        finally:
            self.chat.backend = self.backend

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
async def open_desk(
    settings: Settings, state: Path, person: Sitter | None = None, words: Words | None = None
) -> AsyncIterator[Desk]:
    """Opens what the settings ask for. A server that fails is told in `failures`; raises ModelError and the like.

    `person` answers what servers ask and what the policy leaves open; without one, the answer is no. The talk is saved
    as a session when there is a person, or when the settings name a session to go on with. `words` is what the person's
    face speaks: one language for both, also after it was changed.
    """
    replay = open_replay(Path(settings.model)) if is_session(settings) else None
    settings = replay.settings_of(settings) if replay else settings
    said: list[str] = []
    words = words or language.load()
    words.speak(settings.language)
    loading = load_model(settings, state)

    async def find_backend() -> Backend:
        return desk.backend if desk else await asyncio.shield(loading)

    asks = make_asks(settings, words, find_backend, person)
    servers: Box | None = None
    backend: Backend | None = None
    desk: Desk | None = None
    try:
        if settings.servers:
            await asyncio.to_thread(import_module, ".servers.toolbox", __package__)  # nearly a second; keys go on
            servers = make_box(state, asks, settings.servers)
        opening = servers.open(FIRST_S if person else None) if servers else asyncio.sleep(0)
        loaded, _ = await asyncio.gather(loading, opening)
        backend = loaded
        toolbox = Chosen(replay or servers or NoTools())
        approve, at_limit = (person.approve, person.at_limit) if person else (decline_all, stop_at_limit)
        if replay:
            approve, at_limit = replay.approve, replay.at_limit
        chat = Chat(loaded, toolbox, settings, words, approve, at_limit=at_limit)
        shelf = Shelf(state / "sessions") if (person or settings.session) and not replay else None
        sessions = Sessions(shelf, chat, person.news if person else said.append)
        desk = Desk(settings, words, loaded, servers, toolbox, chat, sessions, said, person, replay)
        desk.state, desk.make_box = state, partial(make_box, state, asks)
        try:
            sessions.open(settings.session)
            yield desk
        finally:
            sessions.close()
    finally:
        servers, backend = (desk.servers, desk.backend) if desk else (servers, backend)
        closing = [part.aclose() for part in (servers, backend) if part]
        await asyncio.gather(*closing)


def make_asks(settings: Settings, words: Words, find_backend: FindBackend, person: Sitter | None) -> Asks:
    """Who answers the servers: the person, and the model for replies that they ask for."""
    if person is None:
        return Asks()

    def on_change(server: str, what: str) -> None:
        is_news = what == "gone" or (what == "open" and server in awaited)
        if what in ("open", "gone"):
            (awaited.add if what == "gone" else awaited.discard)(server)
        if is_news and time.monotonic() - begun > FIRST_S:
            person.news(words(f"servers.{what}", server=server))

    def on_log(server: str, level: str, text: str) -> None:
        person.news(words("servers.log", server=server, level=level, text=text))

    awaited = {one.name for one in settings.servers if one.enabled}  # not those that the person opens himself
    begun = time.monotonic()
    sampler, elicit = Sampler(find_backend, settings, words, person.agree), Elicitation(person, words)
    return Asks(sampler, elicit, (Path.cwd(),), on_log, on_change, LogIn(person, words))


def make_box(state: Path, asks: Asks, servers: Sequence[ServerConfig] = ()) -> Box:
    """The servers, not yet open. Only this imports the SDK."""
    from .servers.toolbox import Toolbox as Box

    return Box(servers, state / "logs", asks)
