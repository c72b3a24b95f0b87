"""Ctrl+C and Esc where the recorded sessions do not show it: it is felt, and nothing is harmed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stage import Screen, call_text

from .session import HERE

OpenScreen = Callable[..., Screen]
Script = Callable[..., str]
STOPS = pytest.mark.parametrize("key", ["\x03", "\x1b"], ids=["Ctrl+C", "Esc"])


def open_quiet(open_screen: OpenScreen, *arguments: str) -> Screen:
    screen = open_screen(*arguments)
    screen.wait_for("lists the commands")
    screen.wait_for_prompt()
    return screen


@pytest.mark.model
@STOPS
def test_a_long_prompt_that_is_read_can_be_stopped(key: str, open_screen: OpenScreen) -> None:
    screen = open_quiet(open_screen, "--no-servers", "--context", "8192")
    screen.type(f"\x1b[200~{'word ' * 2200}\x1b[201~")
    screen.wait_for("word word")
    screen.type("\r")
    screen.wait_for("reading ")
    screen.type(key)
    screen.wait_for("[Stopped]")
    screen.wait_for_prompt()
    screen.type("/clear\r")
    screen.wait_for("The conversation is forgotten.")
    screen.wait_for_prompt()
    screen.type("Hello!\r")
    screen.wait_for("◆ ")


@STOPS
def test_an_open_menu_is_closed_and_the_chat_goes_on(key: str, open_screen: OpenScreen, script: Script) -> None:
    screen = open_quiet(open_screen, "--no-servers", "--model", script("Hello."))
    screen.type("/und")
    screen.wait_for("takes the last turn back")
    screen.type(key)
    screen.wait_until(lambda: not any("takes the last" in line for line in screen.lines()), "a closed menu")
    assert any(line.startswith("> /und") for line in screen.lines()) == (key == "\x1b")
    screen.type("\x15hi\r" if key == "\x1b" else "hi\r")
    screen.wait_for("◆ Hello.")


def test_a_shell_command_gets_its_own_ctrl_c(open_screen: OpenScreen, script: Script) -> None:
    screen = open_quiet(open_screen, "--no-servers", "--model", script("Hello."))
    screen.type("!echo it runs; exec sleep 60\r")
    screen.wait_until(lambda: "it runs" in screen.lines(), "what the command says")
    screen.type("\x03")
    screen.wait_for_prompt()
    screen.type("hi\r")
    lines = screen.wait_for("◆ Hello.")
    assert not any("Press Ctrl+C once more" in line for line in lines)
    assert "^C" in lines  # and the next line begins at its start


def test_what_was_said_until_the_stop_is_in_the_history(open_screen: OpenScreen, script: Script, folder: Path) -> None:
    model = script({"text": "Once upon a time", "wait": True}, "The end.")
    screen = open_quiet(open_screen, "--no-servers", "--model", model)
    screen.type("a story\r")
    screen.wait_for("◆ Once upon a time")
    screen.type("\x03")
    screen.wait_for("[Stopped]")
    screen.wait_for_prompt()
    screen.type("/copy\r")
    screen.wait_for("16 characters are in the clipboard")
    assert list(folder.iterdir()) == [folder / "replies.json"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("state", ["generation", "question"])
def test_a_signal_leaves_cleanly(
    state: str, number: int, code: int, open_screen: OpenScreen, script: Script, folder: Path
) -> None:
    for name in ("harbour.py", "harbour.toml"):
        text = (HERE / name).read_text(encoding="utf-8").replace("PYTHON", sys.executable)
        (folder / name).write_text(text, encoding="utf-8")
    reply = {"text": "Once upon", "wait": True} if state == "generation" else call_text("write_log", text="x")
    servers = ["--no-servers"] if state == "generation" else ["--config", "harbour.toml"]
    screen = open_quiet(open_screen, *servers, "--model", script(reply))
    screen.type("go\r")
    screen.wait_for("Once upon" if state == "generation" else "Run it?")
    screen.process.send_signal(number)
    assert screen.wait_for_end() == code
    assert "Traceback" not in "\n".join(screen.lines())
    assert b"\x1b[?2004l" in screen.bytes[-400:]
