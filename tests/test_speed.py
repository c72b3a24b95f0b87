"""How long a machine takes to read, learnt from what it took."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rkllm_chat.speed import LARGEST, MOST_KEPT, Sample, Speed, read_samples, write_samples

PUBLISHED = ((1024, 15.0), (4096, 71.0), (8192, 226.0))
"""Tokens and seconds of Qwen3-1.7B on an RK3588."""

Machine = Callable[[int, int], float]

tokens = st.integers(1, 100_000)
samples = st.builds(Sample, st.integers(-5, 100_000), st.integers(-5, 100_000), st.floats(-1, 1e6))


def machines(count: int = 150) -> Iterator[tuple[Machine, int]]:
    """From small models on fast machines to large ones on slow boards, always the same, each with a seed for a talk."""
    for seed in range(count):
        chance = random.Random(seed)
        each = 10 ** chance.uniform(-4, -1.5)
        back = each * 10 ** chance.uniform(-5, -3)
        yield partial(time_of, each * chance.choice([0, 50, 300]), each, back), seed


def time_of(start: float, each: float, back: float, new: int, held: int) -> float:
    return start + each * new + back * new * (held + new / 2)


def talk(machine: Machine, seed: int, replies: int = 40, busy: int = 0, speed: Speed | None = None) -> Speed:
    """What is known after some turns, each time within a tenth of what it should be; one in `busy` takes tenfold."""
    chance, speed, held = random.Random(seed), speed or Speed(), 0
    for number in range(replies):
        new = chance.choice([8, 30, 30, 60, 200, 600, 2000])
        held = 0 if held + new > 8000 else held
        slow = 10 if busy and number % busy == busy - 1 else 1
        speed.note(new, held, machine(new, held) * chance.uniform(0.9, 1.1) * slow)
        held += new
    return speed


def error_of(expected_s: float, true_s: float) -> float:
    """How many times too much or too little."""
    return max(expected_s / true_s, true_s / expected_s)


def test_nothing_is_foretold_where_nothing_was_measured() -> None:
    assert (Speed().expect(1000, 500), Speed().tokens_per_s(0)) == (0.0, 0.0)


def test_one_reading_is_enough_for_a_guess() -> None:
    speed = Speed([Sample(200, 0, 2.0)])
    assert [round(speed.expect(new), 6) for new in (100, 200, 1000)] == [1.0, 2.0, 10.0]
    assert round(speed.tokens_per_s(0), 6) == 100


def test_the_published_figures_are_met_within_a_fifth() -> None:
    speed = Speed()
    for new, seconds in PUBLISHED:
        speed.note(new, 0, seconds)
    assert [speed.expect(new) for new, _ in PUBLISHED] == pytest.approx([seconds for _, seconds in PUBLISHED], rel=0.2)
    assert speed.expect(1024, 7168) > 2 * speed.expect(1024)  # the same tokens cost more behind many
    assert speed.expect(10) < 0.2  # long readings alone make no short one long


@given(st.lists(samples, max_size=60), tokens, tokens, tokens, tokens)
def test_any_more_tokens_never_take_less_and_never_less_than_nothing(
    seen: list[Sample], new: int, more: int, held: int, deeper: int
) -> None:
    speed = Speed(seen)
    expected_s = speed.expect(new, held)
    assert expected_s >= 0
    assert speed.expect(new + more, held) >= expected_s <= speed.expect(new, held + deeper)
    assert bool(expected_s) == bool(speed.samples)


def test_every_machine_is_known_after_a_talk() -> None:
    seen = [
        error_of(speed.expect(new, held), machine(new, held))
        for machine, seed in machines()
        for speed in [talk(machine, seed)]
        for new, held in ((20, 0), (20, 4000), (300, 1000), (2000, 0), (2000, 4000))
    ]
    assert max(seen) < 2 and quantiles(seen, n=20)[-1] < 1.25


def test_every_machine_that_was_busy_now_and_then_is_known_too() -> None:
    seen = [
        error_of(speed.expect(new, held), machine(new, held))
        for machine, seed in machines()
        for speed in [talk(machine, seed, busy=6)]
        for new, held in ((30, 2000), (300, 1000), (2000, 2000))
    ]
    assert max(seen) < 3 and quantiles(seen, n=10)[-1] < 2


@pytest.mark.parametrize("change", [0.25, 4])
def test_a_change_of_speed_is_learnt_from_three_readings_of_a_size_and_a_long_talk(change: float) -> None:
    soon, later = list[float](), list[float]()
    for machine, seed in machines():
        speed = talk(machine, seed)
        for held in (100, 140, 180):
            speed.note(40, held, change * machine(40, held))
        soon.append(error_of(speed.expect(40, 220), change * machine(40, 220)))
        talk(lambda new, held, of=machine: change * of(new, held), seed, replies=120, speed=speed)  # type: ignore[misc]
        for new, held in ((20, 4000), (300, 1000), (2000, 500)):
            later.append(error_of(speed.expect(new, held), change * machine(new, held)))
    assert max(soon) < 2 and max(later) < 3


def test_one_slow_reading_changes_little() -> None:
    seen: list[float] = []
    for machine, seed in machines():
        speed = talk(machine, seed)
        before = speed.expect(500, 1000)
        speed.note(60, 1000, 20 * machine(60, 1000))
        seen.append(error_of(speed.expect(500, 1000), before))
    assert max(seen) < 1.6


@given(st.lists(samples, max_size=60))
def test_any_readings_come_back_from_a_file_as_they_were(seen: list[Sample]) -> None:
    speed = Speed(seen)
    again = Speed(read_samples(write_samples(speed.samples)))
    assert again.samples == Speed([Sample(one.new, one.held, round(one.seconds, 4)) for one in speed.samples]).samples


def test_a_long_life_keeps_a_few_hundred_bytes() -> None:
    speed = talk(lambda new, held: 0.01 * new + 1e-6 * held, 1, replies=2000)
    for power in range(25):
        speed.note(2**power, 2 ** (25 - power), 1.5)
    assert len(speed.samples) == MOST_KEPT
    assert len(str(write_samples(speed.samples))) < 1000


@pytest.mark.parametrize(
    "written",
    [None, 1.5, "x", {}, [[1, 2]], [[1, 2, "3"]], [[float("nan"), 0, 1]], [[1, 0, LARGEST * 10]], [[0, 0, 1]]],
)
def test_a_damaged_file_says_nothing(written: object) -> None:
    assert Speed(read_samples(written)).samples == ()
