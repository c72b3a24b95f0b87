"""Decide whether the prompt has the instructions of servers, and tell the user what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ..backends.base import Backend, SizedModel
from ..core.i18n import Words
from ..core.protocols import Notify
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
    return sum(count_text_in_prompt(chat, text) for text in render_prompt_instructions(chat, chat.find_instructions()))


class InstructionsReport:
    """Tells the user, once for each server, what its instructions cost or that they are left out.

    Args:
        chat: The conversation.
        words: Sentences in the user's language.
        notify: Shows a message to the user.
    """

    def __init__(self, chat: Conversation, words: Words, notify: Notify) -> None:
        self._chat, self._words, self._notify = chat, words, notify
        self._reported: dict[str, str] = {}

    def update(self, instructions: Mapping[str, str]) -> None:
        """Report what is new among the instructions of the connected servers, those that are left out included."""
        used = self._chat.find_instructions()
        for server, text in instructions.items():
            if self._reported.get(server) == text:
                continue
            self._reported[server] = text
            (section,) = render_prompt_instructions(self._chat, {server: text})
            tokens = count_text_in_prompt(self._chat, section)
            key = "servers.instructions_cost" if server in used else "servers.instructions_left_out"
            self._notify(self._words(key, server=server, tokens=tokens), "info")
