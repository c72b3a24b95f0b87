"""What ends a reply although the engine goes on: texts that close a turn, and going round in circles. It is pure.

A model converted with a wrong end token writes `<|im_end|>` as text and never stops; a small one may say one line for
ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..markers import Markers

WINDOW = 1200
LONGEST_UNIT = 100
EVERY = 100

Ending = Literal["", "said", "circle"]


class Stops:
    """Feed it a reply; it gives back what may be shown. `ending`: "said" after an end text, "circle" in a circle."""

    def __init__(self, ends: Sequence[str]) -> None:
        self._ends = Markers(tuple(filter(None, ends)))
        self._held = ""
        self._tail = ""
        self._unchecked = 0
        self.ending: Ending = ""

    def feed(self, text: str) -> str:
        """The part of the reply that is certain; the rest may be the beginning of an end text and is held back."""
        if self.ending:
            return ""
        self._held += text
        found = self._ends.pattern.search(self._held)
        cut = found.start() if found else len(self._held) - self._ends.count_held(self._held, 0)
        if found:
            self.ending = "said"
        shown, self._held = self._held[:cut], self._held[cut:]
        self._watch(shown)
        return shown

    def close(self) -> str:
        """What was held back, once the reply is over."""
        rest, self._held = self._held, ""
        return "" if self.ending else rest

    def _watch(self, shown: str) -> None:
        self._tail = (self._tail + shown)[-WINDOW:]
        self._unchecked += len(shown)
        if self._unchecked >= EVERY and len(self._tail) == WINDOW:
            self._unchecked = 0
            if not self.ending and is_circle(self._tail):
                self.ending = "circle"


def is_circle(text: str) -> bool:
    """Whether the text is one short unit said again and again.

    >>> is_circle("no, " * 300)
    True
    """
    return any(text[unit:] == text[:-unit] for unit in range(1, LONGEST_UNIT + 1))
