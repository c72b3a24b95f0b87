"""Faults of the machine around the program: a clock that jumps, little memory, a model that goes round or breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.journal import Shelf
from rkllm_chat.messages import Message
from stage import Screen, call_text

from .faults import SLACK, TESTS, left_behind

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Script = Callable[..., str]

SET = """
import os, time
real, path = time.time, os.environ["CLOCK"]
def read():
    with open(path, encoding="ascii") as file:
        return real() + float(file.read() or 0)
time.time = read
time.time_ns = lambda: int(read() * 1e9)
"""
HOUR_S, DAY_S = 3600, 86_400


class Clock:
    """A wall clock for Python programs that can be set while they run."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        folder.mkdir()
        self.path = folder / "clock"
        self.set(0)
        (folder / "sitecustomize.py").write_text(SET, encoding="utf-8")
        path = os.pathsep.join([str(folder), str(TESTS), *sys.path[1:]])
        self.environment = {**environment, "PYTHONPATH": path, "CLOCK": str(self.path)}

    def set(self, offset_s: float) -> None:
        """So much later than it is."""
        new = self.path.with_suffix(".new")
        new.write_text(str(offset_s), encoding="ascii")
        new.replace(self.path)


def client(environment: dict[str, str], *arguments: str, before: str = "") -> dict[str, Any]:
    """What `python -m servers.faults` tells, run behind shell words."""
    command = f'{before} exec "$@"'
    words = ["bash", "-c", command, "client", sys.executable, "-m", "servers.faults", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=50, check=False)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("offset_s", [-HOUR_S, DAY_S], ids=["back", "forth"])
def test_a_clock_that_is_set_while_a_call_waits_ends_no_wait_early_or_late(
    offset_s: float, environment: dict[str, str], folder: Path, script: Script, shelf: Shelf
) -> None:
    """The call runs into its limit of two seconds, the server is started again, and the screen goes on being drawn."""
    clock = Clock(environment, folder / "clock")
    (folder / "chaos.toml").write_text(
        f'[[servers]]\nname = "chaos"\ncommand = "{sys.executable}"\ntimeout_s = 2\n'
        f'args = ["-m", "servers.chaos", "hang-call", "--log", "{folder}/chaos.jsonl"]\n'
        f'env = {{ PYTHONPATH = "{TESTS}" }}\n',
        encoding="utf-8",
    )
    model = script(call_text("act"), "It is late.", "Still here.")
    screen = Screen(["--model", model, "--config", "chaos.toml", "--allow", "act"], clock.environment, folder)
    try:
        screen.wait_for("lists the commands")
        screen.wait_for_prompt()
        screen.type("go\r")
        screen.wait_for("[MCP: Calling tool 'act']")
        clock.set(offset_s)
        begun = time.monotonic()
        screen.type("and now?")
        screen.wait_for("and now?")
        lines = screen.wait_for("◆ It is late.", 20)
        assert 1 < time.monotonic() - begun < 2 * SLACK + 5
        assert any("did not answer" in line for line in lines)
        screen.wait_for("> and now?")
        clock.set(0)
        screen.type("\r")
        screen.wait_for("◆ Still here.")
        screen.wait_for_prompt()
        screen.type("\x04")
        assert screen.wait_for_end() == 0
    finally:
        screen.close()
    (name,) = shelf.ids()
    assert [one.text for one in records_of(shelf, name) if one.role != "tool"] == [
        "go", call_text("act"), "It is late.", "and now?", "Still here.",
    ]  # fmt: skip
    assert left_behind(folder, "chaos") == []


def test_sessions_of_one_moment_are_apart_and_each_is_whole(
    environment: dict[str, str], folder: Path, script: Script, shelf: Shelf
) -> None:
    clock = Clock(environment, folder / "clock")
    for number, offset_s in enumerate((0, -HOUR_S, DAY_S, -HOUR_S)):
        clock.set(offset_s)
        screen = Screen(["--model", script(f"Answer {number}."), "--no-servers"], clock.environment, folder)
        try:
            screen.wait_for("lists the commands")
            screen.wait_for_prompt()
            screen.type(f"line {number}\r")
            screen.wait_for(f"◆ Answer {number}.")
            screen.wait_for_prompt()
            screen.type("\x04")
            assert screen.wait_for_end() == 0
        finally:
            screen.close()
    said = sorted(tuple(one.text for one in records_of(shelf, name)) for name in shelf.ids())
    assert said == [(f"line {number}", f"Answer {number}.") for number in range(4)]


def records_of(shelf: Shelf, name: str) -> list[Message]:
    return [entry.record for entry in shelf.read(name).entries if isinstance(entry.record, Message)]


def test_a_client_with_little_memory_refuses_100_mb_all_the_same(environment: dict[str, str], tmp_path: Path) -> None:
    path = {**environment, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path[1:]])}
    told = client(path, "huge-result", str(tmp_path), before="ulimit -v 409600;")
    assert told["status"] == "failed" and "limit 4 MB" in told["text"]
    assert told["after"] == ["still here", "still here"]
    assert told["seconds"] < 2 * SLACK * 2
    assert left_behind(tmp_path, "chaos") == []


def test_a_model_that_calls_for_ever_is_stopped_after_three_equal_calls(program: Run, script: Script) -> None:
    model = script(*[call_text("calculate", expression="1 + 1")] * 50)
    done = program("-p", "x", "--model", model, "--output-format", "json", code=1)
    result = json.loads(done.stdout)["result"]
    assert [call["status"] for call in result["calls"]].count("completed") == 3
    assert result["reason"] == "steps" and result["notices"]


def test_a_model_that_calls_otherwise_each_time_is_stopped_after_its_rounds(program: Run, script: Script) -> None:
    model = script(*[call_text("calculate", expression=f"1 + {number}") for number in range(50)])
    done = program("-p", "x", "--model", model, "--output-format", "json", code=1)
    result = json.loads(done.stdout)["result"]
    assert len(result["calls"]) == 8 and result["reason"] == "steps"
    assert any("8" in notice for notice in result["notices"])


def test_a_session_in_which_the_model_failed_goes_on(program: Run, script: Script, shelf: Shelf) -> None:
    alone = ("--no-servers", "--continue")
    done = program("-p", "one", "--model", script(), *alone, code=1)
    assert done.stderr.count("\n") == 1 and "asked for one more" in done.stderr
    assert program("-p", "two", "--model", script("Hello."), *alone).stdout == "Hello.\n"
    (name,) = shelf.ids()
    assert [(one.role, one.text) for one in records_of(shelf, name)] == [
        ("user", "one"),
        ("assistant", "…"),
        ("user", "two"),
        ("assistant", "Hello."),
    ]
