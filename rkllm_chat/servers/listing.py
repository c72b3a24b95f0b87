"""Lists of a server, page by page: to the end, and no further than is sane. It knows no chat."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import anyio
from mcp import Client

from ..config import ServerConfig
from ..messages import Tool

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


async def list_tools(client: Client, config: ServerConfig, fresh: bool = False) -> list[Tool]:
    """The tools that the configuration offers; of two with one name the first. `fresh`: past the SDK's cache."""
    if client.server_capabilities.tools is None:
        return []
    mode: Literal["refresh", "use"] = "refresh" if fresh else "use"
    entries = await list_all(lambda cursor: client.list_tools(cursor=cursor, cache_mode=mode), "tools")
    tools: dict[str, Tool] = {}
    for entry in entries:
        if offers(config, entry.name) and needs_no_task(entry):
            tools.setdefault(entry.name, read_tool(entry, config))
    return list(tools.values())


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
    hints = entry.annotations
    return Tool(
        name=entry.name,
        description=entry.description or entry.title or "",
        schema=entry.input_schema,
        server=config.name,
        read_only=bool(hints and hints.read_only_hint),
        idempotent=bool(hints and hints.idempotent_hint),
        trusted=config.trust == "trusted",
    )


def offers(config: ServerConfig, name: str) -> bool:
    return (not config.tools_allow or name in config.tools_allow) and name not in config.tools_deny


def needs_no_task(entry: Any) -> bool:
    """Whether a tool can be called plainly: some of the 2025-11-25 experiment run as tasks only."""
    execution = getattr(entry, "execution", None)
    return getattr(execution, "task_support", None) != "required"
