"""A recorded session: read from its file, played on the real program, compared, and written back."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import Any

from stage import Screen

from .picture import draw, texts_of

HERE = Path(__file__).parent
KEYS = {
    "Enter": "\r", "Tab": "\t", "Esc": "\x1b", "Backspace": "\x7f", "Space": " ",
    "Up": "\x1b[A", "Down": "\x1b[B", "Right": "\x1b[C", "Left": "\x1b[D", "Home": "\x1b[H", "End": "\x1b[F",
    "Alt+Enter": "\x1b\r", "Paste": "\x1b[200~", "/Paste": "\x1b[201~",
    **{f"Ctrl+{letter}": chr(ord(letter) - 64) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
}  # fmt: skip
KEY = re.compile(r"<([^<>]+)>")
BAR = "│"
STANDS_S, APPEARS_S = 10.0, 15.0
QUIET_S = 0.7
PUSHED = 4


@dataclass
class Session:
    """What a file says: the words before the program starts, and the steps, each with the lines behind it."""

    path: Path
    about: str
    words: dict[str, str] = field(default_factory=dict[str, str])
    replies: list[Any] = field(default_factory=list[Any])
    files: dict[str, str] = field(default_factory=dict[str, str])
    head: list[str] = field(default_factory=list[str])
    steps: list[tuple[str, list[str]]] = field(default_factory=list[tuple[str, list[str]]])

    @property
    def size(self) -> tuple[int, int]:
        return read_size(self.words.get("size", "80x24"))

    def lay(self, folder: Path) -> list[str]:
        """Puts the files into the folder; gives the arguments of the program."""
        for name in self.words.get("files", "").split():
            text = (HERE / name).read_text(encoding="utf-8")
            (folder / name).write_text(text.replace("PYTHON", sys.executable), encoding="utf-8")
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text.replace("PYTHON", sys.executable), encoding="utf-8")
        if self.replies:
            (folder / "replies.json").write_text(json.dumps(self.replies), encoding="utf-8")
        model = ["--model", "replies.json"] if self.replies else []
        return [*model, *self.words.get("arguments", "").split()]

    def variables(self) -> Mapping[str, str]:
        return dict(word.split("=", 1) for word in self.words.get("variables", "").split())

    def write(self) -> None:
        body = [line for step, lines in self.steps for line in (step, *(f"{BAR}{line}" for line in lines))]
        self.path.write_text("\n".join([*self.head, *body]) + "\n", encoding="utf-8")


def read_size(text: str) -> tuple[int, int]:
    columns, rows = text.split("x")
    return int(columns), int(rows)


def read_session(path: Path) -> Session:
    lines = path.read_text(encoding="utf-8").splitlines()
    start = lines.index("---") + 1
    session = Session(path, lines[0], head=lines[:start])
    block: list[str] = []
    keep: list[tuple[str, list[str]]] = []
    for line in lines[1 : start - 1]:
        if line.startswith("[") and line.endswith("]") and line[1:5] in ("repl", "file"):
            block = []
            keep.append((line[1:-1], block))
        elif keep:
            block.append(line)
        elif line:
            key, _, value = line.partition(": ")
            session.words[key] = value
    for name, block in keep:
        text = "\n".join(block).strip("\n")
        if name.startswith("file "):
            session.files[name[5:]] = text + "\n"
        else:
            session.replies.append({"text": text, "wait": True} if name.endswith("silence") else text)
    for line in lines[start:]:
        if line.startswith(BAR):
            session.steps[-1][1].append(line[1:])
        elif line:
            session.steps.append((line, []))
    return session


def read_keys(text: str) -> str:
    """The bytes of a line of keys. Raises KeyError for a key without a name here."""
    return KEY.sub(lambda match: KEYS[match[1]], text)


def play(session: Session, screen: Screen, folder: Path, record: bool) -> None:
    """Does the steps one after another; compares the screens, or takes them as they are."""
    do: Mapping[str, Callable[[str], object]] = {
        "$": lambda keys: screen.type(read_keys(keys)),
        "?": lambda text: screen.wait_for(text, APPEARS_S),
        "?$": lambda text: screen.wait_for_end_of_line(text, APPEARS_S),
        "?>": lambda _: screen.wait_for_prompt(APPEARS_S),
        ">": lambda size: screen.resize(*read_size(size)),
        "!": lambda name: (folder / name).touch(),
    }
    for step, expected in session.steps:
        sign, _, rest = step.partition(" ")
        if sign == "x":
            assert screen.wait_for_end() == int(rest)
        elif sign != "=":
            do[sign](rest)
        elif record:
            screen.wait_for_rest(QUIET_S)
            expected[:] = shown(screen, folder)
        else:
            compare(screen, folder, expected, session)
    if "picture" in session.words:
        check_picture(session, screen, folder, record)


def check_picture(session: Session, screen: Screen, folder: Path, record: bool) -> None:
    """Compares what is written in the picture of the last screen, or takes it anew."""
    path = HERE / session.words["picture"]
    drawn = draw(screen.emulator, partial(normalise, folder=folder, number="0.1"), "rkllm-chat")
    if record:
        path.write_text(drawn, encoding="utf-8")
    assert texts_of(path.read_text(encoding="utf-8")) == texts_of(drawn)


def compare(screen: Screen, folder: Path, expected: list[str], session: Session) -> None:
    """Reads until the screen is as expected; fails with the difference, if it does not come to be so.

    A line that was there for a moment may have pushed the first ones out of a full window: those are not compared.
    """
    rows = screen.emulator.lines
    most = rows - PUSHED if rows > 2 * PUSHED else rows
    limit, expected = time.monotonic() + STANDS_S, expected[-most:]
    while shown(screen, folder)[-most:] != expected and time.monotonic() < limit and screen.read_some(limit):
        pass
    lines = shown(screen, folder)[-most:]
    difference = "\n".join(unified_diff(expected, lines, "as recorded", "now", lineterm=""))
    assert lines == expected, f"{session.path.name} (see {__package__} for how to record it anew):\n{difference}"


def shown(screen: Screen, folder: Path) -> list[str]:
    """The lines of the screen down to the last that is not empty, without what differs from run to run."""
    lines = [line.rstrip() for line in screen.emulator.display]
    while lines and not lines[-1]:
        lines.pop()
    return [normalise(line, folder) for line in lines]


def normalise(line: str, folder: Path, number: str = "N") -> str:
    """The line without what differs from run to run; times and speeds become `number`."""
    for found, instead in patterns(folder, number):
        line = re.sub(found, instead, line)
    return line.rstrip()


def patterns(folder: Path, number: str) -> Iterator[tuple[str, str]]:
    yield re.escape(str(folder)), "FOLDER"
    yield re.escape(str(folder.parent / "home")), "HOME"
    yield re.escape(sys.executable), "PYTHON"
    yield r"rkllm-chat \d[\w.]+", "rkllm-chat X"
    yield r"\b[\d.]+(e-\d+)? (s|min)\b( *)", rf"{number} s\3"
    yield r"\b[\d.,]+ (tok/s|tokens a second)", rf"{number} \1"
    yield r"\b\d{6}-[a-z0-9]{4}\b", "ID"
    yield r"MCP \d{4}-\d\d-\d\d", "MCP X"
