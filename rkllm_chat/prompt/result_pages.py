"""Page through a long result: its beginning and end, a range of its lines, or the lines that match a search.

A "line" is a line of the text or, of one longer than 120 characters, a piece of it: so every part of any text can be
requested, and all lines joined are the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ..core.i18n import Words

_MAX_LINE_WIDTH = 120
_CONTEXT_LINES = 1
_MAX_MATCHES = 500
_PRECISION = 32
_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:(?:-|–|\.\.|:|to)\s*(\d{0,9}))?\s*")
_LINE = re.compile(rf"[^\n]{{1,{_MAX_LINE_WIDTH}}}\n?|\n")

Fits = Callable[[str], bool]


@dataclass(frozen=True)
class ResultPage:
    """A part of a result, and the arguments of the call that returns the next part; None if nothing is left out."""

    text: str
    more: Mapping[str, str] | None = None


@dataclass(frozen=True)
class LongResult:
    """A truncated result and its handle."""

    handle: str
    text: str
    lines: Sequence[str]


def split_result(handle: str, text: str) -> LongResult:
    """Split a result into lines of bounded width."""
    return LongResult(handle, text, _LINE.findall(text))


def show_ends(result: LongResult, fits: Fits, words: Words) -> ResultPage:
    """Return the beginning and the end of a result, as many lines as fit, at least one.

    If that is not shorter than the result, the whole result is returned.
    """
    count = len(result.lines)

    def page(kept_lines: int) -> ResultPage:
        head, tail = kept_lines - kept_lines // 3, kept_lines // 3
        first, last = head + 1, count - tail
        note = words("prompt.left_out", first=first, last=last, lines=count, handle=result.handle)
        beginning = "".join(result.lines[:head])
        gap = "" if beginning.endswith("\n") else "\n"
        text = f"{beginning}{gap}{note}\n{''.join(result.lines[last:])}"
        return ResultPage(text, {"handle": result.handle, "range": f"{first}-{last}"})

    cut = (
        page(_find_largest(count - 1, lambda kept_lines: fits(page(kept_lines).text)))
        if count > 1
        else ResultPage(result.text)
    )
    return cut if len(cut.text) < len(result.text) else ResultPage(result.text)


def show_lines(result: LongResult, first: int, last: int, fits: Fits, words: Words) -> ResultPage:
    """Return lines `first` to `last`, counted from 1, as many as fit, at least one."""

    def page(line_count: int) -> ResultPage:
        end = first + line_count - 1
        heading = words("prompt.page", first=first, last=end, lines=len(result.lines), handle=result.handle)
        following = {"handle": result.handle, "range": f"{end + 1}-{last}"} if end < last else None
        return ResultPage(f"{heading}\n{''.join(result.lines[first - 1 : end])}", following)

    return page(_find_largest(last - first + 1, lambda line_count: fits(page(line_count).text)))


def show_matches(result: LongResult, search: str, first: int, last: int, fits: Fits, words: Words) -> ResultPage:
    """Return the lines from `first` to `last` that contain a text, ignoring case.

    They come with line numbers and neighbouring lines, as many as fit, at least one match.
    """
    matching = [number for number in _find_lines(result, search) if first <= number <= last]
    heading = words("prompt.found", count=len(matching), lines=len(result.lines), handle=result.handle)

    def page(match_count: int) -> ResultPage:
        neighbours = {
            number + step for number in matching[:match_count] for step in range(-_CONTEXT_LINES, _CONTEXT_LINES + 1)
        }
        numbers = sorted(neighbours & set(range(1, len(result.lines) + 1)))
        listed = (f"{number}: {result.lines[number - 1]}".removesuffix("\n") for number in numbers)
        query = {"handle": result.handle, "search": search}
        following = {**query, "range": f"{matching[match_count]}-{last}"} if match_count < len(matching) else None
        return ResultPage("\n".join([heading, *listed]), following)

    match_limit = min(len(matching), _MAX_MATCHES)
    return (
        page(_find_largest(match_limit, lambda match_count: fits(page(match_count).text)))
        if matching
        else ResultPage(heading)
    )


def _find_lines(result: LongResult, search: str) -> list[int]:
    """Return the numbers, counted from 1, of the lines that a match of the search text touches."""
    ends = list(accumulate(map(len, result.lines)))
    numbers: set[int] = set()
    for match in re.finditer(re.escape(search), result.text, re.IGNORECASE):
        numbers |= set(range(bisect_right(ends, match.start()), bisect_right(ends, match.end() - 1) + 1))
    return [number + 1 for number in sorted(numbers)]


def parse_range(text: str, count: int) -> tuple[int, int] | None:
    """Parse a range of lines: `120-160`, `120-` or `120`.

    Returns:
        First and last line, counted from 1; None if the range is invalid for `count` lines.
    """
    match = _RANGE.fullmatch(text)
    if not match:
        return None
    first = max(1, int(match[1]))
    last = first if match[2] is None else min(count, int(match[2] or count))
    return (first, last) if first <= last <= count else None


def _find_largest(high: int, fits: Callable[[int], bool]) -> int:
    """Find the largest number from 1 to `high` that fits, or one smaller by at most 1/32; 1 if none fits.

    Each test is expensive, so the search is not exact. `fits` must be monotonic.
    """
    low = 1
    while high - low > low // _PRECISION:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def find_fair_limit(needs: Sequence[int], total: int) -> int:
    """Return the limit per need with which all needs fit into the total; unused shares go to the others.

    >>> find_fair_limit([10, 500, 90], 300)
    200
    """
    limit = left = total
    for index, need in enumerate(sorted(needs)):
        limit = left // (len(needs) - index)
        if need > limit:
            break
        left -= need
    return limit
