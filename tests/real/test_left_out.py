"""Where there are no servers of others, their tests are left out in one loud line; where they should be, they fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from . import REAL_SERVERS

ROOT = Path(__file__).parents[2]
LOUD = r"NOT TESTED: [1-9]\d* tests need real MCP servers: .ci/real_servers DIR, then RKLLM_CHAT_REAL_SERVERS=DIR"


def run_pytest(*arguments: str, place: str) -> tuple[int, str]:
    """Exit code and output of a run over the tests of one server of others, in a process of its own."""
    environment = {**os.environ, REAL_SERVERS: place}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/real/test_others.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=50, check=False)
    return done.returncode, done.stdout


def test_without_the_servers_one_line_says_what_was_not_tested() -> None:
    code, said = run_pytest(place="")
    assert code == 5  # pytest's word for: no tests were run
    assert len(re.findall(LOUD, said)) == 1


def test_who_did_not_ask_for_them_is_not_told() -> None:
    assert "NOT TESTED" not in run_pytest("-m", "not real", place="")[1]


def test_a_folder_without_servers_is_a_failure_and_no_skip(tmp_path: Path) -> None:
    code, said = run_pytest("-x", place=str(tmp_path))
    assert code == 1
    assert f"no real servers in {tmp_path}" in said
    assert "NOT TESTED" not in said
