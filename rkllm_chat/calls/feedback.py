"""Write the correction that the model receives for a call that was not executed because of how it was written.

Small models imitate what they see, so a correction contains one example: of their own call, if its tool is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.events import CallUnreadable
from ..core.i18n import Words
from ..core.messages import Tool
from .formats import Format
from .schema.coerce import coerce
from .schema.resolve import READING_STEPS, BudgetedSchema, BudgetExceededError, Node
from .schema.validate import allows
from .tool_names import find_tools, shown_name

_MAX_COPIED_LENGTH = 80
_MAX_ARGUMENTS = 12
_MAX_DEPTH = 4
_MAX_SEARCHED_LENGTH, _MAX_SEARCHED_WORDS = 400, 24
_FORMAT_WORDS = {"name", "arguments", "argument", "parameters", "parameter", "function", "tool_call", "TOOL_CALL"}
"""Words of the call formats themselves, which may also be names of tools."""


@dataclass(frozen=True)
class CallError:
    """A call that is not executed because of how it was written.

    Attributes:
        code: Kind of the error.
        message: The error in words.
        fingerprint: Fingerprint of the call, equal for a call that comes back unchanged.
        tool: The tool that was meant, as far as that is known.
        tool_name: The name under which the model sees the tool, or called what is none.
        arguments: The arguments that could be read.
        is_final: A correction would not help: no tool has such a name.
    """

    code: str
    message: str
    fingerprint: str
    tool: Tool | None = None
    tool_name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_final: bool = False


def to_call_error(unreadable: CallUnreadable, tools: Sequence[Tool], words: Words) -> CallError:
    """Describe what is wrong with an unreadable call."""
    tool = find_named_tool(unreadable.raw, tools)
    message = words(f"prompt.{unreadable.fault}", detail=unreadable.detail)
    return CallError(unreadable.fault, message, unreadable.raw.strip(), tool, shown_name(tool, tools) if tool else "")


def find_named_tool(raw: str, tools: Sequence[Tool]) -> Tool | None:
    """Return the first tool named in an unreadable call. It is only used for the example, never called."""
    written = re.findall(r"[\w.:/-]+", raw[:_MAX_SEARCHED_LENGTH])[:_MAX_SEARCHED_WORDS]
    candidates = (find_tools(word, tools) for word in written if word not in _FORMAT_WORDS)
    return next((matches[0] for matches in candidates if len(matches) == 1), None)


def fingerprint_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a fingerprint that is equal for equal calls."""
    return json.dumps([name, arguments], sort_keys=True, default=str)


def write_error(error: CallError, words: Words) -> str:
    """Write the error of a call for the model."""
    return words("prompt.correction", code=error.code, fault=error.message)


def write_correction(error: CallError, call_format: Format, words: Words) -> str:
    """Write the error of a call for the model, with an example of how to write it."""
    example = call_format.example
    if error.tool:
        example = call_format.render_call(error.tool_name, build_example_arguments(error.tool, error.arguments))
    return f"{write_error(error, words)}\n{words('prompt.again')}\n{example}"


def build_example_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return example arguments: the required ones and those that were given.

    Given values stay if they are short and valid. Empty if the schema takes too many steps to read.
    """
    try:
        variant = Node(BudgetedSchema(tool.schema, READING_STEPS)).variants()[0]
        names = [name for name in variant.properties if name in variant.required or name in arguments][:_MAX_ARGUMENTS]
        return {name: _choose_example(variant.part(variant.properties[name]), arguments.get(name)) for name in names}
    except (BudgetExceededError, RecursionError):
        return {}


def _choose_example(node: Node, original: Any) -> Any:
    value, _ = coerce(original, node)
    is_short = value is not None and len(json.dumps(value)) <= _MAX_COPIED_LENGTH
    return value if is_short and allows(node, value) else _build_example(node)


def _build_example(node: Node, depth: int = 0) -> Any:
    """Return an example value for a schema: its own example or default, else a placeholder of its type."""
    for value in node.examples():
        if value is not None and allows(node, value):
            return value
    variant = node.variants()[0]
    if variant.enum:
        return variant.enum[0]
    match variant.type:
        case "array":
            return [_build_example(variant.item(0), depth + 1)] if depth < _MAX_DEPTH else []
        case "object":
            known = {name: variant.properties[name] for name in variant.required if name in variant.properties}
            return {name: _build_example(variant.part(known[name]), depth + 1) for name in known if depth < _MAX_DEPTH}
        case kind:
            return {"integer": 1, "number": 1, "boolean": True, "null": None}.get(kind, "...")
