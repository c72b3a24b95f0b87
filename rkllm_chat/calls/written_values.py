"""Values that a model writes otherwise than the question: dates with a wrong year, translated files, addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import PurePosixPath
from typing import Any

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_END = re.compile(r"[?!.,;:)'\"]*")


def write_as_said(arguments: Mapping[str, Any], known: str, places: Sequence[str], today: date) -> dict[str, Any]:
    """Return the arguments with the files and addresses of a question as they stand there, and with the year meant.

    "4 December" was written as 2023-12-04, 買い物.txt as "shopping.txt", an address with the question mark after it.

    Args:
        arguments: The arguments of a call.
        known: What was said and looked up so far; a value in it is left as it is.
        places: The files and addresses that the question names.
        today: The date; a day without a year is the next one.
    """
    return {
        name: _write_as_said(value, known, places, today) if isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _write_as_said(value: str, known: str, places: Sequence[str], today: date) -> str:
    for place in places:
        if value.startswith(place) and _END.fullmatch(value, len(place)):
            return place
    if value in known:
        return value
    if written := _DATE.fullmatch(value):
        return value if written[1] in known else _find_next_day(value, today)
    kind = PurePosixPath(value).suffix
    foreign = [place for place in places if not place.isascii() and PurePosixPath(place).suffix == kind]
    is_translated = kind and value.isascii() and not re.search(r"\s|://", value) and len(foreign) == 1
    return str(PurePosixPath(value).with_name(foreign[0])) if is_translated else value


def _find_next_day(value: str, today: date) -> str:
    """Return a date in the year in which it comes next; itself if it is no date, or in this year or later."""
    try:
        written = date.fromisoformat(value)
        if written.year >= today.year:
            return value
        this_year = written.replace(year=today.year)
        return str(this_year if this_year >= today else written.replace(year=today.year + 1))
    except ValueError:  # no date, or 29 February
        return value
