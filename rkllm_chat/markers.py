"""Literals that are looked for in a text that is still growing. It knows no format."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache

NOTHING = "(?!)"
"""The pattern that never matches."""


class Markers:
    """`pattern` finds the longest literal that stands somewhere; `edge` the character that any of them begins with.

    `also` are characters that count as edges besides. No literals: nothing is ever found.
    """

    def __init__(self, literals: Iterable[str], also: str = "") -> None:
        self.literals = tuple(sorted(set(literals), key=len, reverse=True))
        self.pattern = re.compile("|".join(map(re.escape, self.literals)) or NOTHING)
        self.first = one_of({literal[0] for literal in self.literals})
        self.edge = one_of({*also, *(literal[0] for literal in self.literals)})
        self._beginnings = {literal[:end] for literal in self.literals for end in range(1, len(literal))}
        self._longest = max(map(len, self.literals), default=1) - 1

    def find(self, text: str, at: int, is_all: bool) -> re.Match[str] | None:
        """The first literal in `text` behind `at`; None also where a longer one may yet begin there or before."""
        found = self.pattern.search(text, at)
        if not found or is_all or found.start() < len(text) - self._longest:
            return found
        return None if len(text) - self.count_held(text, at) <= found.start() else found

    def count_held(self, text: str, at: int) -> int:
        """How many characters at the end of `text`, behind `at`, may be the beginning of a literal.

        >>> Markers(["[TOOL_CALL]"]).count_held("ab[TOOL", 0)
        5
        """
        for found in self.first.finditer(text, max(at, len(text) - self._longest)):
            if text[found.start() :] in self._beginnings:
                return len(text) - found.start()
        return 0


def one_of(characters: Iterable[str]) -> re.Pattern[str]:
    found = "".join(sorted(characters))
    return re.compile(f"[{re.escape(found)}]" if found else NOTHING)


@lru_cache(256)
def markers_of(literals: tuple[str, ...]) -> Markers:
    return Markers(literals)


@lru_cache(1024)
def longest_of(literals: tuple[str, ...]) -> int:
    return max(map(len, literals), default=0)


@cache
def edge_of(character: str) -> re.Pattern[str]:
    return re.compile(re.escape(character))
