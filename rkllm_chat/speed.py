"""How long a machine takes to read so many new tokens behind so many that it holds, learnt from what it took before.

Reading is superlinear: each token looks back at all before it (Qwen3-1.7B on an RK3588, published: 1,024 tokens 15 s,
4,096 71 s, 8,192 226 s). So a reading takes

    seconds = pace * (start + each * new + back * new * (held + new / 2))

with `start`, `each` and `back` fitted to readings of all sizes, none below 0, and `pace` the middle of what the newest
readings took beside that. One reading is enough for a guess; one of a machine that was busy moves neither.
It measures nothing and keeps no file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median, median_low

KEPT_OF_SIZE, MOST_KEPT = 3, 36
PACED = 5
"""So many of the newest readings say the pace; it is another one once most of them do."""
FADE, LEAST_WEIGHT = 0.8, 0.05
"""What a size weighs beside the one that was read after it last, and at least: readings of its size are rare then."""
THRIFT = 0.01
"""How much of the times `start` and `back` must explain not to be left out: one reading says `each` alone."""
SHORT = 128
"""Tokens; without a reading that is shorter `start` is not known: it is most of what a short one takes."""
ROUNDS, STEPS = 4, 300
LEAST_S, LARGEST = 1e-6, 1e9

Factors = tuple[float, float, float]


@dataclass(frozen=True)
class Sample:
    """A reading that was measured: tokens that were new, tokens that were held before them, and its time."""

    new: int
    held: int
    seconds: float

    @property
    def size(self) -> tuple[int, int]:
        """Samples of one size are alike, within a factor of four in both figures."""
        return (self.new.bit_length() // 2, (self.held + self.new // 2).bit_length() // 2)

    @property
    def is_sound(self) -> bool:
        return 0 < self.new < LARGEST and 0 <= self.held < LARGEST and LEAST_S < self.seconds < LARGEST


class Speed:
    """What is known of a machine with a model. `samples` are in the order they were measured."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self.samples: tuple[Sample, ...] = ()
        self._fitted: tuple[Factors, float] | None = None
        for sample in samples:
            self._keep(sample)

    def note(self, new: int, held: int, seconds: float) -> None:
        """Learns from a reading; one without tokens or without a time says nothing."""
        self._keep(Sample(new, held, seconds))

    def expect(self, new: int, held: int = 0) -> float:
        """Seconds until so many new tokens behind so many held ones are read; 0.0 where nothing is known yet.

        Never less for more tokens, new or held.
        """
        if new <= 0 or not self.samples:
            return 0.0
        factors, pace = self._fitted = self._fitted or self._fit()
        return pace * weigh(factors, new, max(0, held))

    def tokens_per_s(self, held: int, new: int = 1024) -> float:
        """How fast tokens are read behind so many held ones; 0.0 where nothing is known yet."""
        expected_s = self.expect(new, held)
        return new / expected_s if expected_s else 0.0

    def _keep(self, sample: Sample) -> None:
        """Of a size the newest few stay, and of all the newest."""
        if not sample.is_sound:
            return
        alike = [one for one in self.samples if one.size == sample.size]
        gone = alike[0] if len(alike) >= KEPT_OF_SIZE else None
        self.samples = (*(one for one in self.samples if one is not gone), sample)[-MOST_KEPT:]
        self._fitted = None

    def _fit(self) -> tuple[Factors, float]:
        factors = fit(list(typical(self.samples)))
        ratios = [one.seconds / weigh(factors, one.new, one.held) for one in self.samples[-PACED:]]
        return factors, median(ratios)


def write_samples(samples: Sequence[Sample]) -> list[list[float]]:
    """For a file: [new, held, seconds] of each."""
    return [[one.new, one.held, round(one.seconds, 4)] for one in samples]


def read_samples(written: object) -> list[Sample]:
    """From a file; what is no sample is left out."""
    rows = written if isinstance(written, list) else []
    return [Sample(int(row[0]), int(row[1]), float(row[2])) for row in rows if is_row(row)]


def is_row(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 3:
        return False
    return all(isinstance(one, int | float) and math.isfinite(one) and abs(one) < LARGEST for one in row)


def typical(samples: Sequence[Sample]) -> Iterator[tuple[Sample, float]]:
    """Of each size the sample of middling speed, and what it weighs; the size that was read last comes first."""
    weight = 1.0
    for size in dict.fromkeys(one.size for one in reversed(samples)):
        alike = {one.seconds / one.new: one for one in samples if one.size == size}
        yield alike[median_low(alike)], weight
        weight = max(LEAST_WEIGHT, weight * FADE)


def columns(new: int, held: int) -> Factors:
    """What `start`, `each` and `back` are multiplied with."""
    return 1.0, float(new), new * (held + new / 2)


def weigh(factors: Factors, new: int, held: int) -> float:
    return sum(factor * column for factor, column in zip(factors, columns(new, held), strict=True))


def fit(weighted: Sequence[tuple[Sample, float]]) -> Factors:
    """The factors whose times differ least from those of the samples, as a share of the larger of both.

    So a share is at most 1, and no sample outweighs the others by being far off.
    """
    uses = (any(one.new < SHORT for one, _ in weighted), True, True)
    factors: Factors = (0.0, median(one.seconds / one.new for one, _ in weighted), 0.0)
    for _ in range(ROUNDS):
        matrix, right = [[0.0] * 3 for _ in range(3)], [0.0] * 3
        for one, weight in weighted:
            share = weight / max(one.seconds, weigh(factors, one.new, one.held)) ** 2
            column = [used * part for used, part in zip(uses, columns(one.new, one.held), strict=True)]
            for i in range(3):
                right[i] += share * column[i] * one.seconds
                for j in range(3):
                    matrix[i][j] += share * column[i] * column[j]
        for i in (0, 2):
            matrix[i][i] *= 1 + THRIFT
        factors = solve(matrix, right, factors)
    return factors


def solve(matrix: Sequence[Sequence[float]], right: Sequence[float], start: Factors) -> Factors:
    """The least squares that are not negative, one factor after the other (coordinate descent)."""
    found = list(start)
    for _ in range(STEPS):
        for i in (i for i in range(3) if matrix[i][i]):
            others = sum(matrix[i][j] * found[j] for j in range(3) if j != i)
            found[i] = max(0.0, (right[i] - others) / matrix[i][i])
    return found[0], found[1], found[2]
