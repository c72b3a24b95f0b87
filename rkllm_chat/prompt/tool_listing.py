"""Describe a tool to a model: one line with its signature.

Models copy what they see. A line in the syntax of the call to write teaches parameter names to a model that knows no
other text; another one copied such a line when it was asked for a definition, and the call was run (measured).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ..calls.formats import Format
from ..calls.schema.descriptions import shorten_description
from ..calls.schema.signature import SignatureWriter
from ..calls.schema.simplify import simplify_schema
from ..calls.tool_names import shown_names
from ..core.identity_cache import cache_by_identity
from ..core.messages import Tool
from .untrusted_text import neutralize, neutralize_line

MAX_DESCRIPTION_LENGTH = 160


def render_tool(name: str, tool: Tool, call_format: Format | None) -> str:
    """Return one line: `- get_tide(harbour: string): Tide height at a harbour`.

    In a call format it is `- Tide height at a harbour: {"name": "get_tide", "arguments": {"harbour": string}}`.
    """
    description = neutralize(first_line(tool.description)).rstrip(".:。")
    shapes = SignatureWriter(simplify_schema(tool.schema), [name, description])
    parameters = {neutralize_line(key): neutralize(kind) for key, kind in shapes.parameters().items()}
    call = render_signature(neutralize_line(name), parameters, call_format)
    additional = shapes.root_constraints()
    line = f"{call}, arguments also {neutralize(additional)}" if additional else call
    if call_format is None:
        return f"- {line}: {description}" if description else f"- {line}"
    return f"- {description}: {line}" if description else f"- {line}"


def render_signature(name: str, parameters: Mapping[str, str], call_format: Format | None) -> str:
    """Return how a tool is called: `get_tide(harbour: string, day?: string)`, or its call in a format.

    Args:
        name: Name of the tool.
        parameters: Kind of value by parameter; the names of optional ones end in "?".
        call_format: The format; None for a signature, which is no call.
    """
    if call_format:
        return call_format.render_tool(name, parameters)
    return f"{name}({', '.join(f'{key}: {kind}' for key, kind in parameters.items())})"


@cache_by_identity()
def describe_schemas(tools: Iterable[Tool]) -> tuple[str, ...]:
    """Return what an engine with its own tool support reads about each tool: description and simplified schema."""
    descriptions = ([name, tool.description, simplify_schema(tool.schema)] for name, tool in shown_names(tools).items())
    return tuple(json.dumps(description, ensure_ascii=False, default=str) for description in descriptions)


def first_line(description: str) -> str:
    """Return the first line of a description; of a long one, the sentences within MAX_DESCRIPTION_LENGTH characters."""
    line = next(iter(description.strip().splitlines()), "").strip()
    return line if len(line) <= MAX_DESCRIPTION_LENGTH else shorten_description(line, MAX_DESCRIPTION_LENGTH)
