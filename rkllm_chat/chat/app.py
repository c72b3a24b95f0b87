"""Composition root: open model, servers and chat concurrently and close them together. No user interface."""

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

from ..backends.base import Backend, ThinkingSwitch
from ..backends.unloaded import UnloadedBackend
from ..config.files import find_own_folder
from ..config.project_trust import list_refused
from ..config.secrets import add_server_secrets, add_settings_secrets
from ..config.settings import ServerConfig, Settings, Thinking
from ..core.errors import ChatError, ModelError
from ..core.events import NoticeLevel, Usage
from ..core.i18n import Words, load
from ..core.messages import Attachment, Message, Tool, ToolResult
from ..core.protocols import CallPosition, Consent, Continuation, Decline, Notify, ProgressCallback, RunEdited
from ..core.redact import Redactor
from ..mcp_client.handlers import ClientHandlers
from ..storage import log_file as logfile
from ..storage.local_statistics import Measurements, ToolUsage
from ..storage.media import MediaStore
from ..storage.session_files import SessionDirectory
from .conversation import Conversation
from .cost_estimate import PrefillSpeed
from .elicitation import Elicitation, LoginPrompt, UserPromptsWithBrowser
from .event_stream import Emit
from .instructions_budget import InstructionsReport, may_have_instructions
from .model_loading import MEASUREMENTS_FILE, load_model, report_load
from .prefill import Prefiller
from .sampling import FindBackend, Sampler
from .sandbox_access import SandboxAccess
from .server_approval import ServerApproval
from .server_events import MESSAGE_WAIT_S, SERVER_START_WAIT_S, ServerEvents, ServerWait
from .sessions import SessionManager
from .skills import SkillLibrary
from .tool_filter import FilteredToolbox

if TYPE_CHECKING:
    from ..mcp_client.toolbox import Toolbox


class Frontend(UserPromptsWithBrowser, Protocol):
    """Interactive front end: asks the user about calls and shows news outside the conversation."""

    async def approve(
        self, tool: Tool, arguments: Mapping[str, Any], position: CallPosition
    ) -> Consent | Decline | RunEdited:
        """Ask whether a call may run."""

    async def ask_to_continue(self, rounds: int) -> Continuation:
        """Ask how to continue after the maximum number of rounds."""

    def notify(self, text: str, level: NoticeLevel = "info") -> None:
        """Show a message outside the conversation."""


class SettingsSource:
    """Source of the settings, which can be read again and report changed files.

    Args:
        read: Loads the settings.
        when_changed: Returns the modification times of the configuration files.
        diagnose: Returns the report of `rkllm-chat doctor` for its command-line arguments; None if there is none.
        own_file: The configuration file that changed settings are saved to.
        only_file: The only configuration file that is read; "" if all are.
    """

    def __init__(
        self,
        read: Callable[[], Settings],
        when_changed: Callable[[], Mapping[str, int]],
        diagnose: Callable[[Sequence[str]], str] | None = None,
        own_file: Path = Path(),
        only_file: str = "",
    ) -> None:
        self._read, self._when_changed = read, when_changed
        self.diagnose, self.own_file, self.only_file = diagnose, own_file, only_file
        self._seen = when_changed()

    def read(self) -> Settings:
        """Load the current settings.

        Raises:
            ConfigError: A file is invalid.
        """
        self._seen = self._when_changed()
        return self._read()

    def has_changed(self) -> bool:
        """Return whether a file changed since the last call."""
        seen, self._seen = self._seen, self._when_changed()
        return seen != self._seen


class EmptyToolbox:
    """The toolbox of a session without servers."""

    tools: Sequence[Tool] = ()

    async def call(self, tool: Tool, _arguments: Mapping[str, Any], _on_progress: ProgressCallback) -> ToolResult:
        """Raise KeyError: there are no tools."""
        raise KeyError(tool.full_name)


