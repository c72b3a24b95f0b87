"""What a person at a terminal pays: the first prompt, each token that is shown, and a growing answer."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from rkllm_chat.tui.markdown import Growing
from stage import Screen

from .figures import Figure, Goal

REPLY = "".join(f"Well met, you who read line {number}. " for number in range(120)) + "\n\nThat was all."
PIECE = 4
KEYS = "What did I say of the ships, and how many of them were there then?"
PROSE = "The **quick** fox jumps over `the lazy` dog, and *on it goes* for a [while](https://a.example). " * 5 + "\n\n"
CODE = "def area(width, height):\n    '''In cells.'''\n    return width * height  # no border\n\n"
TEXTS = {
    "prose": PROSE,
    "Chinese": "这是一个很长的段落，没有空格，也没有**换行**符，只有标点符号。" * 8 + "\n\n",
    "code": "```python\n" + CODE * 2000,
    "a table": "| a | b |\n|---|---|\n" + "| one cell | **another** |\n" * 5000,
    "open marks": "*a _b `c [d " * 20,
}
SIZE, LOOKED_AT, SEEN = 100_000, 10_000, 2048


@contextmanager
def sit(arguments: Sequence[str]) -> Iterator[Screen]:
    """The program on a terminal of 100 by 30, with a scripted model at hand."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "replies.json").write_text(json.dumps([REPLY]), encoding="utf-8")
        screen = Screen(
            arguments, {**os.environ, "HOME": folder, "TERM": "xterm", "LANG": "C.UTF-8"}, Path(folder), forks=False
        )
        try:
            yield screen
        finally:
            screen.close()


def cpu_s(screen: Screen) -> float:
    fields = Path(f"/proc/{screen.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Megabytes of memory that a process has now."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found
    return int(found[1]) / 1024


def first_prompt() -> list[Figure]:
    """CPU and memory when the first prompt can be typed at, and when model and servers are there."""
    figures: list[Figure] = []
    kinds = {"scripted, no servers": ["--model", "replies.json", "--no-servers"], "as it comes": []}
    for name, arguments in kinds.items():
        with sit(arguments) as screen:
            screen.wait_until(lambda seen=screen: seen.lines()[-1:] == [">"], "the prompt")  # type: ignore[misc]
            figures.append(Figure(f"first prompt, {name}: CPU", cpu_s(screen), "s", goal=Goal(0.5)))
            figures.append(
                Figure(f"first prompt, {name}: memory", resident_mb(screen.process.pid), "MB", goal=Goal(60))
            )
            screen.wait_for("for commands, Ctrl+D to exit")
            figures.append(Figure(f"all is open, {name}: CPU", cpu_s(screen), "s"))
            figures.append(Figure(f"all is open, {name}: memory", resident_mb(screen.process.pid), "MB"))
    return figures


def streamed_token() -> list[Figure]:
    """CPU and bytes of the terminal for each token of four characters that is shown while it streams."""
    with sit(["--model", "replies.json", "--no-servers"]) as screen:
        screen.wait_for("for commands, Ctrl+D to exit")
        before_s, before = cpu_s(screen), len(screen.bytes)
        screen.type("go\r")
        screen.wait_for("That was all.")
        tokens = len(REPLY) / PIECE
        spent_us = (cpu_s(screen) - before_s) / tokens * 1e6
        sent = (len(screen.bytes) - before) / tokens
    return [
        Figure("a streamed token, at full speed: CPU", spent_us, "µs"),
        Figure("a streamed token, at full speed: bytes", sent, "bytes", PIECE, "its own"),
    ]


def typed_key() -> list[Figure]:
    """CPU for each key of a message behind a talk of 1,500 tokens, and the longest wait for one."""
    with sit(["--no-servers"]) as screen:
        screen.wait_for("for commands, Ctrl+D to exit", 60)
        screen.type(f"\x1b[200~{'ship ' * 500}\x1b[201~\r")
        screen.wait_for("tok/s", 60)
        screen.wait_for_prompt()
        plain_s, _ = type_keys(screen, "!" + KEYS)
        spent_s, waited_s = type_keys(screen, KEYS)
    return [
        Figure("a key of a message: CPU", 1000 * spent_s, "ms", 1000 * plain_s, "of a line without a price"),
        Figure("a key of a message: longest wait", 1000 * waited_s, "ms", goal=Goal(100)),
    ]


def type_keys(screen: Screen, keys: str) -> tuple[float, float]:
    """CPU for each, and the longest time until one stood in the line, each typed when the one before was there."""
    before_s, waits = cpu_s(screen), list[float]()
    for count in range(1, len(keys) + 1):
        begun = time.monotonic()
        screen.type(keys[count - 1])
        screen.wait_for_end_of_line(f"> {keys[:count]}".rstrip())
        waits.append(time.monotonic() - begun)
    screen.wait_for_rest(1)
    spent_s = (cpu_s(screen) - before_s) / len(keys)
    screen.type("\x03")
    screen.wait_for_prompt()
    return spent_s, max(waits)


def markdown_speed() -> list[Figure]:
    """100 kB in pieces of four characters, 10 kB with the tail after each; rich shows 2 kB again for each piece."""
    rows: list[Figure] = []
    for name, text in TEXTS.items():
        whole = (text * (SIZE // len(text) + 1))[:SIZE]
        feed, look = growing_cost(whole, 10**9), growing_cost(whole[:LOOKED_AT], 1)
        again = rich_cost(whole[:SEEN])
        rows.append(Figure(f"markdown, {name}, of a piece", feed, "us"))
        rows.append(Figure(f"markdown, {name}, of a piece with its tail", look, "us", again, "rich, 2 kB"))
    return rows


def growing_cost(text: str, look_every: int) -> float:
    """Microseconds for each piece, where the tail is asked for after every so many."""
    growing = Growing(80, color=True)
    begun = time.perf_counter()
    for number, at in enumerate(range(0, len(text), PIECE), 1):
        growing.feed(text[at : at + PIECE])
        if number % look_every == 0:
            growing.tail()
    growing.close()
    return (time.perf_counter() - begun) / (len(text) / PIECE) * 1e6


def rich_cost(text: str) -> float:
    """Microseconds to show the text once."""
    console = Console(file=StringIO(), force_terminal=True, width=80)
    begun = time.perf_counter()
    for _ in range(5):
        console.print(Markdown(text))
    return (time.perf_counter() - begun) / 5 * 1e6
