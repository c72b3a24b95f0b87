"""The list of saved sessions at a terminal: arrow keys, search, rename, delete, and what is opened."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest

from rkllm_chat.storage.session_files import SessionDirectory
from stage import Screen

Run = Callable[..., "subprocess.CompletedProcess[str]"]
HUSUM, KIEL, BERLIN = "250101-0000", "250102-0000", "250103-0000"
DOWN, UP, ESCAPE, RENAME, DELETE, CLEAR = "\x1b[B", "\x1b[A", "\x1b", "\x12", "\x04", "\x15"


@pytest.fixture
def saved(program: Run, script: Callable[..., str], shelf: SessionDirectory) -> SessionDirectory:
    """Three sessions, Berlin the newest."""
    program("-p", "How deep is Husum?", "--continue", "--model", script("Two metres."), "--no-servers")
    (first,) = shelf.list_ids()
    text = (shelf.path / f"{first}.jsonl").read_text("utf-8")
    (shelf.path / f"{first}.jsonl").unlink()
    for age, (name, place) in enumerate({BERLIN: "Berlin", KIEL: "Kiel", HUSUM: "Husum"}.items()):
        (shelf.path / f"{name}.jsonl").write_text(text.replace("Husum", place), "utf-8")
        os.utime(shelf.path / f"{name}.jsonl", (10**9 - age, 10**9 - age))
    return shelf


def open_picker(open_screen: Callable[..., Screen], script: Callable[..., str], **options: str) -> Screen:
    screen = open_screen("--resume", "--model", script("Hello."), "--no-servers", **options)
    screen.wait_for("How deep is Husum?")
    return screen


def rows(screen: Screen) -> list[str]:
    """The places of the rows; the current one is marked."""
    lines = [line for line in screen.lines() if "How deep is" in line]
    return [("❯" if line.startswith("❯") else "") + line.partition("deep is ")[2].partition("?")[0] for line in lines]


@pytest.mark.usefixtures("harbour")
def test_space_switches_tools_and_servers_in_a_list(open_chat: Callable[..., Screen]) -> None:
    screen = open_chat("--config harbour.toml", "Nothing.")
    screen.say("/tools\r", "Tools  1/7", "❯ x  ")
    screen.type(" " + DOWN + DOWN + " ")
    screen.wait_until(lambda: sum(line[2:3] == "x" for line in screen.lines()) == 5, "two rows without a mark")
    screen.say("\r", "5 of 7 tools are on")
    screen.wait_for_prompt()
    screen.say("/tools\r", "Tools  1/7")
    screen.type(" " + ESCAPE)
    screen.wait_for_prompt()
    screen.enter("/tools list", "5 of 7 tools are on")
    screen.say("/mcp\r", "Servers  1/1", "❯ x  harbour  connected")
    screen.type(" ")
    screen.say("\r", "harbour  off")
    screen.wait_for_prompt()
    screen.say("/mcp\r", "❯ -  harbour  off")
    screen.say(" \r", "harbour  connected")


def test_arrow_keys_and_search_choose_the_session_that_goes_on(
    open_screen: Callable[..., Screen], script: Callable[..., str], saved: SessionDirectory
) -> None:
    script("Hello.")
    screen = open_screen("--resume", "--no-servers")
    screen.wait_for("How deep is Husum?")
    assert rows(screen) == ["❯Berlin", "Kiel", "Husum"]
    assert next(line for line in screen.lines() if "Berlin" in line).endswith("/work")
    screen.type(DOWN)
    screen.wait_until(lambda: rows(screen) == ["Berlin", "❯Kiel", "Husum"], "the second row")
    screen.say("husum", "Search: husum")
    screen.wait_until(lambda: rows(screen) == ["❯Husum"], "one row")
    screen.type("\r")
    screen.wait_for(f"Resumed session {HUSUM} (1 turn). Last message: How deep is Husum?")
    screen.wait_for_prompt()
    screen.enter("And now?", "◆ Hello.")
    screen.say("/resume\r", "Saved sessions  1/3")
    screen.wait_for("❯ *")
    screen.type(DELETE)
    screen.say("y", f"Session {HUSUM} is the current one; /new starts another.")
    screen.type(ESCAPE)
    screen.wait_for_prompt()
    screen.leave()
    assert saved.list_ids() == [HUSUM, BERLIN, KIEL]


def test_sessions_are_renamed_and_deleted_in_the_list(
    open_screen: Callable[..., Screen], script: Callable[..., str], saved: SessionDirectory
) -> None:
    screen = open_picker(open_screen, script)
    screen.say(RENAME, "New title: How deep is Berlin?")
    screen.say(CLEAR + "Spree\r", "Search:")
    screen.wait_until(lambda: rows(screen) == ["Kiel", "Husum"], "the renamed row")
    assert any(line.startswith("❯") and "  Spree  " in line for line in screen.lines())
    screen.type(DOWN)
    screen.wait_until(lambda: rows(screen) == ["❯Kiel", "Husum"], "the second row")
    screen.say(DELETE, "Delete 'How deep is Kiel?'? [y/N]")
    screen.say("n", "Search:")
    screen.say(DELETE, "Delete 'How deep is Kiel?'? [y/N]")
    screen.type("y")
    screen.wait_until(lambda: rows(screen) == ["❯Husum"], "one row fewer")
    screen.type(ESCAPE)
    assert screen.wait_for_end() == 0
    assert saved.list_ids() == [BERLIN, HUSUM]
    assert '"kind":"title"' in (saved.path / f"{BERLIN}.jsonl").read_text("utf-8")


def test_esc_closes_the_list_and_does_not_stop_the_command(open_chat: Callable[..., Screen]) -> None:
    screen = open_chat("--no-servers", "Hello.")
    for keys in (ESCAPE, ESCAPE * 2, ESCAPE):  # each at once after the list appears; a second Esc closes no later list
        screen.say("/model\r", "Search:")
        screen.type(keys)
        screen.wait_for_prompt()
    assert not any("[Stopped]" in line for line in screen.lines())
    screen.leave()


@pytest.mark.usefixtures("harbour")
def test_a_command_in_the_search_of_a_list_runs_in_its_place(open_chat: Callable[..., Screen]) -> None:
    screen = open_chat("--config harbour.toml", "Nothing.")
    screen.say("/tools\r", "Search:")
    screen.say("/mcp list", "Search: /mcp list", "Enter runs /mcp list")
    screen.say("\r", "> /mcp list", "harbour  connected")
    screen.wait_for_prompt()
    screen.say("/tools\r", "Search:")
    screen.enter("/nosuch", 'Unknown command "/nosuch"')


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(("line", "shown"), [("/work", "Resumed session"), ("/help undo", "/undo [NUMBER]:")])
@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_a_slash_in_the_list_of_sessions_finds_a_folder_or_begins_a_command(
    line: str, shown: str, terminal: str, open_screen: Callable[..., Screen], script: Callable[..., str]
) -> None:
    screen = open_picker(open_screen, script, TERM=terminal)
    screen.wait_for("Number" if terminal == "dumb" else "Search:")
    screen.say(f"{line}\r", shown if (line, terminal) != ("/work", "dumb") else 'Unknown command "/work"')


def test_a_number_is_asked_for_where_the_cursor_cannot_move(
    open_screen: Callable[..., Screen], script: Callable[..., str], saved: SessionDirectory
) -> None:
    screen = open_picker(open_screen, script, TERM="dumb")
    screen.wait_for("Number (Enter cancels):")
    screen.say("2\r", f"Resumed session {KIEL} (1 turn).")
    assert saved.list_ids()[0] == BERLIN


def test_one_turn_needs_an_id(program: Run, saved: SessionDirectory) -> None:
    done = program("-p", "hi", "--resume", code=2)
    assert "--resume needs an ID for a single turn. rkllm-chat sessions lists them." in done.stderr
    assert saved.list_ids() == [BERLIN, KIEL, HUSUM]


@pytest.mark.usefixtures("saved")
def test_a_row_that_is_cut_says_so(open_screen: Callable[..., Screen], script: Callable[..., str]) -> None:
    screen = open_screen("--resume", "--model", script("Hello."), "--no-servers", size=(40, 24))
    lines = screen.wait_for("How deep is")
    assert all(line.endswith("…") for line in lines if "How deep is" in line)
