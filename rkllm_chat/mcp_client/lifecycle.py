"""Start, watch, stop and restart one MCP server.

One owner task opens the connection, waits, and closes it, and all requests go through its client. Every wait has a
limit. `lifecycle_state` decides what may happen next; this module does it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.secrets import add_server_secrets
from ..config.settings import ServerConfig
from ..config.tool_pins import INSTRUCTIONS, extract_text
from ..core.errors import ChatError, ConnectError
from ..core.skills import Skill
from ..core.thread_end import run_to_end
from .advertised_tools import AdvertisedTools, ToolListing, ToolListRefresher
from .auth.login_files import has_stored_login
from .call_log import log_fault, log_start, log_stop
from .client import Client
from .error_messages import summarize_error, translate_call_error, translate_start_error
from .handlers import ChangeKind, ClientHandlers, ServerChange, ignore
from .lifecycle_state import LifecycleState, ServerState
from .liveness import Use, is_alive, wait_until_idle, wait_until_silent
from .progress import ProgressReporter
from .protocol.limits import MAX_TOOLS
from .protocol.output_check import find_output_fault
from .server_requests import ServerRequests
from .skills import list_skills
from .subscriptions import Subscriptions
from .timing import PausableDeadlines
from .transports.driver import ConnectionEndedError
from .transports.registry import make_transport

if TYPE_CHECKING:
    from .auth.login import Login
    from .transports.base import Transport
    from .transports.driver import Driver

_CLOSE_S = 3.0
_END_S = 1.0
_importing = threading.Lock()

log = logging.getLogger(__name__)


class ServerLifecycle:
    """The lifecycle of one server.

    In order of time:

    1. `open` (or `restart`) calls `_start`, which runs the owner task and waits until it has opened or failed. A server
       that died of a newer request is started once more with the older protocol.
    2. The owner task, `_own_client`, checks that the user has accepted the start, opens the transport, negotiates the
       protocol, lists the tools (`_prepare`), and announces the server (`_mark_open`).
    3. It stays in `_serve` until the first of: the user closes the server, the process or connection has ended, a
       request timed out and so did a ping (`check_alive`), pings get no answer, nothing used it for `idle_s`.
    4. It closes the transport, whatever happened, and stores the state: closed, idle, or down with the error.
    5. The next request, in `get_client`, starts an idle server at once, and one that is down after its backoff. More
       requests wait for the same start.
    6. `aclose` ends the owner task, by cancellation if it does not end by itself.

    Args:
        advertised: Receives the tools that the server lists.
        source: Replaces the transport for a server in this process (an `MCPServer`).

    Attributes:
        on_transport: Called with each new transport before it is opened.
        config: The server's configuration.
        log_file: File for the server's standard error and log messages.
        handlers: Handlers of requests and notifications from the server.
        deadlines: Deadlines that pause while the user logs in.
        login_folder: Where logins are stored; None means nowhere.
        transport: The last transport; None before the first start.
        client: Sends requests; None while the server is not open.
        use: Counts the requests in progress.
        reporters: The calls in progress, by progress token.
    """

    def __init__(
        self,
        config: ServerConfig,
        log_file: Path,
        advertised: AdvertisedTools,
        handlers: ClientHandlers | None = None,
        source: Any = None,
    ) -> None:
        self.config, self.log_file = config, log_file
        self._advertised = advertised
        self.on_transport: Callable[[Transport], None] = ignore
        self.handlers = handlers or ClientHandlers()
        self.deadlines = PausableDeadlines()
        self.login_folder: Path | None = None
        add_server_secrets(self.handlers.secrets, config)
        self._instructions = ""
        self._source = source
        self.transport: Transport | None = None
        self.client: Client | None = None
        self._machine = LifecycleState(config.name)
        self.use = Use()
        self.reporters: dict[str, ProgressReporter] = {}
        self._refresher = ToolListRefresher(advertised, self._report, list_skills)
        self._subscriptions = Subscriptions()
        self._background: set[asyncio.Task[None]] = set()
        self._output_faults: set[str] = set()
        self._owner: asyncio.Task[None] | None = None
        self._ready, self._closing, self._lost = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._start_lock = asyncio.Lock()
        self._restart: asyncio.Task[None] | None = None
        self._alive_check: asyncio.Task[None] | None = None

    @cached_property
    def login(self) -> Login:
        """The server's OAuth login."""
        from .auth.login import Login

        return Login(self.config, self.login_folder, self.handlers, self.deadlines)

    @property
    def state(self) -> ServerState:
        return self._machine.state

    @property
    def error(self) -> ChatError | None:
        """Why the server is not open; None while it is."""
        return self._machine.error

    @property
    def needs_user(self) -> bool:
        """Whether it has failed, and no request starts it again."""
        return self._machine.needs_user(time.monotonic())

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent now."""
        return self.client is not None

    @property
    def is_closing(self) -> bool:
        """Whether it is to be closed, or is."""
        return self._closing.is_set()

    @property
    def is_ready(self) -> bool:
        """Whether it is open, or idle: stopped until the next request."""
        return self._machine.is_ready

    @property
    def has_resources(self) -> bool:
        """Whether the server has at least one resource or resource template."""
        return self._refresher.has_resources

    @property
    def latency_s(self) -> float:
        """Time of the last list of tools."""
        return self._refresher.latency_s

    @property
    def skills(self) -> list[Skill]:
        """The skills that the server listed and that are not withheld."""
        withheld = self._advertised.texts.withheld
        return [skill for skill in self._refresher.skills if ("skills", skill.uri) not in withheld]

    @property
    def instructions(self) -> str:
        """What the server said about its use when it was last opened; "" while a change of it is withheld."""
        return "" if (INSTRUCTIONS, INSTRUCTIONS) in self._advertised.texts.withheld else self._instructions

    def refresh_lists(self) -> None:
        """List tools and skills again soon."""
        if self.client:
            self._refresher.schedule(self.client)

    def declares(self, capability: str) -> bool:
        """Tell whether the server declared a capability; not while it is not open."""
        return self.client is not None and self.client.declares(capability)

    @property
    def protocol_version(self) -> str:
        """The negotiated protocol version; "" while the server is not open."""
        return self.client.version if self.client else ""

    @property
    def server_info(self) -> Mapping[str, Any]:
        """The name and version of the server; empty while it is not open."""
        return self.client.info if self.client else {}

    async def open(self) -> None:
        """Start the server and list its tools. A failure is stored in `error`, not raised."""
        is_starting = self._start_lock.locked()  # a start in progress also answers this call
        async with self._start_lock:
            if self.client is None and not is_starting:
                await self._start_for_user()

    async def restart(self) -> None:
        """Stop the server if it runs and start it, regardless of earlier failures."""
        await self.aclose()
        async with self._start_lock:
            if self.client is None:
                await self._start_for_user()

    async def aclose(self) -> None:
        """Stop the server; cancel the owner task if it has not ended after 3 seconds."""
        # first, so that a restart that waits for its backoff gives up
        self._closing.set()
        self._machine.mark_closing()
        if self._owner is None:
            return
        # a start may take `connect_s`, which leaving does not wait for
        if not self._ready.is_set():
            self._owner.cancel()
        await self.stop_owner(_CLOSE_S)

    async def subscribe(self, uri: str) -> None:
        """Subscribe to changes of a resource, also after restarts.

        Raises:
            TimeoutError: The server has not acknowledged the subscription after 10 seconds.
        """
        await self._subscriptions.add(self.client, uri)

    async def unsubscribe(self, uri: str) -> None:
        """End a subscription."""
        await self._subscriptions.remove(self.client, uri)

    @property
    def subscribed_uris(self) -> list[str]:
        """The resources that are subscribed to."""
        return sorted(self._subscriptions.uris)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a request that no caller awaits; it is cancelled with the connection."""

        def finish(task: asyncio.Task[None]) -> None:
            self._background.discard(task)
            if not task.cancelled() and (error := task.exception()):
                log.info("%s: %s", self.config.name, summarize_error(error))

        # kept in a set, because an event loop has only weak references to its tasks
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(finish)

    async def send_log_level(self, client: Client) -> None:
        """Send the log level to a server of a version before MCP 2026-07-28."""
        if client.declares("logging"):
            await client.request("logging/setLevel", {"level": self.config.log_level}, self.config.connect_s)

    def on_unsolicited_change(self, kind: ChangeKind, uri: str) -> None:
        """Handle a change notification that arrived outside a subscription.

        Ignored from servers of MCP 2026-07-28, which notify on their subscription.
        """
        if not self.client or not self.client.is_stateless:
            self.handle_change(kind, uri)

    def handle_change(self, kind: ChangeKind, uri: str) -> None:
        """Handle a change notification; `uri` names a resource whose content changed."""
        if kind in (ChangeKind.TOOLS, ChangeKind.RESOURCES) and self.client:
            self._refresher.schedule(self.client)
        if kind is not ChangeKind.TOOLS:  # those are reported if the new list differs
            self._report(kind, uri)

    def _report(self, kind: ChangeKind, uri: str = "") -> None:
        self.handlers.on_change(ServerChange(self.config.name, kind, uri))

    async def get_client(self) -> Client:
        """Return the open client; restart the server if it is down and its backoff allows it."""
        # a request behind one that timed out must not go to a server that is about to be replaced
        if self._alive_check:
            await asyncio.wait([self._alive_check])
        if self.client:
            return self.client
        # read before the lock is awaited: who waits for a restart shares its outcome and does not begin the next one
        before, is_restarting = self._restart, self._restart is not None and not self._restart.done()
        async with self._start_lock:
            if not self.client and not self._closing.is_set():
                if self._restart is None or (self._restart is before and not is_restarting):
                    self._restart = asyncio.create_task(self._restart_when_allowed())
                # A start that failed meanwhile also answers this caller. Cancelling the caller does not stop the start.
                await asyncio.shield(self._restart)
            if self.client:
                return self.client
        raise self.error or ConnectError(f'Server "{self.config.name}" is not open.', server=self.config.name)

    async def _restart_when_allowed(self) -> None:
        delay_s = self._machine.get_restart_delay_s(time.monotonic())
        # no plain sleep: closing ends the wait
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._closing.wait(), delay_s)
        if not self._closing.is_set():
            self._machine.mark_restarting(time.monotonic())
            await self._start()

    async def _start_for_user(self) -> None:
        self._closing.clear()
        self._machine.reset()
        # not `self.login`, which would make one, and import the SDK, for a server that never needed it
        if login := self.__dict__.get("login"):
            login.error = None
        await self._start()

    async def _start(self) -> None:
        """Start once; retry with the older protocol if the server died of `server/discover`."""
        await self._run_owner()
        first_error = self.error
        if self._machine.try_legacy() and not self._closing.is_set():
            await self._run_owner()
            if self.error:
                self._machine.undo_legacy(first_error)
        if not self.is_ready:
            self._machine.mark_start_failed(time.monotonic())
            if self.error and not self._closing.is_set():
                self.handlers.on_change(ServerChange(self.config.name, ChangeKind.FAILED, error=str(self.error)))

    async def _run_owner(self) -> None:
        """Run the owner task until the server is open or has failed."""
        if self._owner and not self._owner.done():  # it is still closing
            await asyncio.wait([self._owner], timeout=_CLOSE_S)
        self._lost.clear()
        self._machine.mark_starting()
        self._ready = ready = asyncio.Event()
        self._owner = owner = asyncio.create_task(self._own_client(), name=f"server {self.config.name}")

        def finish(_: asyncio.Task[None]) -> None:
            ready.set()
            if self._owner is owner and self.state is ServerState.STARTING:  # it was cancelled before it began
                self._machine.mark_ended(time.monotonic(), None)

        owner.add_done_callback(finish)
        try:
            await ready.wait()
        except asyncio.CancelledError:
            owner.cancel()  # else the next start would be a second one beside this
            raise

    async def _own_client(self) -> None:
        """Enter the client, wait until it must close, leave it."""
        started_at, opened, transport = time.monotonic(), False, None
        try:
            await asyncio.to_thread(self.handlers.check_start, self.config)
            # it may import the SDK, half a second; its late end would replace the transport of the next start
            transport = await run_to_end(self._open_transport)
            with self.deadlines.limit(self.config.connect_s) as limit:
                async with transport as driver:
                    client = self._make_client(driver)
                    await client.open(self._machine.is_legacy or transport.mode == "legacy")
                    await self._prepare(client)
                    # the limit was that of the start; the block lasts as long as the server is open
                    limit.deadline, opened = math.inf, True
                    self._mark_open(client, time.monotonic() - started_at)
                    await self._serve(client, transport)
            if limit.cancelled_caught:
                raise TimeoutError
        except Exception as error:
            self._mark_failed(error, opened, transport)
        finally:
            self._mark_ended(time.monotonic() - started_at if opened else None)

    async def _prepare(self, client: Client) -> None:
        """Do what must precede the first request: list the tools, restore log level and subscriptions."""
        await self._refresher.list(client)
        self._report_incomplete(self._advertised.last_listing)
        if not client.is_stateless:
            self.run_in_background(self.send_log_level(client))
        await self._subscriptions.restore(client)

    async def list_again(self, client: Client) -> None:
        """List the tools now, because a call was refused as they have changed."""
        await self._refresher.list(client)

    def _report_incomplete(self, listing: ToolListing) -> None:
        """Report tools that cannot be used, and a list that is unusable or too long."""
        is_crowd = listing.count > MAX_TOOLS
        cut = ("tools", listing.count) if listing.is_cut and not is_crowd else None
        faults = {tool.name: find_output_fault(tool.output_schema) for tool in self._advertised.tools}
        faults = {name: fault for name, fault in faults.items() if fault}
        if listing.left_out or listing.fault or is_crowd or cut or faults:
            name, kind = self.config.name, ChangeKind.INCOMPLETE
            change = ServerChange(name, kind, "", listing.left_out, listing.fault, listing.count)
            self.handlers.on_change(replace(change, cut=cut, output_faults=faults))

    def report_output_fault(self, tool: str, fault: str) -> None:
        """Report, once for each tool, that its results are not checked against its output schema."""
        if tool not in self._output_faults:
            self._output_faults.add(tool)
            self.handlers.on_change(ServerChange(self.config.name, ChangeKind.INCOMPLETE, output_faults={tool: fault}))

    def report_cut_result(self, tool: str, size: int) -> None:
        """Report that a result was larger than the limit, with its size in bytes."""
        self.handlers.on_change(ServerChange(self.config.name, ChangeKind.INCOMPLETE, cut_result=(tool, size)))

    def report_cut(self, what: str, count: int) -> None:
        """Report a list of resources or prompts that is longer than what is read of it."""
        self.handlers.on_change(ServerChange(self.config.name, ChangeKind.INCOMPLETE, cut=(what, count)))

    def _mark_open(self, client: Client, seconds: float) -> None:
        self.client = client
        self._instructions = client.instructions.strip()
        said = extract_text({"description": self._instructions}, "description")
        is_withheld = self._advertised.texts.find_withheld(INSTRUCTIONS, {INSTRUCTIONS: said})
        if is_withheld and not self._advertised.quarantined_tools:
            self._report(ChangeKind.QUARANTINED)
        if self.transport:
            self.transport.mark_ready()
        log_start(self.config.name, seconds, client.version, len(self._advertised.tools))
        if self._machine.mark_open():
            self._report(ChangeKind.OPENED)
        sandbox = self.transport.sandbox if self.transport else None
        if sandbox and sandbox.unavailable_reason:
            change = ServerChange(self.config.name, ChangeKind.UNSANDBOXED, error=sandbox.unavailable_reason)
            self.handlers.on_change(change)
        self._ready.set()

    def _mark_failed(self, error: BaseException, opened: bool, transport: Transport | None) -> None:
        """Store why the server is not open."""
        name, config = self.config.name, self.config
        if opened:
            failure = translate_call_error(name, error, config.timeout_s, self.transport)
        else:
            failure = translate_start_error(name, error, config.connect_s, self.transport)
        has_died = not opened and isinstance(error, ConnectionEndedError)
        # a server that was sent nothing but this question has died of it
        died_of_discover = has_died and transport is not None and transport.sent_methods == {"server/discover"}
        self._machine.mark_failed(log_fault(failure, self.handlers.secrets), died_of_discover, was_open=opened)
        if opened:
            self._report(ChangeKind.GONE)

    def _mark_ended(self, lasted_s: float | None) -> None:
        self.client = None
        self._machine.mark_ended(time.monotonic(), lasted_s)
        if lasted_s is not None:
            log_stop(self.config.name, lasted_s, self.state is ServerState.IDLE)
        # last: `_run_owner` waits for this and reads the state
        self._ready.set()

    async def _serve(self, client: Client, transport: Transport) -> None:
        """Listen for changes until the server must close, has ended, is silent, or becomes idle.

        Raises:
            ConnectionEndedError: The connection has ended.
            ConnectError: The server does not answer any more.
        """
        self.use.reset()
        silent = asyncio.create_task(wait_until_silent(client, self.use, self.config.ping_s))
        idle = asyncio.create_task(self._stop_when_idle())
        events = [self._closing, self._lost, transport.has_ended]
        ends = [silent, idle, *(asyncio.create_task(event.wait()) for event in events)]
        listening = asyncio.create_task(self._subscriptions.listen(client, self.handle_change))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            # read before the tasks are cancelled, after which all of them are done
            is_silent = silent.done()
        finally:
            await cancel_all([*ends, listening, *self._refresher.stop(), *self._background])
        if self._closing.is_set():
            self._machine.mark_closing()
        elif self.state is not ServerState.IDLE:
            if self._lost.is_set() or is_silent:
                text = f'Server "{self.config.name}" does not answer any more.'
                raise ConnectError(text, server=self.config.name)
            raise ConnectionEndedError

    async def _stop_when_idle(self) -> None:
        """Mark the server as idle once nothing has used it for `idle_s`; a subscription to a resource counts as use.

        Done here and not by the caller, which runs later: a request in between would lose its client.
        """
        await wait_until_idle(self.use, self.config.idle_s)
        while self._subscriptions.uris:
            await asyncio.sleep(self.config.idle_s)
            await wait_until_idle(self.use, self.config.idle_s)
        self._machine.mark_idle()
        self.client = None

    def _open_transport(self) -> Transport:
        """Return a new transport. Called in threads, where modules that import each other fail at the same time."""
        with _importing:
            self.transport = make_transport(self.config, self.log_file, self._source)
            if self.config.url:
                has_login = "login" in self.__dict__ or has_stored_login(self.login_folder, self.config)
                self.transport.login = self.login if has_login else None
                self.transport.load_login = self._load_login
        self.transport.roots = tuple(map(str, self.handlers.find_roots(self.config)))
        self.transport.secrets, self.transport.deadlines = self.handlers.secrets, self.deadlines
        self.on_transport(self.transport)
        return self.transport

    def _load_login(self) -> Login:
        """Return the login. Called in threads, as `_open_transport`."""
        with _importing:
            return self.login

    def _make_client(self, driver: Driver) -> Client:
        requests = ServerRequests(
            self.config, self.handlers, self.on_unsolicited_change, self.reporters, self._write_log
        )
        return Client(self.config.name, driver, requests, self.config.log_level)

    def _write_log(self, line: str) -> None:
        if self.transport:
            self.transport.write_log(line)

    def check_alive(self, client: Client) -> None:
        """Stop the server if it answers nothing at all; called after a request timed out."""

        async def check() -> None:
            # the server may have been replaced while the ping was awaited
            if not await is_alive(client) and client is self.client:
                self._lost.set()
                await self.stop_owner(_CLOSE_S)

        self._alive_check = asyncio.create_task(check())

    async def stop_owner(self, limit_s: float = _END_S) -> None:
        """Wait for the owner task to notice that the connection must end; cancel it if it does not."""
        if (owner := self._owner) and not owner.done():
            _, unfinished = await asyncio.wait([owner], timeout=limit_s)
            if unfinished:
                owner.cancel()
                await asyncio.wait([owner], timeout=_CLOSE_S)


async def cancel_all(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended.

    All are cancelled before the wait: a cancelled scope of anyio cancels the caller again at every wait.
    """
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
