"""A short talk beside servers that misbehave: every turn ends, nothing piles up. `tests.bench soak` is a long one."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.soak import MODES, talk_beside


@pytest.mark.timeout(120)
def test_faults_in_every_other_turn_leave_no_turn_open_no_file_and_no_process() -> None:
    modes, faults = MODES[:5], 10
    talk = talk_beside(modes, faults, every_s=0)
    assert talk.turns == 2 * faults + 3
    assert talk.ended == Counter(answered=talk.turns)
    assert talk.faults.total() == faults
    assert talk.faults["failed"] >= faults * 4 // 5
    assert talk.answers == Counter(completed=faults + 3 * (len(modes) + 1))
    assert len({(sample.files, sample.processes) for sample in talk.rest}) == 1
    assert talk.rest[-1].processes >= len(modes) + 2  # the program, the healthy server
    assert (talk.left, talk.code) == (0, 0)
