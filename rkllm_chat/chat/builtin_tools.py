"""Built-in tools of the conversation, which no server offers: `describe_tool` and `more`.

`describe_tool` returns the signature of a tool that the prompt lists by name only. `more` pages through a result that
was truncated; it is never listed in the prompt, since the tool list is part of the cached prefix and must not change:
the truncated result says how to call it. Both run without approval, because they only read what the conversation has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..calls.tool_names import DESCRIBE, MORE
from ..core.i18n import Words
from ..core.messages import Message, Tool, ToolResult
from ..core.protocols import CallableTools, ProgressCallback
from ..prompt.result_pages import Fits, parse_range, show_lines, show_matches, split_result

_STRING = {"type": "string"}


def _make_tool(name: str, description: str, properties: Mapping[str, Any], required: str) -> Tool:
    schema = {"type": "object", "properties": properties, "required": [required]}
    return Tool(
        name, description, schema, read_only=True, idempotent=True, trusted=True, destructive=False, open_world=False
    )


DESCRIBE_TOOL = _make_tool(
    DESCRIBE, "Shows how a tool is called, by its name or by what it is to do", {"name": _STRING}, "name"
)
MORE_TOOL = _make_tool(
    MORE, "Shows more of a result that was cut", {"handle": _STRING, "range": _STRING, "search": _STRING}, "handle"
)
BUILTIN_TOOLS = (MORE_TOOL, DESCRIBE_TOOL)


@dataclass(frozen=True)
class ToolboxWithLocalTool:
    """Another toolbox plus one built-in tool.

    Attributes:
        toolbox: The other toolbox.
        tool: The built-in tool.
        answer: Runs a call of it.
    """

    toolbox: CallableTools
    tool: Tool
    answer: Callable[[Mapping[str, Any]], ToolResult]

    @property
    def tools(self) -> Sequence[Tool]:
        known = self.toolbox.tools
        return known if self.tool in known else [*known, self.tool]

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> ToolResult:
        """Run a tool."""
        if tool != self.tool or self.tool in self.toolbox.tools:
            return await self.toolbox.call(tool, arguments, on_progress)
        return self.answer(arguments)


def answer_describe_call(
    find_signatures: Callable[[str], Sequence[str]], words: Words, arguments: Mapping[str, Any]
) -> ToolResult:
    """Answer a call of `describe_tool`.

    Args:
        find_signatures: Returns signatures for a tool name or for words.
        words: Model-facing sentences.
        arguments: Validated arguments of the call.
    """
    query = str(arguments["name"])
    if lines := find_signatures(query):
        text = "\n".join([words("prompt.may_help"), *lines])
        return ToolResult("", DESCRIBE, dict(arguments), "completed", text)
    return ToolResult("", DESCRIBE, dict(arguments), "failed", words("prompt.unknown_tool", name=query))


@dataclass(frozen=True)
class ResultPager:
    """Answers calls of `more` from the truncated results in the history."""

    history: Sequence[Message]
    words: Words
    fits: Fits

    def answer_call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the requested page; `structured` has the arguments for the next one."""
        results = _results_by_handle(self.history)
        handle = str(arguments["handle"]).strip().casefold()
        if handle not in results:
            handles = self.words("prompt.handles", handles=", ".join(results)) if results else ""
            return self._fail(arguments, f"{self.words('prompt.gone', handle=handle)} {handles}".strip())
        result = split_result(handle, results[handle])
        range_text = str(arguments.get("range") or "1-")
        lines = parse_range(range_text, len(result.lines))
        if lines is None:
            message = self.words("prompt.no_range", range=range_text, handle=handle, lines=len(result.lines))
            return self._fail(arguments, message)
        if search := str(arguments.get("search") or ""):
            page = show_matches(result, search, *lines, self.fits, self.words)
        else:
            page = show_lines(result, *lines, self.fits, self.words)
        return ToolResult("", MORE, dict(arguments), "completed", page.text, structured=page.more)

    def _fail(self, arguments: Mapping[str, Any], text: str) -> ToolResult:
        return ToolResult("", MORE, dict(arguments), "failed", text)


def is_result_page(message: Message) -> bool:
    """Return whether the message is a result of `more`."""
    return message.result is not None and (message.result.server, message.result.tool) == ("", MORE)


def find_last_handle_number(history: Sequence[Message]) -> int:
    """Return the number in the newest handle; 0 if no result was truncated."""
    handles = _results_by_handle(history)
    return max((int(handle[1:]) for handle in handles if handle[1:].isdecimal()), default=0)


def _results_by_handle(history: Sequence[Message]) -> dict[str, str]:
    """Return the complete text of each truncated result by its handle."""
    results = ((message.more, message.result) for message in history if not is_result_page(message))
    return {str(more["handle"]): result.text for more, result in results if more and result}
