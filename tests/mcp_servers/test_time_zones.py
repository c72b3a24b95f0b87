"""Which time zone a place name means."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import available_timezones

import pytest

from rkllm_chat.mcp_servers.board.time_zones import (
    find_local_zone,
    find_similar_places,
    find_zone,
    normalize_name,
    read_places,
)


@pytest.mark.parametrize(
    ("place", "zone"),
    [
        ("asia/tokyo", "Asia/Tokyo"),
        (" tokyo\n", "Asia/Tokyo"),
        ("東京", "Asia/Tokyo"),
        ("Osaka", "Asia/Tokyo"),
        ("NEW  YORK", "America/New_York"),
        ("倫敦", "Europe/London"),
        ("Buenos Aires", "America/Argentina/Buenos_Aires"),
        ("UTC", "UTC"),
        ("Lyon", "Europe/Paris"),
        ("München", "Europe/Berlin"),
        ("Manchester", "Europe/London"),
        ("Taipeh", "Asia/Taipei"),
        ("里昂", "Europe/Paris"),
        ("Genf", "Europe/Zurich"),
        ("Göteborg", "Europe/Stockholm"),
        ("Den Haag", "Europe/Amsterdam"),
        ("Firenze", "Europe/Rome"),
        ("Lisboa", "Europe/Lisbon"),
        ("Nürnberg", "Europe/Berlin"),
        ("NYC", "America/New_York"),
        ("서울", "Asia/Seoul"),
        ("Germany", "Europe/Berlin"),
        ("UK", "Europe/London"),
        ("PST", "America/Los_Angeles"),
        ("JST", "Asia/Tokyo"),
        ("Paris, France", "Europe/Paris"),
        ("tokyo japan", "Asia/Tokyo"),
        ("Austin, Texas", "America/Chicago"),
        ("Sydney, Australia", "Australia/Sydney"),
    ],
)
def test_a_place_has_its_zone(place: str, zone: str) -> None:
    assert find_zone(place) == zone


def test_a_question_without_a_place_is_about_the_zone_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert [find_zone(place) for place in ("local", "Local_Time", "here")] == ["Asia/Tokyo"] * 3
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/Europe/Oslo")
    assert [find_local_zone(setting, link) for setting in ("", ":Asia/Tokyo", "JST-9")] == [
        "Europe/Oslo",
        "Asia/Tokyo",
        "Europe/Oslo",
    ]
    assert find_local_zone("", tmp_path) is None


@pytest.mark.parametrize("place", ["", "Atlantis", "posix/Asia/Tokyo", "../Asia/Tokyo", "Paris, Texas", "USA", "CST"])
def test_an_unknown_place_has_no_zone(place: str) -> None:
    assert find_zone(place) is None


def test_every_place_of_the_file_is_normalized_and_has_a_zone() -> None:
    assert [place for place in read_places() if normalize_name(place) != place] == []
    assert set(read_places().values()) - available_timezones() == set()


def test_near_names_are_suggested() -> None:
    assert find_similar_places("Toyko")[0] == "Tokyo"
    assert [find_similar_places(place) for place in ("Lyonn", "xyzzy", "Lugo")] == [[], [], []]


def test_gmt_offsets_are_not_read_with_the_posix_sign() -> None:
    # POSIX turns the sign around: Etc/GMT+9 is nine hours behind
    assert find_zone("gmt+9") != "Etc/GMT+9"
    assert find_zone("Etc/GMT+9") == "Etc/GMT+9"
