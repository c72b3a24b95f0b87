"""A short chat with faulty servers: every turn ends, nothing accumulates. `tests.bench soak` is a long one."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.soak import MODES, run_soak


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_faults_leave_no_turn_no_file_and_no_process_open() -> None:
    modes, faults = MODES[:5], 10
    result = run_soak(modes, faults, every_s=0)
    assert result.turns == 2 * faults + 3
    assert result.ended == Counter(answered=result.turns)
    assert result.faults.total() == faults
    # bytes that are no UTF-8 are replaced, and a result beyond the limit is cut: both are results
    assert result.faults["failed"] >= faults * 3 // 5
    assert result.answers == Counter(completed=faults + 3 * (len(modes) + 1))
    assert len({(sample.files, sample.processes) for sample in result.rest}) == 1
    assert result.rest[-1].processes >= len(modes) + 2  # the program, the healthy server
    assert (result.left, result.code) == (0, 0)
