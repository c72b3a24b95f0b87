"""Count the tokens of texts without a tokenizer: measured counts, and an estimate that adapts to them."""

from __future__ import annotations

_MAX_KNOWN = 64
_MIN_LEARNED_LENGTH = 200
"""Minimum length in characters of a text to learn from; a shorter one tells little about the next."""


class TokenEstimator:
    """Estimates tokens: a third of the ASCII characters and all others, times a factor learned from measured counts."""

    def __init__(self) -> None:
        self.factor = 1.0

    def count(self, text: str) -> int:
        """Estimate the number of tokens of a text."""
        return int(self._base_estimate(text) * self.factor) + 1

    def calibrate(self, text: str, tokens: int) -> None:
        """Adjust the factor to the measured count of a text."""
        self.factor = min(3.0, max(0.3, tokens / self._base_estimate(text)))

    def _base_estimate(self, text: str) -> float:
        ascii_count = sum(character < "\x80" for character in text)
        return max(1.0, ascii_count / 3 + len(text) - ascii_count)


class MeasuredTokenCounts:
    """Texts with measured counts. The count of a text that extends one of them is estimated only for the rest."""

    def __init__(self) -> None:
        self._estimator = TokenEstimator()
        self._known: dict[str, int] = {}

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, measured or estimated."""
        prefix = self.find_known_prefix(text)
        rest = text[len(prefix) :]
        return self._known.get(prefix, 0) + (self._estimator.count(rest) if rest else 0)

    def find_known_prefix(self, text: str) -> str:
        """Return the longest measured text that is a prefix of this one; "" if there is none."""
        return max((known for known in self._known if text.startswith(known)), key=len, default="")

    def is_known(self, text: str) -> bool:
        """Return whether exactly this text was measured."""
        return text in self._known

    def record(self, text: str, tokens: int, *, is_text: bool = True) -> None:
        """Store the measured count of a text; nothing is learned from one in which something stands for pictures."""
        if is_text and len(text) >= _MIN_LEARNED_LENGTH:
            self._estimator.calibrate(text, tokens)
        self._known.pop(text, None)
        self._known[text] = tokens
        if len(self._known) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]
