"""Every key of the table is pressed in every state of the chat, and does what the table says.

The chat runs below a shell, which suspends it and starts it again.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.tui.key_table import KEYS, Key
from stage import PROGRAM, Screen, call_text

from .server_configs import HARBOUR

SHELL = "shell:"
REPLIES = 60
START_S = 60.0
PARTS = 4  # of the keys, each in a chat of its own, so that a slow machine has time for each
KEPT_UNTIL_NEXT_START = {"u", "a"}
"""Answers after which no question of the state comes any more; they have tests of their own."""
NAMED = {"enter": "\r", "escape": "\x1b", "tab": "\t", "s-tab": "\x1b[Z", "?": "?"}
TYPED = {
    "\\ Enter": ["\\\r"],
    "Up, Down": ["\x1b[B", "\x1b[A"],
    "Ctrl+R": ["\x12"],
    "y, u, a, e, n, q": sorted(set("yuaenq") - KEPT_UNTIL_NEXT_START),
    "@": ["@"],
    "!": ["!"],
    "//, /!, @@": ["//", "/!", "@@"],
}


@dataclass(frozen=True)
class State:
    """A state of the chat.

    Attributes:
        column: Its column of the table.
        reply: What the model replies in it, each time.
        line: What is typed to reach it; "" for the prompt.
        mark: What the screen shows then.
    """

    column: str
    reply: str | dict[str, Any]
    line: str
    mark: str


BEGINNING = ("One.", "Two.", call_text("read_year", year=2026), "Three.")
SILENT = {"text": "Once upon", "wait": True}
STATES = {
    "prompt": State("at_prompt", "Well.", "", ""),
    "model writes": State("at_work", SILENT, "go", "Once upon"),
    "tool runs": State("at_work", call_text("wait"), "go", "rising"),
    "compaction": State("at_work", SILENT, "/compact", "… "),
    "approval": State("at_question", call_text("write_log", text="x"), "go", "stop:"),
    "list": State("in_list", "Well.", "/resume", "Search:"),
}


def spell(key: Key) -> list[str]:
    """Return what a terminal sends for the keys of a row."""
    if key.shown in TYPED:
        return TYPED[key.shown]
    return ["".join(NAMED.get(name) or chr(ord(name[2:]) & 31) for name in names) for names in key.bound]


class Chat:
    """The chat in one state, which is entered again before each key."""

    def __init__(self, state: State, folder: Path, environment: dict[str, str], model: str) -> None:
        self.state = state
        self.command = " ".join([*PROGRAM, "--model", model, HARBOUR, "--allow wait", "--allow read_year"])
        self.screen = Screen(
            [],
            {**environment, "PS1": f"{SHELL} ", "EDITOR": str(folder / "editor"), "PAGER": str(folder / "pager")},
            folder,
            (110, 30),
            ["bash", "--norc", "-i"],
        )
        self.screen.wait_for(SHELL)
        self.start()

    def start(self) -> None:
        """Start the chat, with two sessions, the second of which has messages and a shortened result."""
        self.screen.type(f"clear; {self.command}\r")
        self.screen.wait_for("for commands, Ctrl+D to exit", START_S)
        self.screen.wait_for_prompt()
        self.screen.enter("one", "◆ One.")
        self.screen.enter("/new")
        self.screen.enter("two", "◆ Two.")
        self.screen.enter("three", "Ctrl+O shows", "◆ Three.")

    def is_in(self, mark: str) -> bool:
        return any(mark in line for line in self.screen.lines())

    def enter(self) -> None:
        """Enter the state from whatever the last key has left, with an empty line on a cleared screen."""
        screen = self.screen
        if self.is_in(SHELL):
            self.start()
        if self.is_in("I-search"):
            screen.type("\x03")
            screen.wait_until(lambda: not self.is_in("I-search"), "the end of the search")
        while not self.is_idle():
            assert not self.is_in(SHELL), "\n".join(screen.lines())
            screen.type("x\x03")  # Ctrl+C on an empty line exits the second time
            screen.wait_for_rest(0.15)
            screen.wait_until(lambda: not any(line.startswith("+") for line in screen.lines()), "the end of the work")
        screen.type("\x0c")
        screen.wait_until(lambda: len(screen.lines()) == 2, "an empty screen")
        if self.state.line:
            screen.say(f"{self.state.line}\r", self.state.mark)
        if self.state.column == "at_work":
            screen.wait_until(lambda: self.input_line() == "+", "the line for the next message")

    def is_idle(self) -> bool:
        return self.input_line() == ">"

    def input_line(self) -> str:
        """The line above the status line."""
        return "".join(self.screen.lines()[-2:-1])

    def press(self, keys: str, *texts: str) -> None:
        """Press keys and wait for texts on the screen."""
        self.screen.say(keys, *texts)

    def wait_for_status(self) -> None:
        """Wait until the chat has drawn its screen again."""
        self.screen.wait_until(lambda: " · " in "".join(self.screen.lines()[-1:]), "the status line")

    def has_line(self, text: str) -> bool:
        """Whether the input line, or the search of a list, has this text."""
        lines = self.screen.lines()
        return f"Search: {text}" in lines or self.input_line() in (f"> {text}", f"+ {text}")

    def wait_for_line(self, keys: str, text: str) -> None:
        self.screen.type(keys)
        self.screen.wait_until(lambda: self.has_line(text), f"the line {text!r}")

    def check_nothing(self, keys: str) -> None:
        if keys.isprintable() and self.state.column != "in_list":
            self.wait_for_line(keys, keys)
            return
        before = self.lines_at_rest()
        self.screen.type(keys)
        assert self.lines_at_rest() == before

    def lines_at_rest(self) -> list[str]:
        self.screen.wait_for_rest(0.3)
        return self.screen.lines()


def check_row_moves(chat: Chat, keys: str) -> None:
    other = "\x1b[A" if keys == "\x1b[B" else "\x1b[B"
    chat.screen.type(other)
    chat.screen.wait_for_rest(0.1)
    (before,) = [line for line in chat.screen.lines() if line.startswith("❯")]
    chat.screen.type(keys)
    chat.screen.wait_until(lambda: before not in chat.screen.lines(), "another row")


def check_recall(chat: Chat, keys: str) -> None:
    """Up has the last line; Down goes back to the empty one."""
    empty = chat.input_line()
    chat.screen.type("\x1b[A")
    chat.screen.wait_until(lambda: len(chat.input_line()) > 1, "the last line")
    if keys == "\x1b[B":
        chat.screen.type(keys)
        chat.screen.wait_until(lambda: chat.input_line() == empty, "the empty line")


def check_recall_queued(chat: Chat, keys: str) -> None:
    """Up takes the message back that waits, and has the last line where none does."""
    if keys == "\x1b[A":
        chat.press("first\r", "next: first")
        chat.press("later\r", "next: later  (Up takes it back)")
        chat.press(keys, "+ later", "next: first  (Up takes it back)")
        assert not chat.is_in("next: later")
        chat.screen.type("\x15")
        chat.press(keys, "+ first")
        assert not chat.is_in("next: ")
        chat.screen.type("\x15")
        chat.screen.wait_until(lambda: chat.input_line() == "+", "an empty line")
    check_recall(chat, keys)


def check_gone(mark: str) -> Callable[[Chat, str], None]:
    def check(chat: Chat, keys: str) -> None:
        assert chat.is_in(mark)
        chat.screen.type(keys)
        chat.screen.wait_until(lambda: not chat.is_in(mark), f"the end of {mark!r}")

    return check


def check_clear(chat: Chat, keys: str) -> None:
    chat.wait_for_line("text", "text")
    chat.screen.type(keys)
    chat.screen.wait_for_prompt()
    chat.press(keys, "Press Ctrl+C again to exit")


def check_complete(chat: Chat, keys: str) -> None:
    chat.press("/und", "remove the last turn")
    chat.press(keys, "> /undo")


def check_close(chat: Chat, keys: str) -> None:
    chat.press("/und", "remove the last turn")
    chat.screen.type(keys)
    chat.screen.wait_until(lambda: not chat.is_in("remove the last turn"), "a closed menu")
    assert chat.has_line("/und") or chat.is_in("> /und")


def check_redraw(chat: Chat, keys: str) -> None:
    chat.press("\x1b[B" if chat.state.column == "at_question" else "draft", chat.state.mark)
    chat.screen.stream.feed(b"\x1b[s\x1b[1;1Hnoise of another program\x1b[u")
    chat.screen.type(keys)
    chat.screen.wait_until(lambda: not chat.is_in("noise"), "a clean screen")
    chat.screen.wait_for(chat.state.mark)


def check_suspend(chat: Chat, keys: str) -> None:
    chat.screen.type(keys)
    chat.screen.wait_for_end_of_line(SHELL)
    chat.screen.type("clear; fg\r")
    chat.wait_for_status()
    chat.screen.wait_for(chat.state.mark)


def check_quit(chat: Chat, keys: str) -> None:
    chat.screen.type(keys)
    chat.screen.wait_for_end_of_line(SHELL)
    chat.press("clear; echo code $?\r", "code 0")
    chat.screen.wait_for_end_of_line(SHELL)


def check_unfold(chat: Chat, keys: str) -> None:
    chat.press(keys, "The pager shows 366 lines")
    chat.press("\r", chat.state.mark)
    chat.wait_for_status()


def check_mode(chat: Chat, keys: str) -> None:
    def mode() -> str:
        return "".join(chat.screen.lines()[-1:]).split(" · ")[0]

    def is_mode(name: str) -> bool:
        return mode() == name

    for after in ("auto", "read-only", "ask"):
        chat.screen.type(keys)
        chat.screen.wait_until(partial(is_mode, after), f"the mode {after}")


def check_literal(chat: Chat, keys: str) -> None:
    sent = [f"> {'@x' if keys == '@@' else f'{keys}x'}", "◆ "]  # a mention is shown as it is sent
    chat.press(f"{keys}x\r", *(sent if chat.state.column == "at_prompt" else [f"next: {keys}x"]))
    assert not chat.is_in("Unknown command")


def check_shell(chat: Chat, keys: str) -> None:
    is_idle = chat.state.column == "at_prompt"
    chat.press(f"{keys}echo $((6 * 7))s\r", "42s" if is_idle else "next: !echo")


ANSWERS = {"y": "completed]", "e": "Arguments as JSON", "n": "Why not?", "q": "was not run"}
CHECKS: dict[str, Callable[[Chat, str], None]] = {
    "": Chat.check_nothing,
    "send": lambda chat, keys: chat.press(f"hello{keys}", "> hello", "◆ Well."),
    "queue": lambda chat, keys: chat.press(f"later{keys}", "next: later"),
    "default": lambda chat, keys: chat.press(keys, "declined"),
    "newline": lambda chat, keys: chat.press(f"a{keys}b", "  b"),
    "complete": check_complete,
    "recall": check_recall,
    "recall_queued": check_recall_queued,
    "search": lambda chat, keys: chat.press(f"{keys}year", "I-search backward: year"),
    "editor": lambda chat, keys: chat.press(f"some{keys}", "some edited"),
    "unfold": check_unfold,
    "mode": check_mode,
    "keys": lambda chat, keys: chat.press(keys, "show the keys"),
    "clear": check_clear,
    "stop": lambda chat, keys: chat.press(keys, "[Stopped]"),
    "cancel": lambda chat, keys: chat.press(keys, "was not run"),
    "close": check_close,
    "quit": check_quit,
    "redraw": check_redraw,
    "suspend": check_suspend,
    "approve": lambda chat, keys: chat.press(keys, ANSWERS[keys]),
    "attach": lambda chat, keys: chat.press(keys, "harbour.toml"),
    "shell": check_shell,
    "literal": check_literal,
    "choose": lambda chat, keys: chat.press(f"\x1b[B{keys}", "Resumed session"),
    "move": check_row_moves,
    "rename": lambda chat, keys: chat.press(keys, "New title:"),
    "delete": lambda chat, keys: chat.press(keys, "Delete '"),
    "leave": check_gone("Search:"),
    "find": lambda chat, keys: chat.wait_for_line(keys, keys.rstrip("\r")),
}


@pytest.fixture
def programs(folder: Path) -> None:
    """An editor that adds a word, and a pager that says how much it shows."""
    texts = {
        "editor": f'#!{sys.executable}\nimport sys\nopen(sys.argv[1], "a").write(" edited")\n',
        "pager": "#!/bin/sh\necho The pager shows $(wc -l < $1) lines\nread line\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)


@pytest.fixture
def open_state(
    folder: Path, environment: dict[str, str], script: Callable[..., str]
) -> Iterator[Callable[[State], Chat]]:
    chats: list[Chat] = []

    def open_one(state: State) -> Chat:
        chats.append(Chat(state, folder, environment, script(*BEGINNING, *[state.reply] * REPLIES)))
        return chats[-1]

    yield open_one
    for chat in chats:
        os.killpg(chat.screen.process.pid, signal.SIGKILL)
        chat.screen.close()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", STATES)
@pytest.mark.usefixtures("harbour", "programs")
def test_every_key_does_what_the_table_says(name: str, part: int, open_state: Callable[[State], Chat]) -> None:
    state = STATES[name]
    chat = open_state(state)
    for key in KEYS[part::PARTS]:
        for keys in spell(key):
            chat.enter()
            CHECKS[getattr(key, state.column)](chat, keys)


def test_every_action_of_the_table_is_checked() -> None:
    assert {getattr(key, state.column) for key in KEYS for state in STATES.values()} == CHECKS.keys()
