"""Requests to a server other than tool calls: resources, prompts, completion. Each has a deadline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp import Client
from mcp_types import (
    CompleteResult,
    GetPromptResult,
    Prompt,
    PromptReference,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
)

from ..core.errors import ChatError, ProtocolError
from ..core.skills import Skill
from .advertised_tools import list_all_pages
from .connection import Connection
from .skills import get_skill


async def list_resources(connection: Connection) -> list[Resource]:
    """Return all resources of a server; empty if it does not declare the capability. Raises ChatError."""
    return await list_if_declared(connection, "resources", "list_resources", "resources")


async def list_templates(connection: Connection) -> list[ResourceTemplate]:
    """Return all resource templates of a server; empty without the capability. Raises ChatError."""
    return await list_if_declared(connection, "resources", "list_resource_templates", "resource_templates")


async def list_prompts(connection: Connection) -> list[Prompt]:
    """Return all prompts of a server; empty if it does not declare the capability. Raises ChatError."""
    return await list_if_declared(connection, "prompts", "list_prompts", "prompts")


async def list_if_declared(connection: Connection, capability: str, method: str, key: str) -> list[Any]:
    """Return all entries of a list method; empty if the server does not declare the capability."""

    async def send(client: Client) -> list[Any]:
        if getattr(client.server_capabilities, capability) is None:
            return []
        entries, is_cut = await list_all_pages(lambda cursor: getattr(client, method)(cursor=cursor), key)
        if is_cut:
            connection.lifecycle.report_cut(capability, len(entries))
        return entries

    return await connection.request(send)


async def read_resource(connections: Sequence[Connection], uri: str) -> ReadResourceResult:
    """Read a resource from the first server that has it.

    Raises:
        ChatError: The error of the last server tried; ProtocolError if no open server has resources.
    """
    last_error: ChatError = ProtocolError("No open server has resources.")
    for connection in connections:
        if connection.lifecycle.is_open and connection.lifecycle.capabilities.resources is None:
            continue
        try:
            return await read_resource_from(connection, uri)
        except ChatError as error:
            last_error = error
    raise last_error


async def read_resource_from(connection: Connection, uri: str) -> ReadResourceResult:
    """Read a resource from one server."""

    async def send(client: Client) -> ReadResourceResult:
        return await client.read_resource(uri, meta=connection.make_meta(client))

    return await connection.request(send, connection.config.timeout_s)


async def find_skill(connection: Connection, uri: str) -> Skill | None:
    """Return the skill of a URI at one server, listed or not; None if it has none. Raises ChatError."""
    return await connection.request(lambda client: get_skill(client, connection.config.name, uri))


async def get_prompt(connection: Connection, name: str, arguments: dict[str, str]) -> GetPromptResult:
    """Return a prompt of a server, filled with arguments. Raises ChatError."""

    async def send(client: Client) -> GetPromptResult:
        return await client.get_prompt(name, arguments, meta=connection.make_meta(client))

    return await connection.request(send, connection.config.timeout_s)


async def complete(
    connection: Connection,
    ref: PromptReference | ResourceTemplateReference,
    argument: str,
    value: str,
    context: dict[str, str],
) -> CompleteResult:
    """Return the server's completions of one argument; see `Toolbox.complete`."""
    return await connection.request(
        lambda client: client.complete(ref, {"name": argument, "value": value}, context or None)
    )


async def subscribe(connection: Connection, uri: str) -> None:
    """Subscribe to changes of a resource, in any version of the protocol."""
    await connection.request(lambda _client: connection.lifecycle.subscribe(uri))


async def unsubscribe(connection: Connection, uri: str) -> None:
    """End a subscription; one at a server that is down ends without a request."""
    if connection.lifecycle.is_open:
        await connection.request(lambda _client: connection.lifecycle.unsubscribe(uri))
    else:
        await connection.lifecycle.unsubscribe(uri)