@dataclass
class App:
    """The open parts of the program.

    Attributes:
        configured: The settings of the files and the command line, without what was changed in the chat.
        words: Sentences in the user's language.
        backend: Engine.
        servers: Connections to the servers; None in a session without servers.
        toolbox: Tools of the servers except those that were switched off.
        chat: The conversation.
        prefiller: Idle-time prefill.
        sessions: Session log.
        notices: Messages for the user if there is no front end.
        frontend: Interactive front end; None for a script.
        attachments: Attachments for the next message.
        state: State directory.
        secrets: Known secrets to redact.
        source: Source of the settings; None if they cannot be reloaded.
        server_approval: Approval of server starts.
        make_toolbox: Creates the connections when servers are added to a session without any.
        model_switch: The model switch in progress.
        used_models: Earlier models of this run, as `--model` takes them.
        prefill_speed: Prefill speed of the current model, as far as it is known.
        sandbox_access: What the user allows servers beyond their sandboxes.
        media: Files of the pictures, sounds and blobs of this run.
    """

    configured: Settings
    words: Words
    backend: Backend
    servers: Toolbox | None
    toolbox: FilteredToolbox
    chat: Conversation
    prefiller: Prefiller
    sessions: SessionManager
    notices: list[str]
    frontend: Frontend | None = None
    attachments: list[Attachment] = field(default_factory=list[Attachment])
    state: Path = Path()
    secrets: Redactor = field(default_factory=Redactor)
    source: SettingsSource | None = None
    server_approval: ServerApproval = field(default_factory=lambda: ServerApproval(None))
    make_toolbox: Callable[[], Toolbox] | None = None
    model_switch: asyncio.Future[None] | None = None
    used_models: list[str] = field(default_factory=list[str])
    prefill_speed: PrefillSpeed = field(default_factory=PrefillSpeed)
    media: MediaStore = field(default_factory=MediaStore)

    @property
    def settings(self) -> Settings:
        """The current settings, which are those of the conversation."""
        return self.chat.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self.chat.settings = settings

    def __post_init__(self) -> None:
        notify = self.frontend.notify if self.frontend else _collect_texts(self.notices)
        self.sandbox_access = SandboxAccess(
            self.server_approval, self.frontend, notify, self.words, lambda: self.servers, lambda: self.settings.servers
        )

    async def apply_servers(self, servers: tuple[ServerConfig, ...]) -> list[str]:
        """Use these servers from now on.

        Servers that need approval are asked about first; declined ones are not opened.

        Returns:
            The names of the servers that were opened or closed.
        """
        self.settings = replace(self.settings, servers=servers)
        for server in servers:
            add_server_secrets(self.secrets, server)
        await self.server_approval.ask_user(servers, self.frontend, self.words)
        servers = self.server_approval.filter_servers(servers)
        for server in servers:
            add_server_secrets(self.secrets, server)
        if self.servers is None:
            if self.make_toolbox is None or not servers:
                return []
            self.servers = self.toolbox.toolbox = self.make_toolbox()
        self.servers.refused = list_refused(self.settings.servers, servers)
        return await self.servers.apply_config(servers)

    async def reload(self) -> list[str]:
        """Load the configuration again.

        Returns:
            The names of the servers that were opened or closed.

        Raises:
            ConfigError: A file is invalid.
        """
        if self.source is None:
            return []
        self.configured = settings = self.source.read()
        add_settings_secrets(self.secrets, settings, os.environ)
        self.settings = replace(
            self.settings,
            ignored=settings.ignored,
            skipped=settings.skipped,
            generation=settings.generation,
            policy=settings.policy,
        )
        return await self.apply_servers(settings.servers)

    async def switch_model(self, settings: Settings) -> None:
        """Switch to the model of other settings and keep the conversation.

        Cancelling the caller does not stop the switch.

        Raises:
            ModelError: The model cannot be loaded; the previous one is open again, if it can be.
        """
        self.model_switch = asyncio.ensure_future(self._switch(settings))
        await asyncio.shield(self.model_switch)

    async def switch_thinking(self, thinking: Thinking) -> None:
        """Switch reasoning; the model is loaded again only where its backend cannot switch.

        Raises:
            ModelError: The model cannot be loaded; the previous one is open again.
        """
        settings = replace(self.settings, thinking=thinking)
        if not isinstance(self.backend, ThinkingSwitch):
            await self.switch_model(settings)
            return
        with self.prefiller.paused():
            await self.prefiller.stop()
            self.backend.set_thinking(thinking)
            self.settings = settings

    async def _switch(self, settings: Settings) -> None:
        with self.prefiller.paused():
            await self.prefiller.stop()
            closed = self.backend
            self.backend = self.chat.backend = UnloadedBackend(closed)
            await closed.aclose()
            try:
                self.backend = await load_model(settings, self.state)
                self.used_models.append(self.settings.model)
                self.settings = settings
                if self.frontend:
                    report_load(self.backend, self.words, self.frontend.notify)
            except ChatError as error:
                self.backend = await self._reload_model(error)
                raise
            finally:
                self.chat.backend = self.backend
                self.prefill_speed = PrefillSpeed(self.backend.name, Measurements(self.state / MEASUREMENTS_FILE))

    async def _reload_model(self, failure: ChatError) -> Backend:
        """Load the previous model again after another one could not be loaded.

        Raises:
            ModelError: It cannot be loaded either; no model is loaded now.
        """
        try:
            return await load_model(self.settings, self.state)
        except ChatError as error:
            text = f"{failure} The model before cannot be loaded again either: {error}"
            raise ModelError(text, "No model is loaded now: /model NAME loads one.") from failure

    def record_prefill_speed(self, usage: Sequence[Usage]) -> None:
        """Record the prefill speed of replies, if the engine reports how much it found in its cache."""
        if self.backend.count_cached_tokens([Message("user", "")]) is not None:
            for entry in usage:
                self.prefill_speed.record(entry)

    @property
    def failures(self) -> Mapping[str, ChatError]:
        """Why each missing server is not connected, by name."""
        refused = self.server_approval.find_refusals(self.settings.servers)
        return {**refused, **(self.servers.failures if self.servers else {})}

    def find_instructions(self) -> Mapping[str, str]:
        """Return what the servers say about their use."""
        return self.servers.select_instructions(may_have_instructions(self.backend)) if self.servers else {}

    @property
    def starting_servers(self) -> Sequence[str]:
        """Names of the servers that are still starting."""
        connections = self.servers.connections.values() if self.servers else ()
        return [connection.config.name for connection in connections if connection.lifecycle.state == "starting"]

    async def wait_for_servers(self, emit: Emit) -> None:
        """Wait until no server is starting any more, the user sends the message without them, or the limit is reached.

        Emits an event with those that are missing, at the beginning and after each that has started or failed.
        """
        limit, skipped = time.monotonic() + MESSAGE_WAIT_S, asyncio.Event()
        starting = self.servers.connections if self.servers else {}
        # during a start, open() waits for its end
        waits = {asyncio.ensure_future(starting[name].lifecycle.open()): name for name in self.starting_servers}
        skipping = asyncio.ensure_future(skipped.wait())
        try:
            while waits and not skipped.is_set() and (left_s := limit - time.monotonic()) > 0:
                servers = ", ".join(waits.values())
                await emit(ServerWait(self.words("servers.waiting", servers=servers), "info", servers, skipped.set))
                done, _ = await asyncio.wait({skipping, *waits}, timeout=left_s, return_when="FIRST_COMPLETED")
                waits = {task: name for task, name in waits.items() if task not in done}
        finally:
            for task in (skipping, *waits):
                task.cancel()


