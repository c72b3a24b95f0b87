"""Search for literal strings in text that is still growing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, cached_property, lru_cache
from os.path import commonprefix

_NOTHING = "(?!)"
"""A pattern that never matches."""


class Markers:
    """A set of literals to search for; without literals nothing is ever found.

    Attributes:
        literals: The literals, longest first.
        first_char: Matches the first character of any literal.
    """

    def __init__(self, literals: Iterable[str]) -> None:
        """Compile the patterns."""
        self.literals = tuple(sorted(set(literals), key=len, reverse=True))
        self.first_char = _one_of({literal[0] for literal in self.literals})
        self._beginnings = {literal[:end] for literal in self.literals for end in range(len(literal))}
        self._longest = max(map(len, self.literals), default=1) - 1

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the longest literal at a position."""
        return re.compile(_any_of(self.literals))

    def find(self, text: str, at: int, is_all: bool) -> tuple[int, re.Match[str] | None]:
        """Find the first literal in `text` from `at` on.

        Returns:
            Where it begins or, if a longer or earlier one may still be growing, where that does, and None; the end of
            the text, if there is none.

        Args:
            text: The text so far.
            at: Where to begin.
            is_all: Whether the text is complete, so that nothing can grow.
        """
        match = self.pattern.search(text, at)
        if match and (is_all or match.start() < len(text) - self._longest):
            return match.start(), match
        end = len(text) - (0 if is_all else self.count_partial(text, at))
        return (match.start(), match) if match and match.start() < end else (end, None)

    def match(self, text: str, at: int, is_all: bool) -> str | None:
        """Return the longest literal with which `text` goes on at `at`; "" if none does, None while undecided."""
        if not is_all and len(text) - at <= self._longest and text[at:] in self._beginnings:
            return None
        match = self.pattern.match(text, at)
        return match[0] if match else ""

    def count_partial(self, text: str, at: int) -> int:
        """Count the characters at the end of `text` that may be the beginning of a literal.

        >>> Markers(["[TOOL_CALL]"]).count_partial("ab[TOOL", 0)
        5
        """
        for match in self.first_char.finditer(text, max(at, len(text) - self._longest)):
            if text[match.start() :] in self._beginnings:
                return len(text) - match.start()
        return 0


def _any_of(literals: Iterable[str]) -> str:
    """Return the pattern of the longest literal at a place, with common beginnings once."""
    groups: dict[str, list[str]] = {}
    for literal in literals:
        groups.setdefault(literal[:1], []).append(literal)
    is_end = groups.pop("", None) is not None
    parts = [_begin_alike(group) for group in groups.values()]
    if not parts:
        return "" if is_end else _NOTHING
    return parts[0] if len(parts) == 1 and not is_end else f"(?:{'|'.join(parts)}){'?' * is_end}"


def _begin_alike(literals: list[str]) -> str:
    shared = commonprefix(literals)  # noqa: RUF071 - texts, character by character
    return re.escape(shared) + (_any_of(text[len(shared) :] for text in literals) if len(literals) > 1 else "")


def _one_of(characters: Iterable[str]) -> re.Pattern[str]:
    distinct = "".join(sorted(characters))
    return re.compile(f"[{re.escape(distinct)}]" if distinct else _NOTHING)


@lru_cache(256)
def compile_markers(literals: tuple[str, ...]) -> Markers:
    """Return the cached `Markers` of these literals."""
    return Markers(literals)


@cache
def char_pattern(character: str) -> re.Pattern[str]:
    """Return the cached pattern of one character."""
    return re.compile(re.escape(character))
