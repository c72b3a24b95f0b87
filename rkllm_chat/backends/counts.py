"""The size of a text where no tokenizer is at hand: what was measured, and for the rest an estimate that learns."""

from __future__ import annotations

MOST_KNOWN = 64
LEAST_LEARNT = 200
"""Characters; a shorter text says little about the next one."""


class Estimate:
    """Guesses tokens from text: a third of the ASCII characters and each other one, mended by what was measured."""

    def __init__(self) -> None:
        self.factor = 1.0

    def count(self, text: str) -> int:
        return int(self._guess(text) * self.factor) + 1

    def learn(self, text: str, tokens: int) -> None:
        self.factor = min(3.0, max(0.3, tokens / self._guess(text)))

    def _guess(self, text: str) -> float:
        ascii_count = sum(character < "\x80" for character in text)
        return max(1.0, ascii_count / 3 + len(text) - ascii_count)


class Counts:
    """Texts whose size is known. A text that begins with one of them is that and an estimate of what follows."""

    def __init__(self) -> None:
        self._estimate = Estimate()
        self._known: dict[str, int] = {}

    def count(self, text: str) -> int:
        beginning = self.beginning(text)
        rest = text[len(beginning) :]
        return self._known.get(beginning, 0) + (self._estimate.count(rest) if rest else 0)

    def beginning(self, text: str) -> str:
        """The longest known text that it begins with; "" if there is none."""
        return max((known for known in self._known if text.startswith(known)), key=len, default="")

    def is_known(self, text: str) -> bool:
        return text in self._known

    def note(self, text: str, tokens: int) -> None:
        """What was measured."""
        if len(text) >= LEAST_LEARNT:
            self._estimate.learn(text, tokens)
        self._known.pop(text, None)
        self._known[text] = tokens
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
