"""How the chat ends, and what of it is left: the terminal goes away, signals, Ctrl+C in every state, a stop and fg."""

from __future__ import annotations

import os
import pty
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.journal import Shelf
from rkllm_chat.messages import Message
from rkllm_chat.records import TurnDone
from servers.faults import SLACK, is_there, left_behind, read_events
from stage import PROGRAM, Screen, call_text

OpenScreen = Callable[..., Screen]
Script = Callable[..., str]
TESTS = Path(__file__).parents[1]
CTRL_C = "\x03"
MODES = """echo modes while away: $(stty -a | tr ' ;' '\\n\\n' | grep -xE 'icanon|echo|isig')\r"""


def lay_chaos(folder: Path, mode: str, *names: str) -> list[str]:
    """Options for a chat with servers of a mode; what happens to each is noted in the folder."""
    entries = []
    for name in names or ("chaos",):
        files = f'"--log", "{folder / name}.jsonl", "--state", "{folder / name}.lives"'
        args = f'"-m", "servers.chaos", "{mode}", {files}'
        entries.append(
            f'[[servers]]\nname = "{name}"\ncommand = "{sys.executable}"\nargs = [{args}]\n'
            f'env = {{ PYTHONPATH = "{TESTS}" }}\n'
        )
    (folder / "chaos.toml").write_text("".join(entries), encoding="utf-8")
    return ["--config", "chaos.toml"]


def open_quiet(open_screen: OpenScreen, *arguments: str) -> Screen:
    screen = open_screen(*arguments)
    screen.wait_for("lists the commands")
    screen.wait_for_prompt()
    return screen


def last_turn(shelf: Shelf) -> list[object]:
    """The messages of the only session, and how its last turn ended."""
    (name,) = shelf.ids()
    contents = shelf.read(name)
    assert contents.damaged == 0 and not contents.torn
    records = [entry.record for entry in contents.entries]
    texts: list[object] = [record.text for record in records if isinstance(record, Message)]
    return [*texts, records[-1]]


def is_calling(folder: Path) -> bool:
    """Whether the server has been asked to act."""
    messages = [event["message"] for event in read_events(folder, "chaos") if event["event"] == "in"]
    return any(one.get("method") == "tools/call" for one in messages)


def wait_for_call(screen: Screen, folder: Path) -> None:
    screen.wait_for("[MCP: Calling tool 'act']")
    limit = time.monotonic() + 10
    while not is_calling(folder):
        assert time.monotonic() < limit, "the call has not reached the server"
        time.sleep(0.01)


# State -> what the model says, what shows that it is reached, what is kept of the turn.
STATES: dict[str, tuple[list[Any], str, list[str] | None]] = {
    "at the prompt": ([], "", None),
    "generation": ([{"text": "Once upon a time", "wait": True}], "Once upon a time", ["go", "Once upon a time"]),
    "a call": ([call_text("act")], "", ["go", call_text("act"), "…"]),
}


@contextmanager
def reached(state: str, screen: Screen, folder: Path) -> Iterator[None]:
    if state != "at the prompt":
        screen.type("go\r")
    if state == "a call":
        wait_for_call(screen, folder)
    elif STATES[state][1]:
        screen.wait_for(STATES[state][1])
    yield


def wait_for_exit(screen: Screen) -> tuple[int, float]:
    """Exit code and seconds; the terminal may have gone."""
    begun = time.monotonic()
    return screen.process.wait(timeout=15), time.monotonic() - begun


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("how", ["the terminal goes away", "SIGHUP", "SIGTERM"])
def test_what_was_said_is_kept_and_nothing_is_left(
    state: str, how: str, open_screen: OpenScreen, script: Script, folder: Path, shelf: Shelf
) -> None:
    replies, _, kept = STATES[state]
    servers = lay_chaos(folder, "hang-call")
    screen = open_quiet(open_screen, "--model", script(*replies), *servers, "--allow", "act")
    with reached(state, screen, folder):
        match how:
            case "SIGHUP":
                screen.process.send_signal(signal.SIGHUP)
            case "SIGTERM":
                screen.process.send_signal(signal.SIGTERM)
            case _:
                os.close(screen.terminal)
                screen.terminal = os.open(os.devnull, os.O_RDWR)
    code, seconds = wait_for_exit(screen)
    assert code == (143 if how == "SIGTERM" else 129)
    assert seconds < 3 * SLACK
    assert left_behind(folder, "chaos") == []
    assert b"Traceback" not in screen.bytes
    if kept is None:
        assert shelf.ids() == []
    else:
        said = last_turn(shelf)
        assert said[:2] == kept[:2] and said[-1] == TurnDone("stopped")


def test_a_terminal_that_only_shows_is_left_when_it_goes_away(
    script: Script, environment: dict[str, str], folder: Path
) -> None:
    """No signal says so, and the keys go on: the first thing that is drawn must find out."""
    shown, slave = pty.openpty()
    command = ["sh", "-c", 'exec "$@" >"$0" 2>&1', os.ttyname(slave), *PROGRAM]
    screen = Screen(["--model", script("One."), "--no-servers"], environment, folder, command=command)
    try:
        read_until(shown, "(0%)")
        os.close(shown)
        screen.type("hello")
        code, seconds = wait_for_exit(screen)
    finally:
        screen.close()
        os.close(slave)
    assert code == 0
    assert seconds < 3 * SLACK


def read_until(terminal: int, text: str) -> None:
    """Reads what a terminal shows until the text is there."""
    limit, said = time.monotonic() + 15, b""
    while text.encode() not in said:
        assert select.select([terminal], [], [], max(0.0, limit - time.monotonic()))[0], said
        said += os.read(terminal, 65536)


