"""Values that a model writes otherwise than the question: dates, translated files, addresses.

A model does not know which day it is: "tomorrow" was written as a day of another year.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from pathlib import PurePosixPath
from typing import Any

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?=$|[T ])")
_WRITTEN = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
_DAYS: Mapping[str, int] = {
    **dict.fromkeys(("明々後日", "しあさって", "大后天"), 3),
    "大前天": -3,
    **dict.fromkeys(("day before yesterday", "一昨日", "おととい", "前天"), -2),
    **dict.fromkeys(("day after tomorrow", "明後日", "あさって", "后天"), 2),
    **dict.fromkeys(("yesterday", "昨日", "きのう", "昨天"), -1),
    **dict.fromkeys(("today", "tonight", "今日", "きょう", "今夜", "今天", "今晚"), 0),
    **dict.fromkeys(("tomorrow", "明日", "あした", "明天"), 1),
}
"""How a day is said from today on; those that contain another one come first."""
_SAID_DAY = re.compile("|".join(rf"\b{said}\b" if said.isascii() else said for said in _DAYS), re.IGNORECASE)
_WEEKDAYS = (
    "monday 月曜 周一 星期一 礼拜一",
    "tuesday 火曜 周二 星期二 礼拜二",
    "wednesday 水曜 周三 星期三 礼拜三",
    "thursday 木曜 周四 星期四 礼拜四",
    "friday 金曜 周五 星期五 礼拜五",
    "saturday 土曜 周六 星期六 礼拜六",
    "sunday 日曜 周日 周天 星期日 星期天 礼拜日 礼拜天",
)
_SAID_WEEKDAY = re.compile(
    r"(?<!every )(?<!毎週)(?<![每一])(?:(?P<last>\blast |先週の?|上个?)|(?P<next>\bnext )|(?P<week>来週の?|下个?))?(?:"
    + "|".join(
        rf"(?P<day{day}>\b{said.split()[0]}\b|{'|'.join(said.split()[1:])})" for day, said in enumerate(_WEEKDAYS)
    )
    + ")",
    re.IGNORECASE,
)
DAY_NAMES = ("date", "day")
"""Names of an argument that takes a day."""
_PAST = re.compile(r"\b(?:did|was|were|had)\b|ました|でした", re.IGNORECASE)
_MAX_DAYS_AWAY, _LATELY_DAYS = 366, 31
"""How far a day without a year may be, and for how long one that was is meant by who looks something up."""
_NOW = re.compile(r"(?:今|現在)の?(?=[ァ-ー]+$)")
"""A word for "now" before a name in katakana: "今ホノルル"."""
_END = re.compile(r"[?!.,;:)'\"]*")


def list_days(text: str, today: date) -> list[date]:
    """Return the days that a text names from today on, such as "tomorrow", and those of the week.

    A day of the week is the next one, today included, or the last one in a question about what was.

    >>> list_days("Book it for the day after tomorrow.", date(2026, 12, 30))
    [datetime.date(2027, 1, 1)]
    >>> [str(*list_days(text, date(2026, 11, 30))) for text in ("On Friday?", "Who was in on Friday?", "下周五")]
    ['2026-12-04', '2026-11-27', '2026-12-11']
    """
    days = [today + timedelta(_DAYS[said.casefold()]) for said in _SAID_DAY.findall(text)]
    return days + [_find_weekday(said, today, _PAST.search(text) is not None) for said in _SAID_WEEKDAY.finditer(text)]


def _find_weekday(said: re.Match[str], today: date, is_past: bool) -> date:
    """Return the day that the name of a day of the week means."""
    number = next(day for day in range(7) if said[f"day{day}"])
    ahead = (number - today.weekday()) % 7
    if said["week"]:
        return today + timedelta(7 - today.weekday() + number)
    if said["last"] or (is_past and not said["next"]):
        return today + timedelta(ahead - 7)
    return today + timedelta(ahead or (7 if said["next"] else 0))


def list_weekdays(text: str) -> set[str]:
    """Return the days of the week that a text names, and of the dates that it has, in English.

    >>> list_weekdays("on 2026-12-04"), list_weekdays("火曜は?")
    ({'friday'}, {'tuesday'})
    """
    named = (int(str(said.lastgroup).removeprefix("day")) for said in _SAID_WEEKDAY.finditer(text))
    found = {_WEEKDAYS[day].split()[0] for day in named}
    for year, month, day in _WRITTEN.findall(text):
        with suppress(ValueError):
            found.add(_WEEKDAYS[date(int(year), int(month), int(day)).weekday()].split()[0])
    return found


def is_date(value: object) -> bool:
    """Return whether a value is a date, or begins with one."""
    return isinstance(value, str) and _DATE.match(value) is not None


def drop_near_year(value: str, today: date) -> str:
    """Return a text without the year of the date with which it begins, if that is at most a year away.

    Who says "on 4 December" means such a day.

    >>> drop_near_year("2026-12-04T10:00", date(2026, 11, 29))
    '12-04T10:00'
    """
    written = _DATE.match(value)
    try:
        is_near = written and abs((date.fromisoformat(written[0]) - today).days) <= _MAX_DAYS_AWAY
    except ValueError:  # no date
        return value
    return value[value.index("-") + 1 :] if is_near else value


def write_as_said(
    arguments: Mapping[str, Any],
    question: str,
    known: str,
    found: str,
    places: Sequence[str],
    today: date,
    is_coming: bool,
) -> dict[str, Any]:
    """Return the arguments with the files and addresses of a question as they stand there, and with the days meant.

    "4 December" was written as 2023-12-04, 買い物.txt as "shopping.txt", ファイル a.txt as "file a.txt", an address
    with the question mark after it.

    Args:
        arguments: The arguments of a call.
        question: The question; the only day that it names from today on is that of a date, also of an earlier turn.
        known: What was said and looked up so far; another value in it is left as it is.
        found: What was looked up in this turn; a date in it is left as it is.
        places: The files and addresses that the question names.
        today: The date.
        is_coming: A day without a year is the next one, and not one of the last month.
    """
    return {
        name: _write_as_said(name, value, question, known, found, places, today, is_coming)
        if isinstance(value, str)
        else value
        for name, value in arguments.items()
    }


def _write_as_said(
    name: str, value: str, question: str, known: str, found: str, places: Sequence[str], today: date, is_coming: bool
) -> str:
    for place in places:
        is_named_so = value not in question and re.fullmatch(rf"\w+ {re.escape(place)}", value)  # "file plan.txt"
        if is_named_so or (value.startswith(place) and _END.fullmatch(value, len(place))):
            return place
    value = _NOW.sub("", value)
    days, written = {*list_days(question, today)}, _DATE.match(value)
    # the day of an earlier turn was written for "tomorrow", in figures or as "today"
    is_word = name in DAY_NAMES and _SAID_DAY.fullmatch(value)
    is_other_day = written or (is_word and days.isdisjoint(list_days(value, today)))
    if is_other_day and len(days) == 1 and value not in f"{question}\n{found}":
        (meant,) = map(str, days)
        if not written or int(written[3]) not in map(int, re.findall(r"\d+", question)):
            return meant + (value[written.end() :] if written else "")
    if weekday := _find_other_weekday(value, question):
        return weekday
    if value in known:
        return value
    if written:
        meant = written[0] if written[1] in known else _choose_year(written[0], today, is_coming)
        return meant + value[written.end() :]
    kind = PurePosixPath(value).suffix
    foreign = [place for place in places if not place.isascii() and PurePosixPath(place).suffix == kind]
    is_translated = kind and value.isascii() and not re.search(r"\s|://", value) and len(foreign) == 1
    return str(PurePosixPath(value).with_name(foreign[0])) if is_translated else value


def _find_other_weekday(value: str, question: str) -> str:
    """Return the only day of the week that a question names, if a value is another one, in its language; "" if not."""
    written = _SAID_WEEKDAY.fullmatch(value)
    said = {match.lastgroup: match for match in _SAID_WEEKDAY.finditer(question)}
    if not written or len(said) != 1 or written.lastgroup in said:
        return ""
    ((group, match),) = said.items()
    return _WEEKDAYS[int(str(group)[-1])].split()[0].capitalize() if value.isascii() else match[str(group)]


def _choose_year(value: str, today: date, is_coming: bool) -> str:
    """Return a date in the year in which it comes next, or was lately; itself if it is of this year, or later."""
    try:
        written = date.fromisoformat(value)
        if written.year >= today.year:
            return value
        days = [written.replace(year=today.year + years) for years in (-1, 0, 1)]
    except ValueError:  # no date, or 29 February
        return value
    first = today if is_coming else today - timedelta(_LATELY_DAYS)
    return str(next(day for day in days if day >= first))