@asynccontextmanager
async def open_app(
    settings: Settings,
    state: Path,
    frontend: Frontend | None = None,
    words: Words | None = None,
    server_approval: ServerApproval | None = None,
    secrets: Redactor | None = None,
) -> AsyncIterator[App]:
    """Open what the settings ask for and close it at the end.

    A server that fails is listed in `failures` and is no error. The conversation is saved as a session if there is a
    front end, or if the settings name a session to resume.

    Args:
        settings: Settings.
        state: State directory.
        frontend: Answers questions of servers and of the policy; without it the answer is no.
        words: Sentences shared with the front end, so that a change of the language affects both.
        server_approval: Says which servers may start; interactive callers ask through it beforehand.
        secrets: Collects the values to redact.

    Raises:
        ModelError: The model cannot be loaded.
    """
    words, secrets = words or load(), secrets or Redactor()
    words.set_language(settings.language)
    add_settings_secrets(secrets, settings, os.environ)
    approval = server_approval or ServerApproval(state)
    loading = load_model(settings, state)

    async def find_backend() -> Backend:
        return app.backend if app else await asyncio.shield(loading)

    notices: list[str] = []
    events = ServerEvents(
        settings, words, frontend.notify if frontend else _collect_texts(notices), frontend is not None
    )
    media = MediaStore()
    handlers = _make_handlers(lambda: app.settings if app else settings, words, find_backend, frontend, events, media)
    make_toolbox = partial(
        _make_connections,
        state,
        replace(handlers, secrets=secrets, check_start=approval.check_start, media_store=media),
    )
    servers: Toolbox | None = None
    backend: Backend | None = None
    app: App | None = None
    try:
        if settings.servers:
            # takes nearly a second; in a thread, the keyboard stays responsive
            await asyncio.to_thread(import_module, "..mcp_client.toolbox", __package__)
            accepted = approval.filter_servers(settings.servers)
            for server in accepted:
                add_server_secrets(secrets, server)
            servers = make_toolbox(accepted)
            servers.refused = list_refused(settings.servers, accepted)
        opening = servers.open(SERVER_START_WAIT_S if frontend else None) if servers else asyncio.sleep(0)
        opened_backend, _ = await asyncio.gather(loading, opening)
        backend = opened_backend
        report_load(backend, words, events.notify)
        toolbox = FilteredToolbox(servers or EmptyToolbox())
        chat = Conversation(opened_backend, toolbox, settings, words)
        is_saved = bool(frontend or settings.session)
        opened = app = App(
            configured=settings,
            words=words,
            backend=opened_backend,
            servers=servers,
            toolbox=toolbox,
            chat=chat,
            prefiller=Prefiller(chat, settings.prefill_ahead and frontend is not None, events.notify),
            sessions=_make_sessions(settings, state, chat, events.notify, secrets, is_saved=is_saved),
            notices=notices,
            frontend=frontend,
            state=state,
            secrets=secrets,
            server_approval=approval,
            make_toolbox=make_toolbox,
            prefill_speed=PrefillSpeed(opened_backend.name, Measurements(state / MEASUREMENTS_FILE)),
            media=media,
        )
        chat.offer_access = app.sandbox_access.offer
        if frontend:  # the prompt of a script must not depend on earlier sessions
            chat.tool_usage = ToolUsage(state / "served.json")
            chat.approve, chat.ask_to_continue = frontend.approve, frontend.ask_to_continue
        app.sessions.find_starting_servers = events.find_starting = lambda: app.starting_servers
        chat.find_quarantined = lambda: opened.servers.quarantined_tools if opened.servers else ()
        chat.store_allowed = partial(_store_allowed, approval, events.notify)
        chat.find_instructions = opened.find_instructions
        report = InstructionsReport(chat, words, events.notify)
        events.on_tools_changed = partial(_handle_changed_tools, app, report)
        if frontend:
            report.update(servers.select_instructions() if servers else {})
        chat.skills = toolbox.skills = SkillLibrary(
            Path(find_own_folder(), "skills"), lambda: opened.servers, lambda: chat.prompt_words
        )
        events.find_subscriptions = lambda: opened.servers.subscriptions if opened.servers else ()
        async with _session(app, events.notify):
            yield app
    finally:
        parts = (app.servers, app.backend) if app else (servers, backend)
        await asyncio.gather(*(part.aclose() for part in parts if part))
        media.close()


