"""What is promised row by row, as one table at the end of a test run: faults, transports, features of the protocol.

FAMILIES says which tests are rows of what. A row that a family must have and that no test proves fails the run; where
only a part of the tests was chosen, the table says what ran. `conftest.py` registers a `Rows`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from proofs import PROOFS
from real import REAL_SERVERS
from rkllm_chat.servers.transports import TRANSPORTS

TESTS = Path(__file__).parent
NARROWING = ("deselect", "ignore", "ignore_glob", "lf")
"""Options of pytest that leave tests out before they are collected."""
OURS = ("stdio", "SSE", "streamable HTTP", "WebSocket")
OTHERS = ("stdio", "SSE", "streamable HTTP")
CHANNELS = (
    *("results", "resources", "prompts", "descriptions", "names", "titles", "server instructions", "errors", "stderr"),
    *("elicitation", "model output", "arguments echoed"),
)


FAULT = r"test_faults_\w+\.py.*[\[-]"
"""What stands before the row in the id of a test of a fault."""


@dataclass(frozen=True)
class Family:
    """Tests that share a line of the table. The group `row` of `pattern`, searched in a test's id, is its row.

    `must` are the rows that have to be there whenever all tests of the folder `place` are chosen. `proofs` names the
    tests of a row by a part of their ids instead; such a test may prove other rows as well.
    """

    name: str
    place: str
    pattern: str = ""
    must: tuple[str, ...] = ()
    proofs: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])


def proved(name: str, proofs: Mapping[str, Sequence[str]]) -> Family:
    """Rows whose tests are listed one by one (proofs.py)."""
    return Family(name, ".", must=tuple(proofs), proofs=proofs)


def faults(first: int, last: int) -> Family:
    """Rows of the fault matrix by their numbers, as `fault` and `rows` write them into the ids (servers/faults.py)."""
    must = tuple(f"F{number:02}" for number in range(first, last + 1))
    pattern = rf"{FAULT}(?P<row>{'|'.join(must)}) "
    return Family(f"faults {must[0]} to {must[-1]}", "servers", pattern, must)


KEPT = ("F55", "F59", "F60", "F83", "F93")
"""Rows of the fault matrix about what is kept on disk and told in logs."""

# A test belongs to the first family whose pattern it has, and to all that list it.
FAMILIES = (
    faults(1, 47),
    Family("faults F54, F61, F62", "servers", rf"{FAULT}(?P<row>F54|F61|F62) ", ("F54", "F61", "F62")),
    faults(68, 82),
    faults(84, 88),
    Family(
        "sandbox: faults without one and in one",
        "servers",
        r"test_sandbox\.py.*[\[-](?P<row>F\d+) ",
        ("F46", "F47", "F64", "F92", "F93"),
    ),
    Family("secrets and files", "", r"^\S*tests/test_faults_\w+\.py.*[\[-](?P<row>F\d+) ", KEPT),
    Family("other faults", "servers", r"test_faults_\w+\.py.*[\[-](?P<row>F\d+) "),
    Family(
        "channels to the terminal, each with every sequence",
        "terminal",
        r"test_channels\.py::test_no_byte\w+\[(?P<row>[a-z ]+)-",
        CHANNELS,
    ),
    Family("results that are none", "servers", r"test_faults_results\.py.*[\[-](?P<row>\d+) "),
    Family(
        "transports: a real server in both eras",
        "servers",
        r"servers/test_transports\.py::test_one_conversation\w+\[(?P<row>\w+)-",
        tuple(TRANSPORTS),
    ),
    Family(
        "transports: every feature, our server",
        "real",
        r"real/test_transports\.py::test_one_conversation\w+\[ours, (?P<row>.+)\]",
        OURS,
    ),
    Family(
        "transports: every feature, the reference server",
        "real",
        r"real/test_transports\.py::test_one_conversation\w+\[everything, (?P<row>.+)\]",
        OTHERS if os.environ.get(REAL_SERVERS) else (),
    ),
    Family("features: our servers", "servers", r"servers/test_features\.py::(?P<row>\w+)"),
    Family("features: what the eras do differently", "real", r"real/test_eras\.py::(?P<row>\w+)"),
    Family("features: the reference server", "real", r"real/test_everything\.py::(?P<row>\w+)"),
    *(proved(name, proofs) for name, proofs in PROOFS.items()),
)


class Rows:
    """A plugin of pytest that counts, prints the table, and fails a run in which a row has no test."""

    def __init__(self, config: pytest.Config, families: Sequence[Family] = FAMILIES, folder: Path = TESTS) -> None:
        self._config, self._families, self._folder = config, families, folder
        self._results: dict[str, str] = {}
        self._missing: dict[str, list[str]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Looks before any are deselected: a row that was not chosen has a test all the same."""
        there = {place for item in items for place in places_of(item.nodeid, self._families)}
        for family in self._families:
            missing = [row for row in family.must if (family.name, row) not in there]
            if missing and collects_all(self._config, self._folder / family.place):
                self._missing[family.name] = missing

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The worst of a test's phases is its result."""
        before = self._results.get(report.nodeid, "passed")
        self._results[report.nodeid] = before if report.outcome == "passed" else report.outcome

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        table = list(count(self._results, self._families))
        if table:
            terminalreporter.write_line(f"{'':<50}{'rows':>6}{'tests':>7}{'passed':>8}")
        for line in table:
            terminalreporter.write_line(line, red="failed" in line)
        for name, missing in self._missing.items():
            terminalreporter.write_line(f"NO TEST of {name}: {', '.join(missing)}", red=True, bold=True)


def collects_all(config: pytest.Config, folder: Path) -> bool:
    """Whether a run collects all tests of a folder."""
    if any(config.getoption(option, None) for option in NARROWING):
        return False
    here = config.invocation_params.dir
    return any(folder.is_relative_to((here / argument).resolve()) for argument in config.args)


def places_of(nodeid: str, families: Iterable[Family]) -> list[tuple[str, str]]:
    """(family, row) for each row of which a test is one."""
    places: list[tuple[str, str]] = []
    has_pattern = False
    for family in families:
        if family.pattern and not has_pattern and (found := re.search(family.pattern, nodeid)):
            has_pattern = True
            places.append((family.name, found["row"]))
        places += [(family.name, row) for row, tests in family.proofs.items() if any(one in nodeid for one in tests)]
    return places


def count(results: dict[str, str], families: Sequence[Family]) -> Iterable[str]:
    """A line for each family of which tests ran; the rows with a test that did not pass are named."""
    places = {nodeid: places_of(nodeid, families) for nodeid in results}
    for family in families:
        own = [(nodeid, row) for nodeid, found in places.items() for name, row in found if name == family.name]
        if not own:
            continue
        tests = {nodeid for nodeid, _ in own}
        passed = sum(results[nodeid] == "passed" for nodeid in tests)
        line = f"{family.name:<50}{len({row for _, row in own}):>6}{len(tests):>7}{passed:>8}"
        for outcome in ("failed", "skipped"):
            if named := sorted({row for nodeid, row in own if results[nodeid] == outcome}):
                line += f"  {outcome}: {', '.join(named)}"
        yield line
