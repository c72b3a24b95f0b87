"""A long result in pages: its beginning and end, a range of its lines, or the lines that hold a text. It is pure.

A "line" here is one of the text or, of one that is longer than WIDEST characters, a piece of it: so every part of any
text can be asked for, and all lines together are the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from .language import Words

WIDEST = 120
AROUND = 1
MOST_FOUND = 500
PRECISION = 32
RANGE = re.compile(r"\s*(\d{1,9})\s*(?:(?:-|–|\.\.|:|to)\s*(\d{0,9}))?\s*")
LINE = re.compile(rf"[^\n]{{1,{WIDEST}}}\n?|\n")

Fits = Callable[[str], bool]


@dataclass(frozen=True)
class Page:
    """What is shown, and the arguments of the call that shows what comes next, None where nothing was left out."""

    text: str
    more: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Long:
    """A result that was cut, under its handle."""

    handle: str
    text: str
    lines: Sequence[str]


def split(handle: str, text: str) -> Long:
    return Long(handle, text, LINE.findall(text))


def cut_ends(long: Long, fits: Fits, words: Words) -> Page:
    """The beginning and the end, as many lines as fit, at least one; all of it where that is no longer."""
    count = len(long.lines)

    def page(kept: int) -> Page:
        head, tail = kept - kept // 3, kept // 3
        first, last = head + 1, count - tail
        note = words("prompt.left_out", first=first, last=last, lines=count, handle=long.handle)
        begun = "".join(long.lines[:head])
        gap = "" if begun.endswith("\n") else "\n"
        text = f"{begun}{gap}{note}\n{''.join(long.lines[last:])}"
        return Page(text, {"handle": long.handle, "range": f"{first}-{last}"})

    cut = page(find_most(count - 1, lambda kept: fits(page(kept).text))) if count > 1 else Page(long.text)
    return cut if len(cut.text) < len(long.text) else Page(long.text)


def show_lines(long: Long, first: int, last: int, fits: Fits, words: Words) -> Page:
    """Lines `first` to `last`, counted from 1, as many from `first` on as fit, at least one."""

    def page(shown: int) -> Page:
        end = first + shown - 1
        heading = words("prompt.page", first=first, last=end, lines=len(long.lines), handle=long.handle)
        following = {"handle": long.handle, "range": f"{end + 1}-{last}"} if end < last else None
        return Page(f"{heading}\n{''.join(long.lines[first - 1 : end])}", following)

    return page(find_most(last - first + 1, lambda shown: fits(page(shown).text)))


def show_found(long: Long, search: str, first: int, last: int, fits: Fits, words: Words) -> Page:
    """The lines from `first` to `last` that hold a text, whatever its case, with their numbers and their neighbours."""
    found = [number for number in find_lines(long, search) if first <= number <= last]
    heading = words("prompt.found", count=len(found), lines=len(long.lines), handle=long.handle)

    def page(shown: int) -> Page:
        near = {number + step for number in found[:shown] for step in range(-AROUND, AROUND + 1)}
        numbers = sorted(near & set(range(1, len(long.lines) + 1)))
        listed = (f"{number}: {long.lines[number - 1]}".removesuffix("\n") for number in numbers)
        asked = {"handle": long.handle, "search": search}
        following = {**asked, "range": f"{found[shown]}-{last}"} if shown < len(found) else None
        return Page("\n".join([heading, *listed]), following)

    most = min(len(found), MOST_FOUND)
    return page(find_most(most, lambda shown: fits(page(shown).text))) if found else Page(heading)


def find_lines(long: Long, search: str) -> list[int]:
    """The numbers of the lines where a text begins or goes on, counted from 1."""
    ends = list(accumulate(map(len, long.lines)))
    numbers: set[int] = set()
    for match in re.finditer(re.escape(search), long.text, re.IGNORECASE):
        numbers |= set(range(bisect_right(ends, match.start()), bisect_right(ends, match.end() - 1) + 1))
    return [number + 1 for number in sorted(numbers)]


def read_range(text: str, count: int) -> tuple[int, int] | None:
    """The first and the last line that `120-160`, `120-` or `120` means in so many lines; None where it means none."""
    found = RANGE.fullmatch(text)
    if not found:
        return None
    first = max(1, int(found[1]))
    last = first if found[2] is None else min(count, int(found[2] or count))
    return (first, last) if first <= last <= count else None


def find_most(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `most` that fits, or one at most 1/PRECISION smaller, as each look has its price;
    1 if none fits. What is smaller than one that fits, fits."""
    least = 1
    while most - least > least // PRECISION:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least


def share_out(needs: Sequence[int], total: int) -> int:
    """The limit for each of these needs with which they fit into the total; what some do not need the others may have.

    >>> share_out([10, 500, 90], 300)
    200
    """
    limit = left = total
    for index, need in enumerate(sorted(needs)):
        limit = left // (len(needs) - index)
        if need > limit:
            break
        left -= need
    return limit
