"""What is open during one sitting: model, servers and chat, opened side by side and closed together.

This is where the parts meet. It shows nothing and asks nobody.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from . import language, logfile
from .admission import Gate
from .ahead import Ahead
from .attach import Attached
from .chat import Backend, Chat, Onward, decline_all, stop_at_limit
from .chosen import Chosen
from .config import ServerConfig, Settings
from .elicitation import Elicitation, LogIn, Visitor
from .errors import ChatError
from .events import Usage
from .forecast import PROBE, Speeds
from .journal import Shelf
from .language import Words
from .loading import FILE, load_model
from .measured import Measured
from .messages import Message, Tool, ToolResult
from .policy import Consent
from .redact import Redactor
from .replay import Replay, is_session, open_replay
from .rounds import OnProgress
from .sampling import FindBackend, Sampler
from .served import Served
from .servers.asks import Asks
from .sessions import Sessions
from .speed import Speed

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
    ahead: Ahead
    sessions: Sessions
    said: list[str]
    person: Sitter | None = None
    replay: Replay | None = None
    attached: list[Attached] = field(default_factory=list[Attached])
    state: Path = Path()
    secrets: Redactor = field(default_factory=Redactor)
    source: Source | None = None
    gate: Gate = field(default_factory=lambda: Gate(None))
    make_box: Callable[[], Box] | None = None
    switching: asyncio.Future[None] | None = None
    speeds: Speeds | None = None

    async def apply_servers(self, servers: tuple[ServerConfig, ...]) -> list[str]:
        """Goes on with these servers; gives the names of those that were opened or closed.

        What of them waits for the person's word is asked about first, and what he declines is not opened.
        """
        self.settings = replace(self.settings, servers=servers)
        for server in servers:
            self.secrets.learn_server(server)
        await self.gate.ask(servers, self.person, self.words)
        servers = self.gate.admit(servers)
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
        self.settings = replace(self.settings, ignored=settings.ignored)
        self.secrets.learn_settings(settings, os.environ)
        self.chat.settings = replace(self.chat.settings, generation=settings.generation, policy=settings.policy)
        return await self.apply_servers(settings.servers)

    async def switch_model(self, settings: Settings) -> None:
        """Goes on with the model of other settings, with the same talk; who gives up waiting does not stop it.

        Raises ModelError; the model before is open again then.
        """
        self.switching = asyncio.ensure_future(self._switch(settings))
        await asyncio.shield(self.switching)

    async def _switch(self, settings: Settings) -> None:
        with self.ahead.resting():
            await self.ahead.stop()
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
    def speed(self) -> Speed:
        """How fast this machine reads with this model, as far as it is known."""
        return self.speeds.of(self.backend.name) if self.speeds else Speed()

    def learn_speed(self, usage: Sequence[Usage]) -> None:
        """Learns from what replies have cost, where the engine tells what it did not have to read."""
        if self.speeds and not self.replay and self.backend.count_held([Message("user", PROBE)]) is not None:
            for one in usage:
                self.speeds.note(self.backend.name, one)

    @property
    def failures(self) -> Mapping[str, ChatError]:
        """Server -> why it is not there."""
        refused = self.gate.refusals(self.settings.servers)
        return {**refused, **(self.servers.failures if self.servers else {})}

    @property
    def starting(self) -> Sequence[str]:
        """The servers that are not there yet."""
        connections = self.servers.connections.values() if self.servers else ()
        return [one.config.name for one in connections if one.state == "starting"]


@asynccontextmanager
async def open_desk(
    settings: Settings,
    state: Path,
    person: Sitter | None = None,
    words: Words | None = None,
    gate: Gate | None = None,
    secrets: Redactor | None = None,
) -> AsyncIterator[Desk]:
    """Opens what the settings ask for. A server that fails is told in `failures`; raises ModelError and the like.

    `person` answers what servers ask and what the policy leaves open; without one, the answer is no. The talk is saved
    as a session when there is a person, or when the settings name a session to go on with. `words` is what the person's
    face speaks: one language for both, also after it was changed. `gate` says which servers may start; whoever has a
    person asks through it before. `secrets` learns what must not come out.
    """
    gate = gate or Gate(state)
    replay = open_replay(Path(settings.model)) if is_session(settings) else None
    settings = replay.settings_of(settings) if replay else settings
    said: list[str] = []
    words = words or language.load()
    words.speak(settings.language)
    loading = load_model(settings, state)
    secrets = secrets or Redactor()
    secrets.learn_settings(settings, os.environ)

    async def find_backend() -> Backend:
        return desk.backend if desk else await asyncio.shield(loading)

    def on_change(server: str, what: str) -> None:
        told(server, what)
        if desk and what in ("open", "gone", "tools"):
            desk.ahead.begin()

    asks = make_asks(settings, words, find_backend, person, said)
    told = asks.on_change
    asks = replace(asks, on_change=on_change, secrets=secrets)
    servers: Box | None = None
    backend: Backend | None = None
    desk: Desk | None = None
    try:
        if settings.servers:
            await asyncio.to_thread(import_module, ".servers.toolbox", __package__)  # nearly a second; keys go on
            servers = make_box(state, asks, gate.admit(settings.servers))
        opening = servers.open(FIRST_S if person else None) if servers else asyncio.sleep(0)
        loaded, _ = await asyncio.gather(loading, opening)
        backend = loaded
        toolbox = Chosen(replay or servers or NoTools())
        approve, at_limit = (person.approve, person.at_limit) if person else (decline_all, stop_at_limit)
        if replay:
            approve, at_limit = replay.approve, replay.at_limit
        chat = Chat(loaded, toolbox, settings, words, approve, at_limit=at_limit, starts_early=not replay)
        chat.make_room = replay.make_room if replay else chat.make_room
        shelf = Shelf(state / "sessions") if (person or settings.session) and not replay else None
        hide = secrets.hide_known_member if settings.keep_secrets else secrets.hide_member
        say = person.news if person else said.append
        sessions = Sessions(shelf, chat, say, hide)
        tell_of_log(words, say)
        ahead = Ahead(chat, settings.prefill_ahead and person is not None and not replay)
        desk = Desk(settings, words, loaded, servers, toolbox, chat, ahead, sessions, said, person, replay)
        desk.speeds = Speeds(Measured(state / FILE))
        desk.state, desk.secrets, desk.gate, desk.make_box = state, secrets, gate, partial(make_box, state, asks)
        if person and not replay:  # a script's prompt depends on nothing that was done before
            chat.served = Served(state / "served.json")
        chat.held = lambda: desk.servers.held if desk and desk.servers else ()
        try:
            sessions.open(settings.session)
            yield desk
        finally:
            tell_of_log(words, None)
            await ahead.end()
            sessions.close()
    finally:
        servers, backend = (desk.servers, desk.backend) if desk else (servers, backend)
        closing = [part.aclose() for part in (servers, backend) if part]
        await asyncio.gather(*closing)


def tell_of_log(words: Words, say: Callable[[str], None] | None) -> None:
    """Has somebody told when the program's log cannot be written; any thread may write to it."""
    if (found := logfile.find()) is None:
        return
    if say is None:
        found.tell(None)
        return
    tell, loop = say, asyncio.get_running_loop()

    def pass_on(trouble: str) -> None:
        loop.call_soon_threadsafe(tell, words("sessions.log_trouble", trouble=trouble))

    found.tell(pass_on)


def make_asks(
    settings: Settings, words: Words, find_backend: FindBackend, person: Sitter | None, said: list[str]
) -> Asks:
    """Who answers the servers: the person, and the model for replies that they ask for; nobody, if there is none."""
    bare: set[str] = set()

    def on_bare(server: str, what: str) -> None:
        if what == "bare":
            if not bare:
                (person.news if person else said.append)(words("servers.bare", server=server))
            bare.add(server)

    if person is None:
        return Asks(on_change=on_bare)

    def on_change(server: str, what: str) -> None:
        on_bare(server, what)
        if what == "held":
            person.news(words("servers.held", server=server))
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
