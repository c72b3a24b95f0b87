"""Faults around the program: a clock that jumps, and a model that fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cpu_time import allow_s
from rkllm_chat.core.messages import Message
from rkllm_chat.storage.session_files import SessionDirectory
from stage import Run, Screen, Script, call_text

from .faults import TESTS, left_behind

SET = """
import os, time
real, path = time.time, os.environ["CLOCK"]
def read():
    with open(path, encoding="ascii") as file:
        return real() + float(file.read() or 0)
time.time = read
time.time_ns = lambda: int(read() * 1e9)
"""
HOUR_S, DAY_S, YEAR_S = 3600, 86_400, 31_536_000
CLOCK_SERVER = """
import os, pathlib
from mcp.server.mcpserver import MCPServer

server = MCPServer("clock")

@server.tool()
def jump(seconds: int) -> str:
    pathlib.Path(os.environ["CLOCK"]).write_text(str(seconds))
    return "jumped"

server.run("stdio")
"""


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
        new = self.path.with_suffix(".new")
        new.write_text(str(offset_s), encoding="ascii")
        new.replace(self.path)


@contextmanager
def open_chat(clock: Clock, folder: Path, *arguments: str) -> Iterator[Screen]:
    """A chat at its prompt; it must end well when the block has ended."""
    screen = Screen([*arguments], clock.environment, folder)
    try:
        screen.wait_for("for commands, Ctrl+D to exit")
        screen.wait_for_prompt()
        yield screen
        screen.wait_for_prompt()
        screen.type("\x04")
        assert screen.wait_for_end() == 0
    finally:
        screen.close()


@pytest.mark.slow
@pytest.mark.parametrize("offset_s", [-HOUR_S, DAY_S], ids=["back", "forth"])
def test_setting_the_clock_ends_no_wait_early_or_late(
    offset_s: float, environment: dict[str, str], folder: Path, script: Script, shelf: SessionDirectory
) -> None:
    """The call runs into its limit of one second, and the screen is still drawn."""
    clock = Clock(environment, folder / "clock")
    (folder / "chaos.toml").write_text(
        f'[[servers]]\nname = "chaos"\ncommand = "{sys.executable}"\ntimeout_s = 1\n'
        f'args = ["-m", "mcp_client.chaos", "hang-call", "--log", "{folder}/chaos.jsonl"]\n'
        f'env = {{ PYTHONPATH = "{TESTS}" }}\n',
        encoding="utf-8",
    )
    model = script(call_text("act"), "It is late.", "Still here.")
    with open_chat(clock, folder, "--model", model, "--config", "chaos.toml", "--allow", "act") as screen:
        screen.type("go\r")
        screen.wait_for("[MCP: Calling tool 'act']")
        clock.set(offset_s)
        begun = time.monotonic()
        screen.type("and now?")
        screen.wait_for("and now?")
        lines = screen.wait_for("◆ It is late.", 20)
        assert 0.5 < time.monotonic() - begun < allow_s(1) + 5
        assert any("did not answer" in line for line in lines)
        screen.wait_for("> and now?")
        clock.set(0)
        screen.type("\r")
        screen.wait_for("◆ Still here.")
    (name,) = shelf.list_ids()
    assert [record.text for record in records_of(shelf, name) if record.role != "tool"] == [
        "go", call_text("act"), "It is late.", "and now?", "Still here.",
    ]  # fmt: skip
    assert left_behind(folder, "chaos") == []


@pytest.mark.slow
def test_a_turn_and_its_session_survive_a_clock_that_jumps_during_its_calls(
    environment: dict[str, str], folder: Path, script: Script, shelf: SessionDirectory
) -> None:
    """As at the first contact with a time server, after a start of a board that has no clock of its own."""
    clock = Clock(environment, folder / "clock")
    (folder / "server.py").write_text(CLOCK_SERVER, encoding="utf-8")
    (folder / "own.toml").write_text(
        '[policy]\napprove = "all"\n'
        f'[[servers]]\nname = "clock"\ncommand = "{sys.executable}"\nargs = ["server.py"]\nsandbox = "off"\n'
        f'env = {{ CLOCK = "{clock.path}" }}\n',
        encoding="utf-8",
    )
    jumps = [call_text("jump", seconds=seconds) for seconds in (YEAR_S, -YEAR_S, 40 * YEAR_S)]
    options = ["--config", "own.toml", "--continue", "--output-format", "json"]
    command = [sys.executable, "-m", "rkllm_chat", "-p", "Go!", "--model", script(*jumps, "Done."), *options]
    for turn in (1, 2):
        done = subprocess.run(
            command, cwd=folder, env=clock.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60,
            check=True,
        )  # fmt: skip
        result = json.loads(done.stdout)["result"]
        assert (result["text"].splitlines()[-1], result["reason"]) == ("Done.", "answered")
        assert [call["status"] for call in result["calls"]] == ["completed"] * 3
        assert all(0 <= call["seconds"] < 20 for call in result["calls"])
        assert clock.path.read_text() == str(40 * YEAR_S)
        (name,) = shelf.list_ids()
        assert [record.text for record in records_of(shelf, name)].count("Go!") == turn


def records_of(shelf: SessionDirectory, name: str) -> list[Message]:
    return [entry.record for entry in shelf.read(name).entries if isinstance(entry.record, Message)]


def test_a_session_in_which_the_model_failed_goes_on(program: Run, script: Script, shelf: SessionDirectory) -> None:
    alone = ("--no-servers", "--continue")
    done = program("-p", "one", "--model", script(), *alone, code=1)
    assert [line.partition(" ")[0] for line in done.stderr.splitlines()] == ["No", "rkllm-chat:"]  # session; reply
    assert "one more was requested" in done.stderr
    assert program("-p", "two", "--model", script("Hello."), *alone).stdout == "Hello.\n"
    (name,) = shelf.list_ids()
    assert [(record.role, record.text) for record in records_of(shelf, name)] == [
        ("user", "one"),
        ("user", "two"),
        ("assistant", "Hello."),
    ]
