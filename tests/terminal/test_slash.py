"""Bad slash input, each with its outcome; and what completes a line. One program serves them all, one after another."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import pytest

from stage import Screen

from .session import HERE

PASTE, PASTED = "\x1b[200~", "\x1b[201~"
SENT = "◆ So be it."


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    """The program with the server of the sessions, and a model that says the same again and again."""
    folder = tmp_path_factory.mktemp("slash")
    for name in ("harbour.py", "harbour.toml"):
        text = (HERE / name).read_text(encoding="utf-8").replace("PYTHON", sys.executable)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "replies.json").write_text(json.dumps(["So be it."] * 100), encoding="utf-8")
    (folder / "notes").mkdir()
    (folder / "notes" / "rope.txt").write_text("Buy rope.", encoding="utf-8")
    environment = {**os.environ, "HOME": str(folder), "LANG": "C.UTF-8", "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    arguments = ["--model", "replies.json", "--config", "harbour.toml", "--context", "1000000"]
    started = Screen(arguments, environment, folder, size=(100, 40))
    started.wait_for("lists the commands")
    yield started
    started.close()


@pytest.fixture(autouse=True)
def fresh(screen: Screen) -> None:
    """Each begins on an empty screen with an empty line."""
    screen.wait_for_prompt()
    screen.type("\x0c")
    screen.wait_until(lambda: screen.lines()[:1] == [">"], "a cleared screen")


TOLD = [
    ("46 a slash alone", "/", 'There is no command "/"'),
    ("46 two slashes", "//", 'There is no command "//"'),
    ("46 unknown", "/unknown", 'There is no command "/unknown". /help lists them'),
    ("46 near", "/toosl", "Did you mean /tools?"),
    ("46 capitals", "/HELP help", "/help [COMMAND]: lists the commands"),
    ("46 leading space", "  /help help", "/help [COMMAND]: lists the commands"),
    ("46 wide slash", "／help help", "/help [COMMAND]: lists the commands"),
    ("46 two slashes begin a message", "//etc is what?", SENT),
    ("49 unbalanced quotes", '/prompt letter captain="Anna', "The arguments cannot be read: No closing quotation."),
    ("49 unknown key", "/prompt letter boat=Anna", '"boat=Anna" is no argument of letter. It takes captain, harbour'),
    ("49 key twice", "/prompt letter captain=A captain=B", "captain is given twice. Write it once."),
    ("49 no name", "/prompt", "Which prompt? /prompts lists them."),
    ("49 call, key twice", "/call get_tide harbour=A harbour=B", "harbour is given twice. Write it once."),
    ("49 call, no value", "/call get_tide harbour", '"harbour" is no argument. Write name=value'),
    ("49 call, not JSON", '/call get_tide {"harbour"', "The arguments are not JSON"),
    ("49 call, unknown tool", "/call get_tied", 'There is no tool "get_tied". Did you mean get_tide?'),
    ("50 a file of the machine", "/resource file:///etc/passwd", "No server lists file:///etc/passwd."),
    ("50 http", "/resource http://127.0.0.1/x", "No server lists http://127.0.0.1/x."),
    ("50 unknown scheme", "/resource gopher://x", "No server lists gopher://x."),
    ("50 in a message", "look at @file:///etc/passwd please", "Not sent: No server lists file:///etc/passwd."),
    ("51 restart of no server", "/mcp restart nosuch", 'There is no server "nosuch". Configured are: harbour.'),
    ("51 restart without a name", "/mcp restart", "Which server? Configured are: harbour."),
    ("52 a rule for nothing", "/permissions allow", "Write allow, deny or forget, and a pattern."),
    ("history of no number", "/history 1", "Nothing has been called yet."),
    ("tools out of range", "/tools 3-99", "There are tools 1 to 6; 3-99 is none of them."),
    ("a language that is not there", "/language tlh", 'There is no language "tlh". Known are en'),
    ("thinking, unknown", "/thinking loudly", '"loudly" is none of show, hide, on, off, auto.'),
]


@pytest.mark.parametrize(("line", "told"), [row[1:] for row in TOLD], ids=[row[0] for row in TOLD])
def test_a_bad_line_is_told_what_is_wrong_with_it(line: str, told: str, screen: Screen) -> None:
    screen.type(line)
    screen.type("\r")
    screen.wait_for(told)
    screen.wait_for_prompt()
    assert screen.process.poll() is None


@pytest.mark.parametrize("pattern", ["*", "harbour__*", "???????__wait"])
def test_52_a_rule_for_many_tools_wants_a_typed_word(pattern: str, screen: Screen) -> None:
    screen.type(f"/permissions allow {pattern}\r")
    screen.wait_for_end_of_line("mean it:")
    screen.type("y\r")
    screen.wait_for_prompt()
    screen.type("/permissions\r")
    screen.wait_for_end_of_line("otherwise  ask")
    screen.wait_for_prompt()
    assert not any(line.startswith("runs ") for line in screen.lines())


def test_52_the_typed_word_makes_the_rule(screen: Screen) -> None:
    screen.type("/permissions allow harbour__w*\r")
    screen.wait_for_end_of_line("mean it:")
    screen.type("yes\r")
    screen.wait_for("runs       harbour__w*")
    screen.wait_for_prompt()
    screen.type("/permissions forget harbour__w*\r")
    screen.wait_until(lambda: sum("otherwise  ask" in line for line in screen.lines()) == 2, "the rules again")
    assert sum("runs       " in line for line in screen.lines()) == 1


def test_53_a_command_in_pasted_text_is_text(screen: Screen) -> None:
    screen.type(f"{PASTE}one\r/exit\rtwo{PASTED}")
    screen.wait_for("  two")
    assert screen.lines()[:3] == ["> one", "  /exit", "  two"]
    screen.type("\r")
    screen.wait_for(SENT)


def test_54_sequences_in_pasted_text_are_shown_and_do_nothing(screen: Screen) -> None:
    before = len(screen.bytes)
    screen.type(f"{PASTE}a\x1b]0;owned\x07b\x1b[2Jc{PASTED}\r")
    screen.wait_for(SENT)
    assert "> a\\x1b]0;owned\\x07b\\x1b[2Jc" in screen.lines()
    assert b"\x1b]0;owned" not in screen.bytes[before:] and b"\x1b[2J" not in screen.bytes[before:]


@pytest.mark.parametrize(
    ("text", "told"),
    [("x" * 200_000, "200001 characters in all"), ("line\n" * 10_000, "10001 lines, 50001 characters in all")],
    ids=["200 kB", "10,000 lines"],
)
def test_55_a_long_line_is_taken_and_shown_in_short(text: str, told: str, screen: Screen) -> None:
    data = f"{PASTE}{text}{PASTED}x".encode()
    while data:
        data = data[os.write(screen.terminal, data[:2048]) :]
        screen.read_some(0)
    screen.type("\r")
    screen.wait_for(told, 30)
    screen.wait_for(SENT, 30)


@pytest.mark.parametrize("text", ["   ", "\u200b\u200b", "\u2060 \ufeff", "\n\n"], ids=ascii)
def test_56_a_line_of_nothing_is_not_sent(text: str, screen: Screen) -> None:
    screen.type(f"{PASTE}{text}{PASTED}\r")
    screen.type("/help help\r" if not text.strip() else "\x03/help help\r")
    screen.wait_for("For example: /help tools")
    assert not any(SENT in line for line in screen.lines())
    screen.wait_for_prompt()


def test_56_bytes_that_are_not_utf_8_become_question_marks(screen: Screen) -> None:
    os.write(screen.terminal, b"a\xff\xfeb\xe2\x82c\r")
    screen.wait_for(SENT)
    assert any(line.startswith("> a") and line.endswith("c") and "\ufffd" in line for line in screen.lines())


def test_57_ctrl_d_in_a_line_of_several_does_not_leave(screen: Screen) -> None:
    screen.type("one\n")
    screen.wait_for("> one")
    screen.type("\x04\x04two\x01\x04\r")
    screen.wait_for(SENT)
    assert screen.lines()[:2] == ["> one", "  wo"]


MENU = [
    ("commands, fuzzily", "/prm", "/permissions"),
    ("what a command does", "/und", "takes the last turn back"),
    ("words of a command", "/mcp re", "restart"),
    ("servers", "/mcp restart har", "harbour"),
    ("tools", "/mcp schema tid", "get_tide"),
    ("arguments of a tool", "/call get_tide ha", "harbour="),
    ("prompts", "/prompt le", "letter"),
    ("arguments of a prompt", "/prompt letter ca", "captain="),
    ("values of an argument, from the server", "/prompt letter harbour=Hus", "harbour=Husum"),
    ("resources", "/resource harbour://l", "harbour://log"),
    ("a folder", "see @no", "notes/"),
    ("a file in it", "see @notes/r", "notes/rope.txt"),
    ("a resource in a message", "see @harbour://l", "harbour://log"),
    ("a value of a template, from the server", "see @harbour://berth/1", "harbour://berth/12"),
    ("states", "/thinking sh", "show"),
]


@pytest.mark.parametrize(("typed", "offered"), [row[1:] for row in MENU], ids=[row[0] for row in MENU])
def test_a_line_is_completed(typed: str, offered: str, screen: Screen) -> None:
    screen.type(typed)
    screen.wait_until(lambda: any(offered in line for line in screen.lines()[1:-1]), f"{offered!r} in the menu")
    screen.type("\t")
    if offered.startswith(("/", "takes")):
        screen.wait_until(lambda: "".join(screen.lines()[:1]).startswith("> /"), "a command in the line")
    else:
        screen.wait_until(lambda: "".join(screen.lines()[:1]).endswith(offered), f"{offered!r} in the line")
    screen.type("\x03")
    screen.wait_for_prompt()
