"""ToolCallScanner: find tool calls in the streamed text of any model. The public interface of this package.

    from rkllm_chat import ToolCallScanner

    scanner = ToolCallScanner(tools, model="Qwen3-8B")
    for chunk in stream:
        for event in scanner.feed(chunk):
            ...
    for event in scanner.close():
        ...

A scanner reads one reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..core.messages import Tool
from .model_families import find_family, make_scanner
from .scanner import Scanner, ScannerEvent

__all__ = ["ToolCallScanner"]


class ToolCallScanner:
    """Incremental scanner of one reply of a model.

    It yields these events of `rkllm_chat.core.events`, the same however the text is split into chunks (adjacent `Text`
    and `Thought` events joined):

    - `Text` and `Thought`: what the model says and thinks, without markers and control tokens.
    - `TextWasThought`: the text so far was a thought, of which the model marked only the end.
    - `CallFound`: a complete call. `call.name` and `call.arguments` are what the model wrote; the arguments are not
      validated. `call.repairs` names what was damaged but had one meaning.
    - `CallUnreadable`: a call that is damaged, cut off or ambiguous, with the reason. It must not be executed.
    - `rkllm_chat.calls.scanner.InventedResult`: the rest of a reply in which the model invents the result of its call.

    Calls in code fences, quotations and thoughts are not reported as calls.
    """

    def __init__(self, tools: Iterable[Tool | Mapping[str, Any]], model: str = "", template: str = "") -> None:
        """Create a scanner for one reply.

        Args:
            tools: The offered tools, as `Tool`, as MCP writes them (`{"name": ..., "inputSchema": {...}}`), or as the
                OpenAI API does (`{"type": "function", "function": {"name": ..., "parameters": {...}}}`). A call without
                a marker counts only if it names one of them, and an argument that swallowed the next one is recognized
                by the declared parameters.
            model: Name of the model, by which its family and so its call formats are known; with "" and for unknown
                models, every format is accepted whose markers do not occur in ordinary text.
            template: The chat template of the model, which tells more than the name.

        Raises:
            ValueError: A tool has no name.
        """
        family = find_family([model], template)
        self._scanner: Scanner = make_scanner(
            family.preferred_format, family.accepted_formats, [to_tool(tool) for tool in tools]
        )

    def feed(self, text: str) -> list[ScannerEvent]:
        """Scan the next chunk of the reply and return the events that are certain by now."""
        return self._scanner.feed(text)

    def close(self) -> list[ScannerEvent]:
        """End the reply and return the remaining events."""
        return self._scanner.close()


def to_tool(tool: Tool | Mapping[str, Any]) -> Tool:
    """Return a tool of any accepted notation as a `Tool`."""
    if isinstance(tool, Tool):
        return tool
    function = tool.get("function")
    inner: Mapping[str, Any] = function if isinstance(function, Mapping) else tool
    name = inner.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError(f"A tool has no name: {str(tool)[:80]}")
    schema = inner.get("inputSchema", inner.get("parameters"))
    return Tool(name, str(inner.get("description") or ""), dict(schema) if isinstance(schema, Mapping) else {})
