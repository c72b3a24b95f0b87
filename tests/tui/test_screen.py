"""The keys and the drawing of the screen of the real program on a real pseudo terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stage import Screen, call_text

from .server_configs import HARBOUR, write_harbour, write_servers

OpenChat = Callable[..., Screen]
CTRL_C, ESC, LEFT = "\x03", "\x1b", "\x1b[D"
WAITING = f"{HARBOUR} --allow wait"


def test_a_line_typed_while_a_tool_runs_is_sent_after_the_turn(open_chat: OpenChat, harbour: Path) -> None:
    screen = open_chat(WAITING, call_text("wait"), "It is high.", "Bye.")
    screen.say("tide?\r", "[MCP: Calling tool 'wait']", "███░░░░░░░ 3/10 rising")
    screen.say("and then leave\r", "next: and then leave")
    (harbour / "go").touch()
    screen.wait_for("◆ Bye.")
    lines = screen.wait_for_prompt()
    shown = [line for line in lines[lines.index("> tide?") : -2] if not line.startswith(("[", "  "))]
    assert shown == ["> tide?", "◆ It is high.", "> and then leave", "◆ Bye."]


def test_help_does_not_wait_for_what_runs(open_chat: OpenChat, harbour: Path) -> None:
    screen = open_chat(WAITING, call_text("wait"), "It is high.")
    screen.say("tide?\r", "rising")
    screen.say("/tools list\r", "next: /tools list")
    lines = screen.say("/help copy\r", "For example: /copy", "next: /tools list")
    assert "> /help copy" in lines and not any("next: /help" in line for line in lines)
    (harbour / "go").touch()
    screen.wait_for("◆ It is high.")
    assert "> /tools list" in screen.wait_for_prompt()


def test_stopping_a_tool_cancels_it_and_restores_what_was_typed(open_chat: OpenChat, harbour: Path) -> None:
    screen = open_chat(WAITING, call_text("wait"), call_text("wait"), "It is high.")
    screen.say("tide?\r", "rising")
    screen.say("queued\r", "next: queued")
    screen.say("half a line", "half a line")
    screen.say(CTRL_C, "[Stopped]", "> queued")
    assert screen.lines()[-3:-1] == ["> queued", "  half a line"]
    screen.type(CTRL_C)
    screen.wait_for_prompt()
    (harbour / "go").touch()
    screen.say("again\r", "[MCP: Tool 'wait' completed]", "◆ It is high.")
    assert (harbour / "cancelled").exists()
    lines = screen.enter("/history 1", "The call was stopped before it ended.")
    head = next(line for line in lines if line.startswith("wait stopped "))
    assert float(head.split()[2]) > 0, "the time that it ran"


def test_a_command_that_waits_becomes_no_line_of_a_message(open_chat: OpenChat, harbour: Path) -> None:
    screen = open_chat(WAITING, call_text("wait"), "It is high.")
    screen.say("tide?\r", "rising")
    for line in ("/tools list", "one more", "!date"):
        screen.say(f"{line}\r", f"next: {line}")
    screen.say(CTRL_C, "Not run: /tools list, !date.", "[Stopped]", "> one more")
    screen.say("\x15", "ask · ")
    (harbour / "go").touch()
    screen.say("again\r", "◆ It is high.")


@pytest.mark.usefixtures("harbour")
def test_keys_typed_before_a_question_do_not_answer_it(open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, call_text("wait"))
    screen.say(f"tide?\r{LEFT}yes anyway", "Run wait?")
    screen.say(CTRL_C, "[MCP: Tool 'wait' was not run]", "> yes anyway")
    assert not any("Tool 'wait' completed" in line for line in screen.lines())


def test_a_message_may_have_several_lines(open_chat: OpenChat) -> None:
    """With Ctrl+J, Alt+Enter, a backslash, or pasted, also into a terminal without bracketed paste."""
    screen = open_chat("--no-servers", "Read 1.", "Read 2.", "Read 3.", "Read 4.", "Read 5.")
    for number, between in enumerate(("\n", "\x1b\r"), 1):
        screen.enter(f"one{between}two", f"◆ Read {number}.")
    screen.type("one\\\r")
    screen.wait_until(lambda: screen.lines()[-2] == "> one", "the next line of the message")
    screen.enter("two", "◆ Read 3.")
    screen.enter("\x1b[200~one\rtwo\x1b[201~", "◆ Read 4.")
    lines = screen.enter("one\rtwo", "◆ Read 5.")
    answers = [f"◆ Read {number}." for number in range(1, 6)]
    assert lines[3:-2] == [line for answer in answers for line in ("> one", "  two", answer)]


@pytest.mark.parametrize(
    ("text", "echo"),
    [
        ("a shell line \\\rthat goes on\r\r\tindented", ["> a shell line \\", "  that goes on", "      indented"]),
        ("/quit\rand more", ["> //quit", "  and more"]),
        ("!touch ran\rand more", ["> /!touch ran", "  and more"]),
        ("@secret.txt\rand @nosuch.txt", ["> @secret.txt", "  and @nosuch.txt"]),
        ("at the end\r日本語\r", ["> at the end", "  日本語"]),
    ],
)
def test_a_paste_without_brackets_is_one_message_and_triggers_nothing(
    text: str, echo: list[str], open_chat: OpenChat, folder: Path
) -> None:
    (folder / "secret.txt").write_text("key", encoding="utf-8")
    screen = open_chat("--no-servers", "Read.")
    screen.type(text)
    screen.wait_for(echo[-1].strip())
    screen.say("" if text.endswith("\r") else "\r", "◆ Read.")
    lines = screen.wait_for_prompt()
    shown = lines[lines.index("Type /help for commands, Ctrl+D to exit.") + 1 : -2]
    assert [line.rstrip() for line in shown] == [*echo, "◆ Read."]
    assert not (folder / "ran").exists()


def test_what_was_typed_while_a_program_had_the_terminal_is_sent(open_chat: OpenChat, folder: Path) -> None:
    """The terminal makes a line feed of Enter meanwhile, which means a line break otherwise."""
    screen = open_chat("--no-servers", "One.", "Two.")
    screen.type("!echo be''gan; while [ ! -e go ]; do sleep 0.1; done\r")
    screen.wait_for("began")
    screen.say("first\rsecond\r", "second")
    (folder / "go").touch()
    screen.wait_for("◆ Two.")
    lines = screen.wait_for_prompt()
    assert [line for line in lines if line[:1] in ">◆"][-5:-1] == ["> first", "◆ One.", "> second", "◆ Two."]


def test_a_line_is_edited_and_found_again(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "One.", "Two.")
    screen.say("first line\nsecond line\x1b[A\x1b[Hthe \x1b[F,", "the first line,")
    screen.enter("", "◆ One.")
    screen.say("\x12seco", "I-search backward: seco")
    lines = screen.enter("\r", "◆ Two.")
    assert [lines.count(line) for line in ("> the first line,", "  second line")] == [2, 2]


def test_the_line_can_be_written_in_an_editor(open_chat: OpenChat, folder: Path) -> None:
    editor = folder / "editor"
    editor.write_text(f'#!{sys.executable}\nimport sys\nopen(sys.argv[1], "a").write(" and more")\n', encoding="utf-8")
    editor.chmod(0o755)
    screen = open_chat("--no-servers", "Read.", EDITOR=str(editor))
    screen.say("some", "> some")
    screen.say("\x18\x05", "> some and more")
    screen.say("\r", "◆ Read.")


@pytest.mark.parametrize(
    ("editor", "reason"),
    [('vi "', "EDITOR: No closing quotation"), ("no-such-editor -w", "no-such-editor: No such file")],
)
def test_a_line_survives_an_editor_that_cannot_be_started(editor: str, reason: str, open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "Read.", "Again.", EDITOR=editor)
    screen.say("some", "> some")
    screen.say("\x18\x05", reason, "> some")
    screen.enter("", "◆ Read.")
    screen.type("/edit\r")
    screen.wait_until(lambda: screen.lines()[-3:-1] == ["> /edit", "> some"], "the draft")
    screen.enter("", "◆ Again.")


def test_lines_typed_before_the_screen_is_drawn_are_sent(
    open_screen: Callable[..., Screen], script: Callable[..., str]
) -> None:
    screen = open_screen("--model", script("First.", "Second."), "--no-servers")
    screen.wait_until_hushed()
    screen.type("one\r")
    screen.say("two\r", "◆ Second.")
    shown = [line for line in screen.lines() if line[:1] in ">◆"]
    assert shown[:4] == ["> one", "◆ First.", "> two", "◆ Second."]


def test_a_shell_command_gets_its_own_ctrl_c(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "Hello.")
    screen.type("!echo from the $((1 + 1))nd shell; exec sleep 60\r")
    screen.wait_until(lambda: "from the 2nd shell" in screen.lines(), "what the command says")
    screen.type(CTRL_C)
    screen.wait_for_prompt()
    lines = screen.enter("hi", "◆ Hello.")
    assert not any("Press Ctrl+C once more" in line for line in lines)
    assert any(line.endswith("^C") for line in lines)  # behind the text, if it came before the line had ended
    assert "> hi" in lines  # it begins at the start of a line


def test_the_chat_works_at_an_unknown_size_and_after_a_resize(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "Well met in any room.", size=(0, 0))
    screen.say("hi\r", "room.")
    screen.resize(40, 8)
    screen.say("there", "> there")
    screen.type(CTRL_C)
    screen.wait_for_prompt()
    screen.leave()


def test_what_is_drawn_at_the_top_of_the_screen_leaves_no_copy_in_the_scrollback(
    open_chat: OpenChat, harbour: Path
) -> None:
    screen = open_chat(f"{HARBOUR} --allow wait", call_text("wait"), "Done.", "Well.")
    screen.say("go\r", "rising")
    screen.type("\x0c")
    screen.wait_until(lambda: "rising" in "".join(screen.lines()[:1]), "a cleared screen")
    screen.say("and then\r", "next: and then")
    screen.resize(60, 20)
    screen.say("/help undo\r", "/undo [NUMBER]:")
    (harbour / "go").touch()
    screen.wait_for("◆ Well.")
    assert screen.emulator.saved == []


def test_an_answer_that_grows_is_shown_once_and_whole_in_a_terminal_that_becomes_narrower(open_chat: OpenChat) -> None:
    text = " ".join(f"word{number}" for number in range(40))
    screen = open_chat("--no-servers", {"text": text, "wait": True}, TERM="xterm-256color")
    screen.say("hi\r", "word39")
    for columns, typed in ((60, "a"), (41, "ab")):
        screen.narrow(columns)
        screen.say(typed[-1], f"+ {typed}")
        lines = screen.lines()
        answer = lines[lines.index("> hi") + 1 : lines.index(f"+ {typed}")]
        assert "".join(answer).replace(" ", "") == f"◆{text}".replace(" ", "")
        assert answer[-1].split()[0].startswith("word"), "the unfinished part is wrapped between words"


def test_no_line_is_erased_in_a_terminal_that_truncates_its_lines(open_chat: OpenChat) -> None:
    text = " ".join(f"word{number}" for number in range(160))
    screen = open_chat("--no-servers", {"text": text, "wait": True}, TERM="xterm")
    before = screen.say("hi\r", "word159")
    screen.resize(41, 30)
    lines = screen.say("a", "+ a")
    printed = before.index("> hi") + 3  # with two lines of the answer that are finished
    assert lines[:printed] == [line[:41].rstrip() for line in before[:printed]]


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}], ids=["colours", "NO_COLOR"])
def test_an_answer_has_colours_unless_no_color_is_set(variables: dict[str, str], open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "Plain **words**.", **variables)
    screen.enter("hi", "words")
    screen.leave()
    assert (b"\x1b[1m" in screen.bytes) == ("NO_COLOR" not in variables)


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii", "TERM": "dumb"}],
    ids=["locale", "dumb terminal"],
)
def test_a_terminal_without_utf_8_gets_borders_and_marks_of_ascii(
    variables: dict[str, str], open_chat: OpenChat
) -> None:
    answer = "“Fine”\n\n- 東京 …\n\n| a | b |\n|---|---|\n| 潮 | d |\n\n> said"
    screen = open_chat("--no-servers", answer, **variables)
    screen.say("hi\r", "said")
    lines = screen.wait_for_prompt()
    shown = [line for line in lines[lines.index("> hi") + 1 :] if line != ">"]
    if variables.get("TERM") == "dumb":
        assert shown == ['* "Fine"', "- ???? .", "| a | b |", "|---|---|", "| ?? | d |", "> said"]
    else:
        assert shown[:-1] == ['* "Fine"', "- ???? .", "a  | b", "---+--", "?? | d", "| said"]
        assert shown[-1].startswith("ask - scripted - ctx")
    assert screen.bytes.isascii()


@pytest.mark.usefixtures("harbour")
def test_a_dumb_terminal_shows_lines_and_ctrl_c_stops_an_answer(open_chat: OpenChat) -> None:
    once, twice = {"text": "Once upon", "wait": True}, {"text": "Twice upon", "wait": True}
    replies = (call_text("write_log", text="x"), "It is **so**.", once, call_text("write_log", text="y"), twice)
    screen = open_chat(HARBOUR, *replies, TERM="dumb")
    screen.type("write\r")
    screen.wait_for_end_of_line("stop:")
    report = '◆ [Completed harbour__write_log text="x": 1 characters are in the log.]'  # the results are not shown here
    screen.say("y\r", "[MCP: Tool 'write_log' completed]", report, "It is **so**.")
    screen.say("a story\r", "◆ Once upon")
    screen.say(CTRL_C, "[Stopped]")
    screen.enter("/mcp", "harbour.toml")
    screen.type("write, and a story\r")
    screen.wait_for_end_of_line("stop:")
    screen.say("y\r", "Twice upon")
    screen.type(CTRL_C)
    screen.wait_until(lambda: sum("[Stopped]" in line for line in screen.lines()) == 2, "a second stop")
    screen.leave()


@pytest.mark.usefixtures("harbour")
def test_on_a_dumb_terminal_a_text_is_no_answer_and_is_sent_later(open_chat: OpenChat) -> None:
    screen = open_chat(HARBOUR, call_text("wait"), "One.", "Two.", "Three.", TERM="dumb")
    screen.type("tide?\ry\r")  # before the question is there
    screen.wait_for_end_of_line("stop:")
    screen.say("and how deep is it\r", '"and how deep is it" is none of the answers: y, e, n, q, u, a.')
    screen.say("yes\r", '"yes" is none')
    screen.say("/help undo\r", "/undo [NUMBER]: remove the last turn")
    screen.say("n\r", "Enter alone gives none:")
    screen.say("/permissions\r", "After this turn: /permissions")
    screen.say("it is late\r", "◆ One.", "> y", "◆ Two.", "> and how deep is it", "◆ Three.", "default  ask")
    assert not any("completed" in line for line in screen.lines())


def test_on_a_dumb_terminal_lines_of_the_program_break_between_words(open_chat: OpenChat, folder: Path) -> None:
    servers = write_servers(folder, "two.toml", {"one": ["no-such-program"], "two": ["no-such-program-either"]})
    screen = open_chat(servers, "Well.", TERM="dumb", size=(40, 30))
    assert [line for line in screen.lines() if "two" in line or "program-either" in line] == [
        "[MCP: Server 'two' failed to start; /mcp",
        'restart two tries again. Server "two":',
        'the command "no-such-program-either"',
    ]


@pytest.mark.usefixtures("harbour")
@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
def test_help_is_answered_while_a_model_loads_and_while_it_writes(
    term: str, open_screen: OpenChat, folder: Path
) -> None:
    os.mkfifo(folder / "replies.json")  # the model is loaded when its file has been written
    screen = open_screen("--model", "replies.json", "--no-servers", TERM=term, PAGER="cat", size=(100, 60))
    screen.say("/help undo\r", "/undo [NUMBER]: remove the last turn")
    replies = [{"text": "Once upon", "wait": True}]
    (folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
    screen.wait_for("Ctrl+D to exit")
    screen.wait_for_prompt()
    screen.say("a story\r", "Once upon")
    screen.say("/help copy\r", "/copy [code [NUMBER]]: copy the last answer")
    # Ctrl+C is the pager's until it has ended, and then the status line is back
    screen.wait_until(lambda: term == "dumb" or " tokens" in screen.lines()[-1], "the status line")
    screen.say(CTRL_C, "[Stopped]")


def test_on_a_dumb_terminal_a_question_at_the_prompt_is_answered_first(
    open_screen: OpenChat, script: Callable[..., str], folder: Path
) -> None:
    arguments = write_harbour(folder, "greets").split()
    screen = open_screen("--model", script("Aye."), *arguments, TERM="dumb")
    screen.wait_for_end_of_line("Answer it? [y/N]")
    screen.say("y\r", "metres (from bow to stern):")
    screen.type(CTRL_C)
    screen.wait_for_prompt()
    screen.enter("hello", "◆ Aye.")
    screen.leave()


@pytest.mark.parametrize("key", [CTRL_C, ESC], ids=["Ctrl+C", "Esc"])
def test_a_key_closes_an_open_menu_only(key: str, open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "Hello.")
    screen.say("/und", "remove the last turn")
    screen.type(key)
    screen.wait_until(lambda: not any("remove the last" in line for line in screen.lines()), "a closed menu")
    assert any(line.startswith("> /und") for line in screen.lines()) == (key == ESC)
    screen.say("\x15hi\r" if key == ESC else "hi\r", "◆ Hello.")


@pytest.mark.slow
@pytest.mark.model
def test_the_prefill_of_a_long_prompt_can_be_stopped(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers --context 8192")
    screen.say(f"\x1b[200~{'word ' * 2200}\x1b[201~", "word word")
    screen.say("\r", "processing prompt ")
    screen.say(CTRL_C, "[Stopped]")
    screen.wait_for_prompt()
    screen.enter("/clear", "Conversation cleared.")
    screen.say("Hello!\r", "◆ ")


def test_a_stopped_answer_can_be_copied(open_chat: OpenChat, folder: Path) -> None:
    screen = open_chat("--no-servers", {"text": "Once upon a time", "wait": True}, "The end.")
    screen.say("a story\r", "◆ Once upon a time")
    screen.say(CTRL_C, "[Stopped]")
    screen.wait_for_prompt()
    screen.enter("/copy", "Copied 16 characters (if your terminal supports OSC 52)")
    screen.enter("and then?", "◆ The end.")
    assert list(folder.iterdir()) == [folder / "replies.json"]


def test_on_a_dumb_terminal_an_edited_message_is_the_draft_of_the_next_line(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "One.", "Two.", "Three.", TERM="dumb")
    screen.say("first\r", "One.")
    screen.say("/edit\r", "> [first]")
    screen.say("\r", "Two.")
    screen.say("/edit\r", "> [first]")
    screen.say("another\r", "Three.")
    screen.say("/edit\r", "> [another]")


def test_a_server_asks_one_thing_at_a_time_and_not_what_it_took_back(open_chat: OpenChat, harbour: Path) -> None:
    screen = open_chat(f"{HARBOUR} --allow book", call_text("book", boat="Both"), "Booked.", size=(100, 40))
    screen.say("book Both\r", "How long is it?", "Answer it? [y/N]", "rising")
    (harbour / "go").touch()
    screen.wait_until(lambda: not any("rising" in line for line in screen.lines()), "that the other one is cancelled")
    lines = screen.say("n", "Booked.")
    assert not any("the other one" in line for line in lines)
    assert screen.bytes.count(b"\x07") == 1


def test_keys_of_vi_edit_the_line(open_chat: OpenChat, folder: Path) -> None:
    (folder / "vi.toml").write_text('[chat]\nkey_bindings = "vi"\n', encoding="utf-8")
    silent = {"text": "Once upon", "wait": True}
    screen = open_chat("--no-servers --config vi.toml", "One.", silent, "Three.")
    screen.say(f"tell me all{ESC}", "> tell me all")
    screen.type("0dw")
    screen.enter("", "> me all", "◆ One.")
    screen.say("more\r", "Once upon")
    screen.type(ESC)
    screen.say(ESC, "[Stopped]")
    screen.wait_for_prompt()
    screen.enter("/set key_bindings emacs", "chat.key_bindings  emacs")
    screen.say("one two\x17\r", "> one")
    screen.wait_for("◆ Three.")


@pytest.mark.parametrize(("bell", "rung"), [("true", 1), ("false", 0)])
@pytest.mark.usefixtures("harbour")
def test_the_bell_rings_when_a_question_waits(bell: str, rung: int, open_chat: OpenChat, folder: Path) -> None:
    with (folder / "harbour.toml").open("a", encoding="utf-8") as file:
        file.write(f"[chat]\nbell = {bell}\n")
    screen = open_chat(HARBOUR, call_text("wait"))
    screen.say("tide?\r", "Run wait?")
    assert screen.bytes.count(b"\x07") == rung
