"""Guesses the next tokens of a reply: what followed the last time that the same few tokens were written.

Names of tools, values and results are copied from the prompt most of the time. It is a search over a list of tokens,
and knows no model: whether a guess is right, and what it costs to find out, is told by whoever evaluates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SIZES = (3, 2)
"""How many of the last tokens must be the same; the first that is found counts."""
SHORTEST, LONGEST = 3, 12
"""Tokens of a draft. It is doubled when all of it was right."""
FADING = 0.95
FEWEST = 8  # tokens, before a speed is believed


class Lookup:
    """The tokens of a prompt and its reply. Costs the same for each token, however many there are.

    `drafts` were made, of `drafted` tokens, of which `accepted` were right.
    """

    def __init__(self) -> None:
        self.drafts = self.drafted = self.accepted = 0
        self._tokens: list[int] = []
        self._behind: dict[tuple[int, ...], int] = {}  # some tokens -> the index behind their last occurrence
        self._source: int | None = None  # what stood behind the last tokens before
        self._draft: list[int] = []
        self._length = SHORTEST

    def draft(self, tokens: Sequence[int], room: int) -> list[int]:
        """At most `room` tokens that may follow; `tokens` are all of prompt and reply, as before and longer."""
        written = [int(token) for token in tokens[len(self._tokens) :]]
        self._judge(written)
        for token in written:
            self._append(token)
        source = self._source
        self._draft = [] if source is None else self._tokens[source : source + max(0, min(self._length, room))]
        return list(self._draft)

    def _judge(self, written: list[int]) -> None:
        """Counts how much of the last draft was written."""
        right = 0
        while right < min(len(self._draft), len(written)) and self._draft[right] == written[right]:
            right += 1
        self.drafts += bool(self._draft)
        self.drafted += len(self._draft)
        self.accepted += right
        if self._draft:
            self._length = min(2 * self._length, LONGEST) if right == len(self._draft) else SHORTEST

    def _append(self, token: int) -> None:
        self._tokens.append(token)
        self._source = None
        for size in SIZES[: len(self._tokens) - 1]:
            last = tuple(self._tokens[-size:])
            if self._source is None:
                self._source = self._behind.get(last)
            self._behind[last] = len(self._tokens)


@dataclass
class Speed:
    """Seconds a token, of late."""

    tokens: float = 0.0
    seconds: float = 0.0

    def add(self, tokens: int, seconds: float) -> None:
        self.tokens = FADING * self.tokens + tokens
        self.seconds = FADING * self.seconds + seconds

    @property
    def s_per_token(self) -> float | None:
        return self.seconds / self.tokens if self.tokens >= FEWEST else None


@dataclass
class Pace:
    """Whether drafts are worth their time on this machine, as measured.

    Evaluating two tokens at once may cost three times what one does (200 million parameters in Q8_0, one thread of
    x86-64). Where drafts are not worth it, one is tried after each `rest` steps without.
    """

    rest: int = 64
    alone: Speed = field(default_factory=Speed)
    drafted: Speed = field(default_factory=Speed)
    resting: int = 0

    def note(self, is_drafted: bool, tokens: int, seconds: float) -> None:
        """So many tokens came of one evaluation, with a draft or of a token alone."""
        (self.drafted if is_drafted else self.alone).add(tokens, seconds)
        self.resting = 0 if is_drafted else self.resting + 1

    @property
    def is_worth_a_draft(self) -> bool:
        alone, drafted = self.alone.s_per_token, self.drafted.s_per_token
        return alone is None or drafted is None or drafted <= alone or self.resting >= self.rest
