"""The table at the end of a run counts what ran, names what failed, and fails a run in which a row has no test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rows import FAMILIES, TESTS

CONFTEST = """
from pathlib import Path
from rows import Family, Rows

LISTED = ("::test_two", "test_a_fault[old-F01")
FAMILIES = [
    Family("faults", "servers", r"[\\[-](?P<row>F\\d\\d) ", ("F01", "F02")),
    Family("features", "servers", r"test_features.py::(?P<row>\\w+)"),
    Family("listed", ".", must=("A", "B"), proofs={"A": ("::test_one",), "B": LISTED}),
]

def pytest_configure(config):
    config.pluginmanager.register(Rows(config, FAMILIES, Path(__file__).parent))
"""
FAULTS = """
import pytest

@pytest.mark.parametrize("mode", [pytest.param(row, id=f"{row} mode") for row in ROWS])
@pytest.mark.parametrize("era", ["old", "new"])
def test_a_fault(mode, era):
    assert (mode, era) != BAD
"""
FEATURES = "def test_one(): ...\ndef test_two(): ...\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Tests of two rows of faults in two eras, and of two features."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "servers/test_features.py").write_text(FEATURES, encoding="utf-8")
    return tmp_path


def run(tree: Path, *arguments: str, rows: str = "F01 F02", bad: object = None) -> tuple[int, list[str]]:
    """Exit code and lines of a run over the tree. `rows` have tests, of which `bad` fails."""
    head = f"ROWS, BAD = {rows.split()!r}, {bad!r}\n"
    (tree / "servers/test_faults_few.py").write_text(head + FAULTS, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path[1:]])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(arguments or ["."])]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=50, check=False)
    return done.returncode, [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_what_ran_is_counted_by_family(tree: Path) -> None:
    code, lines = run(tree)
    assert code == 0
    assert {"rows tests passed", "faults 2 4 4", "features 2 2 2", "listed 2 3 3"} <= set(lines)


def test_a_row_that_fails_is_named(tree: Path) -> None:
    code, lines = run(tree, bad=("F02", "old"))
    assert code == 1
    assert "faults 2 4 3 failed: F02" in lines


def test_a_row_without_a_test_fails_the_run_and_is_named(tree: Path) -> None:
    code, lines = run(tree, rows="F02")
    assert code == 1
    assert "NO TEST of faults: F01" in lines and "faults 1 2 2" in lines


@pytest.mark.parametrize("chosen", ["servers/test_faults_few.py", "-k=new", "--ignore=elsewhere"])
def test_of_a_part_it_is_said_what_ran(chosen: str, tree: Path) -> None:
    code, lines = run(tree, chosen, rows="F02" if chosen != "-k=new" else "F01 F02")
    assert code == 0
    assert not [line for line in lines if line.startswith("NO TEST")]
    assert ("faults 2 2 2" if chosen == "-k=new" else "faults 1 2 2") in lines


def test_a_row_whose_listed_tests_are_gone_fails_the_run(tree: Path) -> None:
    (tree / "servers/test_features.py").write_text(FEATURES.replace("test_one", "test_other"), encoding="utf-8")
    code, lines = run(tree)
    assert code == 1
    assert "NO TEST of listed: A" in lines


def test_the_rows_of_the_fault_matrix_must_all_be_there() -> None:
    must = [row for family in FAMILIES if family.name.startswith("faults") for row in family.must]
    numbers = [*range(1, 48), 54, 61, 62, *range(68, 83), *range(84, 89)]
    assert must == [f"F{number:02}" for number in numbers]
    (enclosed,) = (family.must for family in FAMILIES if family.name.startswith("sandbox"))
    assert set(enclosed) == {"F46", "F47", "F64", "F92", "F93"}
