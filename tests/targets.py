"""The figures that safety is held against, one table at the end of a test run: what was measured, the target, if met.

A test tells a figure by the fixture `figure`: `figure(7, seconds)`, or `figure(9, lost, of=200)`. A run of all tests in
which a row of TARGETS was told nothing fails; a target that is missed is shown, and fails nothing: the machine may be
busy. What must never be is asserted by the test that tells it. `conftest.py` registers a `Targets`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from rows import FAMILIES, TESTS, collects_all, places_of

PROPERTY = "figure"
MATRIX = 97
"""Rows of the fault matrix."""
FAULT = re.compile(r"F\d\d")


@dataclass(frozen=True)
class Target:
    """One row: at most so much, or (`most` None) all of them; of at least `of` cases.

    A row that `needs` a mark is not missed where the tests with that mark are left out.
    """

    what: str
    most: float | None = None
    unit: str = ""
    of: int = 0
    needs: str = ""

    @property
    def goal(self) -> str:
        words = "all" if self.most is None else f"<= {self.most:g} {self.unit}".rstrip()
        return f"{words} of >= {self.of}" if self.of else words

    def judge(self, value: float, of: int) -> str:
        """Whether it is met: yes, NO, or "few" where it is, but by too few cases."""
        if value != of if self.most is None else value > self.most:
            return "NO"
        return "yes" if of >= self.of else "few"


TARGETS: dict[int, Target] = {
    1: Target("hostile call markers, CPU for a megabyte", 0.5, "s"),
    2: Target("modes of misbehaving servers survived"),
    3: Target("a line of 100 MB is refused", 2.0, "s"),
    4: Target("processes left when the client is killed", 0, of=5),
    5: Target("leaving with five stuck servers", 3.0, "s"),
    6: Target("first prompt beside a server that hangs at its start", 1.0, "s"),
    7: Target("Ctrl+C in a call, until the prompt is back", 0.3, "s"),
    8: Target("control tokens in text of others that get through", 0, of=3000),
    9: Target("records lost by a kill, at most", 1, of=200),
    10: Target("terminal sequences in texts of others that get through", 0, of=480),
    11: Target("secrets that a server finds in its sandbox", 0, needs="sandbox"),
    12: Target("tests of the sandbox that were skipped", 0, needs="sandbox"),
    13: Target("rows of the fault matrix with a test of a real process", of=MATRIX),
    14: Target("what a sandbox adds to a server's start", 100, "ms", needs="sandbox"),
    15: Target("a hostile configuration of 40 kB is judged, CPU", 0.1, "s"),
}

SURVIVED, SKIPPED, PROVED = 2, 12, 13
"""Rows that nobody tells: they are counted from the run itself."""

Told = tuple[float, int]


class Tell(Protocol):
    """What the fixture `figure` gives."""

    def __call__(self, number: int, value: float, of: int = 0) -> None: ...


class Targets:
    """A plugin of pytest that gathers the figures, prints the table, and fails a whole run in which one is missing."""

    def __init__(self, config: pytest.Config, targets: Mapping[int, Target] = TARGETS, folder: Path = TESTS) -> None:
        self._config, self._targets, self._folder = config, targets, folder
        self._told: dict[int, list[Told]] = {}
        self._modes: dict[str, str] = {}
        self._failed: set[str] = set()
        self._rows: set[str] = set()
        self._marked: dict[str, int] = {}
        self._skipped = 0

    @property
    def _is_whole(self) -> bool:
        option = self._config.option
        return collects_all(self._config, self._folder) and not (option.keyword or option.markexpr)

    @pytest.fixture
    def figure(self, request: pytest.FixtureRequest) -> Tell:
        """Tells the figure of a row, and of how many cases it is, where it is a count."""

        def tell(number: int, value: float, of: int = 0) -> None:
            request.node.user_properties.append((PROPERTY, (number, value, of)))

        return tell

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._rows = set(rows_with_a_test(item.nodeid for item in session.items))
        marks = {target.needs for target in self._targets.values()} - {""}
        self._marked = {mark: sum(1 for item in session.items if item.get_closest_marker(mark)) for mark in marks}
        for item in session.items:
            if "test_faults_" in item.nodeid and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
                self._modes[item.nodeid] = str(item.callspec.params.get("mode", item.name))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)
        if report.skipped and "sandbox" in report.keywords:
            self._skipped += 1
        if report.when == "teardown":
            for name, value in report.user_properties:
                if name == PROPERTY and isinstance(value, tuple):
                    number, *told = value
                    self._told.setdefault(number, []).append((told[0], told[1]))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._is_whole and self._missing() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        figures = self._figures()
        for line, is_met in lay_out(figures, self._targets):
            terminalreporter.write_line(line, red=not is_met)
        if self._is_whole:
            for number in self._missing():
                line = f"NO FIGURE of {number} {self._targets[number].what}"
                terminalreporter.write_line(line, red=True, bold=True)

    def _figures(self) -> dict[int, Told]:
        told = {number: joined(values) for number, values in self._told.items()}
        return told | self._derived() if self._is_whole else told

    def _missing(self) -> list[int]:
        figures = self._figures()
        return [
            number
            for number, target in self._targets.items()
            if number not in figures and (not target.needs or self._marked[target.needs])
        ]

    def _derived(self) -> dict[int, Told]:
        """What the run itself says."""
        modes = set(self._modes.values())
        fallen = {mode for nodeid, mode in self._modes.items() if nodeid in self._failed}
        found: dict[int, Told] = {SURVIVED: (len(modes - fallen), len(modes)), PROVED: (len(self._rows), MATRIX)}
        if self._marked.get("sandbox"):
            found[SKIPPED] = (self._skipped, self._marked["sandbox"])
        return {number: told for number, told in found.items() if number in self._targets}


def joined(values: Sequence[Told]) -> Told:
    """Several figures of one row: counts of cases are added up, of plain figures the worst is taken."""
    of = sum(cases for _, cases in values)
    figures = [value for value, _ in values]
    return (sum(figures) if of else max(figures), of)


def rows_with_a_test(nodeids: Iterable[str]) -> Iterator[str]:
    """The rows of the fault matrix that these tests prove, by the families of rows.py."""
    for nodeid in nodeids:
        yield from (row for _, row in places_of(nodeid, FAMILIES) if FAULT.fullmatch(row))


def lay_out(figures: Mapping[int, Told], targets: Mapping[int, Target]) -> Iterator[tuple[str, bool]]:
    """The lines of the table, each with whether it is as it should be."""
    if figures:
        yield f"   {'figures of safety':<58}{'figure':>16}{'target':>20}  met", True
    for number in sorted(figures):
        (value, of), target = figures[number], targets[number]
        shown = " ".join(filter(None, (f"{value:.3g}", target.unit, f"of {of}" if of else "")))
        met = target.judge(value, of)
        yield f"{number:>2} {target.what:<58}{shown:>16}{target.goal:>20}  {met}", met == "yes"
