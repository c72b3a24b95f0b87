"""Which time zone a city or zone name means. It needs no network: names come from the zone database.

The zone database names one city a zone; PLACES adds big cities it leaves out, and Japanese and Chinese names.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from zoneinfo import available_timezones

PLACES: dict[str, str] = {
    "utc": "UTC",
    "gmt": "UTC",
    "abuja": "Africa/Lagos",
    "ankara": "Europe/Istanbul",
    "atlanta": "America/New_York",
    "austin": "America/Chicago",
    "bangalore": "Asia/Kolkata",
    "barcelona": "Europe/Madrid",
    "beijing": "Asia/Shanghai",
    "bern": "Europe/Zurich",
    "boston": "America/New_York",
    "brasilia": "America/Sao_Paulo",
    "canberra": "Australia/Sydney",
    "cape town": "Africa/Johannesburg",
    "dallas": "America/Chicago",
    "delhi": "Asia/Kolkata",
    "frankfurt": "Europe/Berlin",
    "fukuoka": "Asia/Tokyo",
    "geneva": "Europe/Zurich",
    "guangzhou": "Asia/Shanghai",
    "hamburg": "Europe/Berlin",
    "hangzhou": "Asia/Shanghai",
    "hanoi": "Asia/Ho_Chi_Minh",
    "houston": "America/Chicago",
    "islamabad": "Asia/Karachi",
    "kyoto": "Asia/Tokyo",
    "marseille": "Europe/Paris",
    "miami": "America/New_York",
    "milan": "Europe/Rome",
    "montreal": "America/Toronto",
    "mumbai": "Asia/Kolkata",
    "munich": "Europe/Berlin",
    "nagoya": "Asia/Tokyo",
    "naples": "Europe/Rome",
    "new delhi": "Asia/Kolkata",
    "osaka": "Asia/Tokyo",
    "ottawa": "America/Toronto",
    "philadelphia": "America/New_York",
    "rio de janeiro": "America/Sao_Paulo",
    "saint petersburg": "Europe/Moscow",
    "san francisco": "America/Los_Angeles",
    "san diego": "America/Los_Angeles",
    "sapporo": "Asia/Tokyo",
    "seattle": "America/Los_Angeles",
    "shenzhen": "Asia/Shanghai",
    "washington": "America/New_York",
    "wellington": "Pacific/Auckland",
    "東京": "Asia/Tokyo",
    "大阪": "Asia/Tokyo",
    "京都": "Asia/Tokyo",
    "札幌": "Asia/Tokyo",
    "福岡": "Asia/Tokyo",
    "名古屋": "Asia/Tokyo",
    "日本": "Asia/Tokyo",
    "ロンドン": "Europe/London",
    "パリ": "Europe/Paris",
    "ベルリン": "Europe/Berlin",
    "ローマ": "Europe/Rome",
    "マドリード": "Europe/Madrid",
    "モスクワ": "Europe/Moscow",
    "ウィーン": "Europe/Vienna",
    "ニューヨーク": "America/New_York",
    "ロサンゼルス": "America/Los_Angeles",
    "サンフランシスコ": "America/Los_Angeles",
    "シカゴ": "America/Chicago",
    "トロント": "America/Toronto",
    "ホノルル": "Pacific/Honolulu",
    "シドニー": "Australia/Sydney",
    "メルボルン": "Australia/Melbourne",
    "シンガポール": "Asia/Singapore",
    "バンコク": "Asia/Bangkok",
    "ソウル": "Asia/Seoul",
    "台北": "Asia/Taipei",
    "香港": "Asia/Hong_Kong",
    "北京": "Asia/Shanghai",
    "上海": "Asia/Shanghai",
    "ドバイ": "Asia/Dubai",
    "カイロ": "Africa/Cairo",
    "デリー": "Asia/Kolkata",
    "伦敦": "Europe/London",
    "巴黎": "Europe/Paris",
    "柏林": "Europe/Berlin",
    "纽约": "America/New_York",
    "洛杉矶": "America/Los_Angeles",
    "东京": "Asia/Tokyo",
    "首尔": "Asia/Seoul",
    "新加坡": "Asia/Singapore",
    "悉尼": "Australia/Sydney",
    "深圳": "Asia/Shanghai",
    "广州": "Asia/Shanghai",
}


def find_zone(place: str) -> str | None:
    """The zone name for `Asia/Tokyo`, `tokyo`, `New York` or `東京`; None when no zone has that name."""
    wanted = normal(place)
    return zones_by_name().get(wanted) or PLACES.get(wanted)


def nearest_places(place: str) -> list[str]:
    """At most three names that look alike, for an error that helps."""
    known = {**zones_by_name(), **PLACES}
    return [name.title() for name in get_close_matches(normal(place), known, n=3)]


@cache
def zones_by_name() -> dict[str, str]:
    """Whole zone names and their last parts, in lower case with blanks. A whole name wins over a last part.

    Etc/GMT+9 is known by its whole name alone: it is nine hours behind, and nobody who says GMT+9 means that.
    """
    zones = sorted(zone for zone in available_timezones() if not zone.startswith(("posix", "right", "SystemV")))
    last_parts = {
        normal(zone.rpartition("/")[2]): zone for zone in reversed(zones) if "/" in zone[4 * zone.startswith("Etc/") :]
    }
    return {**last_parts, **{normal(zone): zone for zone in zones}}


def normal(place: str) -> str:
    return " ".join(place.replace("_", " ").lower().split())
