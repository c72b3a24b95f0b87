"""A folder's files start nothing and change nothing that their user has not accepted: the program on a terminal."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.places import TRUST_VARIABLE
from stage import Screen, call_text

from .faults import chaos, fault, read_events, rows

OpenScreen = Callable[..., Screen]
Script = Callable[..., str]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

START = "Start it, now and from now on? [y/N]"
ACCEPT = "Accept the tools of chaos as they are now? [y/N]"
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
        written.write_text(json.dumps({"mcpServers": {"chaos": entry}}), encoding="utf-8")
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


@fault("F61", "ok")
@pytest.mark.parametrize("answer", ["y", "\r"], ids=["yes", "Enter"])
def test_what_was_shown_is_what_is_started(mode: str, answer: str, clone: Clone, script: Script) -> None:
    clone.write(mode)
    screen = clone.open(script("Hello."))
    screen.wait_for("mcp.json of this folder names the server chaos, which you have not accepted as it is now:")
    screen.wait_for_end_of_line(START)
    assert clone.modes() == []
    clone.write("many-tools", beside=True)
    screen.type(answer)
    screen.wait_for("lists the commands")
    leave(screen)
    assert clone.modes() == (["ok"] if answer == "y" else [])
    again = clone.open("replies.json")  # the other one was never accepted
    again.wait_for_end_of_line(START)
    assert "many-tools" in "".join(again.lines())


CHANGES: dict[str, dict[str, Any]] = {
    "arguments": {"args": ["-m", "servers.chaos", "many-tools"]},
    "command": {"command": "/usr/bin/env"},
    "env keys": {"env": {"PYTHONPATH": "x", "MORE": "1"}},
    "loader": {"env": {"PYTHONPATH": "elsewhere"}},
    "url": {"command": "", "url": "http://127.0.0.1:9/mcp", "args": [], "env": {}},
}


@fault("F62", "ok")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_server_that_changed_is_asked_about_again(
    mode: str, change: dict[str, Any], clone: Clone, script: Script
) -> None:
    clone.write(mode)
    screen = clone.open(script("Hello."))
    screen.wait_for_end_of_line(START)
    screen.type("y")
    screen.wait_for("1/1 servers")
    clone.write(mode, beside=True, **change)
    say(screen, "/mcp reload")
    screen.wait_for_end_of_line(START)
    screen.type("n")
    screen.wait_for("Opened or closed: chaos")
    screen.wait_for("not accepted")
    leave(screen)
    assert clone.modes() == ["ok"]


@fault("F62", "ok")
def test_what_is_no_other_server_needs_no_new_answer(mode: str, clone: Clone, script: Script) -> None:
    clone.write(mode)
    screen = clone.open(script("Hello."))
    screen.wait_for_end_of_line(START)
    screen.type("y")
    screen.wait_for("1/1 servers")
    clone.write(mode, beside=True, timeout_s=7, trust="trusted")
    say(screen, "/mcp reload")
    screen.wait_for('mcp.json: servers "chaos" trust is ignored')
    screen.wait_for("Opened or closed: chaos")
    screen.wait_for_prompt()
    assert clone.modes() == ["ok", "ok"]
    assert not any(START in line for line in screen.lines()[-8:])
    leave(screen)
    again = clone.open("replies.json")
    again.wait_for("lists the commands")
    again.wait_for("1/1 servers")


@fault("F62", "ok")
def test_who_declined_may_think_again(mode: str, clone: Clone, script: Script) -> None:
    clone.write(mode)
    screen = clone.open(script("Hello."))
    screen.wait_for_end_of_line(START)
    screen.type("\r")
    screen.wait_for("[MCP: Server 'chaos' is not there")
    say(screen, "/mcp reload")
    screen.wait_for("Opened or closed: -")  # a no holds
    say(screen, "/mcp enable chaos")
    screen.wait_until(lambda: sum(START in line for line in screen.lines()) == 2, "the question again")
    screen.type("y")
    screen.wait_for("1/1 servers")
    leave(screen)
    assert clone.modes() == ["ok"]


def accept(clone: Clone, model: str, *options: str) -> Screen:
    """The chat, with the server started and known."""
    screen = clone.open(model, "--allow", "*", *options)
    screen.wait_for_end_of_line(START)
    screen.type("y")
    screen.wait_for("1/1 servers")
    return screen


@fault("F75", "tools-changed")
def test_a_changed_tool_is_held_back_until_its_change_was_seen(mode: str, clone: Clone, script: Script) -> None:
    clone.write(mode)
    calls = [call_text("add", **ADD), "3.", call_text("act"), "Done.", call_text("add", **ADD), "Not.", "Shown."]
    screen = accept(clone, script(*calls, call_text("add", **ADD), "Three."))
    say(screen, "add")
    screen.wait_for("◆ 3.")
    assert clone.ran("add") == 1  # before the change it runs
    say(screen, "act")
    screen.wait_for("Tools of server 'chaos' are new or have changed")
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
    say(screen, "/tools")
    screen.wait_for("2 of 2 tools are on")
    say(screen, "/mcp review chaos")
    screen.wait_until(lambda: sum(ACCEPT in line for line in screen.lines()) == 2, "the question again")
    screen.wait_for_end_of_line(ACCEPT)
    screen.type("y")
    screen.wait_for("The tools of chaos are accepted as they are now.")
    say(screen, "is it shown?")
    screen.wait_for("◆ Shown.")
    say(screen, "add at last")
    screen.wait_for("◆ Three.")
    assert clone.ran("add") == 2


@pytest.mark.parametrize(
    ("mode", "lives", "is_held"),
    rows(
        ("F76", "rug-pull-on-restart", 1, True),
        ("F76", "tool-comes-back-changed", 2, True),
        ("F76", "tool-comes-back", 2, False),
        ("F76", "ok", 2, False),
    ),
)
def test_a_tool_that_is_another_next_time_is_held_back(
    mode: str, lives: int, is_held: bool, clone: Clone, script: Script, program: Run
) -> None:
    clone.write(mode)
    leave(accept(clone, script("Hello.")))
    for _ in range(lives - 1):
        program("-p", "hello", "--model", "replies.json")
    done = program("-p", "add", "--model", script(call_text("add", **ADD), "So."), "--allow", "*")
    assert clone.ran("add") == (0 if is_held else 1)
    assert ("Tools of server 'chaos' are new or have changed" in done.stderr) == is_held
    for more in ((), ("--no-check",)):
        called = program("call-tool", "chaos.add", "--args", json.dumps(ADD), *more, code=int(is_held))
        assert ("/mcp review chaos in the chat, or rkllm-chat trust chaos" in called.stdout) == is_held
    assert clone.ran("add") == (0 if is_held else 3)
    listed = json.loads(program("list-tools", "--server", "chaos").stdout)["result"]
    assert ("add" in [tool["name"] for tool in listed]) != is_held


@fault("F76", "silent-rug-pull")
def test_a_second_list_is_compared_with_the_first(mode: str, clone: Clone, script: Script, program: Run) -> None:
    """The server is one process, kept between two commands."""
    clone.write("ok")
    leave(accept(clone, script("Hello.")))
    clone.write(mode)
    accept_at_terminal(clone)
    kept = ("call-tool", "chaos.add", "--args", json.dumps(ADD), "--keep-alive", "20")
    assert json.loads(program(*kept).stdout)["ok"]
    try:
        refused = json.loads(program(*kept, code=1).stdout)["error"]
        assert "has changed since you accepted its tools; it was not called." in refused["message"]
        assert clone.ran("add") == 1
    finally:
        program(*kept[:-1], "0", code=1)


def accept_at_terminal(clone: Clone) -> None:
    """`rkllm-chat trust`, and yes to what it asks."""
    screen = clone.open_screen("trust", "chaos")
    screen.wait_for(START)
    screen.type("y\r")
    assert screen.wait_for_end() == 0


@fault("F78", "annotation-lie")
@pytest.mark.parametrize(("answer", "ran"), [("n", 0), ("y", 1)], ids=["no", "yes"])
def test_a_lie_about_deleting_is_asked_about(mode: str, answer: str, ran: int, clone: Clone, script: Script) -> None:
    clone.write(mode, trust="trusted")
    screen = clone.open(script(call_text("delete_everything"), "So be it."))
    screen.wait_for('mcp.json: servers "chaos" trust is ignored')
    screen.wait_for_end_of_line(START)
    screen.type("y")
    screen.wait_for("1/1 servers")
    say(screen, "delete it")
    screen.wait_for("its name says that it deletes or overwrites")
    screen.wait_for_end_of_line("stop:")
    assert clone.ran("delete_everything") == 0
    screen.type(answer)
    screen.wait_for("So be it.")
    assert clone.ran("delete_everything") == ran


@fault("F54", "ok")
@pytest.mark.parametrize(("allow", "ran"), [((), 0), (("--allow", "chaos__add"), 1)], ids=["nobody", "allowed"])
def test_an_end_of_input_is_a_no(
    mode: str, allow: tuple[str, ...], ran: int, clone: Clone, script: Script, program: Run
) -> None:
    clone.write(mode)
    config = ("--config", "mcp.json", "--output-format", "json")
    done = program("--model", script(call_text("add", **ADD), "So."), *config, *allow, stdin="add it")
    calls = json.loads(done.stdout)["result"]["calls"]
    assert [call["status"] for call in calls] == ["completed" if ran else "declined"]
    assert clone.ran("add") == ran
