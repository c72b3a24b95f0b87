"""Servers that misbehave over HTTP end `call-tool`, `mcp-tool` and `-p` in time, and the same way.

`RKLLM_CHAT_FUZZ=1` tries every mode instead of a dozen; `python -m mcp_client.outcomes --sites` prints the outcomes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzzing import BUDGET

from .chaos_http import HTTP_MODES
from .outcomes import Stand, eras_of, find_differences, run_site

DOZEN = (
    *("ok", "start-503", "start-html", "start-trickle-header", "call-401", "call-302", "call-no-http", "call-short"),
    *("call-bad-chunk", "call-trickle-trailers", "call-open-event", "call-bomb"),
)


@pytest.mark.slow
@pytest.mark.parametrize("mode", HTTP_MODES if BUDGET else DOZEN)
def test_any_site_gives_a_documented_outcome_which_is_the_same_through_three_commands(
    mode: str, environment: dict[str, str], folder: Path
) -> None:
    stand = Stand(folder, environment)
    eras = eras_of(mode) if BUDGET else ("handshake",)
    outcomes = {era: run_site(stand, mode, era, timeout_s=3.0) for era in eras}
    assert [fault for one in outcomes.values() for fault in find_differences(one)] == [], outcomes
