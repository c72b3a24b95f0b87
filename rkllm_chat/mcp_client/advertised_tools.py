"""The tools that one server advertises: list them, list them again when they change, quarantine changed ones."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import anyio
from mcp import Client, MCPError
from mcp_types import ToolAnnotations
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..config.project_trust import TrustStore, needs_acceptance
from ..config.settings import ServerConfig
from ..config.tool_pins import TextPins, ToolPins, extract_pinned_fields, extract_text
from ..core.messages import Tool
from ..core.skills import Skill
from .error_messages import summarize_error
from .handlers import ChangeKind
from .protocol.faults import is_for_model
from .protocol.limits import LIST_TIMEOUT_S, MAX_TOOLS
from .protocol.paging import ListPages

if TYPE_CHECKING:
    from ..config.tool_pins import Held, Told
    from .server_record import ServerRecord

_REFRESH_INTERVAL_S = 2.0

log = logging.getLogger(__name__)

_FetchPage = Callable[[str | None], Awaitable[Any]]


class AdvertisedTools:
    """The tools that a server advertises.

    Attributes:
        config: The server's configuration.
        tools: Callable tools.
        quarantined_tools: Quarantined tools: new or changed, waiting for the user to accept them.
        quarantine_reasons: Reason per quarantined tool: new or changed.
        hidden: Tools that cannot be called, with the reason, a key of the language table "hidden".
        pins: The descriptions that the user has accepted.
        texts: What else the server says, and what of it is withheld.
        last_listing: The last list of the server.
        task_only: Names of tools that can only be called as tasks.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.tools: list[Tool] = []
        self.quarantined_tools: list[Tool] = []
        self.quarantine_reasons: Mapping[str, Held] = {}
        self.hidden: Mapping[str, str] = {}
        self.pins = ToolPins(TrustStore(None), config)
        self.texts = TextPins(TrustStore(None), config)
        self.last_listing = ToolListing([])
        self.task_only: frozenset[str] = frozenset()

    def update(self, listing: ToolListing) -> bool:
        """Adopt a new listing; return whether there are quarantined tools to show that were not shown before."""
        self.last_listing, before = listing, self.quarantined_tools
        self.quarantine_reasons = why = self.pins.pin_on_first_use(listing.descriptions)
        self.tools = [tool for tool in listing.tools if tool.name not in why]
        self.quarantined_tools = [tool for tool in listing.tools if tool.name in why]
        self.hidden = {**listing.hidden, **{tool.name: why[tool.name] for tool in self.quarantined_tools}}
        self.task_only = listing.task_only
        return bool(self.quarantined_tools) and self.quarantined_tools != before

    def accept_tools(self) -> None:
        """Accept all tools as they describe themselves now, and all other texts."""
        self.pins.pin_tools(self.last_listing.descriptions)
        self.texts.accept()
        self.update(self.last_listing)


class ToolListRefresher:
    """List the tools of an open server into `tools`, and again when they change: at most once in 2 seconds.

    Args:
        tools: Receives the listings.
        on_change: Called when tools have changed, or are quarantined.
        list_skills: Lists the server's skills.

    Attributes:
        skills: The skills that the server listed, those that are withheld included.
        has_resources: Whether the server had a resource or a resource template when it was last listed.
        latency_s: Time of the last list of tools.
        record: What the server has said; None for one in this process.
    """

    def __init__(
        self,
        tools: AdvertisedTools,
        on_change: Callable[[ChangeKind], None],
        list_skills: Callable[[Client, str], Awaitable[list[Skill]]] | None = None,
    ) -> None:
        self._list_skills = list_skills
        self.has_resources = False
        self.latency_s = 0.0
        self.record: ServerRecord | None = None
        self.skills: list[Skill] = []
        self._tools, self._on_change = tools, on_change
        self._is_stale, self._listed_at = False, 0.0
        self._refreshing: asyncio.Task[None] | None = None

    async def list(self, client: Client, fresh: bool = False) -> None:
        """List the tools; `fresh` bypasses the SDK's cache."""
        self._listed_at = time.monotonic()
        listing = await list_tools(client, self._tools.config, fresh)
        if self.record:  # it has seen more: a conversation uses only some of very many tools
            schemas = self.record.output_schemas
            tools = [replace(tool, output_schema=schemas.get(tool.name)) for tool in listing.tools]
            listing = replace(listing, tools=tools, descriptions=self.record.descriptions)
        self.latency_s = time.monotonic() - self._listed_at
        is_withheld = self._tools.update(listing)
        self.has_resources = await has_resources(client)
        if self._list_skills:
            self.skills = await self._list_skills(client, self._tools.config.name)
            before = dict(self._tools.texts.withheld)
            held = self._tools.texts.find_withheld(
                "skills", {skill.uri: describe_skill(skill) for skill in self.skills}
            )
            is_withheld = is_withheld or any(("skills", uri) not in before for uri in held)
        if is_withheld:
            self._on_change(ChangeKind.QUARANTINED)

    def schedule(self, client: Client) -> None:
        """List the tools again soon; further changes until then are covered by the same listing."""
        self._is_stale = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh(client))

    def stop(self) -> Iterable[asyncio.Task[None]]:
        """List nothing more; return the scheduled listing, which the caller must cancel."""
        self._is_stale = False
        return (self._refreshing,) if self._refreshing else ()

    async def _refresh(self, client: Client) -> None:
        while self._is_stale:
            await asyncio.sleep(max(0.0, self._listed_at + _REFRESH_INTERVAL_S - time.monotonic()))
            self._is_stale, before = False, self._tools.tools
            try:
                await self.list(client, fresh=True)
            except Exception as error:
                name = self._tools.config.name
                log.warning("%s: its tools could not be listed again: %s", name, summarize_error(error))
            if self._tools.tools != before:
                self._on_change(ChangeKind.TOOLS)


