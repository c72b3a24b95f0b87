"""A folder's files start and change nothing that their user has not accepted: the program on a terminal."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.config.files import TRUST_VARIABLE
from stage import OpenScreen, Run, Screen, Script, call_text

from .faults import chaos, read_events

START = "Start it and trust it from now on? [y/N]"
ACCEPT = "Approve the current tools of chaos? [y/N]"
ADD = {"a": 1, "b": 2}


@dataclass
class Clone:
    """A folder that somebody else made; its mcp.json names the server `chaos`, which notes what happens to it."""

    folder: Path
    open_screen: OpenScreen

    def write(self, mode: str = "ok", beside: bool = False, **more: Any) -> None:
        """Names the server anew; `beside`: by a file that is moved into the place of the old one."""
        server = chaos(self.folder, mode)
        entry = {"command": server.command, "args": list(server.args), "env": dict(server.env), **more}
        path = self.folder / "mcp.json"
        written = path.with_suffix(".new") if beside else path
        without = {"board": {"command": "x", "disabled": True}}
        written.write_text(json.dumps({"mcpServers": {"chaos": entry, **without}}), encoding="utf-8")
        written.rename(path)

    def open(self, model: str, *options: str) -> Screen:
        return self.open_screen("--model", model, *options, size=(100, 70))

    def modes(self) -> list[str]:
        """The mode of each start."""
        return [entry["mode"] for entry in read_events(self.folder, "chaos") if entry["event"] == "start"]

    def ran(self, tool: str) -> int:
        return sum(entry.get("tool") == tool for entry in read_events(self.folder, "chaos"))


@pytest.fixture
def clone(environment: dict[str, str], folder: Path, open_screen: OpenScreen) -> Clone:
    del environment[TRUST_VARIABLE]
    return Clone(folder, open_screen)


def say(screen: Screen, line: str) -> None:
    screen.wait_for_prompt()
    screen.type(f"{line}\r")


def leave(screen: Screen) -> None:
    screen.wait_for_prompt()
    screen.type("\x04")
    assert screen.wait_for_end() == 0


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["y", "\r"], ids=["yes", "Enter"])
def test_what_was_shown_is_what_is_started(answer: str, clone: Clone, script: Script) -> None:
    clone.write()
    screen = clone.open(script("Hello."))
    screen.wait_for("mcp.json in this folder wants to start the MCP server chaos, which you have not approved")
    screen.wait_for_end_of_line(START)
    assert clone.modes() == []
    clone.write("many-tools", beside=True)
    screen.type(answer)
    screen.wait_for("for commands, Ctrl+D to exit")
    leave(screen)
    assert clone.modes() == (["ok"] if answer == "y" else [])
    again = clone.open("replies.json")  # the other one was never accepted
    again.wait_for_end_of_line(START)
    assert "many-tools" in "".join(again.lines())


@pytest.mark.slow
def test_a_program_that_is_exchanged_after_the_question_is_not_started(clone: Clone, script: Script) -> None:
    """A link that leads elsewhere since, while the question is open and between two starts of the chat."""
    program, other = clone.folder / "tool", clone.folder / "other"
    program.symlink_to(sys.executable)
    shutil.copy(shutil.which("true") or "", other)
    clone.write(command="./tool")
    trust = clone.open_screen("trust", "chaos", size=(1000, 40))
    trust.wait_for_end_of_line(START)
    program.unlink()
    program.symlink_to(other)
    trust.type("y\r")
    trust.wait_for("you have not accepted it in its present form")
    trust.wait_for_end()
    program.unlink()
    program.symlink_to(sys.executable)
    screen = clone.open(script("Hello."))  # accepted by the answer, with the program that was shown
    screen.wait_until(lambda: clone.modes() == ["ok"], "the server")
    say(screen, "/mcp restart chaos")
    screen.wait_until(lambda: clone.modes() == ["ok", "ok"], "the server again")
    screen.wait_for_prompt()
    program.unlink()
    program.symlink_to(other)
    say(screen, "/mcp restart chaos")
    refusal = "have not accepted it in its present form"
    screen.wait_until(lambda: refusal in " ".join(" ".join(screen.lines()).split()), "that it is not started")
    leave(screen)
    assert clone.modes() == ["ok", "ok"]


@pytest.mark.slow
def test_a_server_that_changed_is_asked_about_again(clone: Clone, script: Script) -> None:
    """A change of what starts it, and of nothing else; a no holds until the user enables the server."""
    clone.write()
    screen = accept(clone, script("Hello."))
    clone.write(beside=True, args=["-m", "mcp_client.chaos", "many-tools"])
    say(screen, "/mcp reload")
    screen.wait_until(lambda: any(line.endswith(START) for line in screen.lines()[-2:]), "the question again")
    screen.type("n")
    screen.wait_for_prompt()
    assert clone.modes() == ["ok"]
    clone.write(beside=True, timeout_s=7, trust="trusted")
    say(screen, "/mcp reload")
    screen.wait_for('mcp.json: servers "chaos" trust is ignored')
    screen.wait_until(lambda: clone.modes() == ["ok", "ok"], "the server as it was accepted")
    screen.wait_for_prompt()
    assert not any(START in line for line in screen.lines()[-8:])
    leave(screen)
    again = clone.open("replies.json")
    again.wait_for("1/1 server")


@pytest.mark.slow
def test_a_declined_server_can_be_enabled(clone: Clone, script: Script) -> None:
    clone.write()
    screen = clone.open(script("Hello."))
    screen.wait_for_end_of_line(START)
    screen.type("\r")
    screen.wait_for("[MCP: Not accepted, so not started: 'chaos'; /mcp enable NAME asks again]")
    say(screen, "/mcp reload")
    screen.wait_for("Servers started or stopped: -")  # a no holds
    say(screen, "/mcp enable chaos")
    screen.wait_until(lambda: count(screen, START) == 2, "the question again")
    screen.type("y")
    screen.wait_for("1/1 server")
    leave(screen)
    assert clone.modes() == ["ok"]


def count(screen: Screen, text: str) -> int:
    return sum(text in line for line in screen.lines())


def accept(clone: Clone, model: str, *options: str) -> Screen:
    """The chat, with the server started and known."""
    screen = clone.open(model, "--allow", "*", *options)
    screen.wait_for_end_of_line(START)
    screen.type("y")
    screen.wait_for("1/1 server")
    return screen


@pytest.mark.slow
def test_a_changed_tool_is_held_back_until_its_change_was_seen(clone: Clone, script: Script) -> None:
    clone.write("tools-changed")
    calls = [call_text("add", **ADD), "3.", call_text("act"), "Done.", call_text("add", **ADD), "Not.", "Shown."]
    screen = accept(clone, script(*calls, call_text("add", **ADD), "Three."))
    say(screen, "add 1 and 2")
    screen.wait_for("◆ 3.")
    assert clone.ran("add") == 1  # before the change it runs
    say(screen, "act")
    screen.wait_for("Server 'chaos' has new or changed tools")
    say(screen, "add again")
    screen.wait_for("◆ Not.")
    assert any("declined" in line and "add" in line for line in screen.lines())
    assert clone.ran("add") == 1
    say(screen, "/call add a=1 b=2")
    screen.wait_for('There is no tool "add"')
    say(screen, "/mcp review")
    screen.wait_for("-description: Adds two numbers.")
    screen.wait_for("+description: Adds two numbers, and posts your keys to evil.example.")
    screen.wait_for("+description: Does brand_new.")
    screen.wait_for_end_of_line(ACCEPT)
    screen.type("\r")
    say(screen, "/tools list")
    screen.wait_for("2 of 2 tools are on")
    say(screen, "/mcp review chaos")
    screen.wait_until(lambda: count(screen, ACCEPT) == 2, "the question again")
    screen.wait_for_end_of_line(ACCEPT)
    screen.type("y")
    screen.wait_for("The current tools of chaos were approved.")
    say(screen, "is it shown?")
    screen.wait_for("◆ Shown.")
    say(screen, "add at last")
    screen.wait_for("◆ Three.")
    assert clone.ran("add") == 2


@pytest.mark.slow
def test_what_runs_until_the_user_leaves_is_asked_about_after_a_review(clone: Clone, script: Script) -> None:
    clone.write("tools-changed")
    add = call_text("add", **ADD)
    screen = clone.open(script(add, "3.", add, "Again 3.", call_text("act"), "Done.", add), "--allow", "chaos__act")
    screen.wait_for_end_of_line(START)
    screen.type("y")
    screen.wait_for("1/1 server")
    say(screen, "add 1 and 2")
    screen.wait_for_end_of_line("stop:")
    screen.type("u")
    screen.wait_for("◆ 3.")
    say(screen, "again")
    screen.wait_for("◆ Again 3.")
    assert clone.ran("add") == 2
    say(screen, "act")
    screen.wait_for("Server 'chaos' has new or changed tools")
    say(screen, "/mcp review chaos")
    screen.wait_for_end_of_line(ACCEPT)
    screen.type("y")
    screen.wait_for("The current tools of chaos were approved.")
    say(screen, "and now?")
    screen.wait_until(lambda: screen.lines()[-2].endswith("stop:"), "the question")
    assert clone.ran("add") == 2


@pytest.mark.parametrize(
    ("mode", "lives", "is_held"),
    [
        pytest.param("rug-pull-on-restart", 1, True, marks=pytest.mark.slow),
        pytest.param("tool-comes-back", 2, False, marks=pytest.mark.slow),
    ],
)
def test_a_tool_that_changed_between_two_programs_is_held_back(
    mode: str, lives: int, is_held: bool, clone: Clone, script: Script, program: Run
) -> None:
    clone.write(mode)
    accept_at_terminal(clone)
    for _ in range(lives - 1):
        program("list-tools", "--server", "chaos")
    done = program("-p", "add 1 and 2", "--model", script(call_text("add", **ADD), "So."), "--allow", "*")
    assert clone.ran("add") == (0 if is_held else 1)
    assert ("Server 'chaos' has new or changed tools" in done.stderr) == is_held
    for more in ((), ("--no-check",)):
        called = program("call-tool", "chaos.add", "--args", json.dumps(ADD), *more, code=int(is_held))
        assert ("rkllm-chat mcp trust chaos" in called.stdout) == is_held
    assert clone.ran("add") == (0 if is_held else 3)
    listed = json.loads(program("list-tools", "--server", "chaos").stdout)["result"]
    assert ("add" in [tool["name"] for tool in listed]) != is_held


@pytest.mark.slow
@pytest.mark.parametrize("place", ["shell", "shell with its file", "chat"])
def test_a_removed_server_that_comes_back_is_asked_about(
    place: str, clone: Clone, script: Script, program: Run
) -> None:
    clone.write()
    accept_at_terminal(clone)
    assert program("mcp", "test", "chaos").stdout
    if place == "chat":
        screen = clone.open(script("Hello."))
        screen.wait_for("1/1 server")
        say(screen, "/mcp remove chaos")
        screen.wait_for("Server 'chaos' was removed from mcp.json.")
        leave(screen)
    else:
        options = ("--config", "./mcp.json") if place == "shell with its file" else ()
        program(*options, "mcp", "remove", "chaos")
    before = clone.modes()
    clone.write()
    assert "have not accepted it" in program("mcp", "test", "chaos", code=3).stdout
    assert clone.modes() == before
    accept_at_terminal(clone)
    assert program("mcp", "test", "chaos").stdout


def accept_at_terminal(clone: Clone) -> None:
    """`rkllm-chat mcp trust`, and yes to what it asks."""
    screen = clone.open_screen("trust", "chaos")
    screen.wait_for(START)
    screen.type("y\r")
    assert screen.wait_for_end() == 0


@pytest.mark.slow
def test_a_tool_that_claims_only_to_read_and_is_named_delete_is_asked_about(clone: Clone, script: Script) -> None:
    clone.write("annotation-lie", trust="trusted")
    call = call_text("delete_everything")
    screen = clone.open(script(call, call, "It was run."))
    screen.wait_for('mcp.json: servers "chaos" trust is ignored')
    screen.wait_for_end_of_line(START)
    screen.type("y")
    screen.wait_for("1/1 server")
    for answer, ran, reply in (("n", 0, "Not called, as you said no: "), ("y", 1, "It was run.")):
        say(screen, "delete it")
        screen.wait_for_end_of_line("stop:")
        assert count(screen, "may delete or overwrite data") >= 1
        assert clone.ran("delete_everything") == 0
        screen.type(answer)
        if answer == "n":
            screen.wait_for("Why not?")
            screen.type("\x1b")
        screen.wait_for(f"◆ {reply}")
        assert clone.ran("delete_everything") == ran
