"""Time zones that a model names by their city alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from zoneinfo import available_timezones

_PARAMETER = re.compile(r"(?:\w+_)?(?:time_?zone|tz)", re.IGNORECASE)


def write_time_zones(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with the names of time zones where they have a city alone, or in another region.

    Servers reject both.

    >>> write_time_zones({"timezone": "Auckland"}), write_time_zones({"timezone": "America/Sydney"})
    ({'timezone': 'Pacific/Auckland'}, {'timezone': 'Australia/Sydney'})
    """
    return {
        name: _find_zone(value) if isinstance(value, str) and _PARAMETER.fullmatch(name) else value
        for name, value in arguments.items()
    }


def is_time_zone(name: str, value: object) -> bool:
    """Return whether an argument is a time zone by its name and its value: which one a place has, a model may know."""
    return _PARAMETER.fullmatch(name) is not None and value in _list_zones()


def _find_zone(value: str) -> str:
    """Return the name of the zone of a city; the value itself if it is a zone, or no zone is named after its city."""
    zones, city = _list_zones(), value.strip().rpartition("/")[2].replace(" ", "_").casefold()
    named = [zone for zone in zones if zone.rpartition("/")[2].casefold() == city]
    return value if value in zones else min(named, key=len, default=value)


@cache
def _list_zones() -> list[str]:
    """Return the names of all zones, sorted; Python reads them from the disk each time."""
    return sorted(available_timezones())
