"""Which zone a place means."""

from __future__ import annotations

from zoneinfo import available_timezones

import pytest

from rkllm_chat.bundled.board.places import PLACES, find_zone, nearest_places, normal


@pytest.mark.parametrize(
    ("place", "zone"),
    [
        ("Asia/Tokyo", "Asia/Tokyo"),
        ("asia/tokyo", "Asia/Tokyo"),
        ("Tokyo", "Asia/Tokyo"),
        (" tokyo\n", "Asia/Tokyo"),
        ("東京", "Asia/Tokyo"),
        ("Osaka", "Asia/Tokyo"),
        ("New York", "America/New_York"),
        ("New_York", "America/New_York"),
        ("NEW  YORK", "America/New_York"),
        ("San Francisco", "America/Los_Angeles"),
        ("Berlin", "Europe/Berlin"),
        ("ベルリン", "Europe/Berlin"),
        ("伦敦", "Europe/London"),
        ("莫斯科", "Europe/Moscow"),
        ("倫敦", "Europe/London"),
        ("ヘルシンキ", "Europe/Helsinki"),
        ("Buenos Aires", "America/Argentina/Buenos_Aires"),
        ("UTC", "UTC"),
        ("utc", "UTC"),
    ],
)
def test_a_place_means_its_zone(place: str, zone: str) -> None:
    assert find_zone(place) == zone


@pytest.mark.parametrize("place", ["", " ", "Atlantis", "posix/Asia/Tokyo", "../Asia/Tokyo", "/etc/localtime"])
def test_anything_else_means_no_zone(place: str) -> None:
    assert find_zone(place) is None


def test_every_place_of_the_table_is_spelled_as_it_is_looked_up_and_has_a_zone() -> None:
    assert [place for place in PLACES if normal(place) != place] == []
    assert set(PLACES.values()) - available_timezones() == set()


def test_the_nearest_places_help_with_a_slip() -> None:
    assert nearest_places("Toyko")[0] == "Tokyo"
    assert len(nearest_places("Toyko")) <= 3
    assert nearest_places("xyzzy") == []


@pytest.mark.parametrize("place", ["GMT+9", "gmt+9"])
def test_hours_ahead_of_gmt_are_not_read_as_hours_behind(place: str) -> None:
    # POSIX turns the sign around: Etc/GMT+9 is nine hours behind
    assert find_zone(place) != "Etc/GMT+9"
    assert find_zone("Etc/GMT+9") == "Etc/GMT+9"
