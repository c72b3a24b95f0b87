"""Whether a message asks for what a tool does, as the model itself chooses: a call of the tool, or words.

A small model that is made to call writes a call for anything, and in a conversation in words it writes none. Asked
which of the two it would do, it knows better. It prefers the first of two answers, so it is asked in both orders.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..backends.base import FirstTokenScorer, MessageScorer, SizedModel, TokenScore
from ..backends.shared.model_files import read_parameter_count
from ..core.messages import Message
from ..prompt.untrusted_text import neutralize_line
from .context import build_prompt, can_force_calls, loses_conversation
from .conversation import Conversation

__all__ = [
    "SCORED_TOKENS",
    "can_choose",
    "can_compare",
    "compare_letters",
    "describe_call",
    "list_choice_prompts",
]

SCORED_TOKENS = 20
"""How many of the likeliest first tokens are read; "A" and "B" are the first two."""
_MAX_VALUE_LENGTH = 80
"""Characters of an argument that a model is asked about."""
_MAX_LENGTH = 2000
"""Characters of a message up to which it is asked about: it is evaluated once more."""


def can_choose(chat: Conversation, message: str) -> bool:
    """Return whether the model can be asked: models of its size know it, and the engine loses no conversation.

    With `approve = "all"` a user takes the calls as they come.
    """
    backend, least = chat.backend, chat.profile.choosing_parameters
    size = backend.parameter_count if isinstance(backend, SizedModel) else read_parameter_count(backend.name)
    is_asked = 0 < least <= size and chat.settings.policy.approve != "all"
    is_forced = can_force_calls(chat) and not backend.native_tools
    is_scored = isinstance(backend, FirstTokenScorer) and not loses_conversation(chat)
    return is_asked and is_forced and is_scored and len(message) <= _MAX_LENGTH


def can_compare(chat: Conversation) -> bool:
    """Return whether messages are compared with tools: the family is made to call, and the engine tells it at no loss.

    With `approve = "all"` a user takes the calls as they come.
    """
    is_forced = chat.profile.forces_calls and can_force_calls(chat) and not chat.backend.native_tools
    is_asked = is_forced and chat.settings.policy.approve != "all"
    return is_asked and isinstance(chat.backend, MessageScorer) and not loses_conversation(chat)


def list_choice_prompts(chat: Conversation, call: str, message: str) -> list[Sequence[Message]]:
    """Return the prompts that ask whether a message is answered by a call: as "A", and as "B"."""
    keys, values = ("prompt.call_or_words", "prompt.words_or_call"), {"name": call, "message": message}
    return [build_prompt(chat, None, "alone", (), chat.prompt_words(key, **values)) for key in keys]


def describe_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return how a model is asked about a call: with its values.

    Of 26 first calls of turns that it had to make, asked about the name alone it preferred the right ones less clearly
    (AUC 0.92, with the values 0.96; Qwen2.5-Coder-1.5B): a clock may be for anything, that of Hamburg is not.
    """
    values = ", ".join(f"{key} {value}"[:_MAX_VALUE_LENGTH] for key, value in arguments.items())
    return f"{name} ({neutralize_line(values)})" if values else name


def compare_letters(score: TokenScore | None) -> float:
    """Return by how much "A" is likelier than "B" as the first token of a reply, in logits; 0 where it is neither."""
    found = {"A": 0.0, "B": 0.0}
    for token in score.likeliest if score else ():
        letter = token.data.decode(errors="replace").strip()
        if letter in found:
            found[letter] += math.exp(token.logprob)
    return math.log(found["A"] / found["B"]) if all(found.values()) else 0.0
