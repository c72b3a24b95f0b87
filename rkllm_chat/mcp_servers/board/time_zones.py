"""Find the time zone of a city, country or zone name, offline.

The zone database names about one city per zone; the file of places adds large cities that it lacks and Japanese and
Chinese names of cities and countries. A country has the zone of its capital.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from pathlib import Path
from zoneinfo import available_timezones

_PLACES = Path(__file__).with_name("places.txt")


def find_zone(place: str) -> str | None:
    """Return the zone of `Asia/Tokyo`, `tokyo`, `New York` or `東京`; None if unknown."""
    wanted = normalize_name(place)
    return _zones_by_name().get(wanted) or read_places().get(wanted)


def find_similar_places(place: str) -> list[str]:
    """Return at most three similar names, for error messages."""
    known = {**_zones_by_name(), **read_places()}
    return [name.title() for name in get_close_matches(normalize_name(place), known, n=3)]


@cache
def read_places() -> dict[str, str]:
    """Return the zones of the file of places by normalized name."""
    rows = [line.split(": ") for line in _PLACES.read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    return {place: zone for zone, places in rows for place in places.split(", ")}


@cache
def _zones_by_name() -> dict[str, str]:
    """Return zones by normalized full name and by last part; full names take precedence.

    Etc/GMT+9 has no entry for its last part: the zone is nine hours behind UTC, the opposite of the usual meaning.
    """
    zones = sorted(zone for zone in available_timezones() if not zone.startswith(("posix", "right", "SystemV")))
    last_parts = {
        normalize_name(zone.rpartition("/")[2]): zone
        for zone in reversed(zones)
        if "/" in zone[4 * zone.startswith("Etc/") :]
    }
    return {**last_parts, **{normalize_name(zone): zone for zone in zones}}


def normalize_name(place: str) -> str:
    """Normalize a name: lower case, single spaces instead of underscores."""
    return " ".join(place.replace("_", " ").lower().split())
