"""What a model is told of a call that was not run because of how it was written: why, and how to write it.

Small models copy what they see, so they see one example, of their own call where it is known what was meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .arguments import MOST_STEPS
from .coercion import coerce
from .events import CallGarbled
from .faults import is_fit
from .formats import Format
from .language import Words
from .messages import Tool
from .names import find_tools, shown_name
from .schemas import (
    Bounded,
    TooCostlyError,
    choices_of,
    item_of,
    kind_of,
    leaves_of,
    properties_of,
    required_of,
    whole,
)

LONGEST_COPIED = 80
MOST_ARGUMENTS = 12
DEEPEST = 4
LONGEST_SEARCHED, MOST_SEARCHED = 400, 24
KEYS = {"name", "arguments", "argument", "parameters", "parameter", "function", "tool_call", "TOOL_CALL"}
"""Words of the forms themselves, which also may be names of tools."""


@dataclass(frozen=True)
class Misstep:
    """A call that is not run because of how it was written.

    `code` and `fault` say why, `mark` is the same for a call that comes back unchanged, `tool` is the one that was
    meant, as far as that is known, and `shown` its name for the model; `arguments` are those that could be read.
    """

    code: str
    fault: str
    mark: str
    tool: Tool | None = None
    shown: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


def read_misstep(found: CallGarbled, tools: Sequence[Tool], words: Words) -> Misstep:
    """What is wrong with a call that cannot be read."""
    tool = find_meant(found.raw, tools)
    fault = words(f"prompt.{found.fault}", detail=found.detail)
    return Misstep(found.fault, fault, found.raw.strip(), tool, shown_name(tool, tools) if tool else "")


def find_meant(raw: str, tools: Sequence[Tool]) -> Tool | None:
    """The tool whose name comes first in a call that cannot be read. It is not called, only shown."""
    written = re.findall(r"[\w.:/-]+", raw[:LONGEST_SEARCHED])[:MOST_SEARCHED]
    found = (find_tools(word, tools) for word in written if word not in KEYS)
    return next((meant[0] for meant in found if len(meant) == 1), None)


def mark_call(name: str, arguments: Mapping[str, Any]) -> str:
    """The same text for the same call."""
    return json.dumps([name, arguments], sort_keys=True, default=str)


def explain(misstep: Misstep, words: Words) -> str:
    return words("prompt.correction", code=misstep.code, fault=misstep.fault)


def correct(misstep: Misstep, form: Format, words: Words) -> str:
    """What the model is told, with the example."""
    tool = misstep.tool
    example = form.show(misstep.shown, sample_arguments(tool, misstep.arguments)) if tool else form.example
    return f"{explain(misstep, words)}\n{words('prompt.again')}\n{example}"


def sample_arguments(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """The required arguments and those that were given, as they were given where they are short and fit; none where
    the schema takes too long to read."""
    root = Bounded(tool.schema, MOST_STEPS)
    try:
        leaf = leaves_of(root, root)[0]
        known, required = properties_of(leaf), required_of(leaf)
        names = [name for name in known if name in required or name in given][:MOST_ARGUMENTS]
        return {name: sample_argument(known[name], given.get(name), root) for name in names}
    except (TooCostlyError, RecursionError):
        return {}


def sample_argument(schema: Any, given: Any, root: Bounded) -> Any:
    value, _ = coerce(given, schema, root)
    is_short = value is not None and len(json.dumps(value)) <= LONGEST_COPIED
    return value if is_short and is_fit(value, schema, root) else sample(schema, root)


def sample(schema: Any, root: Bounded, depth: int = 0) -> Any:
    """A value of the kind that a schema wants: the schema's own example, else one that shows what goes there."""
    found = whole(schema, root)
    examples = found.get("examples")
    own = [*(examples if isinstance(examples, list) else ()), *([found["default"]] if "default" in found else ())]
    if fitting := [value for value in own if value is not None and is_fit(value, schema, root)]:
        return fitting[0]
    leaf = leaves_of(schema, root)[0]
    if choices := choices_of(leaf):
        return choices[0]
    match kind_of(leaf):
        case "array":
            return [sample(item_of(leaf, 0), root, depth + 1)] if depth < DEEPEST else []
        case "object":
            known = properties_of(leaf) if depth < DEEPEST else {}
            return {name: sample(known[name], root, depth + 1) for name in required_of(leaf) if name in known}
        case kind:
            return {"integer": 1, "number": 1, "boolean": True, "null": None}.get(kind, "...")
