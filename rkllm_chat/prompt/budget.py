"""Token budget of the context window: results are truncated in the middle, old turns are dropped as a whole.

Tokens are counted by a function that the caller provides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.messages import Message

ANSWER_FRACTION = 1 / 4
"""Of the context window, what is reserved for the reply."""
MAX_TOKEN_LENGTH = 64
"""Assumed maximum of characters per token: text longer than this times the limit cannot fit.

Counting the tokens of 10 MB takes seconds (measured).
"""
RESULTS_FRACTION = 1 / 2
"""Of the free space, what the results of one reply, or the attachments of one message, may take together."""
RESULTS_AFTER_TRIM_FRACTION = 1 / 4
"""The same, of the space that would be free if all turns but the last were dropped."""
SIGNATURES_FRACTION = 1 / 8
"""Of the context window, what the tool signatures for one question may take."""
INSTRUCTIONS_FRACTION = 1 / 8
"""Of the context window, what the instructions of all servers together may take."""
MAX_INSTRUCTIONS_TOKENS = 512
"""What the instructions of one server may take."""
MIN_RESULT_FRACTION = 1 / 64
"""Of the context window, what each result may take in any case."""
NEXT_QUESTION_FRACTION = 1 / 16
"""Of the context window, what the next question is expected to need: if it is not free, turns are dropped beforehand.
"""
FIRST_TURN_FRACTION = 1 / 8
"""Of the prompt budget, what the first turn may take if it is to be retained when others are dropped."""


def truncate_middle(text: str, limit_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """Truncate text in the middle to at most `limit_tokens`, with a note on how much was left out."""
    kept_chars = min(len(text), limit_tokens * MAX_TOKEN_LENGTH)
    truncated = _keep_ends(text, kept_chars)
    while (tokens := count_tokens(truncated)) > limit_tokens and kept_chars > 0:
        kept_chars = min(kept_chars - 1, kept_chars * limit_tokens // tokens)
        truncated = _keep_ends(text, kept_chars)
    return truncated


def _keep_ends(text: str, kept_chars: int) -> str:
    """Return `kept_chars` characters of the text, two thirds of them from its beginning."""
    if kept_chars == len(text):
        return text
    head, tail = kept_chars - kept_chars // 3, kept_chars // 3
    return f"{text[:head]}\n[{len(text) - kept_chars} of {len(text)} characters left out]\n{text[len(text) - tail :]}"


def find_last_turn(history: Sequence[Message]) -> int:
    """Return the index of the last user message; 0 if there is none."""
    return next((i for i in reversed(range(len(history))) if history[i].role == "user"), 0)


def find_turns(history: Sequence[Message]) -> list[int]:
    """Return the indices of the user messages: each starts a turn."""
    return [i for i, message in enumerate(history) if message.role == "user"]