def _make_sessions(
    settings: Settings,
    state: Path,
    chat: Conversation,
    notify: Callable[[str], None],
    secrets: Redactor,
    is_saved: bool,
) -> SessionManager:
    """Create the session log; nothing is written unless `is_saved`."""
    directory = SessionDirectory(state / "sessions") if is_saved else None
    redact = secrets.redact_known_member if settings.keep_secrets else secrets.redact_member
    return SessionManager(directory, chat, notify, redact)


@asynccontextmanager
async def _session(app: App, notify: Callable[[str], None]) -> AsyncIterator[None]:
    """Open the session that the settings name; stop the prefill and close the session at the end."""
    _report_log_errors(app.words, notify)
    try:
        app.sessions.open(app.settings.session)
        yield
    finally:
        _report_log_errors(app.words, None)
        await app.prefiller.close()
        app.sessions.close()


def _handle_changed_tools(app: App, report: InstructionsReport) -> None:
    """Prefill the prompt with the new tools; tell the user what the instructions of a new server cost."""
    app.prefiller.start()
    if app.frontend and app.servers:
        report.update(app.servers.select_instructions())


def _report_log_errors(words: Words, notify: Callable[[str], None] | None) -> None:
    """Report write errors of the program's log through `notify`; any thread may write to it. None stops reporting."""
    if (handler := logfile.find_log_file()) is None:
        return
    if notify is None:
        handler.set_error_callback(None)
        return
    show, loop = notify, asyncio.get_running_loop()

    def report(error: str) -> None:
        loop.call_soon_threadsafe(show, words("sessions.log_trouble", trouble=error))

    handler.set_error_callback(report)


def _store_allowed(approval: ServerApproval, notify: Notify, pattern: str) -> None:
    """Store a rule for this folder; one that cannot be stored holds until the chat ends, and the user is told."""
    try:
        approval.trust_store.change_rule("allow", pattern)
    except ChatError as error:
        notify(str(error), "error")


def _collect_texts(notices: list[str]) -> Notify:
    """Return what appends messages to a list."""

    def append(text: str, _level: NoticeLevel = "info") -> None:
        notices.append(text)

    return append


def _make_handlers(
    find_settings: Callable[[], Settings],
    words: Words,
    find_backend: FindBackend,
    frontend: Frontend | None,
    events: ServerEvents,
    store: MediaStore,
) -> ClientHandlers:
    """Build the handlers for requests of servers.

    The front end answers questions and the model answers sampling; without a front end there are no such handlers.
    """
    if frontend is None:
        return ClientHandlers(on_change=events.on_change)
    login = LoginPrompt(frontend, words)
    return ClientHandlers(
        sample=Sampler(find_backend, find_settings, words, frontend.confirm, store),
        elicit=Elicitation(frontend, words),
        default_root=Path.cwd(),
        on_log=events.on_log,
        on_change=events.on_change,
        log_in=login,
        agree_to_login=login.agree,
    )


def _make_connections(state: Path, handlers: ClientHandlers, servers: Sequence[ServerConfig] = ()) -> Toolbox:
    """Create the connections, not yet open. Only this function imports the MCP SDK."""
    from ..mcp_client.toolbox import Toolbox

    return Toolbox(servers, state / "logs", handlers)
