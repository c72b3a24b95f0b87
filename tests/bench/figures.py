"""What a measurement gives: a figure of ours, its reference from the same run, and the goal it is held against.

And how long work takes, several ways in turn, so that what else the machine does slows each of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

COLUMNS = ("what", "ours", "reference", "ratio", "goal", "met")
WIDTHS = (58, 13, 34, 8, 16, 4)


Way = TypeVar("Way")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Goal:
    """A limit for our figure, or for its ratio to the reference: at most so much, or at least."""

    value: float
    of: Literal["ours", "ratio"] = "ours"
    least: bool = False

    def __str__(self) -> str:
        return f"{self.of} {'>=' if self.least else '<='} {self.value:g}"


@dataclass(frozen=True)
class Figure:
    """One row. `reference` is in the unit of `ours`, and `against` says what it is; the ratio is ours to it.

    `note` says why there is no reference where there could be one.
    """

    what: str
    ours: float
    unit: str = "s"
    reference: float | None = None
    against: str = ""
    goal: Goal | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.reference if self.reference else None

    @property
    def is_met(self) -> bool | None:
        """None where there is no goal."""
        if self.goal is None:
            return None
        value = self.ratio if self.goal.of == "ratio" else self.ours
        if value is None:
            return None
        return value >= self.goal.value if self.goal.least else value <= self.goal.value

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "goal": str(self.goal) if self.goal else None, "ratio": self.ratio, "met": self.is_met}

    def cells(self) -> tuple[str, ...]:
        """The row as text, a cell for each of COLUMNS."""
        reference = f"{show(self.reference, self.unit)} ({self.against})" if self.reference is not None else self.note
        ratio = f"{self.ratio:.3g}" if self.ratio is not None else ""
        met = {True: "yes", False: "NO", None: ""}[self.is_met]
        return self.what, show(self.ours, self.unit), reference, ratio, str(self.goal or ""), met


def show(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}".strip()


def lay_out(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Rows of cells as lines: the first column to the left, the others to the right."""
    for first, *rest in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(rest, WIDTHS[1:], strict=True))
        yield " ".join([f"{first:<{WIDTHS[0]}}", *cells]).rstrip()


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def in_turn(ways: Mapping[Way, Callable[[], Result]], runs: int, warms_up: bool = True) -> dict[Way, list[Result]]:
    """What each way gives, run after run. A first run that only fills caches does not count, if `warms_up`."""
    found: dict[Way, list[Result]] = {way: [] for way in ways}
    for number in range(runs + warms_up):
        for way, run in ways.items():
            result = run()
            if number >= warms_up:
                found[way].append(result)
    return found
