"""Figures that are kept from one start to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from rkllm_chat.measured import MOST, Measured


def test_a_figure_is_there_the_next_time(tmp_path: Path) -> None:
    Measured(tmp_path / "measured.json").note("load", "模型.gguf", 12.3456)
    assert Measured(tmp_path / "measured.json").get("load", "模型.gguf") == 12.346
    assert Measured(tmp_path / "measured.json").get("load", "other.gguf") == 0
    assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [("measured.json", 0o600)]


def test_the_oldest_figures_are_forgotten(tmp_path: Path) -> None:
    measured = Measured(tmp_path / "measured.json")
    for number in range(MOST + 1):
        measured.note("load", str(number), number + 1)
    assert (measured.get("load", "0"), measured.get("load", "1")) == (0, 2)


@pytest.mark.parametrize("text", ["", "[1]", '{"load x": "soon"}', '{"load x": -1}', "[" * 100_000])
def test_a_damaged_file_is_as_good_as_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    path.write_text(text, encoding="utf-8")
    assert Measured(path).get("load", "x") == 0
    Measured(path).note("load", "x", 2)
    assert Measured(path).get("load", "x") == 2


def test_a_folder_that_is_not_there_is_no_trouble(tmp_path: Path) -> None:
    Measured(tmp_path / "gone" / "measured.json").note("load", "x", 2)
    assert Measured(tmp_path / "gone" / "measured.json").get("load", "x") == 0
