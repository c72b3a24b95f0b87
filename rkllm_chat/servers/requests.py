"""What can be asked of a server besides calling its tools: resources, prompts, completion. Each with its limit."""

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

from ..errors import ChatError, ProtocolError
from .connection import Connection
from .listing import list_all


async def list_resources(connection: Connection) -> list[Resource]:
    """None from a server that has none."""
    return await listed(connection, "resources", "list_resources", "resources")


async def list_templates(connection: Connection) -> list[ResourceTemplate]:
    return await listed(connection, "resources", "list_resource_templates", "resource_templates")


async def list_prompts(connection: Connection) -> list[Prompt]:
    return await listed(connection, "prompts", "list_prompts", "prompts")


async def listed(connection: Connection, capability: str, method: str, key: str) -> list[Any]:
    async def send(client: Client) -> list[Any]:
        if getattr(client.server_capabilities, capability) is None:
            return []
        return await list_all(lambda cursor: getattr(client, method)(cursor=cursor), key)

    return await connection.request(send)


async def read_resource(connections: Sequence[Connection], uri: str) -> ReadResourceResult:
    """From the first server that has it. Raises the error of the last, or ProtocolError where none has resources."""
    trouble: ChatError = ProtocolError("No server that is open has resources.")
    for connection in connections:
        if connection.is_open and connection.capabilities.resources is None:
            continue
        try:
            return await read_from(connection, uri)
        except ChatError as error:
            trouble = error
    raise trouble


async def read_from(connection: Connection, uri: str) -> ReadResourceResult:
    async def send(client: Client) -> ReadResourceResult:
        return await client.read_resource(uri, meta=connection.make_meta(client))

    return await connection.request(send, connection.config.timeout_s)


async def get_prompt(connection: Connection, name: str, arguments: dict[str, str]) -> GetPromptResult:
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
    return await connection.request(
        lambda client: client.complete(ref, {"name": argument, "value": value}, context or None)
    )


async def subscribe(connection: Connection, uri: str) -> None:
    """Has the server tell when a resource changes, in either era of the protocol."""
    await connection.request(lambda _client: connection.follow(uri))
