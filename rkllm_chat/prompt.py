"""History and tools become what a backend is given. It is pure, and the result only ever grows at its end.

The system text comes first and depends on the system words and the tools alone, so its bytes are the same from turn
to turn and an engine's cache holds them. Each tool is listed in the form of the call that is to be written: measured
with a small model, it then copies the parameter names instead of inventing them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from . import language
from .arguments import branches_of
from .formats import FORMATS, Format
from .language import Words
from .messages import Message, Tool
from .names import shown_names
from .schemas import properties_of, resolve

LONGEST_DESCRIPTION = 160
DEEPEST_SKETCH = 4


def compose(
    history: Sequence[Message],
    tools: Iterable[Tool],
    words: Words | None = None,
    system: str = "",
    tool_format: str = "json",
) -> list[Message]:
    """The messages to send, with roles system, user and assistant only: every model family knows those three.

    Results of the calls of one reply come as one user message. `tool_format` is a row of FORMATS; `system` replaces
    the first sentence of the system text.
    """
    words = words or language.load()
    head = Message("system", system_text(tools, words, system, FORMATS[tool_format]))
    shown: list[Message] = []
    for of_tools, group in groupby(history, key=lambda message: message.role == "tool"):
        run = list(group)
        shown += [tool_turn(run, words)] if of_tools else run
    return [head, *shown]


def system_text(tools: Iterable[Tool], words: Words, system: str, form: Format) -> str:
    """The system message: who the model is, which tools there are, and how a call is written."""
    parts = [system or words("prompt.system")]
    if listed := shown_names(tools):
        lines = (list_tool(name, tool, form) for name, tool in listed.items())
        parts.append("\n".join([words("prompt.tools"), *lines]))
        parts.append(f"{words('prompt.call')}\n{form.example}")
    return "\n\n".join(parts)


def list_tool(name: str, tool: Tool, form: Format) -> str:
    """One line: `- Tide height at a harbour: {"name": "get_tide", "arguments": {"harbour": string}}`."""
    about = first_line(tool.description).rstrip(".:。")
    call = form.sketch(name, sketch_parameters(tool.schema))
    return f"- {about}: {call}" if about else f"- {call}"


def first_line(description: str) -> str:
    """The first line of a description, at most LONGEST_DESCRIPTION characters of it."""
    line = next(iter(description.strip().splitlines()), "").strip()
    return line if len(line) <= LONGEST_DESCRIPTION else line[:LONGEST_DESCRIPTION] + "…"


def tool_turn(run: Sequence[Message], words: Words) -> Message:
    """The results of one reply's calls, and remarks on calls that could not be read, as one message."""
    parts = [tool_text(message, words) for message in run]
    if any(message.result for message in run):
        parts.append(words("prompt.answer"))
    return Message("user", "\n".join(parts))


def tool_text(message: Message, words: Words) -> str:
    if message.result is None:
        return message.text
    key = "prompt.result" if message.result.status == "completed" else "prompt.failed"
    return f"{words(key, tool=message.result.tool)}\n{message.text}"


def sketch_parameters(schema: Mapping[str, Any]) -> dict[str, str]:
    """Parameter name -> a sketch of its type; a trailing `?` in the name marks an optional one."""
    required = required_of(schema)
    return {
        name if name in required else f"{name}?": sketch_type(child, schema)
        for name, child in properties_of(schema).items()
    }


def required_of(schema: Mapping[str, Any]) -> list[Any]:
    required = schema.get("required")
    return required if isinstance(required, list) else []


def sketch_type(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """`string`, `integer`, `"a" | "b"`, `[string]`, `{"x": number}`; `any` where the schema does not say."""
    if not isinstance(schema, Mapping) or depth > DEEPEST_SKETCH:
        return "any"
    schema = resolve(schema, root)
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if isinstance(schema.get("enum"), list):
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if branches := branches_of(schema):
        sketches = dict.fromkeys(sketch_type(branch, root, depth + 1) for branch in branches)
        return " | ".join(sketch for sketch in sketches if sketch != "null") or "null"
    return sketch_plain(schema, root, depth)


def sketch_plain(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(str(name) for name in kind if name != "null")
    if kind == "array":
        return f"[{sketch_type(schema.get('items'), root, depth + 1)}]"
    if kind == "object" and (properties := properties_of(schema)):
        required = required_of(schema)
        inner = (
            f'"{name}"{"" if name in required else "?"}: {sketch_type(child, root, depth + 1)}'
            for name, child in properties.items()
        )
        return "{" + ", ".join(inner) + "}"
    return str(kind) if kind else "any"
