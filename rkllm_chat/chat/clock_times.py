"""Times of the day in a text, as people of several languages write them."""

from __future__ import annotations

import re

__all__ = ["is_clock_told", "list_clock_times"]

_TIME = re.compile(
    r"(?P<before>午前|午後|上午|下午|凌晨|早上|晚上|夜)?\s*(?<![\d.:,/-])(?P<hours>[01]?\d|2[0-4])"
    r"\s?(?:[:：]\s?(?P<minutes>[0-5]\d)(?::[0-5]\d)?|[時时点點]\s?(?:(?P<named>[0-5]?\d)\s?分?|(?P<half>半))?)"
    r"(?![\d/])(?:\s?(?P<after>[ap]\.?m\b))?",
    re.IGNORECASE,
)
_AFTERNOON = ("午後", "下午", "晚上", "夜")
_MORNING = ("午前", "上午", "凌晨", "早上")
_MAX_TIMES = 2
"""Times of a result up to which an answer tells one of them, and works out none: a timetable has more."""
_MAX_LATE = 2
"""Minutes between a result and an answer that tells it: the clock may have been asked twice."""
_HALF_DAY, _DAY = 12 * 60, 24 * 60


def list_clock_times(text: str) -> set[tuple[int, bool]]:
    """Return the times of the day in a text, in minutes, and whether each may be of the other half of the day.

    >>> sorted(list_clock_times("18:48, or 5:16 pm"))
    [(1036, False), (1128, False)]
    >>> list_clock_times("午後5時16分"), list_clock_times("at 5:16")
    ({(1036, False)}, {(316, True)})
    """
    found = set[tuple[int, bool]]()
    for match in _TIME.finditer(text):
        hours, mark = int(match["hours"]), (match["after"] or match["before"] or "").casefold()
        minutes = 30 if match["half"] else int(match["minutes"] or match["named"] or 0)
        if mark in _AFTERNOON or mark.startswith("p"):
            hours = hours + 12 if hours < 12 else hours
        elif (mark in _MORNING or mark.startswith("a")) and hours == 12:
            hours = 0
        is_open = not mark and 0 < hours <= 12 and not match["hours"].startswith("0")
        found.add(((hours * 60 + minutes) % _DAY, is_open))
    return found


def is_clock_told(reply: str, text: str, others: str = "") -> bool | None:
    """Return whether a reply has one of the few times of the day that a text has; None where either has none.

    >>> [is_clock_told(reply, "It is 18:48.") for reply in ("午後13時48分です。", "It is 6:48.", "Late.")]
    [False, True, None]

    Args:
        reply: The answer.
        text: A result.
        others: Other results, whose times tell nothing of this one.
    """
    told = {minutes for minutes, _ in list_clock_times(text)} - {minutes for minutes, _ in list_clock_times(others)}
    said = list_clock_times(reply)
    if not said or not 0 < len(told) <= _MAX_TIMES:
        return None
    near = {(minutes + late) % _DAY for minutes in told for late in range(-_MAX_LATE, _MAX_LATE + 1)}
    return any(minutes in near or (is_open and (minutes + _HALF_DAY) % _DAY in near) for minutes, is_open in said)
