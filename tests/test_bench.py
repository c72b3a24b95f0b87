"""One command measures, prints a table or JSON, and compares each figure with its goal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.__main__ import BENCHES, COUNTS, LONG, code_of, main
from bench.card import BEGIN, CARD, why_not
from bench.figures import Figure, Goal
from rkllm_chat.mcp_client.process.start import SANDBOX_VARIABLE

ROOT = Path(__file__).parents[1]


Print = Callable[..., str]


@pytest.fixture
def bench(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Print:
    """Runs the command in this process; gives what it prints."""
    monkeypatch.setenv(SANDBOX_VARIABLE, "off")  # it sets it, too

    def run(*arguments: str) -> str:
        assert main(arguments) == 0
        return capfd.readouterr().out

    return run


@pytest.mark.slow
def test_a_name_chooses_a_figure_as_json_or_in_a_table(bench: Print) -> None:
    (figure,) = json.loads(bench("help", "--json"))
    assert figure["what"] == "CPU of rkllm-chat --help"
    assert figure["ratio"] == figure["ours"] / figure["reference"]
    assert (figure["goal"], figure["met"]) == ("ours <= 0.2", figure["ours"] <= 0.2)
    head, *lines = bench("help").splitlines()
    assert head.split() == ["what", "ours", "reference", "ratio", "goal", "met"]
    assert [line.partition("  ")[0] for line in lines] == ["CPU of rkllm-chat --help"]


def test_all_benches_are_listed_with_a_description(bench: Print) -> None:
    lines = bench("--list").splitlines()
    assert [line.split()[0] for line in lines] == [*BENCHES, *LONG]
    assert [line for line in lines if len(line.split()) < 2] == []


def test_an_unknown_name_is_an_error_that_lists_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["speed-of-light"])
    assert "slow-calls" in capsys.readouterr().err


def test_counts_are_some_of_the_benches(bench: Print) -> None:
    assert [line.split()[0] for line in bench("--counts", "--list").splitlines()] == list(COUNTS)
    assert set(COUNTS) < set(BENCHES)


def test_the_exit_code_is_1_where_a_count_misses_its_goal() -> None:
    met, missed = Figure("x", 1.0, goal=Goal(1.0)), Figure("x", 1.1, goal=Goal(1.0))
    assert code_of([met, Figure("x", 9.0)]) == 0
    assert code_of([met, missed]) == 1


def test_a_row_without_reference_says_why() -> None:
    row = Figure("speed", 29.0, "/s", None, "llama-bench", Goal(0.97, "ratio", least=True), "not measured: no cmake")
    assert row.is_met is None
    assert row.cells()[2:] == ("not measured: no cmake", "", "ratio >= 0.97", "")


def test_the_card_has_a_reason_for_each_missed_goal() -> None:
    head, _, written = CARD.read_text(encoding="utf-8").partition(BEGIN)
    assert "--write" in head
    lines = [line for line in written.splitlines() if line.endswith("  NO")]
    assert "".join(written.splitlines()[-1 - len(lines) :]).count("- **") == len(lines)
    assert "no reason is known" not in written
    assert why_not([Figure("chat turn, x", 2.0, goal=Goal(1.0))], 0)[1].startswith("- **chat turn, x** (ours <= 1): ")


@pytest.mark.parametrize(
    ("ours", "reference", "goal", "is_met"),
    [
        (1.0, None, None, None),
        (1.0, None, Goal(1.0), True),
        (1.1, None, Goal(1.0), False),
        (1.3, 1.0, Goal(1.2, "ratio"), False),
        (0.9, 1.0, Goal(0.97, "ratio", least=True), False),
        (0.98, 1.0, Goal(0.97, "ratio", least=True), True),
    ],
)
def test_a_figure_is_compared_with_its_goal(
    ours: float, reference: float | None, goal: Goal | None, is_met: bool | None
) -> None:
    assert Figure("x", ours, reference=reference, goal=goal).is_met is is_met
