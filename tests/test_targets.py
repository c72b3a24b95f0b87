"""The table of figures at the end of a run says what was told, joins it by row, and misses a row in a whole run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rows import TESTS
from targets import TARGETS, rows_with_a_test

CONFTEST = """
from pathlib import Path
from targets import Target, Targets

TARGETS = {
    1: Target("seconds", 0.5, "s"),
    2: Target("all of it"),
    9: Target("lost", 1, of=4),
    14: Target("in", 9, needs="sandbox"),
}

def pytest_configure(config):
    config.addinivalue_line("markers", "sandbox: needs one")
    config.pluginmanager.register(Targets(config, TARGETS, Path(__file__).parent))
"""
HEAD = "import pytest\n"
SECONDS = "def test_slow(figure): figure(1, 0.75)\ndef test_fast(figure): figure(1, 0.25)\n"
MODES = "@pytest.mark.parametrize('mode', ['a', 'b'])\ndef test_it(mode): assert True\n"
CASES = "@pytest.mark.parametrize('case', range(4))\ndef test_lost(figure, case): figure(9, case == 2, of=1)\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_seconds.py").write_text(HEAD + SECONDS, encoding="utf-8")
    (tmp_path / "test_faults_few.py").write_text(HEAD + MODES, encoding="utf-8")
    (tmp_path / "test_cases.py").write_text(HEAD + CASES, encoding="utf-8")
    return tmp_path


def run(tree: Path, *arguments: str) -> tuple[int, list[str]]:
    """Exit code and lines of a run over the tree."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path[1:]])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(arguments or ["."])]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=50, check=False)
    return done.returncode, [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_figures_of_a_row_are_joined_and_a_missed_target_is_shown_but_fails_nothing(tree: Path) -> None:
    code, lines = run(tree)
    assert "1 seconds 0.75 s <= 0.5 s NO" in lines
    assert "2 all of it 2 of 2 all yes" in lines
    assert "9 lost 1 of 4 <= 1 of >= 4 yes" in lines
    assert code == 0, lines


def test_a_row_that_was_told_nothing_fails_a_whole_run(tree: Path) -> None:
    (tree / "test_cases.py").unlink()
    code, lines = run(tree)
    assert "NO FIGURE of 9 lost" in lines
    assert code == 1


def test_where_what_a_row_needs_is_there_it_must_be_told(tree: Path) -> None:
    (tree / "test_in.py").write_text(f"{HEAD}@pytest.mark.sandbox\ndef test_in(): ...\n", encoding="utf-8")
    code, lines = run(tree)
    assert [line for line in lines if line.startswith("NO FIGURE")] == ["NO FIGURE of 14 in"]
    assert code == 1


def test_too_few_cases_meet_no_target(tree: Path) -> None:
    (tree / "test_cases.py").write_text(HEAD + CASES.replace("range(4)", "range(3)"), encoding="utf-8")
    assert "9 lost 1 of 3 <= 1 of >= 4 few" in run(tree)[1]


@pytest.mark.parametrize("chosen", ["test_seconds.py", "-k=fast"])
def test_a_part_of_the_tests_shows_its_figures_and_misses_none(chosen: str, tree: Path) -> None:
    code, lines = run(tree, chosen)
    assert code == 0
    assert [line for line in lines if line.startswith("1 seconds")]
    assert not [line for line in lines if line.startswith(("NO FIGURE", "2 all of it"))]


def test_a_mode_whose_test_fails_has_not_survived(tree: Path) -> None:
    (tree / "test_faults_few.py").write_text(HEAD + MODES.replace("True", "mode == 'a'"), encoding="utf-8")
    code, lines = run(tree)
    assert "2 all of it 1 of 2 all NO" in lines
    assert code == 1


def test_there_are_fifteen_rows_and_a_row_of_faults_is_counted_by_the_name_of_its_test() -> None:
    assert list(TARGETS) == list(range(1, 16))
    tests = ["tests/servers/test_faults_life.py::test_x[F32 crash-mid-call]", "tests/test_x.py::test_x[79]"]
    assert list(rows_with_a_test(tests)) == ["F32"]