@pytest.mark.parametrize("state", [*STATES, "a question"])
def test_ctrl_c_is_for_the_chat_and_no_server_hears_of_it(
    state: str, open_screen: OpenScreen, script: Script, folder: Path
) -> None:
    replies = [call_text("act")] if state == "a question" else STATES[state][0]
    allow = [] if state == "a question" else ["--allow", "act"]
    servers = lay_chaos(folder, "hang-call")
    screen = open_quiet(open_screen, "--model", script(*replies, "Still here."), *servers, *allow)
    if state == "a question":
        screen.type("go\r")
        screen.wait_for("Run it?")
    else:
        with reached(state, screen, folder):
            pass
    screen.type(CTRL_C)
    screen.wait_for({"at the prompt": "Press Ctrl+C once more", "a question": "stopped]"}.get(state, "[Stopped]"))
    screen.wait_for_prompt()
    if state != "at the prompt":
        screen.type("hello?\r")
        screen.wait_for("◆ Still here.")
        screen.wait_for_prompt()
    (server,) = [event["pid"] for event in read_events(folder, "chaos") if event["event"] == "start"]
    assert is_there(server)
    assert is_calling(folder) == (state == "a call")
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    assert "SIGINT" not in [event.get("name") for event in read_events(folder, "chaos")]
    assert left_behind(folder, "chaos") == []


def test_an_impatient_person_gets_out_of_a_stuck_call(
    open_screen: OpenScreen, script: Script, folder: Path, shelf: Shelf
) -> None:
    names = ("chaos", "two", "three")
    servers = lay_chaos(folder, "ignore-sigterm", *names)
    (folder / "chaos.toml").write_text(
        (folder / "chaos.toml").read_text("utf-8").replace("ignore-sigterm", "hang-call", 1), "utf-8"
    )
    screen = open_quiet(open_screen, "--model", script(call_text("chaos__act")), *servers, "--allow", "chaos__act")
    screen.type("go\r")
    wait_for_call(screen, folder)
    screen.type(CTRL_C)
    screen.type(CTRL_C)
    screen.type(CTRL_C)
    begun = time.monotonic()
    assert screen.wait_for_end(15) == 0
    assert time.monotonic() - begun < 3 * SLACK
    assert [left for name in names for left in left_behind(folder, name)] == []
    assert last_turn(shelf)[-1] == TurnDone("stopped")


def test_after_a_stop_and_fg_the_terminal_and_the_servers_are_as_before(
    script: Script, environment: dict[str, str], folder: Path
) -> None:
    servers = lay_chaos(folder, "ok")
    model = script(call_text("act"), "One.", call_text("act"), "Two.")
    screen = Screen([], {**environment, "PS1": "shell: "}, folder, command=["bash", "--norc", "-i"])
    try:
        screen.wait_for("shell:")
        screen.type(" ".join([*PROGRAM, "--model", model, *servers, "--allow", "act"]) + "\r")
        screen.wait_for("lists the commands")
        screen.wait_for_prompt()
        screen.type("one\r")
        screen.wait_for("◆ One.")
        screen.wait_for_prompt()
        screen.type("\x1a")
        screen.wait_for("Stopped")
        screen.wait_for_end_of_line("shell:")
        screen.type(MODES)
        screen.wait_for("modes while away: isig icanon echo")
        screen.type("fg\r")
        screen.wait_for_prompt()
        screen.type("two\r")
        screen.wait_for("◆ Two.")
        screen.type("\x04")
        screen.wait_for_end_of_line("shell:")
        screen.type(MODES.replace("while away", "after $?"))
        screen.wait_for("modes after 0: isig icanon echo")
    finally:
        os.killpg(screen.process.pid, signal.SIGKILL)
        screen.close()
    assert len([event for event in read_events(folder, "chaos") if event["event"] == "start"]) == 1
    assert left_behind(folder, "chaos") == []


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_the_end_of_the_keys_is_no_consent(
    terminal: str, open_screen: OpenScreen, script: Script, folder: Path
) -> None:
    servers = lay_chaos(folder, "ok")
    screen = open_screen("--model", script(call_text("act"), "It was not run."), *servers, TERM=terminal)
    screen.wait_for("lists the commands")
    screen.type("go\r")
    screen.wait_for("Run it?")
    screen.type("\x04")
    screen.wait_until(lambda: any("declined" in line or "stopped]" in line for line in screen.lines()), "a refusal")
    screen.type("\x04")
    screen.wait_for_end()
    assert not is_calling(folder)
    assert left_behind(folder, "chaos") == []


def test_a_full_disk_is_told_once_and_nothing_said_meanwhile_is_lost(
    open_screen: OpenScreen, script: Script, shelf: Shelf
) -> None:
    screen = open_quiet(open_screen, "--model", script("One.", "Two " * 300, "Three.", "Four."), "--no-servers")
    pid = screen.process.pid

    def talk(line: str, answer: str) -> None:
        screen.type(f"{line}\r")
        screen.wait_for(answer)
        screen.wait_for_prompt()

    talk("first", "◆ One.")
    (name,) = shelf.ids()
    path = shelf.path / f"{name}.jsonl"
    before = path.read_bytes()
    unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE, (len(before) + 50, resource.RLIM_INFINITY))
    talk("second", "Two Two")
    screen.wait_for("The session cannot be saved: only 50 of ")
    talk("third", "◆ Three.")
    assert path.read_bytes() == before
    resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
    talk("fourth", "◆ Four.")
    assert sum("cannot be saved" in line for line in screen.lines()) <= 1
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    said = last_turn(shelf)
    assert said[:4] == ["first", "One.", "second", "Two " * 300]
    assert said[4:] == ["third", "Three.", "fourth", "Four.", TurnDone("answered")]
