"""What is too long, too much or too often is cut or refused, soon, and the client does not grow with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpu_time import SLACK, allow_s
from rkllm_chat.core.messages import ToolResult

from .chaos_sizes import FLOOD_VARIABLE
from .faults import Trial, assert_one_line, measure, measure_each, try_mode

MOST_GROWTH_MB = 32
HELD_GROWTH_MB = 48
"""Of what is within the limit of 4 MB and becomes objects for a while: 36 MB on Python 3.10, 31 on 3.11."""
FLOOD = "10000"


def assert_bounded(measured: dict[str, Any], limit_s: float, most_mb: float = MOST_GROWTH_MB) -> None:
    """It took no longer, other processes aside; the client did not grow, and both servers answered afterwards."""
    assert measured["unloaded_s"] <= limit_s
    assert measured["growth_mb"] <= most_mb
    assert measured["after"] == ["still here", "still here"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "modes",
    [
        {"huge-result": "xxx\n[The result was cut: it has 95 MB, the limit is 4 MB.]"},
        {"huge-image": "[image: cut, not shown]\n[The result was cut: it has 25 MB, the limit is 4 MB.]"},
    ],
    ids="/".join,
)
def test_a_result_beyond_the_limit_is_cut_and_not_held(modes: dict[str, str], tmp_path: Path) -> None:
    for mode, measured in measure_each(tmp_path, *modes).items():
        assert (measured["status"], measured["text"].endswith(modes[mode])) == ("completed", True)
        assert_bounded(measured, 2 * SLACK, HELD_GROWTH_MB)


@pytest.mark.slow
def test_what_is_no_result_is_refused_beyond_the_limit(tmp_path: Path) -> None:
    modes = {"endless-line": "sent more than 128 MB on one line", "huge-error": "no no"}
    for mode, measured in measure_each(tmp_path, *modes).items():
        assert measured["status"] == "failed" and modes[mode] in measured["text"]
        assert_one_line(measured["text"], mode)
        assert_bounded(measured, 2 * SLACK)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("large-result", "xxxx"),
        ("huge-blocks", "x\nx\n"),
        ("large-image", "[image/png, 2000000 bytes, not shown]"),
        ("huge-structured", '{"rows": [0, 1,'),
    ],
)
def test_a_large_result_within_the_limit_comes_whole_and_the_client_stays_small(
    mode: str, text: str, tmp_path: Path
) -> None:
    measured = measure(mode, tmp_path)
    assert measured["status"] == "completed"
    assert measured["text"].startswith(text)
    assert_bounded(measured, 2 * SLACK, HELD_GROWTH_MB)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "most_parsings"),
    [
        ("notifications-flood", 20),
        ("progress-flood", 20),
        ("server-request-flood", 90),
        ("stderr-flood", 90),
        ("stderr-noline", 90),
        ("list-changed-flood", 20),
        ("list-crowd", 20),
        ("list-heavy", 20),
    ],
)
def test_a_flood_does_not_delay_the_answer_and_the_log_of_it_has_a_limit(
    mode: str, most_parsings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FLOOD_VARIABLE, FLOOD)
    measured = measure(mode, tmp_path)
    assert (measured["status"], measured["text"]) == ("completed", "act is done")
    most_mb = HELD_GROWTH_MB if mode.startswith("list-") else MOST_GROWTH_MB
    assert_bounded(measured, most_parsings * measured["parsing_s"], most_mb)
    assert (tmp_path / "logs" / f"{mode}.log").stat().st_size <= 1_100_000


def test_reports_of_progress_are_thinned_out_and_the_last_one_is_told(tmp_path: Path) -> None:
    reports: list[float] = []

    async def go(trial: Trial) -> ToolResult:
        return await trial.toolbox.call(trial.tool("act"), {}, lambda done, *_: reports.append(done))

    result = try_mode(tmp_path, "progress-flood", go, env={FLOOD_VARIABLE: FLOOD})
    assert result.status == "completed"
    assert 1 <= len(reports) <= 4 * result.seconds + 2
    assert reports[-1] == 2


def test_every_request_of_a_server_is_answered_and_tells_nothing(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, list[dict[str, Any]]]:
        return await trial.act(), [answer for entry in trial.events("answers") for answer in entry["answers"]]

    result, answers = try_mode(tmp_path, "server-request", go)
    assert (result.status, result.text) == ("completed", "unanswered: 0")
    assert result.seconds <= allow_s(1)
    by_id = {answer["id"]: answer for answer in answers}
    for refused in ("ask-0", "ask-1", "ask-2", "ask-3"):
        answer = by_id[refused]
        assert answer.get("error", {}).get("code") in (-32601, -32600) or answer["result"] == {"action": "decline"}
    assert by_id["ask-4"]["result"] == {}
    assert "password" not in json.dumps(by_id["ask-2"])
