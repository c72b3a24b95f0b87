"""The question about a tool call on the real program: reasons, edited arguments, scopes and modes."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rkllm_chat.storage.session_files import SessionDirectory
from stage import Screen, call_text

from .server_configs import HARBOUR, TESTS, write_harbour, write_servers

OpenChat = Callable[..., Screen]
SHIFT_TAB, CTRL_A, CTRL_K, CTRL_O = "\x1b[Z", "\x01", "\x0b", "\x0f"
PAUSE_S = 0.7
"""Longer than the time in which a key that follows another one answers no question."""
ENTER_SKIPS_S = 2.2
"""Longer than the time in which Enter alone gives no reason."""


def ask(screen: Screen, line: str) -> None:
    """Send a line and wait for the question about a call."""
    screen.type(f"{line}\r")
    screen.wait_for_end_of_line("stop:")


@pytest.mark.usefixtures("harbour")
def test_the_model_is_told_why_a_call_was_declined(open_chat: OpenChat, folder: Path) -> None:
    calls = (call_text("write_log", text="x"), "Sorry.", call_text("write_log", text="x"))
    screen = open_chat(HARBOUR, *calls, size=(120, 40))
    told = "The user did not allow this call: it is Sunday"
    ask(screen, "go")
    screen.say("n", "Why not? Type a reason")
    screen.say("it is Sunday\r", f"[MCP: Tool 'write_log' declined; the model is told: {told}]", "◆ Sorry.")
    screen.wait_for_prompt()
    screen.enter("/calls", f'write_log  text="x"  declined  -  {told}')
    screen.enter("/export talk.md", "talk.md")
    assert told in (folder / "talk.md").read_text(encoding="utf-8")
    ask(screen, "go on")
    screen.type("n")
    screen.wait_until(
        lambda: screen.lines()[-2] == "Why not? Type a reason for the model, then Enter; Enter alone gives none:",
        "a question",
    )
    screen.say("not now", "none: not now")
    screen.say("\x1b", "'write_log' declined]", '◆ Not called, as you said no: harbour__write_log text="x".')
    screen.wait_for("> not now")


@pytest.mark.usefixtures("harbour")
def test_nothing_moves_while_a_question_waits(open_chat: OpenChat) -> None:
    call = '{"name": "write_log", "arguments": {"text": "x"}}'
    described = f"You can write it with this call:\n\n```\n{call}\n```\n\nShall I?"
    screen = open_chat(HARBOUR, described, "So.")
    screen.type("log x\r")
    screen.wait_for_end_of_line("stop:")
    screen.say("and then\r", "next: and then")  # lines above the question are drawn again while they last
    screen.wait_for_rest(PAUSE_S)
    shown, limit = screen.lines(), time.monotonic() + 2 * PAUSE_S
    while screen.read_some(limit):
        assert screen.lines() == shown


@pytest.mark.usefixtures("harbour")
def test_a_question_about_a_resource_names_its_server_and_is_not_asked_without_one(open_chat: OpenChat) -> None:
    uris = ("harbour://nowhere", "harbour://log", "harbour://berth/7")
    calls = [call_text("read_resource", uri=uri) for uri in uris]
    screen = open_chat(HARBOUR, *calls, call_text("list_resources"), "Read.", size=(100, 60))
    screen.type(f"read {' and '.join(uris)}\r")
    for uri in uris[1:]:
        screen.wait_until(lambda: screen.lines()[-2].endswith("stop:"), "a question")
        assert "[MCP: Not read, as no server has this resource: harbour://nowhere]" in screen.lines()
        lines = screen.lines()
        assert lines[lines.index(f'  uri = "{uri}"') - 1] == "harbour wants to run read_resource"
        screen.wait_for_rest(PAUSE_S)
        screen.say("y", f"[MCP: Fetched resource: {uri}]")
    screen.say("", "The model wants to run list_resources")


@pytest.mark.usefixtures("harbour")
def test_enter_behind_the_key_n_does_not_skip_the_reason(open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, call_text("write_log", text="x"), "Sorry.", call_text("write_log", text="x"))
    ask(screen, "go")
    screen.say("n", "Enter alone gives none:")
    screen.wait_for_rest(PAUSE_S)
    screen.type("\r")  # people end an answer with Enter
    screen.say("it is Sunday\r", "declined; the model is told:", "it is Sunday]", "◆ Sorry.")
    ask(screen, "go on")
    screen.say("n", "Enter alone gives none:")
    screen.wait_for_rest(ENTER_SKIPS_S)
    screen.say("\r", "'write_log' declined]", "◆ Not called, as you said no")


@pytest.mark.usefixtures("harbour")
def test_a_command_is_no_reason(open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, call_text("write_log", text="x"), "Sorry.")
    ask(screen, "go")
    screen.say("n", "Why not?")
    screen.say("/help undo\r", "/undo [NUMBER]: remove the last turn")
    screen.say("/permissions\r", "After this turn: /permissions")
    screen.say("/status\r", "After this turn: /status")
    told = "the model is told: The user did not allow this call: /tmp is"
    screen.say("//tmp is full\r", told, "◆ Sorry.", "> /permissions", "default  ask", '"/status"')


@pytest.mark.usefixtures("harbour")
def test_a_question_is_no_reason_but_the_next_message(open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, call_text("write_log", text="x"), "At noon.")
    ask(screen, "go")
    screen.say("n", "Why not?")
    question = "And when is high tide?"
    screen.say(f"{question}\r", f"After this turn: {question}", "as you said no", f"> {question}", "◆ At noon.")


@pytest.mark.slow
@pytest.mark.usefixtures("harbour")
def test_the_chat_goes_on_after_its_folder_was_removed(open_chat: OpenChat, folder: Path) -> None:
    screen = open_chat(HARBOUR, call_text("write_log", text="x"), "So.")
    shutil.rmtree(folder)
    ask(screen, "go")
    screen.say("a", "◆ So.")
    screen.wait_for_prompt()
    screen.enter("/attach x", "x cannot be read: No such file or directory")
    screen.enter("/permissions forget harbour__write_log", "until you leave")


def type_slowly(screen: Screen, text: str) -> None:
    """Type as a person does: a key every tenth of a second."""
    for key in text:
        screen.type(key)
        limit = time.monotonic() + 0.1
        while screen.read_some(limit):
            pass


@pytest.mark.parametrize(
    ("text", "type_text"),
    [("always", Screen.type), ("always", type_slowly), ("yes, but first read it", type_slowly)],
)
@pytest.mark.usefixtures("harbour")
def test_text_typed_at_a_question_is_shown_and_queued_and_no_answer(
    text: str, type_text: Callable[[Screen, str], object], open_chat: OpenChat
) -> None:
    screen = open_chat(HARBOUR, call_text("write_log", text="x"), "Not.", "Read.")
    ask(screen, "go")
    type_text(screen, text)
    screen.wait_until(lambda: screen.lines()[-2] == f"+ {text}", "the text in the input line")
    (hint,) = [line for line in screen.lines() if line == "Enter queues this line. The keys answer when it is empty."]
    screen.wait_for_rest(PAUSE_S)
    screen.say("\r", f"next: {text}")
    screen.wait_until(lambda: hint not in screen.lines(), "an empty line, so that the keys answer")
    screen.wait_for_end_of_line("stop:")
    screen.wait_for_rest(PAUSE_S)
    screen.say("n", "Enter alone gives none:")
    screen.say("Not yet.\r", "'write_log' declined", "◆ Not.", f"> {text}", "◆ Read.")


@pytest.mark.usefixtures("harbour")
def test_a_word_of_refusal_at_a_question_refuses_and_one_of_consent_is_no_message(open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, call_text("write_log", text="x"), "Not.")
    ask(screen, "go")
    screen.type("yes")
    screen.wait_until(lambda: screen.lines()[-2] == "+ yes", "the text in the input line")
    screen.wait_for_rest(PAUSE_S)
    screen.type("\r")
    screen.wait_until(lambda: "+ yes" not in screen.lines(), "an empty line")
    screen.wait_for_end_of_line("stop:")
    assert not any(line.startswith("next:") for line in screen.lines())
    screen.wait_for_rest(PAUSE_S)
    screen.type("No.")
    screen.wait_until(lambda: screen.lines()[-2] == "+ No.", "the text in the input line")
    screen.wait_for_rest(PAUSE_S)
    screen.say("\r", "Enter alone gives none:")
    screen.say("Not yet.\r", "'write_log' declined", "◆ Not.")


def test_a_draft_stays_in_the_line_below_a_question(open_chat: OpenChat, harbour: Path) -> None:
    replies = (call_text("wait"), call_text("write_log", text="x"), "So.")
    screen = open_chat(f"{HARBOUR} --allow wait", *replies, size=(60, 24))
    screen.say("log x at high tide\r", "rising")
    screen.say("tell me", "+ tell me")
    (harbour / "go").touch()
    below = ["Enter queues this line. The keys answer when it is empty.", "+ tell me"]
    screen.wait_until(lambda: screen.lines()[-3:-1] == below, "the draft below the question")
    screen.wait_for_rest(PAUSE_S)
    screen.say("y", "+ tell mey")
    screen.say("\x7f yourself\r", "next: tell me yourself")
    screen.wait_for_rest(PAUSE_S)
    screen.say("q", "'write_log' was not run", "> tell me yourself")
    screen.say("\r", "◆ So.")


def test_a_question_at_the_prompt_is_answered_before_what_is_typed_meanwhile(
    open_screen: Callable[..., Screen], script: Callable[..., str], folder: Path
) -> None:
    screen = open_screen("--model", script("Aye."), *write_harbour(folder, "greets").split())
    screen.wait_for("Answer it? [y/N]")
    screen.say("/help undo\r", "/undo [NUMBER]: remove the last turn")
    screen.say("hello\r", "next: hello")
    screen.wait_for_rest(PAUSE_S)
    assert not any("Aye" in line for line in screen.lines())
    screen.say("n", "Answer it? [y/N] n", "> hello", "◆ Aye.")


@pytest.mark.usefixtures("harbour")
def test_leaving_at_a_question_runs_nothing(open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, call_text("write_log", text="x"), "So.")
    ask(screen, "go")
    screen.say("/quit", "+ /quit")
    screen.type("\r")
    assert screen.wait_for_end() == 0
    assert not any("completed" in line for line in screen.lines())


@pytest.mark.slow
@pytest.mark.usefixtures("harbour")
def test_edited_arguments_are_validated_shown_and_asked_about_again(open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, call_text("write_log", text="hello"), "So.")
    ask(screen, "go")
    made_up = "  ! made up by the model, nobody has said it: text"
    assert made_up in screen.lines()
    screen.say("e", """Arguments as JSON (Ctrl+C goes back): {"text": "hello"}""")
    screen.type("\x03")
    screen.wait_for_end_of_line("stop:")
    screen.wait_for_rest(PAUSE_S)
    screen.say("e", """Arguments as JSON (Ctrl+C goes back): {"text": "hello"}""")
    screen.say(f'{CTRL_A}{CTRL_K}{{"text": \r', "not a JSON object")
    screen.say(f'{CTRL_A}{CTRL_K}{{"tags": ["x"]}}\r', 'Argument "text" is required')
    edited = f'{CTRL_A}{CTRL_K}{{"text": "good bye"}}\ry'
    screen.say(edited, '  text = "good bye"', "Run write_log with these arguments?")
    screen.wait_for_rest(PAUSE_S)
    lines = screen.lines()
    assert made_up not in lines[lines.index('  text = "good bye"') :], "the user has said what runs now"
    assert not any("completed" in line for line in lines), "typed before the question was seen"
    screen.say("y", "[MCP: Tool 'write_log' completed]", "◆ So.")
    screen.wait_for_prompt()
    lines = screen.enter("/history 1", '{"text": "good bye"}')
    assert "The user changed the arguments of this call to" in "\n".join(lines)
    assert "8 characters are in the log." in "\n".join(lines)


@pytest.mark.slow
@pytest.mark.usefixtures("harbour")
def test_arguments_can_be_edited_in_an_editor(open_chat: OpenChat, folder: Path) -> None:
    editor = folder / "editor"
    editor.write_text("#!/bin/sh\nsed -i s/hello/bye/ $1\n", encoding="utf-8")
    editor.chmod(0o755)
    screen = open_chat(HARBOUR, call_text("write_log", text="hello"), "So.", EDITOR=str(editor))
    ask(screen, "go")
    screen.say("e", """Arguments as JSON (Ctrl+C goes back): {"text": "hello"}""")
    screen.say("\x18\x05", """Arguments as JSON (Ctrl+C goes back): {"text": "bye"}""")
    screen.say("\r", "Run write_log with these arguments?")
    screen.wait_for_rest(PAUSE_S)
    screen.say("y", "3 characters are in the log.", "◆ So.")


def test_a_file_that_is_written_is_shown_as_a_change(
    open_chat: OpenChat, environment: dict[str, str], folder: Path
) -> None:
    environment.pop("NO_COLOR", None)
    old = [f"line {number}" for number in range(1, 61)]
    new = ["line thirty" if line == "line 30" else line for line in old]
    file = folder / "notes.txt"
    file.write_text("\n".join(old), encoding="utf-8")
    call = call_text("write_file", path="notes.txt", content="\n".join(new))
    screen = open_chat(write_harbour(folder, "files"), call, "So.", size=(250, 40))
    ask(screen, "go")
    lines = screen.lines()
    change = lines.index(f"  content = change of {file}: 1 added, 1 removed")
    assert [line.strip() for line in lines[change + 1 : change + 10]] == [
        "@@ -27,7 +27,7 @@",
        "line 27",
        "line 28",
        "line 29",
        "-line 30",
        "+line thirty",
        "line 31",
        "line 32",
        "line 33",
    ]
    rows = {line.strip(): row for row, line in enumerate(screen.emulator.display)}
    colors = {text: screen.emulator.buffer[rows[text]][4].fg for text in ("-line 30", "line 31", "+line thirty")}
    assert colors == {"-line 30": "brightred", "line 31": "default", "+line thirty": "brightgreen"}
    assert file.read_text(encoding="utf-8").splitlines() == old
    screen.say("y", "[MCP: Tool 'write_file' completed]", "+1 -1 ", "◆ So.")
    assert file.read_text(encoding="utf-8").splitlines() == new


@pytest.mark.parametrize("is_named", [True, False], ids=["folder in its arguments", "folder that it is started in"])
def test_a_question_shows_what_the_server_replaces_in_its_own_folder(
    is_named: bool, open_chat: OpenChat, folder: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "todo.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    for file in (own / "both.txt", folder / "both.txt", folder / "here.txt"):
        file.write_text("before", encoding="utf-8")
    option = write_harbour(folder, "files", str(own)) if is_named else write_harbour(folder, "files", cwd=own)
    calls = [call_text("write_file", path=f"{name}.txt", content="new") for name in ("todo", "both", "here")]
    screen = open_chat(option, *calls, "So.", size=(200, 60))
    questions = []
    screen.type("write new into todo.txt, both.txt and here.txt\r")
    for number in range(len(calls)):
        screen.wait_for_end_of_line("stop:")
        lines = screen.lines()
        start = max(row for row, line in enumerate(lines) if line == "harbour wants to run write_file")
        questions.append([line.strip() for line in lines[start + 2 :] if line.startswith("  ")])
        screen.wait_for_rest(PAUSE_S)
        screen.say("y", f"'write_file' completed] path=\"{('todo', 'both', 'here')[number]}.txt\"")
    screen.say("", "◆ So.")
    removed = ["@@ -1,3 +1 @@", "-one", "-two", "-three", "+new", "\\ No newline at end of file"]
    warning = "! not marked read-only by its server"
    may_replace = [f"! may replace {folder / 'both.txt'}: the path is relative"]
    both = ['content = "new"', warning, f"! may replace {own / 'both.txt'}: the path is relative", *may_replace]
    changed = [f"content = change of {own / 'both.txt'}: 1 added, 1 removed", "@@ -1 +1 @@", "-before", "+new", warning]
    here = [f"! may replace {folder / 'here.txt'}: the path is relative"] if is_named else []
    assert questions == [
        [f"content = change of {own / 'todo.txt'}: 1 added, 3 removed", *removed, warning],
        both if is_named else changed,
        ['content = "new"', warning, *here],
    ]
    assert [file.read_text(encoding="utf-8") for file in (own / "todo.txt", own / "here.txt")] == ["new", "new"]
    assert (folder / "here.txt").read_text(encoding="utf-8") == "before"


@pytest.mark.usefixtures("harbour")
def test_a_question_about_one_of_several_calls_names_its_place_and_its_tool(open_chat: OpenChat) -> None:
    long = "\n".join(f"line {number}" for number in range(60))
    calls = call_text("write_log", text="x") + call_text("write_log", text=long)
    screen = open_chat(HARBOUR, calls, "So.", size=(110, 24))
    ask(screen, "go")
    # the status line below it may be drawn later
    screen.wait_until(lambda: "1 of 2: Run write_log? [y] once" in screen.lines()[-2], "the question above the status")
    screen.say("y", "2 of 2: Run write_log?")
    assert not any("wants to run" in line for line in screen.lines()), "it has scrolled away"
    screen.say("q", "[MCP: Tool 'write_log' was not run]")
    screen.wait_for_prompt()
    arguments = "".join(screen.enter("/history 2", "} not run"))
    assert "ended" not in arguments, "it had not begun"
    assert r'line 58\nline 59"}' in arguments, "arguments are shown in full"


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 30])
def test_a_question_that_wraps_stays_in_one_piece_below_what_runs_and_ends(
    columns: int, open_chat: OpenChat, folder: Path
) -> None:
    command = [sys.executable, str(TESTS / "tui" / "harbour.py")]
    servers = write_servers(folder, "two.toml", {"one": command, "two": command})
    calls = call_text("one__book", boat="Anna") + call_text("two__wait")
    screen = open_chat(f"{servers} --allow one__book --allow two__wait", calls, "So.", size=(columns, 30))
    question = "Send these answers? No goes through them again, and Esc there cancels. [y/N]"

    def read_from(line: str) -> str:
        lines = screen.lines()
        lines = [text.lstrip("⠋⠙⠴⠦ ") for text in lines]  # what runs has a mark that moves
        return " ".join(lines[max(row for row, text in enumerate(lines) if text.startswith(line)) :])

    screen.say("book Anna\r", "Answer it?")
    screen.wait_for_rest(PAUSE_S)
    for keys, text in (("y", "metres ("), ("12\r", "side"), ("\r", "note"), ("\r", "[y/N]")):
        screen.say(keys, text)
    screen.wait_until(lambda: question in " ".join(screen.lines()), question)
    assert read_from("[MCP: Calling tool 'one__b").count("[MCP: Calling tool") == 2, "both are above it"
    (folder / "go").touch()
    screen.wait_for("high water")
    screen.wait_until(lambda: f"{question} ask" in " ".join(screen.lines()), "the question above the status line")
    assert "high water" not in read_from("Send these"), "the result is above it"
    screen.wait_for_rest(PAUSE_S)
    screen.say("y", "◆ So.")
    screen.wait_for_prompt()
    assert read_from("Send these").startswith(f"{question} y [MCP: Tool 'one__book' completed]")


@pytest.mark.slow
@pytest.mark.usefixtures("harbour")
def test_a_key_held_down_answers_one_question_only(open_chat: OpenChat) -> None:
    calls = call_text("write_log", text="x") + call_text("write_log", text="y")
    screen = open_chat(HARBOUR, calls, "So.", size=(120, 40))
    ask(screen, "go")
    screen.wait_for_rest(PAUSE_S)  # a key right behind another one is no answer, and nothing is shown for it

    def hold_y() -> bool:
        screen.type("y")
        return any("2 of 2: Run write_log?" in line for line in screen.lines())

    screen.wait_until(hold_y, "the second question")
    screen.type("y")
    screen.wait_for_rest(PAUSE_S)
    assert screen.lines()[-2].endswith("stop:"), "the second question still waits"
    screen.say("y", "◆ So.")


@pytest.mark.slow
@pytest.mark.usefixtures("harbour")
def test_keys_of_the_screen_answer_no_question(open_chat: OpenChat) -> None:
    year, log = call_text("read_year", year=2026), call_text("write_log", text="x")
    screen = open_chat(f"{HARBOUR} --allow read_year", year, log, "So.", PAGER="no-such-pager", size=(120, 40))
    ask(screen, "log x of 2026")
    screen.say(f"{SHIFT_TAB}{CTRL_O}", "2026, day 365: calm")
    screen.type(SHIFT_TAB)
    screen.wait_for_rest(PAUSE_S)
    lines = screen.lines()
    assert lines[-2].endswith("stop:") and lines[-1].startswith("ask · scripted"), "it waits, in the same mode"
    screen.say("y", "[MCP: Tool 'write_log' completed]", "◆ So.")
    screen.wait_for_prompt()


@pytest.fixture
def pager(folder: Path) -> str:
    """A pager that says how much it shows and waits for Enter."""
    path = folder / "pager"
    path.write_text("#!/bin/sh\necho It shows $(wc -l < $1) lines\nread line\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_what_is_said_while_the_pager_is_open_is_shown_before_the_next_command(
    open_chat: OpenChat, harbour: Path, pager: str, shelf: SessionDirectory
) -> None:
    replies = (call_text("read_year", year=2026), call_text("wait"), "High.")
    screen = open_chat(f"{HARBOUR} --allow read_year --allow wait", *replies, PAGER=pager)
    screen.say("go\r", "rising")
    screen.say("!echo ran\r", "next: !echo ran")
    screen.say(CTRL_O, "It shows 366 lines")
    (harbour / "go").touch()
    while "High." not in str(shelf.read(shelf.list_ids()[0]).entries):
        screen.wait_for_rest(PAUSE_S)  # the pager has the terminal
    screen.wait_for_rest(PAUSE_S)
    screen.say("\r", "◆ High.", "> !echo ran")
    screen.wait_until(lambda: "ran" in screen.lines(), "the command's output")


@pytest.mark.slow
@pytest.mark.usefixtures("harbour")
def test_a_key_typed_behind_the_pager_answers_no_question(open_chat: OpenChat, pager: str) -> None:
    year, log = call_text("read_year", year=2026), call_text("write_log", text="x")
    screen = open_chat(f"{HARBOUR} --allow read_year", year, log, "So.", PAGER=pager)
    ask(screen, "log x of 2026")
    screen.say(CTRL_O, "It shows 366 lines")
    screen.type("\ry")
    screen.wait_for_end_of_line("stop:")
    screen.wait_for_rest(PAUSE_S)
    assert screen.lines()[-2].endswith("stop:")
    screen.say("\r", "declined", "◆ So.")


@pytest.mark.slow
@pytest.mark.usefixtures("harbour")
def test_always_and_until_i_leave_are_told_apart(open_chat: OpenChat) -> None:
    calls = (call_text("write_log", text="x"), "One.", call_text("get_tide", harbour="Hull"), "Two.")
    screen = open_chat(HARBOUR, *calls)
    ask(screen, "go")
    screen.say("u", "◆ One.")
    screen.wait_for_prompt()
    ask(screen, "go on")
    screen.say("a", "◆ Two.")
    screen.wait_for_prompt()
    lines = [" ".join(line.split()) for line in screen.enter("/permissions", "until you leave")]
    assert lines[-6:-2] == [
        "default ask configuration or command line",
        "mode ask until you leave",
        "allowed harbour__get_tide this folder, kept",
        "allowed harbour__write_log until you leave",
    ]
    screen.leave()
    again = open_chat(HARBOUR, call_text("get_tide", harbour="Hull") + call_text("write_log", text="y"), "Bye.")
    ask(again, "go")
    assert any("2 of 2: Run write_log?" in line for line in again.lines()), "only what is kept runs"


@pytest.mark.usefixtures("harbour")
def test_shift_tab_switches_the_mode_and_no_mode_runs_what_is_denied(open_chat: OpenChat) -> None:
    both = call_text("get_tide", harbour="Hull") + call_text("write_log", text="x")
    screen = open_chat(f"{HARBOUR} --deny book", both + call_text("book", boat="Anna"), "One.", both, "Two.")
    screen.wait_for("ask · scripted")
    screen.say(SHIFT_TAB, "Mode: auto. Tools run without a question", "auto · scripted")
    lines = screen.enter("log x and book Anna in Hull", "◆ One.")
    assert any("Tool 'write_log' completed" in line for line in lines)
    assert any("Tool 'book' declined" in line for line in lines)
    screen.say(SHIFT_TAB, "read-only · scripted")
    screen.type("log x again\r")
    (question,) = [line for line in screen.wait_for_end_of_line("stop:") if line.endswith("stop:")]
    assert question.startswith("1 of 2: Run get_tide?")
    screen.say("y", "Tool 'write_log' declined: the policy refuses it", "◆ Two.")
    screen.wait_for_prompt()
    screen.enter("/permissions mode ask", "Mode: ask.")
    screen.enter("/permissions mode al", 'no mode "al"')


@pytest.mark.usefixtures("harbour")
def test_the_mode_is_switched_in_the_middle_of_an_answer(open_chat: OpenChat) -> None:
    growing = {"text": "Once upon", "wait": True}
    screen = open_chat(HARBOUR, growing, call_text("write_log", text="x"), "So.")
    screen.say("a story\r", "◆ Once upon")
    screen.say(SHIFT_TAB, "auto · scripted")
    assert [line for line in screen.lines() if "Mode:" in line or "Once" in line] == ["◆ Once upon"]
    screen.say("\x1b", "[Stopped]")
    screen.wait_for_prompt()
    lines = screen.enter("log x", "◆ So.")
    assert any("Tool 'write_log' completed" in line for line in lines), "without a question"


def test_a_configuration_that_refuses_every_tool_is_stronger_than_any_mode(open_chat: OpenChat, harbour: Path) -> None:
    with (harbour / "harbour.toml").open("a", encoding="utf-8") as file:
        file.write('\n[policy]\napprove = "none"\n')
    screen = open_chat(HARBOUR, call_text("get_tide", harbour="Hull"), "No.")
    screen.say(SHIFT_TAB, "The configuration refuses every tool")
    screen.enter("/permissions mode auto", "no tools · scripted")
    screen.enter("go", "Tool 'get_tide' declined", "◆ No.")
