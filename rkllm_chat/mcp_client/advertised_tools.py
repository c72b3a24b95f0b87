"""The tools that one server advertises: list them, list them again when they change, quarantine changed ones."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from ..config.project_trust import TrustStore, needs_acceptance
from ..config.settings import ServerConfig
from ..config.tool_pins import TextPins, ToolPins, extract_pinned_fields, extract_text, truncate_description
from ..core.messages import Tool
from ..core.skills import Skill
from .error_messages import summarize_error
from .handlers import ChangeKind
from .protocol.faults import find_tool_fault, is_for_model
from .protocol.http_headers import ARGUMENT_KEY, find_argument_headers
from .protocol.limits import LIST_TIMEOUT_S, MAX_TOOLS

if TYPE_CHECKING:
    from ..config.tool_pins import PinnedFields, QuarantineReason
    from .client import Client

_REFRESH_INTERVAL_S = 2.0
_MAX_NAME_CHARS = 256
_RESOURCES_FRACTION = 1 / 4
"""Share of the time for a start that the question for resources may take."""

log = logging.getLogger(__name__)


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
        self.quarantine_reasons: Mapping[str, QuarantineReason] = {}
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
        self.skills: list[Skill] = []
        self._tools, self._on_change = tools, on_change
        self._is_stale, self._listed_at = False, 0.0
        self._refreshing: asyncio.Task[None] | None = None

    async def list(self, client: Client) -> None:
        self._listed_at = time.monotonic()
        listing = await list_tools(client, self._tools.config)
        self.latency_s = time.monotonic() - self._listed_at
        is_withheld = self._tools.update(listing)
        # within the time for a start, of which the tools must not lose all to a list that they can do without
        limit_s = min(LIST_TIMEOUT_S, self._tools.config.connect_s * _RESOURCES_FRACTION)
        self.has_resources = await has_resources(client, limit_s)
        if self._list_skills:
            self.skills = await self._list_skills(client, self._tools.config.name)
            before = dict(self._tools.texts.withheld)
            withheld = self._tools.texts.find_withheld(
                "skills", {skill.uri: describe_skill(skill) for skill in self.skills}
            )
            is_withheld = is_withheld or any(("skills", uri) not in before for uri in withheld)
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
            # before the list is requested: a change meanwhile is not covered by it
            self._is_stale, before = False, self._tools.tools
            try:
                await self.list(client)
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
        left_out: Those of them whose description is unusable.
        descriptions: What each tool declares about itself, including tools that the configuration excludes.
        fault: Why the list is unusable, or "".
        count: Number of tools in the list.
        is_cut: Whether the server has more than was read.
    """

    tools: list[Tool]
    task_only: frozenset[str] = frozenset()
    hidden: Mapping[str, str] = field(default_factory=dict[str, str])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    descriptions: Mapping[str, PinnedFields] = field(default_factory=dict[str, "PinnedFields"])
    fault: str = ""
    count: int = 0
    is_cut: bool = False


async def list_tools(client: Client, config: ServerConfig) -> ToolListing:
    """Return the tools of a server that the configuration allows; of several with one name, the first."""
    if not client.declares("tools"):
        return ToolListing([])
    listing = await client.list_all("tools/list", "tools")
    known: dict[str, dict[str, Any]] = {}
    descriptions: dict[str, PinnedFields] = {}
    left_out: dict[str, str] = {}
    for number, entry in enumerate(listing.entries):
        name = _read_text(entry, "name")
        if not is_tool_name(name):
            continue
        if why := find_tool_fault(entry) or _note_headers(client, entry):
            left_out[name] = why
        elif name not in descriptions:
            descriptions[name] = extract_pinned_fields(entry)
            if number < MAX_TOOLS:
                known[name] = entry
    offered = {name: entry for name, entry in known.items() if config.offers(name)}
    as_tasks = frozenset(name for name, entry in offered.items() if _needs_task(client, entry))
    hidden = {} if _can_run_tasks(client) else dict.fromkeys(sorted(as_tasks), "task")
    hidden |= {name: "app" for name, entry in offered.items() if not is_for_model(entry.get("_meta"))}
    left_out = {name: why for name, why in left_out.items() if config.offers(name) and name not in known}
    return ToolListing(
        tools=[_read_tool(entry, config) for name, entry in offered.items() if name not in hidden],
        task_only=as_tasks - hidden.keys(),
        hidden={**hidden, **left_out},
        left_out=left_out,
        descriptions=descriptions,
        fault=listing.fault,
        count=listing.total,
        is_cut=listing.pages.is_cut,
    )


