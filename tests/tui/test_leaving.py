"""How the chat ends and what it leaves behind: hangup, signals, Ctrl+C in every state, suspend and fg, a full disk."""

from __future__ import annotations

import os
import pty
import resource
import select
import shlex
import signal
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpu_time import allow_s
from mcp_client.faults import left_behind, read_events
from processes import find_children, is_there
from rkllm_chat.core.messages import Message
from rkllm_chat.storage.session_files import SessionDirectory
from rkllm_chat.storage.session_records import TurnFinished
from shell import wait_until
from stage import PROGRAM, Screen, call_text

from .server_configs import write_chaos

OpenChat = Callable[..., Screen]
CTRL_C = "\x03"
MODES = """echo modes while away: $(stty -a | tr ' ;' '\\n\\n' | grep -xE 'icanon|echo|isig')\r"""
LONG = " ".join(f"Two{number}" for number in range(200))


def last_turn(shelf: SessionDirectory) -> list[object]:
    """Return the texts of the only session and the record of how its last turn ended."""
    (name,) = shelf.list_ids()
    contents = shelf.read(name)
    assert contents.damaged_lines == 0 and not contents.torn_line
    records = [entry.record for entry in contents.entries]
    texts: list[object] = [record.text for record in records if isinstance(record, Message)]
    return [*texts, records[-1]]


def is_calling(folder: Path) -> bool:
    """Whether the server has received a tool call."""
    messages = [event["message"] for event in read_events(folder, "chaos") if event["event"] == "in"]
    return any(message.get("method") == "tools/call" for message in messages)


# State -> replies of the model, text that shows that it is reached, texts that are saved.
STATES: dict[str, tuple[list[Any], str, list[str]]] = {
    "generation": ([{"text": "Once upon a time", "wait": True}], "Once upon a time", ["go", "Once upon a time"]),
    "a call": ([call_text("act")], "[MCP: Calling tool 'act']", ["go", call_text("act")]),
    "a question": ([call_text("act")], "Run act?", ["go", call_text("act")]),
    "at the prompt": (["Unsaid."], "", []),
}


def reach(state: str, screen: Screen, folder: Path) -> None:
    if state != "at the prompt":
        screen.say("go\r", STATES[state][1])
    if state == "a call":
        wait_until(lambda: is_calling(folder))


def wait_for_exit(screen: Screen) -> tuple[int, float]:
    """Return the exit code and the seconds until it; the terminal may be closed."""
    started = time.monotonic()
    return screen.process.wait(timeout=15), time.monotonic() - started


@pytest.mark.parametrize(
    ("state", "how"),
    [
        ("at the prompt", "the terminal goes away"),
        ("generation", "SIGHUP"),
        ("a call", "SIGTERM"),
        ("a call", "the terminal goes away"),
        ("a question", "SIGTERM"),
    ],
)
def test_the_session_is_saved_and_no_process_is_left(
    state: str, how: str, open_chat: OpenChat, folder: Path, shelf: SessionDirectory
) -> None:
    replies, _, saved = STATES[state]
    allow = "" if state == "a question" else "--allow act"
    screen = open_chat(f"{write_chaos(folder, chaos='hang-call')} {allow}", *replies)
    reach(state, screen, folder)
    if how.startswith("SIG"):
        screen.process.send_signal(signal.Signals[how])
    else:
        os.close(screen.terminal)
        screen.terminal = os.open(os.devnull, os.O_RDWR)
    code, seconds = wait_for_exit(screen)
    assert code == (143 if how == "SIGTERM" else 129)
    assert seconds < allow_s(3)
    assert left_behind(folder, "chaos") == []
    assert b"Traceback" not in screen.bytes
    if how.startswith("SIG"):
        screen.wait_for_end()
        assert b"\x1b[?2004l" in screen.bytes[-400:], "the terminal is as before"
    if saved:
        records = last_turn(shelf)
        assert records[:2] == saved and records[-1] == TurnFinished("stopped")
    else:
        assert shelf.list_ids() == []


@pytest.mark.parametrize("state", ["generation", "a call"])
def test_quit_ends_what_runs(state: str, open_chat: OpenChat, folder: Path, shelf: SessionDirectory) -> None:
    replies, _, saved = STATES[state]
    screen = open_chat(f"{write_chaos(folder, chaos='hang-call')} --allow act", *replies, "More.")
    reach(state, screen, folder)
    screen.type("and then?\r")
    screen.type("/QUIT\r")
    assert screen.wait_for_end() == 0
    records = last_turn(shelf)
    assert records[:2] == saved and records[-1] == TurnFinished("stopped")
    assert left_behind(folder, "chaos") == []


@pytest.mark.slow
def test_the_chat_ends_when_its_output_terminal_is_closed(
    script: Callable[..., str], environment: dict[str, str], folder: Path
) -> None:
    """There is no signal and keys still arrive, so the next redraw must detect it."""
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
    assert seconds < allow_s(3)


def read_until(terminal: int, text: str) -> None:
    limit, output = time.monotonic() + 15, b""
    while text.encode() not in output:
        assert select.select([terminal], [], [], max(0.0, limit - time.monotonic()))[0], output
        output += os.read(terminal, 65536)


def test_ctrl_c_is_not_sent_to_servers(open_chat: OpenChat, folder: Path) -> None:
    screen = open_chat(f"{write_chaos(folder, chaos='hang-call')} --allow act", call_text("act"), "Still here.")
    reach("a call", screen, folder)
    screen.say(CTRL_C, "[Stopped]")
    screen.wait_for_prompt()
    screen.enter("hello?", "◆ Still here.")
    (server,) = [event["pid"] for event in read_events(folder, "chaos") if event["event"] == "start"]
    assert is_there(server)
    screen.leave()
    assert "SIGINT" not in [event.get("name") for event in read_events(folder, "chaos")]
    assert left_behind(folder, "chaos") == []


