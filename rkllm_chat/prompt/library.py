"""render_prompt: a conversation with tools as the text that a model reads, for programs that use this as a library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..calls.formats import load_format
from ..calls.tool_call_scanner import to_tool
from ..core.errors import UsageError
from ..core.messages import Message, Tool
from .chat_templates import TEMPLATES, choose_template
from .compose import compose_prompt
from .jinja_template import compile_template
from .pieces import Template, join_text

__all__ = ["render_prompt"]

_ROLES = ("system", "user", "assistant", "tool")


def render_prompt(
    messages: Iterable[Message | Mapping[str, str]],
    tools: Iterable[Tool | Mapping[str, Any]] = (),
    template: str = "chatml",
    tool_format: str = "json",
    system: str = "",
) -> str:
    """Render a conversation as the chat does, with the assistant's turn opened at the end.

    The tools are listed in the system text, with instructions to write calls in `tool_format`. Texts cannot end a turn:
    control tokens in them are broken by a blank.

    Args:
        messages: `Message` objects, or `{"role": ..., "content": ...}` with the roles user, assistant, tool, and system
            for the first.
        tools: As for `ToolCallScanner`.
        template: A row of `rkllm_chat.prompt.TEMPLATES`, the name of a model that belongs to one ("Qwen3-8B"), or the
            source of a Jinja template.
        tool_format: A row of `rkllm_chat.calls.formats.FORMATS`.
        system: The role of the model, the first sentence of the system text; also given by a first message.

    Raises:
        MCPException: The template or the format is unknown, the template is invalid, or a message has another role.
        ValueError: A tool has no name.
    """
    history = [message if isinstance(message, Message) else _to_message(message) for message in messages]
    if history and history[0].role == "system":
        system = system or history[0].text
        del history[0]
    load_format(tool_format)
    row = _find_template(template)
    prompt = compose_prompt(history, [to_tool(tool) for tool in tools], system=system, tool_format=tool_format)
    return join_text(row(prompt), row)


def _find_template(template: str) -> Template:
    """Return a template by its name, the name of a model, or its source. Raises ModelError or UsageError."""
    if "{{" in template or "{%" in template:
        return compile_template(template)
    if row := choose_template(template, "") or choose_template("auto", template):
        return row
    hint = f"Known templates: {', '.join(TEMPLATES)}; or pass the source of a Jinja template."
    raise UsageError(f'There is no template "{template}".', hint, available=list(TEMPLATES))


def _to_message(message: Mapping[str, str]) -> Message:
    """Convert a message of the OpenAI API. Raises UsageError."""
    role, text = message.get("role"), message.get("content")
    for known in ("system", "user", "assistant", "tool"):
        if role == known and isinstance(text, str):
            return Message(known, text)
    raise UsageError(f"A message is invalid: {str(message)[:80]}", f"Use a role of {', '.join(_ROLES)} and a text.")
