"""Two tools of ours, with which the model itself lists and reads the resources of its servers. It is pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mcp_types import Resource, ResourceTemplate

from ..messages import Tool


@lru_cache
def resource_tools(trusted: bool) -> tuple[Tool, Tool]:
    """`list_resources` and `read_resource`, without a server; `trusted` if all servers with resources are."""
    uri = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
    return (
        Tool("list_resources", "List what the servers have to read", {}, "", True, trusted=trusted, destructive=False),
        Tool("read_resource", "Read a resource by its URI", uri, "", True, trusted=trusted, destructive=False),
    )


def describe_resources(
    resources: Sequence[tuple[str, Resource]], templates: Sequence[tuple[str, ResourceTemplate]]
) -> str:
    """One line each: URI and what it is."""
    lines = [f"{one.uri}: {one.title or one.description or one.name}" for _, one in resources]
    lines += [f"{one.uri_template}: {one.title or one.description or one.name}" for _, one in templates]
    return "\n".join(lines) or "There are no resources."
