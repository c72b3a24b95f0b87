"""What it costs to show an answer while it grows."""

from __future__ import annotations

import time
from io import StringIO

from rich.console import Console
from rich.markdown import Markdown

from rkllm_chat.tui.markdown import Growing

from .figures import Figure

PROSE = "The **quick** fox jumps over `the lazy` dog, and *on it goes* for a [while](https://a.example). " * 5 + "\n\n"
CODE = "def area(width, height):\n    '''In cells.'''\n    return width * height  # no border\n\n"
TEXTS = {
    "prose": PROSE,
    "Chinese": "这是一个很长的段落，没有空格，也没有**换行**符，只有标点符号。" * 8 + "\n\n",
    "code": "```python\n" + CODE * 2000,
    "a table": "| a | b |\n|---|---|\n" + "| one cell | **another** |\n" * 5000,
    "open marks": "*a _b `c [d " * 20,
}
SIZE, LOOKED_AT, PIECE, SEEN = 100_000, 10_000, 4, 2048


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
