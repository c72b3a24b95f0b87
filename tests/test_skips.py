"""A test that needs an absent tool is skipped, counted and named; under REQUIRE_ALL it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

CHOSEN = ["tests/mcp_client/test_sandbox_modes.py", "-m", "sandbox"]


@pytest.mark.slow  # two runs of pytest
def test_tests_without_their_tool_are_counted_and_fail_where_all_is_required() -> None:
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", *CHOSEN]
    root = Path(__file__).parents[1]
    run = partial(subprocess.run, cwd=root, capture_output=True, text=True, timeout=50, check=False)
    environment = {**os.environ, "PATH": "/nonexistent"}
    skipped = run(command, env={**environment, "REQUIRE_ALL": ""})
    required = run([*command, "-x"], env={**environment, "REQUIRE_ALL": "1"})
    assert (skipped.returncode, required.returncode) == (0, 1)
    assert " skipped: bubblewrap is not installed" in skipped.stdout
    assert "bubblewrap is not installed" in required.stdout
