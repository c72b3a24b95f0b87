"""Pasted text is text: it runs no command and attaches no file; private files are attached after a question."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stage import Screen

OpenChat = Callable[..., Screen]
PASTE, PASTED = "\x1b[200~", "\x1b[201~"
START, END, UP, DOWN, UNDO = "\x01", "\x05", "\x1b[A", "\x1b[B", "\x1f"
SENT = "◆ So be it."


def pasted(text: str) -> str:
    return f"{PASTE}{text}{PASTED}"


def clear(chat: Screen) -> None:
    chat.type("\x0c")
    chat.wait_until(lambda: chat.lines()[:1] == [">"], "a cleared screen")


@pytest.fixture
def chat(open_chat: OpenChat) -> Screen:
    return open_chat("--no-servers", *["So be it."] * 9)


COMMANDS = (
    pasted("!touch ran"),
    pasted(" \t!touch ran"),
    pasted("\r!touch ran\rand more"),
    pasted("！") + "\x7f" + pasted("!touch ran"),
    pasted("!touch ra") + "n" + START + " " + END + " ",
    pasted("!") + "touch ran",
    pasted("!touch ran") + "\x15" + UNDO,
    "x" + pasted("!touch ran") + START + "\x04",
    pasted("!touch ran") + UP + DOWN,
    pasted("/quit"),
    pasted("／quit now"),
    pasted("//quit"),
)


@pytest.mark.slow
def test_a_pasted_command_is_a_message_now_and_when_it_is_recalled(open_chat: OpenChat, folder: Path) -> None:
    chat = open_chat("--no-servers", *["So be it."] * 2 * len(COMMANDS))
    for keys in COMMANDS:
        for again in (keys, UP):
            clear(chat)
            chat.enter(again, SENT)
            assert not (folder / "ran").exists(), repr(keys)
    chat.enter("!touch ran", "> !touch ran")
    assert (folder / "ran").exists()


def test_a_command_is_typed_and_its_arguments_may_be_pasted(chat: Screen, folder: Path) -> None:
    chat.enter("!" + pasted("touch ran"), "> !touch ran")
    chat.enter("/help " + pasted("clear"), "/clear: start a new session")
    assert (folder / "ran").exists()


def test_a_command_pasted_while_the_model_works_or_into_a_question_is_a_message(
    open_chat: OpenChat, folder: Path
) -> None:
    chat = open_chat("--no-servers", {"text": "Slow.", "wait": True}, "So be it.", "So be it.")
    chat.say("hi\r", "Slow.")
    chat.say(pasted("!touch ran") + "\r", "next: /!touch ran")
    chat.say("\x03", "[Stopped]")
    chat.enter("", SENT)
    (folder / "away").symlink_to("/etc/hostname")
    chat.type("@away\r")
    chat.wait_for_end_of_line("[y/N]")
    chat.say(pasted("!touch ran"))
    chat.say("\x1b", "Not sent: /etc/hostname was not read", "> @away")
    chat.enter(START + "\x7f" * len("\n@away"), "> /!touch ran", SENT)
    assert not (folder / "ran").exists()


def test_a_pasted_mention_attaches_nothing_and_reaches_the_model_as_it_is(chat: Screen, folder: Path) -> None:
    (folder / "notes.txt").write_text("Buy rope.", encoding="utf-8")
    lines = chat.enter(pasted("see @notes.txt and @other.txt"), SENT)
    assert not any("[Attached" in line or "File not found" in line for line in lines)
    assert "> see @notes.txt and @other.txt" in lines
    (session,) = (folder.parent / "home/.local/state/rkllm-chat/sessions").iterdir()
    assert '"see @notes.txt and @other.txt"' in session.read_text(encoding="utf-8")
    chat.enter("see @" + pasted("notes.txt"), "[Attached: notes.txt] 9 bytes", SENT)


def test_pasted_tabs_are_shown_as_blanks_and_sent_as_tabs(chat: Screen, folder: Path) -> None:
    chat.say(pasted("a\tb\u200bc"), "> a   b\\u200bc")
    chat.enter("", SENT)
    (session,) = (folder.parent / "home/.local/state/rkllm-chat/sessions").iterdir()
    assert '"a\\tb' in session.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("place", "name", "question", "key"),
    [
        ("home/.ssh/id_rsa", "~/.ssh/id_rsa", "id_rsa is a location of keys and passwords.", "\r"),
        ("home/plan.txt", "~/plan.txt", "home/plan.txt is outside the current folder.", "\r"),
        ("home/plan.txt", "~/plan.txt", "home/plan.txt is outside the current folder.", "y"),
        ("home/plan.txt", "link.txt", "home/plan.txt is outside the current folder.", "\r"),
        ("home/.ssh/key", "../home/.ssh/key", "key is a location of keys and passwords.", "\r"),
    ],
)
def test_a_file_elsewhere_is_attached_after_a_question(
    place: str, name: str, question: str, key: str, open_chat: OpenChat, folder: Path
) -> None:
    path = folder.parent / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("private", encoding="utf-8")
    (folder / "link.txt").symlink_to(folder.parent / "home/plan.txt")
    chat = open_chat("--no-servers", "So be it.", size=(200, 30))
    chat.type(f"see @{name}\r")
    chat.wait_for_end_of_line("Attach it? [y/N]")
    assert any(question in line for line in chat.lines())
    chat.say(key, "[Attached: " if key == "y" else "Not sent: ")
    left = ">" if key == "y" else f"> see @{name}"
    chat.wait_until(lambda: chat.lines()[-2] == left, "the prompt, with the message if it was not sent")
    assert any(SENT in line for line in chat.lines()) == (key == "y")


def test_a_message_that_begins_like_a_command_is_edited_as_a_message(
    open_chat: OpenChat, folder: Path, environment: dict[str, str]
) -> None:
    environment["EDITOR"] = "true"
    first = open_chat("--no-servers", "So be it.")
    first.enter(pasted("!touch ran"), SENT)
    first.leave()
    second = open_chat("--no-servers --continue", "So be it.")
    second.say("/edit\r", "> /!touch ran")
    second.enter("", SENT)
    assert not (folder / "ran").exists()
