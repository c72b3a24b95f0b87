"""Composition root: open model, servers and chat concurrently and close them together. No user interface."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from ..backends import identify_model
from ..backends.base import Backend, ThinkingSwitch
from ..backends.shared.model_files import read_beginning, read_parameter_count
from ..backends.unloaded import UnloadedBackend
from ..config.files import find_own_folder
from ..config.project_trust import list_refused
from ..config.secrets import add_server_secrets, add_settings_secrets
from ..config.settings import ServerConfig, Settings, Thinking
from ..config.settings_source import SettingsSource
from ..core.errors import ChatError, ModelError
from ..core.events import NoticeLevel, Usage
from ..core.i18n import Words, load
from ..core.messages import Attachment, Message, Tool
from ..core.protocols import (
    CallPosition,
    Consent,
    Continuation,
    Decline,
    Notify,
    RunEdited,
    answer_at_limit,
    decline_all,
)
from ..core.redact import Redactor
from ..mcp_client.handlers import ClientHandlers
from ..mcp_client.toolbox import Toolbox
from ..storage import log_file as logfile
from ..storage.local_statistics import Measurements, ToolUsage
from ..storage.media import MediaStore
from ..storage.session_files import SessionDirectory
from .conversation import Conversation
from .elicitation import Elicitation, LoginPrompt, UserPrompts
from .event_stream import Emit
from .instructions_budget import describe_cost, may_have_instructions
from .model_loading import MEASUREMENTS_FILE, load_model, report_load
from .prefill import Prefiller, PrefillSpeed
from .sampling import Sampler
from .sandbox_access import SandboxAccess
from .server_approval import ServerApproval
from .server_events import MESSAGE_WAIT_S, SERVER_START_WAIT_S, ServerEvents, ServerWait
from .sessions import SessionManager
from .skills import SkillLibrary
from .tool_filter import FilteredToolbox


class Frontend(UserPrompts, Protocol):
    """Interactive front end: asks the user about calls and shows news outside the conversation."""

    async def approve(
        self, tool: Tool, arguments: Mapping[str, Any], position: CallPosition
    ) -> Consent | Decline | RunEdited:
        """Ask whether a call may run."""

    async def ask_to_continue(self, rounds: int) -> Continuation:
        """Ask how to continue after the maximum number of rounds."""


class App:
    """The open parts of the program; `open_app` opens and closes it.

    It is complete before the model and the servers are there: until then the backend is an `UnloadedBackend` and the
    toolbox has no servers, so that what asks for them later needs no callback that is set later.

    Attributes:
        configured: The settings of the files and the command line, without what was changed in the chat.
        words: Sentences in the user's language.
        servers: Connections to the servers.
        toolbox: Tools of the servers except those that were switched off.
        chat: The conversation.
        prefiller: Idle-time prefill.
        sessions: Session log.
        notify: Shows a message to the user; without a front end it is added to `notices`.
        notices: Messages for the user if there is no front end.
        frontend: Interactive front end; None for a script.
        attachments: Attachments for the next message.
        state: State directory.
        secrets: Known secrets to redact.
        source: Source of the settings; None if they cannot be reloaded.
        server_approval: Approval of server starts.
        model_switch: The model switch in progress.
        used_models: Earlier models of this run, as `--model` takes them.
        prefill_speed: Prefill speed of the current model, as far as it is known.
        sandbox_access: What the user allows servers beyond their sandboxes.
        media: Files of the pictures, sounds and blobs of this run.
    """

    def __init__(
        self,
        settings: Settings,
        state: Path,
        frontend: Frontend | None,
        words: Words,
        server_approval: ServerApproval,
        secrets: Redactor,
    ) -> None:
        self.configured, self.state, self.frontend, self.words = settings, state, frontend, words
        self.server_approval, self.secrets = server_approval, secrets
        self.notices: list[str] = []
        self.attachments: list[Attachment] = []
        self.used_models: list[str] = []
        self.source: SettingsSource | None = None
        self.model_switch: asyncio.Future[None] | None = None
        self.prefill_speed = PrefillSpeed()
        self.media = MediaStore()
        self.notify: Notify = frontend.notify if frontend else self._add_notice
        self._first_load: asyncio.Future[None] | None = None
        self._is_open = False
        self.servers = Toolbox(())
        self.sandbox_access = SandboxAccess(
            server_approval, frontend, self.notify, words, lambda: self.servers, lambda: self.settings.servers
        )
        skills = SkillLibrary(Path(find_own_folder(), "skills"), lambda: self.servers, lambda: self.chat.prompt_words)
        self.toolbox = FilteredToolbox(self.servers, skills)
        self.chat = Conversation(
            UnloadedBackend(),
            self.toolbox,
            settings,
            words,
            approve=frontend.approve if frontend else decline_all,
            ask_to_continue=frontend.ask_to_continue if frontend else answer_at_limit,
            get_quarantined=lambda: self.servers.quarantined_tools,
            get_instructions=self.get_instructions,
            get_folders=lambda: self.servers.find_folders(),
            offer_access=self.sandbox_access.offer,
            find_resource_server=lambda uri: self.servers.find_resource_server(uri),
            skills=skills,
            # the prompt of a script must not depend on earlier sessions
            tool_usage=ToolUsage(state / "served.json") if frontend else ToolUsage(),
            store_allowed=self._store_allowed,
        )
        wants_prefill = settings.prefill_ahead and frontend is not None
        self.prefiller = Prefiller(self.chat, wants_prefill, self.notify, self.record_prefill_speed)
        self.sessions = SessionManager(
            SessionDirectory(state / "sessions") if frontend or settings.session else None,
            self.chat,
            self.notify,
            secrets.redact_known_member if settings.keep_secrets else secrets.redact_member,
            lambda: self.starting_servers,
        )
        self._reported: dict[str, str] = {}
        self._has_reported_unsaved = False
        self._handlers = self._make_handlers()
        self._make_toolbox()

    def _make_handlers(self) -> ClientHandlers:
        """Return the handlers for requests of servers.

        The front end answers questions and the model answers sampling; without a front end there are no such handlers.
        """
        user, words = self.frontend, self.words
        events = ServerEvents(
            self.settings,
            words,
            self.notify,
            user is not None,
            self._handle_changed_tools,
            lambda: self.starting_servers,
            lambda: self.servers.subscriptions,
        )
        handlers = ClientHandlers(
            on_change=events.on_change,
            secrets=self.secrets,
            check_start=self.server_approval.check_start,
            media_store=self.media,
        )
        if user is None:
            return handlers
        login = LoginPrompt(user, words)
        return replace(
            handlers,
            sample=Sampler(self._get_backend, lambda: self.settings, words, user.confirm, self._estimate_s, self.media),
            elicit=Elicitation(user, words),
            default_root=Path.cwd(),
            on_log=events.on_log,
            log_in=login,
            agree_to_login=login.agree,
        )

    @property
    def settings(self) -> Settings:
        """The current settings, which are those of the conversation."""
        return self.chat.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self.chat.settings = settings

    @property
    def backend(self) -> Backend:
        return self.chat.backend

    @property
    def calls_no_tools(self) -> bool:
        """Whether the model is of a kind that called no tool when it was measured."""
        return 0 < read_parameter_count(self.backend.name) <= self.chat.profile.callless_parameters

    async def open(self) -> None:
        """Load the model and open the servers. Raises ModelError if the model cannot be loaded."""
        # a task, because servers open beside it, and one may ask for sampling before the model is there (see
        # `_get_backend`)
        self._first_load = asyncio.ensure_future(self._load(load_model(self.settings, self.state)))
        opening: list[Awaitable[None]] = [self._first_load]
        if self.settings.servers:
            toolbox = self._make_toolbox(self._accept(self.settings.servers))
            # a script needs all of its servers; a chat announces those that are late
            opening.append(toolbox.open(SERVER_START_WAIT_S if self.frontend else None))
        await asyncio.gather(*opening)
        self._report_load()
        self._is_open = True
        self._report_instructions()
        self._report_unsaved()

    async def close(self) -> None:
        """Close the model and the servers."""
        if self._first_load:
            self._first_load.cancel()
        await asyncio.gather(self.servers.aclose(), self.backend.aclose())
        self.media.close()

    async def _load(self, loading: Awaitable[Backend]) -> None:
        """Use a model that is being loaded."""
        self.chat.backend = backend = await loading
        self.prefill_speed = PrefillSpeed(backend.name, Measurements(self.state / MEASUREMENTS_FILE))

    async def _get_backend(self) -> Backend:
        """Return the engine, after the first one has been loaded."""
        if self._first_load:
            # who waits may be cancelled, and the load goes on for the others
            await asyncio.shield(self._first_load)
        return self.backend

    def _accept(self, servers: Sequence[ServerConfig]) -> tuple[ServerConfig, ...]:
        """Return the servers that may start; the values to redact of all of them are known then."""
        accepted = self.server_approval.filter_servers(servers)
        for server in (*servers, *accepted):
            add_server_secrets(self.secrets, server)
        return accepted

    def _make_toolbox(self, servers: Sequence[ServerConfig] = ()) -> Toolbox:
        """Create the connections, not yet open."""
        toolbox = Toolbox(servers, self.state / "logs", self._handlers)
        toolbox.refused = list_refused(self.settings.servers, servers)
        self.servers = self.toolbox.toolbox = toolbox
        return toolbox

    async def apply_servers(self, servers: tuple[ServerConfig, ...]) -> list[str]:
        """Use these servers from now on.

        Servers that need approval are asked about first; declined ones are not opened.

        Returns:
            The names of the servers that were opened or closed.
        """
        self.settings = replace(self.settings, servers=servers)
        for server in servers:
            add_server_secrets(self.secrets, server)
        allow = self.settings.policy.allow
        if agreed := await self.server_approval.ask_user(servers, self.frontend, self.words, allow):
            self.settings = replace(self.settings, policy=replace(self.settings.policy, allow=(*allow, *agreed)))
        accepted = self._accept(servers)
        self.servers.refused = list_refused(servers, accepted)
        return await self.servers.apply_config(accepted)

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
            ModelError: The model cannot be loaded; the previous one is still open, or open again, if it can be.
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
            # a file that is not there, or no model, must not cost the model that is loaded: its own may be gone, too
            if file := identify_model(settings).file:
                await asyncio.to_thread(read_beginning, file, "/model lists those that are there.")
            closed = self.backend
            # before the close: who counts tokens meanwhile must not reach a model that is freed
            self.chat.backend = UnloadedBackend(closed)
            await closed.aclose()
            try:
                await self._load(load_model(settings, self.state))
            except ChatError as error:
                await self._reload_model(error)
                raise
            self.used_models.append(self.settings.model)
            self.settings = settings
            if self.frontend:
                self._report_load()

    def _report_load(self) -> None:
        """Tell the user what is to be known of the model that was loaded."""
        report_load(self.backend, self.words, self.notify, self.state)
        if self.calls_no_tools:
            self.notify(self.words("chat.callless", model=self.backend.name), "warning")

    async def _reload_model(self, failure: ChatError) -> None:
        """Load the previous model again after another one could not be loaded.

        Raises:
            ModelError: It cannot be loaded either; no model is loaded now.
        """
        try:
            await self._load(load_model(self.settings, self.state))
        except ChatError as error:
            text = f"{failure} The model before cannot be loaded again either: {error}"
            raise ModelError(text, "No model is loaded now: /model NAME loads one.") from failure

    def record_prefill_speed(self, usage: Sequence[Usage]) -> None:
        """Record the prefill speed of replies, if the engine reports how much it found in its cache."""
        if self.backend.count_cached_tokens([Message("user", "")]) is not None:
            for entry in usage:
                self.prefill_speed.record(entry)

    def _estimate_s(self, tokens: int) -> float:
        """Estimate the seconds to read so many tokens; 0.0 if unknown."""
        return self.prefill_speed.estimate_s(tokens)

    @property
    def failures(self) -> Mapping[str, ChatError]:
        """Why each missing server is not connected, by name."""
        return {**self.server_approval.find_refusals(self.settings.servers), **self.servers.failures}

    def get_instructions(self) -> Mapping[str, str]:
        """Return what the servers say about their use."""
        return self.servers.select_instructions(may_have_instructions(self.backend))

    @property
    def starting_servers(self) -> Sequence[str]:
        """Names of the servers that are still starting."""
        connections = self.servers.connections.values()
        return [connection.config.name for connection in connections if connection.lifecycle.state == "starting"]

    async def wait_for_servers(self, emit: Emit) -> None:
        """Wait until no server is starting any more, the user sends the message without them, or the limit is reached.

        Emits an event with those that are missing, at the beginning and after each that has started or failed.
        """
        limit, skipped = time.monotonic() + MESSAGE_WAIT_S, asyncio.Event()
        connections = self.servers.connections
        # during a start, open() waits for its end
        waits = {asyncio.ensure_future(connections[name].lifecycle.open()): name for name in self.starting_servers}
        skipping = asyncio.ensure_future(skipped.wait())
        try:
            while waits and not skipped.is_set() and (left_s := limit - time.monotonic()) > 0:
                servers = ", ".join(waits.values())
                await emit(ServerWait(self.words("servers.waiting", servers=servers), "info", servers, skipped.set))
                done, _ = await asyncio.wait({skipping, *waits}, timeout=left_s, return_when="FIRST_COMPLETED")
                waits = {task: name for task, name in waits.items() if task not in done}
        finally:
            # only waits end here; the starts go on
            for task in (skipping, *waits):
                task.cancel()

    def _handle_changed_tools(self) -> None:
        """Prefill the prompt with the new tools; tell the user what the instructions of a new server cost."""
        if self._is_open:
            self.prefiller.start()
            self._report_instructions()
            self._report_unsaved()

    def _report_unsaved(self) -> None:
        """Tell the user once that the servers' tools are not recorded, so that a change of them would not be seen."""
        if not (self._has_reported_unsaved or self.server_approval.trust_store.is_saved):
            self._has_reported_unsaved = True
            self.notify(self.words("trust.unsaved", folder=self.state), "warning")

    def _report_instructions(self) -> None:
        """Tell the user, once for each server, what its instructions cost or that they are left out."""
        for server, text in self.servers.select_instructions().items() if self.frontend else ():
            if self._reported.get(server) != text:
                self._reported[server] = text
                self.notify(describe_cost(self.chat, server, text))

    def _store_allowed(self, pattern: str) -> None:
        """Store a rule for this folder; one that cannot be stored is reported and holds until the chat ends."""
        try:
            self.server_approval.trust_store.change_rule("allow", pattern)
        except ChatError as error:
            self.notify(str(error), "error")

    def _add_notice(self, text: str, _level: NoticeLevel = "info") -> None:
        self.notices.append(text)


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
    app = App(settings, state, frontend, words, server_approval or ServerApproval(state), secrets)
    try:
        await app.open()
        _report_log_errors(words, app.notify)
        try:
            app.sessions.open(settings.session)
            yield app
            # first, since no stream may be open while the state is kept
            await app.prefiller.close()
            await app.sessions.keep_state()
        finally:
            # first: any thread may log, and the event loop that shows it is about to end
            _report_log_errors(words, None)
            await app.prefiller.close()
            app.sessions.close()
    finally:
        await app.close()


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
