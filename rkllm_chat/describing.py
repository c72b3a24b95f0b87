"""`describe_tool`, our own tool with which a model asks how another is called that it knows by its catalogue alone.

It runs without a question, as `more` does: it only reads what servers have said of themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .language import Words
from .messages import Tool, ToolResult
from .names import DESCRIBE

TOOL = Tool(
    DESCRIBE,
    "Shows how a tool is called, by its name or by what it is to do",
    {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    read_only=True,
    idempotent=True,
    trusted=True,
    destructive=False,
    open_world=False,
)


def answer_with(describe: Callable[[str], Sequence[str]], words: Words, arguments: Mapping[str, Any]) -> ToolResult:
    """The lines that `describe` finds by a name or by words."""
    asked = str(arguments["name"])
    if lines := describe(asked):
        text = "\n".join([words("prompt.may_help"), *lines])
        return ToolResult("", DESCRIBE, dict(arguments), "completed", text)
    return ToolResult("", DESCRIBE, dict(arguments), "failed", words("prompt.unknown_tool", name=asked))
