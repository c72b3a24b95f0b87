"""Tool calls on the interactive screen: their lines, shortened results, and the colours of what they mean."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stage import Screen, call_text

from .server_configs import HARBOUR, write_chaos

OpenChat = Callable[..., Screen]
CTRL_O = "\x0f"
YEAR = [f"2026, day {day}: {'storm' if day == 217 else 'calm'}" for day in range(1, 366)]


@pytest.fixture
def pager(folder: Path) -> str:
    """A pager that says what it shows and waits for a line."""
    path = folder / "pager"
    text = "import sys; lines = open(sys.argv[1]).read().splitlines(); print(len(lines), 'lines', lines[-1]); input()"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{text}" "$1"\n', encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.usefixtures("harbour")
def test_calls_are_numbered_and_their_results_stand_below_them(open_chat: OpenChat) -> None:
    calls = "\n".join(call_text("get_tide", harbour=name) for name in ("Hull", "Husum"))
    screen = open_chat(f"{HARBOUR} --allow get_tide", calls, "High.")
    lines = screen.enter("tides?", "◆ High.")
    shown = sorted(re.sub(r"[\d.]+ s$", "N s", line) for line in lines[lines.index("> tides?") + 2 : -3])
    assert lines[lines.index("> tides?") + 1] == "[MCP: Detected 2 tool calls]"
    assert shown == [
        "  The tide at Hull is 2.4 metres and rising.",
        "  The tide at Husum is 2.4 metres and rising.",
        """[MCP: Tool 'get_tide' completed] 1/2 harbour="Hull" N s""",
        """[MCP: Tool 'get_tide' completed] 2/2 harbour="Husum" N s""",
    ]
    for name in ("Hull", "Husum"):
        line = next(line for line in lines if f'"{name}"' in line)
        assert name in lines[lines.index(line) + 1], "each result is below its own call"


@pytest.mark.usefixtures("harbour")
@pytest.mark.parametrize(
    ("answer", "result_rows"),
    [
        ("The tide at Hull is 2.4\nmetres and rising. ", 0),
        ("The tide at Hull is 2.4 metres", 1),
        ("The tide at Hull is 2.4 metres and rising. Mind the quay.", 1),
    ],
)
def test_an_answer_that_is_the_result_is_shown_once(answer: str, result_rows: int, open_chat: OpenChat) -> None:
    screen = open_chat(f"{HARBOUR} --allow get_tide", call_text("get_tide", harbour="Hull"), answer)
    lines = screen.enter("tide?", "◆ ")
    assert lines.count("  The tide at Hull is 2.4 metres and rising.") == result_rows
    shown = lines[lines.index("> tide?") + 1 : -2]
    assert shown[0].startswith("[MCP: Tool 'get_tide' completed]")
    assert " ".join(" ".join(shown[1 + result_rows :]).split()) == f"◆ {' '.join(answer.split())}"


@pytest.mark.usefixtures("harbour")
@pytest.mark.parametrize("rows", [1, 12])
def test_an_answer_that_is_replaced_leaves_the_screen_or_is_said_to_be(rows: int, open_chat: OpenChat) -> None:
    thanks = "\n\n".join(["Thank you for the information about it!"] * rows)
    replies = (call_text("get_tide", harbour="Hull"), thanks, "It is 2.4 metres.")
    # so high that no line scrolls out at the top, however many rows the growing answer had at once
    screen = open_chat(f"{HARBOUR} --allow get_tide", *replies, size=(100, 50))
    lines = screen.enter("tide at Hull?", "◆ It is 2.4 metres.")
    assert lines.count("◆ Thank you for the information about it!") == (rows > 8)
    assert "Answer discarded: it says nothing of the results. The model answers again." in lines


@pytest.mark.usefixtures("harbour")
def test_a_discarded_answer_does_not_come_back_with_the_conversation(open_chat: OpenChat) -> None:
    replies = (call_text("get_tide", harbour="Hull"), "Thank you for the information about it!", "It is 2.4 metres.")
    screen = open_chat(f"{HARBOUR} --allow get_tide", *replies)
    screen.enter("tide at Hull?", "◆ It is 2.4 metres.")
    screen.leave()
    screen.wait_for_end()
    again = open_chat(f"{HARBOUR} --continue", "Bye.")
    lines = again.enter("bye", "◆ Bye.")
    assert "◆ It is 2.4 metres." in lines and not any("Thank you" in line for line in lines)


@pytest.mark.usefixtures("harbour")
def test_a_call_that_nobody_asked_for_and_that_is_not_made_leaves_no_line(open_chat: OpenChat) -> None:
    replies = (call_text("get_tide", harbour="Hull"), "Hello Mira!")
    screen = open_chat(f"{HARBOUR} --allow get_tide --set prompt_profile=qwen2.5", *replies)
    lines = screen.enter("Hi, I'm Mira and I live in Hull.", "◆ Hello Mira!")
    assert lines[lines.index("> Hi, I'm Mira and I live in Hull.") + 1] == "◆ Hello Mira!"


def test_a_result_of_six_lines_is_shown_whole(open_chat: OpenChat, folder: Path) -> None:
    for name in "abcdef":
        (folder / "quay" / name).mkdir(parents=True)
    screen = open_chat("--allow list_files", call_text("list_files", path="quay"), "Six ships.")
    lines = screen.enter("ships?", "◆ Six ships.")
    assert [line.strip() for line in lines[lines.index("> ships?") + 2 : -3]] == ["a/", "b/", "c/", "d/", "e/", "f/"]


def test_json_of_many_short_lines_is_shown_by_its_values(open_chat: OpenChat, folder: Path) -> None:
    """With its brackets alone it is not seen what was read or saved."""
    notes = ["birthday is on 3 May", "likes tulips"]
    graph = [{"name": "Greta", "entityType": "person", "observations": notes}]
    (folder / "graph.json").write_text(json.dumps(graph, indent=2), encoding="utf-8")
    (folder / "no.json").write_text("[\n" + "1\n" * 6 + "]", encoding="utf-8")
    replies = [step for name in ("graph", "no") for step in (call_text("read_file", path=f"{name}.json"), f"{name}.")]
    screen = open_chat("--allow read_file", *replies, size=(80, 24))
    lines = screen.enter("graph?", "◆ graph.")
    assert lines[lines.index("> graph?") + 2 : -3] == [
        '  [ { "name": "Greta", "entityType": "person", "observations": [ "birthday is on',
        '  3 May", "likes tulips" ] } ]',
    ]
    lines = screen.enter("no?", "◆ no.")
    assert lines[lines.index("> no?") + 2 : -3] == [
        "  [",
        "  1",
        "  1",
        "  … 8 lines, 15 characters in total; Ctrl+O shows them",
    ]


@pytest.mark.usefixtures("harbour")
def test_a_long_result_is_shortened_and_unfolded_by_ctrl_o(open_chat: OpenChat, pager: str) -> None:
    calls = (call_text("read_year", year=2026), "A year.")
    screen = open_chat(f"{HARBOUR} --allow read_year", *calls, PAGER=pager)
    lines = screen.enter("How was it?", "◆ A year.")
    folded = [f"  {line}" for line in YEAR[:3]]
    folded.append("  … 365 lines, 7,192 characters in total; Ctrl+O shows them")
    assert lines[-7:-3] == folded
    screen.say(f"{CTRL_O}", f"366 lines {YEAR[-1]}")
    screen.type("\r")
    screen.wait_for_prompt()
    screen.say(CTRL_O, "No shortened result is left")


@pytest.mark.usefixtures("harbour")
def test_help_is_in_the_pager_while_an_answer_grows(open_chat: OpenChat, pager: str) -> None:
    screen = open_chat("--no-servers", {"text": "Once upon", "wait": True}, PAGER=pager)
    screen.say("tell\r", "Once upon")
    screen.say("/help copy\r", "4 lines For example: /copy code")
    screen.say("\r", "Once upon")
    screen.say("\x03", "[Stopped]")
    assert "◆ Once upon" in screen.wait_for_prompt()


@pytest.mark.parametrize("pager", ["no-such-pager", "less '"])
@pytest.mark.usefixtures("harbour")
def test_without_a_pager_a_long_result_is_printed(pager: str, open_chat: OpenChat) -> None:
    screen = open_chat(f"{HARBOUR} --allow read_year", call_text("read_year", year=2026), "A year.", PAGER=pager)
    screen.enter("How was it?", "◆ A year.")
    screen.say(CTRL_O, YEAR[-1])
    screen.wait_for_prompt()


def color_of(screen: Screen, text: str) -> str:
    """Return the colour of the line that begins with a text."""
    row = next(row for row, line in enumerate(screen.emulator.display) if line.startswith(text))
    return str(screen.emulator.buffer[row][0].fg)


@pytest.mark.parametrize(
    ("options", "variables", "colors"),
    [
        ("", {}, ("brightred", "brightblack", "brightbrown", "brightcyan")),
        ("", {"COLORFGBG": "0;15"}, ("red", "brightblack", "magenta", "blue")),
        ("--theme light", {"NO_COLOR": "1"}, ("default",) * 4),
    ],
    ids=["dark", "light", "none"],
)
@pytest.mark.usefixtures("harbour")
def test_colours_tell_failures_warnings_system_and_own_lines_apart(
    options: str, variables: dict[str, str], colors: tuple[str, ...], open_chat: OpenChat, environment: dict[str, str]
) -> None:
    environment.pop("NO_COLOR", None)
    calls = "\n".join([call_text("nosuch"), call_text("get_tide", harbour="Hull"), call_text("write_log", text="x")])
    screen = open_chat(f"{HARBOUR} --allow get_tide {options}", calls, "So.", **variables)
    screen.say("go\r", "[y] once")
    screen.wait_for_end_of_line("stop:")
    screen.say("\r", "◆ So.")
    screen.wait_for_prompt()
    lines = ("Tool 'nosuch' failed", "Tool 'get_tide' completed]", "Tool 'write_log' declined")
    assert tuple(color_of(screen, line) for line in (*(f"[MCP: {line}" for line in lines), "> go")) == colors
    screen.enter("/undo 99", "is not a number of turns")
    assert color_of(screen, '"99"') == colors[0], "errors are never dim"


def test_lines_of_a_server_have_the_colour_of_their_level(
    open_chat: OpenChat, environment: dict[str, str], folder: Path
) -> None:
    environment.pop("NO_COLOR", None)
    screen = open_chat(write_chaos(folder, chaos="logs"), "Hello.", size=(100, 40))
    screen.enter("/call act", "completed]")
    colors = {level: color_of(screen, f"[MCP: Server 'chaos', {level}") for level in ("warning", "error", "emergency")}
    assert colors == {"warning": "brightbrown", "error": "brightred", "emergency": "brightred"}


def test_the_theme_is_a_setting_that_takes_effect_at_once(
    open_chat: OpenChat, environment: dict[str, str], folder: Path
) -> None:
    environment.pop("NO_COLOR", None)
    (folder / "own.toml").write_text('[chat]\ntheme = "light"\n', encoding="utf-8")
    screen = open_chat("--no-servers --config own.toml", "Hello.")

    def color_of_an_error(number: int) -> str:
        screen.enter(f"/undo {number}", f'"{number}" is not a number of turns')
        return color_of(screen, f'"{number}"')

    assert color_of_an_error(91) == "red"
    screen.enter("/set theme dark", "chat.theme  dark")
    assert color_of_an_error(92) == "brightred"
    screen.enter("/set theme none", "chat.theme  none")
    assert color_of_an_error(93) == "default"
    screen.enter("/set theme blue", 'chat.theme is "blue". Allowed: auto, light, dark, none.')
    screen.leave()
    screen = open_chat("--no-servers --config own.toml --theme dark", "Hello.")
    assert color_of_an_error(94) == "brightred", "the option is nearer"


@pytest.mark.usefixtures("harbour")
def test_what_a_change_said_stands_once_on_the_screen(open_chat: OpenChat) -> None:
    """In scripts the answer begins with it; here the line of the call is right above."""
    screen = open_chat(f"{HARBOUR} --allow write_log", call_text("write_log", text="moored"), "Noted.")
    lines = screen.enter("Write moored to the log.", "◆ Noted.")
    answer = lines.index("◆ Noted.")
    assert lines[answer - 2].startswith("[MCP: Tool 'write_log' completed]") and "6 characters" in lines[answer - 1]
