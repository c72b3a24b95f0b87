"""A recorded session: read from its file, replayed on the real program, compared, and written back."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from stage import Screen

HERE = Path(__file__).parent
KEYS = {
    "Enter": "\r", "Tab": "\t", "Esc": "\x1b", "Backspace": "\x7f",
    "Left": "\x1b[D", "Home": "\x1b[H", "End": "\x1b[F", "Ctrl+C": "\x03", "Ctrl+D": "\x04", "Ctrl+L": "\x0c",
}  # fmt: skip
KEY = re.compile(r"<([^<>]+)>")
BAR = "│"
APPEARS_S = 15.0
QUIET_S = 0.7
SCROLLED = 4


@dataclass
class Session:
    """The content of a file: `words` of its header, replies of the model, steps with the lines of their screens."""

    path: Path
    words: dict[str, str]
    replies: list[str | dict[str, object]]
    head: list[str]
    steps: list[tuple[str, list[str]]]

    @property
    def size(self) -> tuple[int, int]:
        columns, rows = self.words.get("size", "80x24").split("x")
        return int(columns), int(rows)

    def write_replies(self, folder: Path) -> list[str]:
        """Write the replies of the model; give the arguments of the program."""
        arguments = self.words.get("arguments", "").split()
        if not self.replies:
            return arguments
        (folder / "replies.json").write_text(json.dumps(self.replies), encoding="utf-8")
        return ["--model", "replies.json", *arguments]

    def write(self) -> None:
        body = [line for step, lines in self.steps for line in (step, *(f"{BAR}{line}" for line in lines))]
        self.path.write_text("\n".join([*self.head, *body]) + "\n", encoding="utf-8")


def read_session(path: Path) -> Session:
    head, _, body = path.read_text(encoding="utf-8").partition("\n---\n")
    settings, *replies = re.split(r"\n\[reply(?=[],])", head)
    session = Session(
        path, dict(re.findall(r"^(\w+): (.*)$", settings, re.MULTILINE)), [], [*head.split("\n"), "---"], []
    )
    for reply in replies:
        kind, _, text = reply.partition("]")
        text = text.strip("\n")
        session.replies.append({"text": text, "wait": True} if kind else text)
    for line in body.splitlines():
        if line.startswith(BAR):
            session.steps[-1][1].append(line[1:])
        elif line:
            session.steps.append((line, []))
    return session


def play(session: Session, screen: Screen, folder: Path, record: bool) -> None:
    """Run the steps; compare the screens, or record them."""
    do: Mapping[str, Callable[[str], object]] = {
        "$": lambda keys: screen.type(KEY.sub(lambda match: KEYS[match[1]], keys)),
        "?": lambda text: screen.wait_for(text, APPEARS_S),
        "?$": lambda text: screen.wait_for_end_of_line(text, APPEARS_S),
        "?>": lambda _: screen.wait_for_prompt(APPEARS_S),
    }
    for step, expected in session.steps:
        sign, _, rest = step.partition(" ")
        if sign != "=":
            do[sign](rest)
        elif record:
            screen.wait_for_rest(QUIET_S)
            expected[:] = shown(screen, folder)
        else:
            compare(screen, folder, expected, session)


def compare(screen: Screen, folder: Path, expected: list[str], session: Session) -> None:
    """Read until the screen is as expected; fail with the difference after APPEARS_S.

    A transient line may have scrolled the first lines out of a full window, so those are not compared.
    """
    rows = screen.emulator.lines
    count = rows - (SCROLLED if rows > 2 * SCROLLED else 1)
    if len(expected) > rows - 2 * SCROLLED:  # it may be short of a line that a slower screen still has
        count = min(count, len(expected))
    limit, expected = time.monotonic() + APPEARS_S, expected[-count:]
    while shown(screen, folder)[-count:] != expected and time.monotonic() < limit and screen.read_some(limit):
        pass
    lines = shown(screen, folder)[-count:]
    difference = "\n".join(unified_diff(expected, lines, "as recorded", "now", lineterm=""))
    assert lines == expected, f"{session.path.name} (see {__package__} for how to record it again):\n{difference}"


def shown(screen: Screen, folder: Path) -> list[str]:
    """Return the normalised lines of the screen without empty ones at its end."""
    lines = [line.rstrip() for line in screen.emulator.display]
    while lines and not lines[-1]:
        lines.pop()
    return [normalise(line, folder) for line in lines]


def normalise(line: str, folder: Path, number: str = "N") -> str:
    """Replace what differs from run to run; times and speeds become `number`."""
    patterns = {
        re.escape(str(folder)): "FOLDER",
        re.escape(sys.executable): "PYTHON",
        r"rkllm-chat \d[\w.]+": "rkllm-chat X",
        r"\b\d{6}-\w{4}\b": "SESSION",
        r"\b[\d.]+(e-\d+)? (ms|s|min)\b( *)": rf"{number} s\3",
        r"\b[\d.,]+ (tok/s|tokens a second)": rf"{number} \1",
    }
    for pattern, placeholder in patterns.items():
        line = re.sub(pattern, placeholder, line)
    return line.rstrip()
