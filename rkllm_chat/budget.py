"""What fits the context: a result is cut in its middle, old turns leave as a whole.

It knows no tokenizer: it counts with a function that is given to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .messages import Message

ANSWER_SHARE = 4
LONGEST_TOKEN = 64
"""Characters; a text of more than that for each token of room cannot fit. Counting 10 MB takes seconds (measured)."""
ROUND_SHARE = 2
"""Of what is free now, what the results of one reply may take together, or what is attached to a message."""
FORGETTING_SHARE = 4
"""The same of what would be free if all turns but the last were forgotten."""
LATE_SHARE = 8
"""Of the window, what the forms of the tools for one question may take."""
FLOOR_SHARE = 64
"""Of the window, what each result may take in any case."""
NEXT_SHARE = 16
"""Of the window, what the next question is taken to need: where that is not free, room is made before it is asked."""
KEPT_SHARE = 8
"""Of the room, what the first turn may take if it is to stay when others leave."""


def cut_middle(text: str, limit_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """The text if it has at most `limit_tokens`, else its beginning and its end with a word on what is left out."""
    kept = min(len(text), limit_tokens * LONGEST_TOKEN)
    shown = keep_ends(text, kept)
    while (tokens := count_tokens(shown)) > limit_tokens and kept > 0:
        kept = min(kept - 1, kept * limit_tokens // tokens)
        shown = keep_ends(text, kept)
    return shown


def keep_ends(text: str, kept: int) -> str:
    """So many characters of a text, two thirds of them from its beginning."""
    if kept == len(text):
        return text
    head, tail = kept - kept // 3, kept // 3
    return f"{text[:head]}\n[{len(text) - kept} of {len(text)} characters left out]\n{text[len(text) - tail :]}"


def last_turn(history: Sequence[Message]) -> int:
    """The index of the last user message; 0 where there is none."""
    return next((i for i in reversed(range(len(history))) if history[i].role == "user"), 0)


def turns_of(history: Sequence[Message]) -> list[int]:
    """The indexes of the user messages: a turn is one of them and all that came of it."""
    return [i for i, message in enumerate(history) if message.role == "user"]