def _note_headers(client: Client, entry: Mapping[str, Any]) -> str:
    """Have the arguments that a tool wants as HTTP headers sent so; return "malformed" if it may not be used.

    That is so since MCP 2026-07-28 (transports), for every client and whatever the transport.
    """
    if not client.is_stateless or ARGUMENT_KEY not in str(entry["inputSchema"]):
        return ""
    named = find_argument_headers(entry["inputSchema"])
    if named is None:
        return "malformed"
    client.header_arguments[entry["name"]] = named
    return ""


def is_tool_name(name: str) -> bool:
    """Tell whether a name can be shown and called."""
    return 0 < len(name) <= _MAX_NAME_CHARS and name.isprintable()


def describe_skill(skill: Skill) -> PinnedFields:
    """Return what a skill's entry declares: what the prompt lists of it, and which files it consists of."""
    fields = extract_text(skill, "name", "description", "frontmatter")
    return {**fields, "files": {uri: file.digest for uri, file in skill.files.items()}}


async def has_resources(client: Client, limit_s: float) -> bool:
    """Tell whether the server has any resource or template; many declare the capability and have none."""
    if not client.declares("resources"):
        return False
    try:
        with anyio.fail_after(limit_s):
            if (await client.request("resources/list")).get("resources"):
                return True
            return bool((await client.request("resources/templates/list")).get("resourceTemplates"))
    except Exception as error:
        log.info("its resources cannot be listed: %s", error)
        return False


def _read_tool(entry: Mapping[str, Any], config: ServerConfig) -> Tool:
    hints = _read_object(entry, "annotations")
    destructive = hints.get("destructiveHint")
    read_only = hints.get("readOnlyHint") is True and not destructive  # of contradictory hints, the riskier
    title = _read_text(entry, "title") or _read_text(hints, "title")
    return Tool(
        name=entry["name"],
        description=truncate_description(_read_text(entry, "description")) or _read_text(entry, "title"),
        schema=entry["inputSchema"],
        server=config.name,
        read_only=read_only,
        writes=hints.get("readOnlyHint") is False or destructive is True,
        idempotent=hints.get("idempotentHint") is True,
        trusted=config.trust == "trusted",
        destructive=not read_only and destructive is not False,
        open_world=hints.get("openWorldHint") is not False,
        title=title,
        output_schema=entry.get("outputSchema"),
        of_folder=needs_acceptance(config),
    )


def _read_text(entry: Mapping[str, Any], key: str) -> str:
    """Return a text of an entry; "" if it is something else."""
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _read_object(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = entry.get(key)
    return value if isinstance(value, Mapping) else {}


def _needs_task(client: Client, entry: Mapping[str, Any]) -> bool:
    """Tell whether a tool can only be called as a task (MCP 2025-11-25).

    Servers of later versions create tasks themselves.
    """
    return not client.is_stateless and _read_object(entry, "execution").get("taskSupport") == "required"


def _can_run_tasks(client: Client) -> bool:
    """Tell whether a server of MCP 2025-11-25 accepts calls as tasks; required before sending one."""
    tasks = _read_object(client.capabilities, "tasks")
    return _read_object(_read_object(tasks, "requests"), "tools").get("call") is not None
