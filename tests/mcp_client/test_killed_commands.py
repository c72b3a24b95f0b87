"""One-shot commands that are killed at any moment: the server that they started ends, whatever it ignores."""

from __future__ import annotations

import random
import subprocess
import time
from contextlib import suppress

import pytest

from fuzzing import examples
from processes import find_processes
from shell import Shell, wait_until

CALL = ("call-tool", "stubborn.act")
STUBBORN = "trap '' TERM HUP; while :; do sleep 60; done"
"""A server that ignores the end of its input and SIGTERM."""


def add_stubborn(shell: Shell, script: str = STUBBORN, sandbox: str = "off") -> str:
    """Configure the server; return a word of its command line."""
    word = f"stubborn-{shell.folder}"  # not that of a run of these tests beside this one
    shell.add("stubborn", command="/bin/sh", args=["-c", script, word], sandbox=sandbox)
    return word


@pytest.mark.slow
@pytest.mark.proc  # by the mark of its process: the guard has not been told its group
def test_a_server_that_kills_its_client_at_once_is_stopped_too(shell: Shell) -> None:
    word = add_stubborn(shell, f"trap '' TERM HUP; kill -KILL $PPID; echo killed >told; {STUBBORN}")
    with shell.start(*CALL, forks=False) as process:
        assert process.wait(30) == -9
    wait_until((shell.folder / "told").exists)
    wait_until(lambda: not find_processes(word))


@pytest.mark.slow
@pytest.mark.proc  # as above: it may be killed before the guard has been told
@pytest.mark.parametrize("sandbox", ["off", pytest.param("on", marks=pytest.mark.sandbox)])
def test_a_command_killed_at_any_moment_leaves_no_server(sandbox: str, shell: Shell) -> None:
    word = add_stubborn(shell, sandbox=sandbox)
    chance = random.Random(sandbox)
    with shell.start(*CALL, forks=False) as process:
        started_at = time.monotonic()
        wait_until(lambda: bool(find_processes(word)))
        start_s = time.monotonic() - started_at
        process.kill()
    wait_until(lambda: not find_processes(word))
    there = 0
    for _ in range(examples(20)):
        with shell.start(*CALL, forks=False) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, 1.5 * start_s))  # a third of them once the server is there
            there += bool(find_processes(word))
            process.kill()
    assert there, "no server had been started"
    wait_until(lambda: not find_processes(word))
