"""Find the time zone of a city, country or zone name, offline.

The zone database names about one city per zone. The file of places adds capitals, and Japanese and Chinese names of
cities and countries; a country has the zone of its capital. The file of cities adds those of 200,000 inhabitants and
more.
"""

from __future__ import annotations

import os
import re
from datetime import datetime, timezone
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from unicodedata import normalize
from zoneinfo import ZoneInfo, available_timezones

_PLACES, _CITIES = (Path(__file__).with_name(name) for name in ("places.txt", "cities.txt"))
_MIN_SIMILARITY = 0.9
"""How similar a name must be to be asked about. Less similar ones made models answer with the time of another city:
Lyon was not known, and London was the third that was named.
"""
_HERE = frozenset(("here", "local", "local time", "localtime", "now", "today", "current", "current location"))
"""What models ask for where a question names no place."""
_STATES = """alabama arizona arkansas california colorado connecticut florida georgia idaho illinois indiana iowa kansas
kentucky louisiana maine maryland massachusetts michigan minnesota mississippi missouri montana nebraska nevada ohio
oklahoma oregon pennsylvania tennessee texas utah vermont virginia washington wisconsin wyoming"""
_CONTINENTS: dict[str, str | tuple[str, ...]] = {
    **dict.fromkeys(
        [*_STATES.split(), "usa", "us", "america", "canada", "brazil", "brasil", "mexico", "chile"], "America/"
    ),
    "australia": "Australia/",
    "indonesia": "Asia/",
    "russia": ("Europe/", "Asia/"),
}
"""Countries, and states of the USA, that have several zones -> how the names of these begin."""
_JOINED = re.compile(r"[,;&、，；]|\band\b|[と和]")
"""What stands between several places."""
_ACCENTS = dict.fromkeys(range(0x300, 0x370))


def find_zone(place: str) -> str | None:
    """Return the zone of `Asia/Tokyo`, `tokyo`, `New York` or `東京`, of this machine for `local`; None if unknown."""
    wanted = normalize_name(place)
    if wanted in _HERE:
        return find_local_zone(os.environ.get("TZ", ""), Path("/etc/localtime"))
    return _look_up(wanted) or _find_in_country(wanted)


def find_zones(places: str) -> dict[str, str]:
    """Return the zone of each place of `Tokyo and London` or `東京、ロンドン`; none if one of them is unknown."""
    zones = {place.strip(): find_zone(place) for place in _JOINED.split(places)}
    found = {place: zone for place, zone in zones.items() if zone}
    return found if len(found) == len(zones) > 1 else {}


def _look_up(name: str) -> str | None:
    return _zones_by_name().get(name) or read_places().get(name) or _read_cities().get(name)


def _find_in_country(name: str) -> str | None:
    """Return the zone of `paris, france` or `austin texas`; None unless the country has that zone, or the same time."""
    city, separator, country = name.rpartition(",")
    if not separator:
        city, _, country = name.rpartition(" ")
    zone, of_country = _look_up(city.strip()), _look_up(country.strip())
    if zone is None or zone.startswith(_CONTINENTS.get(country.strip(), "-")):
        return zone
    now = datetime.now(timezone.utc)
    is_same = (
        of_country and now.astimezone(ZoneInfo(zone)).utcoffset() == now.astimezone(ZoneInfo(of_country)).utcoffset()
    )
    return zone if is_same else None


def find_local_zone(setting: str, link: Path) -> str | None:
    """Return the zone of a machine by its variable TZ, or else by what its file of the local time links to."""
    linked = str(link.resolve()).partition("/zoneinfo/")[2]
    return next((zone for zone in (setting.lstrip(":"), linked) if zone in available_timezones()), None)


def find_similar_places(place: str) -> list[str]:
    """Return at most two names that are spelled nearly so, for error messages."""
    known, wanted = {**_zones_by_name(), **read_places()}, normalize_name(place)
    swapped = [name for name in known if sorted(name) == sorted(wanted)]  # Toyko
    near = [*swapped, *get_close_matches(wanted, known, 2, _MIN_SIMILARITY)]
    return [name.title() for name in dict.fromkeys(near)][:2]


@cache
def read_places() -> dict[str, str]:
    """Return the zones of the file of places by normalized name."""
    return _read_names(_PLACES)


@cache
def _read_cities() -> dict[str, str]:
    return _read_names(_CITIES)


def _read_names(path: Path) -> dict[str, str]:
    """Return the zones of the names in a file with rows of a zone and its places."""
    rows = [line.split(": ") for line in path.read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
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
    """Normalize a name: lower case, without accents, single spaces instead of underscores and hyphens.

    >>> normalize_name("São_Paulo"), normalize_name("Saint-Étienne")
    ('sao paulo', 'saint etienne')
    """
    plain = normalize("NFC", normalize("NFD", place).translate(_ACCENTS))
    return " ".join(plain.replace("_", " ").replace("-", " ").lower().split())
