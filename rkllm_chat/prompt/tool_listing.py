"""Describe a tool to a model: one line with its signature, in the syntax of the call to write.

Small models then copy the parameter names instead of inventing them (measured).
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..calls.formats import FORMATS, Format
from ..calls.schema.descriptions import shorten_description
from ..calls.schema.signature import SignatureWriter
from ..calls.schema.simplify import simplify_schema
from ..calls.tool_names import shown_names
from ..core.identity_cache import cache_by_identity
from ..core.messages import Tool
from .untrusted_text import neutralize, neutralize_line

MAX_DESCRIPTION_LENGTH = 160


def render_tool(name: str, tool: Tool, call_format: Format) -> str:
    """Return one line: `- Tide height at a harbour: {"name": "get_tide", "arguments": {"harbour": string}}`."""
    description = neutralize(first_line(tool.description)).rstrip(".:。")
    shapes = SignatureWriter(simplify_schema(tool.schema), [name, description])
    parameters = {neutralize_line(key): neutralize(kind) for key, kind in shapes.parameters().items()}
    call = call_format.render_tool(neutralize_line(name), parameters)
    additional = shapes.root_constraints()
    line = f"{call}, arguments also {neutralize(additional)}" if additional else call
    return f"- {description}: {line}" if description else f"- {line}"


@cache_by_identity()
def _list_tools(tools: Iterable[Tool], call_format: Format) -> tuple[str, ...]:
    """Return a line per tool, ordered by name."""
    return tuple(render_tool(name, tool, call_format) for name, tool in shown_names(tools).items())


@cache_by_identity()
def describe_tools(tools: Iterable[Tool], whole: bool = False) -> tuple[str, ...]:
    """Return what a model reads about each tool, independent of the call format.

    Args:
        tools: The tools.
        whole: Full description and simplified schema instead of one line.
    """
    if not whole:
        return _list_tools(tools, FORMATS["json"])
    descriptions = ([name, tool.description, simplify_schema(tool.schema)] for name, tool in shown_names(tools).items())
    return tuple(json.dumps(description, ensure_ascii=False, default=str) for description in descriptions)


def first_line(description: str) -> str:
    """Return the first line of a description; of a long one, the sentences within MAX_DESCRIPTION_LENGTH characters."""
    line = next(iter(description.strip().splitlines()), "").strip()
    return line if len(line) <= MAX_DESCRIPTION_LENGTH else shorten_description(line, MAX_DESCRIPTION_LENGTH)
