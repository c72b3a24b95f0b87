"""A tool as a model is told of it: one line in the form of the call that is to be written. It is pure.

Measured with a small model: it then copies the parameter names instead of inventing them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from .brief import shorten
from .foreign import disarm, disarm_line
from .formats import FORMATS, Format
from .memo import by_identity
from .messages import Tool
from .names import shown_names
from .shapes import Shapes
from .slim import slim

LONGEST_DESCRIPTION = 160


def list_tool(name: str, tool: Tool, form: Format) -> str:
    """One line: `- Tide height at a harbour: {"name": "get_tide", "arguments": {"harbour": string}}`."""
    about = disarm(first_line(tool.description)).rstrip(".:。")
    shapes = Shapes(slim(tool.schema), [name, about])
    parameters = {disarm_line(key): disarm(kind) for key, kind in shapes.parameters().items()}
    call = form.sketch(disarm_line(name), parameters)
    beside = shapes.beside()
    told = f"{call}, arguments also {disarm(beside)}" if beside else call
    return f"- {about}: {told}" if about else f"- {told}"


@by_identity()
def list_tools(tools: Iterable[Tool], form: Format) -> tuple[str, ...]:
    """A line for each tool, in the order of their names."""
    return tuple(list_tool(name, tool, form) for name, tool in shown_names(tools).items())


@by_identity()
def describe_tools(tools: Iterable[Tool], whole: bool = False) -> tuple[str, ...]:
    """What a model reads of each tool, whatever the form of its calls; `whole`: all its description, and its schema on
    its diet."""
    if not whole:
        return list_tools(tools, FORMATS["json"])
    told = ([name, tool.description, slim(tool.schema)] for name, tool in shown_names(tools).items())
    return tuple(json.dumps(one, ensure_ascii=False, default=str) for one in told)


def first_line(description: str) -> str:
    """The first line of a description; of a long one the sentences that fit LONGEST_DESCRIPTION characters."""
    line = next(iter(description.strip().splitlines()), "").strip()
    return line if len(line) <= LONGEST_DESCRIPTION else shorten(line, LONGEST_DESCRIPTION)
