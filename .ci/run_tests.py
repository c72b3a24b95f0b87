"""Runs pytest and reruns failed tests once, alone, to distinguish unstable tests from broken ones.

    python .ci/run_tests.py UNSTABLE COMMAND...

COMMAND is pytest, or ends in one; further options are appended to it. A test that passes the second time is unstable:
its name and the message of its first failure are appended to the file UNSTABLE, one line each. The exit code is that of
COMMAND, but 0 if every test that failed is unstable. More than three failures fail at once; nothing is run again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

MAX_UNSTABLE = 3
MAX_MESSAGE_CHARS = 200
TESTS_FAILED = 1  # pytest's exit code; the others (interrupted, usage error, no tests) are no test's


def read_outcomes(report: Path) -> dict[str, str]:
    """Return test -> first line of its first failure, "" if it passed; nothing where pytest wrote no report."""
    outcomes: dict[str, str] = {}
    if not report.exists():
        return outcomes
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('file')}::{case.get('name')}"
        found = [problem.get("message") or "no message" for problem in case if problem.tag in ("failure", "error")]
        message = found[0].strip().splitlines()[0][:MAX_MESSAGE_CHARS] if found else ""
        outcomes[test] = outcomes.get(test) or message
    return outcomes


def main(unstable: Path, command: list[str]) -> int:
    """Run the tests, and those that fail a second time; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "first.xml"), Path(folder, "second.xml")
        own = ["-o", f"cache_dir={folder}/cache", "-o", "junit_family=xunit1"]  # no failures of earlier runs; files
        code = subprocess.run([*command, *own, f"--junitxml={first}"], check=False).returncode
        failures = {test: message for test, message in read_outcomes(first).items() if message}
        if code != TESTS_FAILED or not failures:
            return code
        if len(failures) > MAX_UNSTABLE:
            print(f"{len(failures)} tests failed, more than {MAX_UNSTABLE}: none is run again")
            return code
        print(f"\nonce more, alone: {', '.join(failures)}", flush=True)
        code = subprocess.run([*command, *own, f"--junitxml={second}", "--last-failed", "-n0"], check=False).returncode
        again = read_outcomes(second)
    passed = [test for test in failures if again.get(test) == ""]
    with unstable.open("a", encoding="utf-8") as file:
        file.writelines(f"{test}: {failures[test]}\n" for test in passed)
    return code or (0 if len(passed) == len(failures) else TESTS_FAILED)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
