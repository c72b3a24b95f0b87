"""Show a prompt exactly as it is sent: rendered with its control tokens, or as the messages of a request."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..backends.base import PromptRenderer
from ..core.messages import Message
from .context import add_tool_signatures, build_prompt, native_tools_of
from .conversation import Conversation


def render_sent_prompt(chat: Conversation, messages: Sequence[Message] = ()) -> str:
    """Return the prompt of the next request; the conversation stays as it is.

    Args:
        chat: The conversation.
        messages: What the user says next.
    """
    shown = [*chat.visible_messages, *add_tool_signatures(chat, messages)]
    prompt, tools = build_prompt(chat, shown), native_tools_of(chat)
    if isinstance(chat.backend, PromptRenderer):
        return chat.backend.render_request(prompt, tools)
    rows = [{"role": message.role, "content": message.text} for message in prompt]
    return json.dumps(rows, ensure_ascii=False, indent=2)
