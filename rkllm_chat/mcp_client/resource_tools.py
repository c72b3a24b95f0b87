"""Two local tools with which the model lists and reads the servers' resources. Pure."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import lru_cache

from mcp_types import Resource, ResourceTemplate

from ..core.messages import Tool
from .content import is_for_model, sort_by_priority

_WITHHELD = "(its description is new or has changed, and the user has not reviewed it yet)"


@lru_cache
def resource_tools(trusted: bool) -> tuple[Tool, Tool]:
    """Return `list_resources` and `read_resource`; `trusted` if all servers with resources are."""
    uri = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
    return (
        Tool("list_resources", "List what the servers have to read", {}, "", True, trusted=trusted, destructive=False),
        Tool("read_resource", "Read a resource by its URI", uri, "", True, trusted=trusted, destructive=False),
    )


def describe_resources(
    resources: Sequence[tuple[str, Resource]],
    templates: Sequence[tuple[str, ResourceTemplate]],
    withheld: Container[tuple[str, str]] = (),
) -> str:
    """Return one line per resource and template for a model, the most important first: its URI and title.

    Args:
        resources: The resources, each with its server.
        templates: The templates, each with its server.
        withheld: Pairs of server and URI whose description the user has not accepted yet; only their URIs are listed.
    """
    hidden = {id(one) for server, one in resources if (server, str(one.uri)) in withheld}
    hidden |= {id(one) for server, one in templates if (server, one.uri_template) in withheld}

    def describe(uri: str, one: Resource | ResourceTemplate) -> str:
        return f"{uri}: {_WITHHELD if id(one) in hidden else one.title or one.description or one.name}"

    listed = sort_by_priority(one for _, one in resources if is_for_model(one))
    listed_templates = sort_by_priority(one for _, one in templates if is_for_model(one))
    lines = [describe(str(one.uri), one) for one in listed]
    lines += [describe(one.uri_template, one) for one in listed_templates]
    return "\n".join(lines) or "There are no resources."
