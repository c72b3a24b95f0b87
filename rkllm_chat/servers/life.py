"""The life of one server: started, listed, listened to, ended, and started again when it died. It asks nothing else.

A client of the SDK must be left by the task that entered it, else it hangs for ever (mcp 2.3.0, measured); so a task
enters it, waits, and leaves it, and everybody else calls through it. Every wait has a limit: the SDK has none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import warnings
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp import Client, MCPError
from mcp_types import Implementation, ServerCapabilities
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .. import __version__
from ..config import ServerConfig
from ..errors import ChatError, ConnectError
from .asks import Asks
from .backoff import Backoff
from .callbacks import Answers
from .listening import Followed, listen
from .listing import has_resources, list_tools
from .login import Login
from .offer import Offer
from .progress import Reports
from .tap import Tap
from .tasks import Tasks
from .traffic import log_fault, log_start, log_stop
from .transports import open_transport
from .trouble import CLOSED, CLOSED_CODE, explain_call, explain_start, first_line
from .watch import Use, is_alive, wait_until_idle, wait_until_silent

LIST_S = 10.0
CLOSE_S = 3.0
PATIENCE_S = 5.0
GONE_S = 1.0
REFRESH_S = 2.0

log = logging.getLogger(__name__)

State = Literal["closed", "starting", "open", "idle", "failed"]


class Life(Offer):
    """Opened, restarted and closed by whoever has it. `error`: why it is not open.

    `has_resources`: there is something to read, or a template for it.
    `source` is given instead of a transport where the server lives in this process (an `MCPServer`).
    """

    def __init__(self, config: ServerConfig, log_file: Path, asks: Asks | None = None, source: Any = None) -> None:
        super().__init__(config)
        self.log_file = log_file
        self.has_resources = False
        self.error: ChatError | None = None
        self.asks = asks or Asks()
        self.login = Login(config, None, self.asks)
        self.log_level = config.log_level
        self._source = source
        self._use = Use()
        self._listeners: dict[str, Reports] = {}
        self._errands: set[asyncio.Task[None]] = set()
        self._lost = asyncio.Event()
        self._is_idle = False
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._ready, self._closing = asyncio.Event(), asyncio.Event()
        self._starting = asyncio.Lock()
        self._backoff = Backoff()
        self._is_legacy = config.transport == "sse"
        self._transport: Any = None
        self._refreshing: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._coming: asyncio.Task[None] | None = None
        self._stale, self._listed = False, 0.0
        self._died_of_discover = self._was_open = False
        self._followed = Followed()

    @property
    def state(self) -> State:
        if self._client:
            return "open"
        if self._is_idle:
            return "idle"
        if self._owner and not self._owner.done():
            return "starting"
        return "failed" if self.error else "closed"

    @property
    def is_open(self) -> bool:
        return self._client is not None

    @property
    def is_ready(self) -> bool:
        """Whether it is open, or closed only until it is needed again."""
        return self.is_open or self._is_idle

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server says it can do; nothing while it is not open."""
        return self._client.server_capabilities if self._client else ServerCapabilities()

    @property
    def protocol_version(self) -> str:
        return self._client.protocol_version if self._client else ""

    @property
    def server_info(self) -> Implementation | None:
        return self._client.server_info if self._client else None

    async def open(self) -> None:
        """Starts the server and lists its tools. A failure is kept in `error`, not raised: the others go on."""
        is_starting = self._starting.locked()  # the end of that start is this one's too
        async with self._starting:
            if self._client is None and not is_starting:
                await self._start_afresh()

    async def _start_afresh(self) -> None:
        self._closing.clear()
        self._is_idle = False
        self._backoff.reset()
        self.login.error = None
        await self._start()

    async def aclose(self) -> None:
        """Ends the server; gives up on a graceful end after CLOSE_S seconds."""
        self._closing.set()
        self._is_idle = False
        owner = self._owner
        if owner is None:
            return
        if not self._ready.is_set():
            owner.cancel()
        _, unfinished = await asyncio.wait([owner], timeout=CLOSE_S)
        if unfinished:
            owner.cancel()
            await asyncio.wait([owner], timeout=CLOSE_S)

    async def restart(self) -> None:
        """Ends it if it runs, and starts it again whatever happened before."""
        await self.aclose()
        async with self._starting:
            if self._client is None:
                await self._start_afresh()

    async def _check_alive(self, client: Client) -> None:
        """After a request ran into its limit: a server that answers nothing at all any more is ended."""
        if not await is_alive(client) and client is self._client:
            self._lost.set()
            await self._let_go(CLOSE_S)

    async def _get_client(self) -> Client:
        """The open client; starts the server again if it is down and may be started."""
        if self._checking:
            await asyncio.wait([self._checking])
        if self._client:
            return self._client
        before, is_coming = self._coming, self._coming is not None and not self._coming.done()
        async with self._starting:
            if not self._client and not self._closing.is_set():
                if self._coming is None or (self._coming is before and not is_coming):
                    self._coming = asyncio.create_task(self._start_again())
                # a start that failed while this one waited is its answer too; who gives up waiting does not stop it
                await asyncio.shield(self._coming)
            if self._client:
                return self._client
        raise self.error or ConnectError(f'Server "{self.config.name}" is not open.', server=self.config.name)

    async def _start_again(self) -> None:
        name, now = self.config.name, time.monotonic()
        wait_s = self._backoff.wait_s(now)
        if wait_s is None:
            reason = f" {self.error.message}" if self.error else ""
            raise ConnectError(
                f'Server "{name}" died too often and stays down.{reason}', f"Start it with /mcp restart {name}."
            )
        if wait_s > PATIENCE_S:
            raise ConnectError(f'Server "{name}" is down; it is started again in {wait_s:.0f} s at the earliest.')
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._closing.wait(), wait_s)
        if not self._closing.is_set():
            self._backoff.started(time.monotonic())
            await self._start()

    async def _start(self) -> None:
        """One start; a server that dies of the newer protocol's first question is started once more with the older."""
        await self._run_owner()
        first, self._is_legacy = self.error, self._is_legacy or self._died_of_discover
        if first and self._died_of_discover and not self._closing.is_set():
            await self._run_owner()
            if self.error:  # it was not that
                self.error, self._is_legacy = first, False
        if not self.is_ready:
            self._backoff.died(time.monotonic(), healthy_s=0)

    async def _run_owner(self) -> None:
        if self._owner and not self._owner.done():  # it is on its way out
            await asyncio.wait([self._owner], timeout=CLOSE_S)
        self._lost.clear()
        self._ready, self.error, self._died_of_discover = asyncio.Event(), None, False
        ready = self._ready
        self._owner = asyncio.create_task(self._own(), name=f"server {self.config.name}")
        self._owner.add_done_callback(lambda _: ready.set())  # one that is cancelled before it begins sets nothing
        await ready.wait()

    async def _own(self) -> None:
        """Enters the client, waits until it is to be left, leaves it."""
        begun, opened, tap = time.monotonic(), False, None
        try:
            with self.login.clock.limit(self.config.connect_s) as limit:
                tap = None if self._source else self._open_tap()
                async with self._make_client(tap) as client:
                    if tap:
                        tap.version = client.protocol_version
                    await self._list(client)
                    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                        self.run_errand(self.send_level(client))
                        await self._subscribe(client, self._followed.uris)
                    limit.deadline, self._client, opened, self._was_open = math.inf, client, True, True
                    log_start(self.config.name, time.monotonic() - begun, client.protocol_version, len(self.tools))
                    self._tell_open()
                    self._ready.set()
                    await self._live(client, tap)
            if limit.cancelled_caught:
                raise TimeoutError
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # the SDK raises groups of anything
            self._fail(error, opened, tap)
        finally:
            self._client = None
            if opened:
                log_stop(self.config.name, lasted_s := time.monotonic() - begun, self._is_idle)
                if not self._is_idle:
                    self._backoff.died(time.monotonic(), lasted_s)
            self._ready.set()

    def _tell_open(self) -> None:
        """That a server is there again which went because nobody needed it is no news."""
        if not self._is_idle:
            self.asks.on_change(self.config.name, "open")
        self._is_idle = False

    async def _live(self, client: Client, tap: Tap | None) -> None:
        """While the server is open: hears of its changes, until it is to be closed, has gone, or is not needed."""
        self._use.begin_anew()
        waits = [self._closing.wait(), self._lost.wait(), *([tap.ended.wait()] if tap else [])]
        silent = asyncio.create_task(wait_until_silent(client, self._use, self.config.ping_s))
        ends = [silent, asyncio.create_task(self._rest()), *map(asyncio.ensure_future, waits)]
        listening = asyncio.create_task(listen(client, self.heard, self._followed))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            more = [self._refreshing] if self._refreshing else []
            await end_all([*ends, listening, *more, *self._errands])
        if self._closing.is_set():
            self._is_idle = False
            return
        if self._is_idle:
            return
        if self._lost.is_set() or not silent.cancelled():
            raise ConnectError(f'Server "{self.config.name}" does not answer any more.', server=self.config.name)
        raise MCPError(CLOSED_CODE, CLOSED)

    async def _rest(self) -> None:
        """Waits until nobody needs the server; from then on whoever does has it started again. News is a need, too."""
        await wait_until_idle(self._use, self.config.idle_s)
        while self._followed.uris:
            await asyncio.sleep(self.config.idle_s)
            await wait_until_idle(self._use, self.config.idle_s)
        self._is_idle, self._client = True, None
        self._backoff.reset()

    def run_errand(self, work: Coroutine[Any, Any, None]) -> None:
        """Has something sent to the server that nobody waits for; it does not outlive the connection."""
        errand = asyncio.create_task(work)
        self._errands.add(errand)
        errand.add_done_callback(self._end_errand)

    def _end_errand(self, errand: asyncio.Task[None]) -> None:
        self._errands.discard(errand)
        if not errand.cancelled() and (error := errand.exception()):
            log.info("%s: %s", self.config.name, first_line(error))

    async def send_level(self, client: Client) -> None:
        """Tells a server of an older protocol from which level on it is to write to its log."""
        if client.server_capabilities.logging is not None:
            with warnings.catch_warnings():  # deprecated since 2026-07-28, and the only way before
                warnings.simplefilter("ignore")
                await client.session.set_logging_level(self.log_level)

    async def follow(self, uri: str) -> None:
        """Has a resource's changes told, also after a restart. Raises TimeoutError if the server does not agree."""
        self._followed.uris.add(uri)
        client = self._client
        if client and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._followed.acknowledged.clear()
            self._followed.changed.set()
            with anyio.fail_after(LIST_S):
                await self._followed.acknowledged.wait()
        elif client:
            await self._subscribe(client, [uri])

    async def _subscribe(self, client: Client, uris: Iterable[str]) -> None:
        with warnings.catch_warnings():  # deprecated since 2026-07-28, and the only way before
            warnings.simplefilter("ignore")
            for uri in uris:
                await client.subscribe_resource(uri)

    def heard_unasked(self, what: str) -> None:
        """The same from a server that tells without being asked; one of 2026-07-28 tells on its subscription."""
        if not self._client or self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self.heard(what)

    def heard(self, what: str) -> None:
        """A server says that something changed: "tools", "resources", "prompts", or a resource's URI."""
        if what in ("tools", "resources"):
            self._stale = True
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = asyncio.create_task(self._refresh())
        if what != "tools":
            self.asks.on_change(self.config.name, what)

    async def _refresh(self) -> None:
        """Lists the tools again as long as there is news, not more often than every REFRESH_S seconds."""
        while self._stale and (client := self._client):
            await asyncio.sleep(max(0.0, self._listed + REFRESH_S - time.monotonic()))
            self._stale, before = False, self.tools
            try:
                await self._list(client, fresh=True)
            except Exception as error:
                log.warning("%s: its tools could not be listed again: %s", self.config.name, first_line(error))
            if self.tools != before:
                self.asks.on_change(self.config.name, "tools")

    async def _list(self, client: Client, fresh: bool = False) -> None:
        self._listed = time.monotonic()
        if self.take(await list_tools(client, self.config, fresh)):
            self.asks.on_change(self.config.name, "held")
        self.has_resources = await has_resources(client)

    def _open_tap(self) -> Tap:
        self._transport = open_transport(self.config, self.log_file)
        self._transport.login, self._transport.roots = self.login, tuple(map(str, self.asks.roots))
        self._transport.secrets = self.asks.secrets
        return Tap(self._transport)

    def _make_client(self, tap: Tap | None) -> Client:
        return Client(
            tap or self._source,
            mode="legacy" if self._is_legacy or getattr(self._transport, "mode", "") == "legacy" else "auto",
            read_timeout_seconds=min(LIST_S, self.config.connect_s),
            client_info=Implementation(name="rkllm_chat", version=__version__),
            log_level=self.log_level,
            extensions=[Tasks()],
            **Answers(self.config.name, self.asks, self.heard_unasked, self._listeners, self._write_log).given(),
        )

    def _write_log(self, line: str) -> None:
        if self._transport:
            self._transport.write_log(line)

    def _fail(self, error: BaseException, opened: bool, tap: Tap | None) -> None:
        """Keeps why the server is not open."""
        self._is_idle = False
        name, config = self.config.name, self.config
        if opened:
            self.error = log_fault(explain_call(name, error, config.timeout_s, self._transport), self.asks.secrets)
            self.asks.on_change(name, "gone")
            return
        self.error = log_fault(explain_start(name, error, config.connect_s, self._transport), self.asks.secrets)
        died = tap is not None and tap.ended.is_set() and tap.asked == {"server/discover"}
        self._died_of_discover = died and not self._was_open

    async def _let_go(self, wait_s: float = GONE_S) -> None:
        """After the connection broke: waits for the owner to notice, and makes it if it does not."""
        if (owner := self._owner) and not owner.done():
            _, unfinished = await asyncio.wait([owner], timeout=wait_s)
            if unfinished:
                owner.cancel()
                await asyncio.wait([owner], timeout=CLOSE_S)


async def end_all(tasks: Sequence[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
