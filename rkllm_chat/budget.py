"""What fits the context: a result is cut in its middle, old turns leave as a whole.

It knows no tokenizer: it counts with a function that is given to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .messages import Message

RESULT_SHARE = 4
ANSWER_SHARE = 4


def cut_middle(text: str, limit_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """The text if it has at most `limit_tokens`, else its beginning and its end with a word on what is left out."""
    tokens = count_tokens(text)
    kept = len(text)
    shown = text
    while tokens > limit_tokens and kept > 0:
        kept = min(kept - 1, kept * limit_tokens // tokens)
        head, tail = kept - kept // 3, kept // 3
        shown = f"{text[:head]}\n[{len(text) - kept} of {len(text)} characters left out]\n{text[len(text) - tail :]}"
        tokens = count_tokens(shown)
    return shown


def next_turn(history: Sequence[Message], first: int) -> int:
    """The index of the user message after `first`; `first` itself when there is none, so the last turn stays."""
    return next((i for i in range(first + 1, len(history)) if history[i].role == "user"), first)
