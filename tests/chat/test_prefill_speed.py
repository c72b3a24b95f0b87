"""How long a machine takes to prefill, estimated from its last measurements."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rkllm_chat.chat.prefill import MAX_SAMPLES, PrefillSpeed
from rkllm_chat.core.events import Usage
from rkllm_chat.storage.local_statistics import Measurements

PUBLISHED = ((1024, 15.0), (4096, 71.0), (8192, 226.0))
"""Tokens and seconds of Qwen3-1.7B on an RK3588."""

Machine = Callable[[int, int], float]


def record(speed: PrefillSpeed, new: int, cached: int, seconds: float) -> None:
    speed.record(Usage(cached + new, cached, new, 5, prefill_s=seconds))


def machines(count: int = 40) -> Iterator[tuple[Machine, int]]:
    """From small models on fast machines to large ones on slow boards, always the same, each with a seed."""
    for seed in range(count):
        chance = random.Random(seed)
        each = 10 ** chance.uniform(-4, -1.5)
        back = each * 10 ** chance.uniform(-5, -3)
        yield partial(time_of, each * chance.choice([0, 50, 300]), each, back), seed


def time_of(start: float, each: float, back: float, new: int, cached: int) -> float:
    return start + each * new + back * new * (cached + new / 2)


def measure(machine: Machine, seed: int, busy: int = 0) -> PrefillSpeed:
    """Measure 40 replies, each within a tenth of its true time; one in `busy` takes tenfold."""
    chance, speed, cached = random.Random(seed), PrefillSpeed(), 0
    for number in range(40):
        new = chance.choice([8, 30, 30, 60, 200, 600, 2000])
        cached = 0 if cached + new > 8000 else cached
        slow = 10 if busy and number % busy == busy - 1 else 1
        record(speed, new, cached, machine(new, cached) * chance.uniform(0.9, 1.1) * slow)
        cached += new
    return speed


def error_of(expected_s: float, true_s: float) -> float:
    """How many times too much or too little."""
    return max(expected_s / true_s, true_s / expected_s)


def test_one_measurement_is_enough_for_an_estimate_and_none_gives_none() -> None:
    assert (PrefillSpeed().estimate_s(1000, 500), PrefillSpeed().tokens_per_s(0)) == (0.0, 0.0)
    speed = PrefillSpeed()
    record(speed, 0, 300, 0.0)  # a reply that was stopped
    assert speed.sample_count == 0
    record(speed, 200, 0, 2.0)
    assert [speed.estimate_s(new) for new in (-1, 0, 100, 200, 1000)] == [0.0, 0.0, 1.0, 2.0, 10.0]
    assert (speed.tokens_per_s(0), speed.sample_count) == (100, 1)


def test_the_speed_is_that_of_prompts_of_similar_length() -> None:
    speed = PrefillSpeed()
    for _ in range(3):
        for new, seconds in PUBLISHED:
            record(speed, new, 0, seconds)
    for new, seconds in PUBLISHED:
        assert speed.estimate_s(new) == pytest.approx(seconds)
    record(speed, 1024, 7168, 60.0)
    record(speed, 1024, 7168, 60.0)
    assert speed.estimate_s(1024, 7168) == pytest.approx(60)  # the same tokens take longer after many
    assert speed.estimate_s(1024) == pytest.approx(15)


def test_short_prefills_say_nothing_of_a_long_one_and_do_not_displace_it() -> None:
    speed = PrefillSpeed()
    record(speed, 12, 300, 6.0)
    assert (speed.estimate_s(12, 300), speed.estimate_s(900), speed.tokens_per_s(300)) == (6.0, 0.0, 0.0)
    record(speed, 300, 0, 10.0)
    for cached in range(2 * MAX_SAMPLES):
        record(speed, 12, cached, 6.0)
    assert (speed.estimate_s(12, 300), speed.estimate_s(900)) == (6.0, 30.0)


@pytest.mark.parametrize(
    ("busy", "worst", "typical"), [(0, 3, 1.6), (6, 15, 2)], ids=["idle", "busy for one measurement in six"]
)
def test_after_a_conversation_nine_of_ten_estimates_are_within_the_stated_factor(
    busy: int, worst: float, typical: float
) -> None:
    errors = [
        error_of(speed.estimate_s(new, cached), machine(new, cached))
        for machine, seed in machines()
        for speed in [measure(machine, seed, busy=busy)]
        for new, cached in ((20, 0), (20, 4000), (300, 1000), (2000, 0), (2000, 4000))
    ]
    assert max(errors) < worst and quantiles(errors, n=10)[-1] < typical


@pytest.mark.parametrize("change", [0.25, 4])
def test_a_change_of_speed_counts_after_two_measurements_and_a_single_one_does_not(change: float) -> None:
    for machine, seed in machines():
        speed = measure(machine, seed)
        for cached in (100, 140, 180):  # a long conversation has more than three messages of a size
            record(speed, 40, cached, machine(40, cached))
        record(speed, 40, 220, change * machine(40, 220))
        assert error_of(speed.estimate_s(40, 260), machine(40, 260)) < 1.5
        record(speed, 40, 260, change * machine(40, 260))
        assert error_of(speed.estimate_s(40, 300), change * machine(40, 300)) < 1.5


def test_each_model_has_its_own_speed_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    for seconds in range(1, MAX_SAMPLES + 2):
        record(PrefillSpeed("one.gguf", Measurements(path)), 100, 100, seconds)
    Measurements(path).record_figure("load", "one.gguf", 3)
    again = PrefillSpeed("one.gguf", Measurements(path))
    assert (again.sample_count, again.estimate_s(100, 100)) == (MAX_SAMPLES, MAX_SAMPLES)
    assert PrefillSpeed("other.gguf", Measurements(path)).sample_count == 0
    rows = json.loads(path.read_text(encoding="utf-8"))["read one.gguf"]
    assert rows == [[100, 100, seconds] for seconds in range(2, MAX_SAMPLES + 2)]


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400),
        lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(max_size=3), parts, max_size=3),
    )
)
def test_a_file_that_was_altered_is_no_error(value: object) -> None:
    rows = [value, [200, 0, value], [200, value, 2.0], [200, 0, 2.0]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measured.json"
        path.write_text(json.dumps({"read one.gguf": rows}), encoding="utf-8")
        speed = PrefillSpeed("one.gguf", Measurements(path))
    assert 1 <= speed.sample_count <= len(rows)
    assert speed.estimate_s(200) > 0


@pytest.mark.parametrize("stored", [None, 3.5, {}, "x", [[1, 2]], [[0, 0, 1]], [[100, 0, -1]], [[1, 0, "3"]]])
def test_a_damaged_file_has_no_measurements(stored: object, tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    path.write_text(json.dumps({"read one.gguf": stored}), encoding="utf-8")
    assert PrefillSpeed("one.gguf", Measurements(path)).sample_count == 0
