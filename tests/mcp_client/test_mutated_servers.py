"""Servers whose answers are damaged at random: each command ends in time, with an outcome that is documented.

`RKLLM_CHAT_FUZZ=2000` tries as many; `python -m mcp_client.outcomes --seeds 0:2000` in tests/ prints figures as well.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzzing import examples

from .outcomes import Stand, choose_command

PART = 10
"""Seeds in one test, so that they are spread over the processes."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(examples(60) // PART))
def test_any_damaged_answer_gives_a_documented_outcome(part: int, environment: dict[str, str], folder: Path) -> None:
    stand = Stand(folder, environment)
    found = {}
    for seed in range(part * PART, (part + 1) * PART):
        stand.use_mutated(seed, timeout_s=0.5)
        if faults := (outcome := stand.run(choose_command(seed))).faults:
            found[seed] = (outcome.command, faults, outcome.text[:300])
    assert found == {}
