"""Lists of a server, page by page: to the end, and no further than is sane. It knows no chat."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import anyio
from mcp import Client
from mcp_types import ToolAnnotations
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..config import ServerConfig
from ..messages import Tool
from ..pins import read_told

if TYPE_CHECKING:
    from ..pins import Told

LIST_S = 10.0
MOST_PAGES = 50
MOST_ENTRIES = 1000

log = logging.getLogger(__name__)

Fetch = Callable[[str | None], Awaitable[Any]]


async def list_all(fetch: Fetch, key: str) -> list[Any]:
    """The entries of all pages, until there is no next one, one comes twice, or a cap is reached.

    Raises TimeoutError when that takes longer than LIST_S seconds.
    """
    entries: list[Any] = []
    cursors: set[str | None] = set()
    cursor: str | None = None
    with anyio.fail_after(LIST_S):
        while cursor not in cursors and len(cursors) < MOST_PAGES and len(entries) < MOST_ENTRIES:
            cursors.add(cursor)
            page = await fetch(cursor)
            entries += getattr(page, key)
            cursor = page.next_cursor
            if not cursor:
                break
    return entries[:MOST_ENTRIES]


@dataclass(frozen=True)
class Listing:
    """The tools that can be called; which of them as tasks only; and those that cannot -> why (in words: "hidden").

    `told` is what each says of itself, also those that the configuration does not offer.
    """

    tools: list[Tool]
    as_tasks: frozenset[str] = frozenset()
    hidden: Mapping[str, str] = field(default_factory=dict[str, str])
    told: Mapping[str, Told] = field(default_factory=dict[str, "Told"])


async def list_tools(client: Client, config: ServerConfig, fresh: bool = False) -> Listing:
    """The tools that the configuration offers; of two with one name the first. `fresh`: past the SDK's cache."""
    if client.server_capabilities.tools is None:
        return Listing([])
    mode: Literal["refresh", "use"] = "refresh" if fresh else "use"
    entries = await list_all(lambda cursor: client.list_tools(cursor=cursor, cache_mode=mode), "tools")
    known: dict[str, Any] = {}
    for entry in entries:
        known.setdefault(entry.name, entry)
    offered = {name: entry for name, entry in known.items() if offers(config, name)}
    as_tasks = frozenset(name for name, entry in offered.items() if needs_task(client, entry))
    hidden = {} if can_run_tasks(client) else dict.fromkeys(sorted(as_tasks), "task")
    tools = [read_tool(entry, config) for name, entry in offered.items() if name not in hidden]
    return Listing(tools, as_tasks - hidden.keys(), hidden, {name: tell(entry) for name, entry in known.items()})


def tell(entry: Any) -> Told:
    """What an entry says of its tool, in the words of the protocol."""
    hints = entry.annotations.model_dump(by_alias=True) if entry.annotations else None
    words = {"name": entry.name, "title": entry.title, "description": entry.description, "annotations": hints}
    return read_told({**words, "inputSchema": entry.input_schema, "outputSchema": entry.output_schema})


async def has_resources(client: Client) -> bool:
    """Whether there is anything to read: many servers say that they have resources, and have none."""
    if client.server_capabilities.resources is None:
        return False
    try:
        with anyio.fail_after(LIST_S):
            if (await client.list_resources()).resources:
                return True
            return bool((await client.list_resource_templates()).resource_templates)
    except Exception as error:
        log.info("its resources cannot be listed: %s", error)
        return False


def read_tool(entry: Any, config: ServerConfig) -> Tool:
    hints = entry.annotations or ToolAnnotations()
    read_only = bool(hints.read_only_hint) and not hints.destructive_hint  # of two claims the worse
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
    )


def offers(config: ServerConfig, name: str) -> bool:
    return (not config.tools_allow or name in config.tools_allow) and name not in config.tools_deny


def needs_task(client: Client, entry: Any) -> bool:
    """Whether a tool can only be called as a task (2025-11-25); later servers make tasks of calls themselves."""
    execution = getattr(entry, "execution", None)
    is_old = client.protocol_version not in MODERN_PROTOCOL_VERSIONS
    return is_old and getattr(execution, "task_support", None) == "required"


def can_run_tasks(client: Client) -> bool:
    """Whether a server of 2025-11-25 says that it takes calls as tasks; else none may be sent (tasks, capabilities)."""
    tasks = client.server_capabilities.tasks
    return bool(tasks and tasks.requests and tasks.requests.tools and tasks.requests.tools.call is not None)
