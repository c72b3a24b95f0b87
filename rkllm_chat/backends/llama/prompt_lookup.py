"""Draft the next tokens of a reply by prompt lookup: what followed the last occurrence of the same few tokens.

Names of tools, values and results are mostly copied from the prompt. This is a search over a list of tokens; the
caller reports whether drafts were right and what they cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

NGRAM_SIZES = (3, 2)
"""How many of the last tokens must be equal, tried in this order."""
_MIN_DRAFT_TOKENS, MAX_DRAFT_TOKENS = 3, 12
"""Length of a draft in tokens. It is doubled when a whole draft was right."""
_DECAY = 0.95
_MIN_TOKENS = 8  # tokens before a measured speed counts


class PromptLookup:
    """The tokens of a prompt and its reply. The cost per token does not depend on their number.

    Attributes:
        drafts: Number of drafts.
        drafted: Number of drafted tokens.
        accepted: Number of drafted tokens that were right.
    """

    def __init__(self) -> None:
        self.drafts = self.drafted = self.accepted = 0
        self._tokens: list[int] = []
        self._following: dict[tuple[int, ...], int] = {}  # some tokens -> the index behind their last occurrence
        self._source: int | None = None  # index of what followed the last tokens when they occurred before
        self._draft: list[int] = []
        self._length = _MIN_DRAFT_TOKENS

    def propose_draft(self, tokens: Sequence[int], max_length: int) -> list[int]:
        """Propose the next tokens.

        Args:
            tokens: All tokens of prompt and reply; extends those of the previous call. Negative ones stand for
                pictures and sounds, which are not drafted.
            max_length: Maximum length of the draft.
        """
        written = [int(token) for token in tokens[len(self._tokens) :]]
        self._score_draft(written)
        for token in written:
            self._append(token)
        source = self._source
        proposal = [] if source is None else self._tokens[source : source + max(0, min(self._length, max_length))]
        self._draft = list(takewhile(lambda token: token >= 0, proposal))
        return list(self._draft)

    def _score_draft(self, written: list[int]) -> None:
        """Count how much of the last draft was right."""
        matching = 0
        while matching < min(len(self._draft), len(written)) and self._draft[matching] == written[matching]:
            matching += 1
        self.drafts += bool(self._draft)
        self.drafted += len(self._draft)
        self.accepted += matching
        if self._draft:
            self._length = (
                min(2 * self._length, MAX_DRAFT_TOKENS) if matching == len(self._draft) else _MIN_DRAFT_TOKENS
            )

    def _append(self, token: int) -> None:
        self._tokens.append(token)
        self._source = None
        for size in NGRAM_SIZES[: len(self._tokens) - 1]:
            last = tuple(self._tokens[-size:])
            if self._source is None:
                self._source = self._following.get(last)
            self._following[last] = len(self._tokens)


@dataclass
class _Speed:
    """Recent time per token."""

    tokens: float = 0.0
    seconds: float = 0.0

    def add(self, tokens: int, seconds: float) -> None:
        self.tokens = _DECAY * self.tokens + tokens
        self.seconds = _DECAY * self.seconds + seconds

    @property
    def s_per_token(self) -> float | None:
        """Seconds per token; None before enough tokens were measured."""
        return self.seconds / self.tokens if self.tokens >= _MIN_TOKENS else None


@dataclass
class DraftTiming:
    """Measures whether drafts are worth their time on this machine.

    Evaluating two tokens at once may cost three times as much as one (200 million parameters in Q8_0, one thread of
    x86-64). Where drafts are not worth it, one is tried after every `retry_steps` steps without.

    Attributes:
        retry_steps: Steps without a draft before one is tried again.
        plain_speed: Speed without drafts.
        draft_speed: Speed with drafts.
        steps_since_draft: Steps since the last draft.
    """

    retry_steps: int = 64
    plain_speed: _Speed = field(default_factory=_Speed)
    draft_speed: _Speed = field(default_factory=_Speed)
    steps_since_draft: int = 0

    def record(self, is_drafted: bool, tokens: int, seconds: float) -> None:
        """Record an evaluation.

        Args:
            is_drafted: Whether it included a draft.
            tokens: Number of tokens that it yielded.
            seconds: Its duration.
        """
        (self.draft_speed if is_drafted else self.plain_speed).add(tokens, seconds)
        self.steps_since_draft = 0 if is_drafted else self.steps_since_draft + 1

    @property
    def should_draft(self) -> bool:
        """Whether the next step should use a draft."""
        alone, drafted = self.plain_speed.s_per_token, self.draft_speed.s_per_token
        return alone is None or drafted is None or drafted <= alone or self.steps_since_draft >= self.retry_steps
