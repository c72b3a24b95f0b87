"""The measurements run by one command, as a table or as JSON, and say of each goal whether it was met."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import BENCHES, COUNTS, code_of
from bench.card import BEGIN, CARD, why_not
from bench.figures import Figure, Goal

ROOT = Path(__file__).parents[1]


def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.bench", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == code, done.stderr
    return done


def test_a_name_chooses_what_is_measured() -> None:
    (figure,) = json.loads(run("help", "--json").stdout)
    assert figure["what"] == "CPU of rkllm-chat --help"
    assert figure["ratio"] == figure["ours"] / figure["reference"]
    assert (figure["goal"], figure["met"]) == ("ours <= 0.2", figure["ours"] <= 0.2)


def test_the_table_has_a_line_for_each_figure() -> None:
    head, *lines = run("help").stdout.splitlines()
    assert head.split() == ["what", "ours", "reference", "ratio", "goal", "met"]
    assert [line.partition("  ")[0] for line in lines] == ["CPU of rkllm-chat --help"]


def test_all_are_listed_with_what_they_measure() -> None:
    lines = run("--list").stdout.splitlines()
    assert {"huge-result", "flood", "slow-starts", "slow-calls", "overhead"} <= {line.split()[0] for line in lines}
    assert [line for line in lines if len(line.split()) < 2] == []


def test_a_name_that_nothing_has_is_an_error_that_names_what_there_is() -> None:
    assert "slow-calls" in run("speed-of-light", code=2).stderr


def test_the_short_form_runs_only_what_counts() -> None:
    (figure,) = json.loads(run("--counts", "session", "--json").stdout)
    assert (figure["unit"], figure["met"]) == ("bytes", True)
    assert "overhead" in run("--list").stdout
    assert "overhead" not in run("--counts", "--list").stdout
    assert set(COUNTS) < set(BENCHES)


def test_the_short_form_fails_where_a_count_misses_its_goal() -> None:
    met, missed = Figure("x", 1.0, goal=Goal(1.0)), Figure("x", 1.1, goal=Goal(1.0))
    assert code_of([met, Figure("x", 9.0)]) == 0
    assert code_of([met, missed]) == 1


def test_without_llama_cpps_own_program_the_row_says_why_it_is_empty() -> None:
    row = Figure("speed", 29.0, "/s", None, "llama-bench", Goal(0.97, "ratio", least=True), "not measured: no cmake")
    assert row.is_met is None
    assert row.cells()[2:] == ("not measured: no cmake", "", "ratio >= 0.97", "")


def test_the_card_has_the_table_and_a_reason_for_each_goal_that_is_missed() -> None:
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
        (1.1, 1.0, Goal(1.2, "ratio"), True),
        (1.3, 1.0, Goal(1.2, "ratio"), False),
        (0.9, 1.0, Goal(0.97, "ratio", least=True), False),
        (0.98, 1.0, Goal(0.97, "ratio", least=True), True),
    ],
)
def test_a_goal_is_met_or_not(ours: float, reference: float | None, goal: Goal | None, is_met: bool | None) -> None:
    assert Figure("x", ours, reference=reference, goal=goal).is_met is is_met