@dataclass(frozen=True)
class ToolListing:
    """The tools of a server at one point in time.

    Attributes:
        tools: Tools that can be called.
        task_only: Names of those that can only be called as tasks.
        hidden: Tools that cannot be called, with the reason, a key of the language table "hidden".
        descriptions: What each tool declares about itself, including tools that the configuration excludes.
    """

    tools: list[Tool]
    task_only: frozenset[str] = frozenset()
    hidden: Mapping[str, str] = field(default_factory=dict[str, str])
    descriptions: Mapping[str, Told] = field(default_factory=dict[str, "Told"])


async def list_tools(client: Client, config: ServerConfig, fresh: bool = False) -> ToolListing:
    """Return the tools of a server that the configuration allows; of several with one name, the first.

    Args:
        client: The open client.
        config: The server's configuration.
        fresh: Bypass the SDK's cache.
    """
    if client.server_capabilities.tools is None:
        return ToolListing([])
    mode: Literal["refresh", "use"] = "refresh" if fresh else "use"
    entries, _ = await list_all_pages(lambda cursor: client.list_tools(cursor=cursor, cache_mode=mode), "tools")
    known: dict[str, Any] = {}
    for entry in entries[:MAX_TOOLS]:
        known.setdefault(entry.name, entry)
    offered = {name: entry for name, entry in known.items() if config.offers(name)}
    as_tasks = frozenset(name for name, entry in offered.items() if _needs_task(client, entry))
    hidden = {} if _can_run_tasks(client) else dict.fromkeys(sorted(as_tasks), "task")
    hidden |= {name: "app" for name, entry in offered.items() if not is_for_model(entry.meta)}
    tools = [_read_tool(entry, config) for name, entry in offered.items() if name not in hidden]
    told = {name: extract_pinned_fields(entry.model_dump(by_alias=True)) for name, entry in known.items()}
    return ToolListing(tools, as_tasks - hidden.keys(), hidden, told)


def describe_skill(skill: Skill) -> Told:
    """Return what a skill's entry declares: what the prompt lists of it, and which files it consists of."""
    fields = extract_text(skill, "name", "description", "frontmatter")
    return {**fields, "files": {uri: file.digest for uri, file in skill.files.items()}}


async def has_resources(client: Client) -> bool:
    """Tell whether the server has any resource or template; many declare the capability and have none."""
    if client.server_capabilities.resources is None:
        return False
    try:
        with anyio.fail_after(LIST_TIMEOUT_S):
            if (await client.list_resources()).resources:
                return True
            return bool((await client.list_resource_templates()).resource_templates)
    except Exception as error:
        log.info("its resources cannot be listed: %s", error)
        return False


def _read_tool(entry: Any, config: ServerConfig) -> Tool:
    hints = entry.annotations or ToolAnnotations()
    read_only = bool(hints.read_only_hint) and not hints.destructive_hint  # of contradictory hints, the riskier
    return Tool(
        name=entry.name,
        description=entry.description or entry.title or "",
        schema=entry.input_schema,
        server=config.name,
        read_only=read_only,
        idempotent=bool(hints.idempotent_hint),
        trusted=config.trust == "trusted",
        destructive=not read_only and hints.destructive_hint is not False,
        open_world=hints.open_world_hint is not False,
        title=entry.title or hints.title or "",
        output_schema=entry.output_schema,
        of_folder=needs_acceptance(config),
    )


def _needs_task(client: Client, entry: Any) -> bool:
    """Tell whether a tool can only be called as a task (MCP 2025-11-25).

    Servers of later versions create tasks themselves.
    """
    execution = getattr(entry, "execution", None)
    is_old = client.protocol_version not in MODERN_PROTOCOL_VERSIONS
    return is_old and getattr(execution, "task_support", None) == "required"


def _can_run_tasks(client: Client) -> bool:
    """Tell whether a server of MCP 2025-11-25 accepts calls as tasks; required before sending one."""
    tasks = client.server_capabilities.tasks
    return bool(tasks and tasks.requests and tasks.requests.tools and tasks.requests.tools.call is not None)


async def list_all_pages(fetch: _FetchPage, key: str) -> tuple[list[Any], bool]:
    """Return the entries of all pages, see `ListPages`, and whether there are more.

    Args:
        fetch: Requests the page of a cursor.
        key: Attribute of a page that has its entries.

    Raises:
        TimeoutError: All pages together took longer than 10 seconds.
    """
    entries: list[Any] = []
    pages = ListPages()
    with anyio.fail_after(LIST_TIMEOUT_S):
        while not pages.is_complete:
            try:
                page = await fetch(pages.cursor)
            except MCPError:
                if pages.end_at_empty_cursor():
                    break
                raise
            entries += pages.add(getattr(page, key), page.next_cursor)
    return entries, pages.is_cut