@pytest.mark.slow
def test_repeated_ctrl_c_leaves_during_a_stuck_call(open_chat: OpenChat, folder: Path, shelf: SessionDirectory) -> None:
    modes = {"chaos": "hang-call", "two": "ignore-sigterm", "three": "ignore-sigterm"}
    screen = open_chat(f"{write_chaos(folder, **modes)} --allow chaos__act", call_text("chaos__act"))
    screen.say("go\r", "[MCP: Calling tool 'chaos__act']")
    wait_until(lambda: is_calling(folder))
    screen.type(CTRL_C * 3)
    started = time.monotonic()
    assert screen.wait_for_end(15) == 0
    assert time.monotonic() - started < allow_s(3)
    assert [left for name in modes for left in left_behind(folder, name)] == []
    assert last_turn(shelf)[-1] == TurnFinished("stopped")


@pytest.mark.slow
def test_suspend_and_fg_restore_the_terminal_and_keep_the_servers(
    script: Callable[..., str], environment: dict[str, str], folder: Path
) -> None:
    servers = write_chaos(folder, chaos="ok")
    model = script(call_text("act"), "One.", call_text("act"), "Two.")
    screen = Screen([], {**environment, "PS1": "shell: "}, folder, command=["bash", "--norc", "-i"])
    try:
        screen.wait_for("shell:")
        command = " ".join([*PROGRAM, "--model", model, servers, "--allow", "act"])
        screen.say(f"{command}\r", "for commands, Ctrl+D to exit")
        screen.wait_for_prompt()
        screen.enter("one", "◆ One.")
        screen.say("\x1a", "Stopped")
        screen.wait_for_end_of_line("shell:")
        screen.say(MODES, "modes while away: isig icanon echo")
        screen.type("fg\r")
        screen.wait_for_prompt()
        screen.say("two\r", "◆ Two.")
        screen.type("\x04")
        screen.wait_for_end_of_line("shell:")
        screen.say(MODES.replace("while away", "after $?"), "modes after 0: isig icanon echo")
    finally:
        os.killpg(screen.process.pid, signal.SIGKILL)
        screen.close()
    assert len([event for event in read_events(folder, "chaos") if event["event"] == "start"]) == 1
    assert left_behind(folder, "chaos") == []


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_end_of_input_approves_no_call(terminal: str, open_chat: OpenChat, folder: Path) -> None:
    screen = open_chat(
        write_chaos(folder, chaos="ok"), call_text("act"), "It was not run.", TERM=terminal, size=(120, 30)
    )
    screen.say("go\r", "Run act?")
    screen.type("\x04")
    refusals = ("declined", "stopped]", "not run]")
    screen.wait_until(lambda: any(text in line for line in screen.lines() for text in refusals), "a refusal")
    screen.type("\x04")
    screen.wait_for_end()
    assert not is_calling(folder)
    assert left_behind(folder, "chaos") == []


@pytest.mark.parametrize("is_full", [False, True])
def test_a_session_is_offered_at_the_end_if_all_of_it_is_saved(is_full: bool, open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "One.", LONG, size=(120, 30))
    screen.enter("first", "◆ One.")
    if is_full:
        resource.prlimit(screen.process.pid, resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    screen.enter("second", "Two1 Two2", *(["The session cannot be saved"] if is_full else []))
    screen.leave()
    assert any("rkllm-chat --resume" in line for line in screen.lines()) == (not is_full)


def test_a_full_disk_is_reported_once_and_no_message_is_lost(open_chat: OpenChat, shelf: SessionDirectory) -> None:
    screen = open_chat("--no-servers", "One.", LONG, "Three.", "Four.")
    pid = screen.process.pid
    screen.enter("first", "◆ One.")
    (name,) = shelf.list_ids()
    path = shelf.path / f"{name}.jsonl"
    before = path.read_bytes()
    unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE, (len(before) + 50, resource.RLIM_INFINITY))
    screen.enter("second", "Two1 Two2", "The session cannot be saved: only 50 of ")
    screen.enter("third", "◆ Three.")
    assert path.read_bytes() == before
    resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
    screen.enter("fourth", "◆ Four.")
    assert sum("cannot be saved" in line for line in screen.lines()) <= 1
    screen.leave()
    texts = ["first", "One.", "second", LONG, "third", "Three.", "fourth", "Four."]
    assert last_turn(shelf) == [*texts, TurnFinished("answered")]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_a_chat_that_is_ended_from_outside_leaves_the_terminal_as_it_was(
    number: int, environment: dict[str, str], folder: Path, script: Callable[..., str]
) -> None:
    screen = Screen(
        [], {**environment, "PS1": "shell: "}, folder, command=["sh", "-i"]
    )  # changes no modes, as bash does
    screen.wait_for("shell:")
    before = termios.tcgetattr(screen.terminal)
    screen.type(f"{shlex.join(PROGRAM)} --no-servers --model {script('Hello.')}\r")
    screen.wait_for("Ctrl+D")
    (chat,) = find_children(screen.process.pid)
    os.kill(chat, number)
    screen.wait_for("rkllm-chat --continue")
    screen.type("echo $((40 + 2)) again\r")
    screen.wait_for("42 again")
    assert termios.tcgetattr(screen.terminal)[:4] == before[:4]
    screen.close()
