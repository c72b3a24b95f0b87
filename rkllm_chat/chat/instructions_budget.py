"""Decide whether the prompt has the instructions of servers, and say what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ..backends.base import Backend, SizedModel
from ..prompt.server_instructions import has_room_for_instructions, render_instructions
from .conversation import Conversation
from .tool_selection import count_text_in_prompt


def may_have_instructions(backend: Backend) -> bool:
    """Return whether the prompt has the instructions of servers whose entries do not decide it."""
    parameter_count = backend.parameter_count if isinstance(backend, SizedModel) else 0
    return has_room_for_instructions(parameter_count, backend.context_tokens)


def render_prompt_instructions(chat: Conversation, instructions: Mapping[str, str]) -> tuple[str, ...]:
    """Return instructions of servers as the sections that the prompt has of them."""
    count = partial(count_text_in_prompt, chat)
    return render_instructions(instructions, chat.prompt_words, chat.backend.context_tokens, count)


def count_instructions(chat: Conversation) -> int:
    """Return how many tokens of the prompt the instructions of servers take."""
    return sum(count_text_in_prompt(chat, text) for text in render_prompt_instructions(chat, chat.get_instructions()))


def describe_cost(chat: Conversation, server: str, text: str) -> str:
    """Return a sentence about what the instructions of a server cost, or that they are left out of the prompt."""
    (section,) = render_prompt_instructions(chat, {server: text})
    key = "cost" if server in chat.get_instructions() else "left_out"
    return chat.words(f"servers.instructions_{key}", server=server, tokens=count_text_in_prompt(chat, section))
