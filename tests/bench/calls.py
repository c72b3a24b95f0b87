"""How fast calls are found in replies that come in pieces, beside the regular expressions of the first sketch."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from rkllm_chat.formats import FORMATS
from rkllm_chat.scanner import Scanner

from .figures import Figure, Goal

SHORT = {"place": "Tokyo"}
SKETCHES = (
    re.compile(r"\[TOOL_CALL\]\s*(\{[\s\S]*?\})\s*\[END_TOOL_CALL\]"),
    re.compile(r'<tool_call\s+name="([^"]+)">([\s\S]*?)</tool_call>'),
)
SKETCHED = 8192
"""How much of a reply the sketch is given: it searches the whole again for each piece."""


def repeated(text: str) -> Callable[[int], str]:
    return lambda size: text * (size // len(text))


def long_argument(size: int) -> str:
    return FORMATS["json"].show("write_file", {"path": "a.py", "content": "def f(x):\n    return x\n" * (size // 26)})


REPLIES: dict[str, Callable[[int], str]] = {
    "prose": repeated("It is a fine day, and `code` <b>helps</b>.\nIs it not?\n"),
    "many calls, JSON": repeated(FORMATS["json"].show("get_time", SHORT) + "\n"),
    "many calls, XML": repeated(FORMATS["xml"].show("get_time", SHORT) + "\n"),
    "many calls, Hermes": repeated(FORMATS["hermes"].show("get_time", SHORT) + "\n"),
    "one long argument": long_argument,
    "near-markers": repeated("[TOOL_CAL<tool_cal<thin[END_TOOL"),
    "openers of nothing": repeated('[TOOL_CALL]{<tool_call name="'),
    "brackets": repeated("{[" * 8),
}


def scan(text: str, size: int) -> float:
    """Seconds of this process for a reply in pieces of so many characters."""
    scanner = Scanner(is_known={"get_time", "write_file"}.__contains__)
    begun = time.process_time()
    for start in range(0, len(text), size):
        scanner.feed(text[start : start + size])
    scanner.close()
    return time.process_time() - begun


def sketch(text: str) -> float:
    """Seconds of the sketch for the same, in pieces of four characters."""
    begun = time.process_time()
    for end in range(0, len(text), 4):
        for pattern in SKETCHES:
            pattern.findall(text[:end])
    return time.process_time() - begun


def scanner_speed() -> list[Figure]:
    """Megabytes of reply in a second, in pieces of 4 and of 1 characters, and what four times as much costs."""
    rows: list[Figure] = []
    for name, reply in REPLIES.items():
        text, short = reply(64 * 1024), reply(SKETCHED)
        reference = len(short) / sketch(short) / 1e6
        took = scan(text, 4)
        fast, slow = len(text) / took / 1e6, len(text) / scan(text, 1) / 1e6
        rows.append(Figure(f"{name}, by 4", fast, "MB/s", reference, "regexes on 8 KiB", Goal(1.0, least=True)))
        rows.append(Figure(f"{name}, by 1", slow, "MB/s", goal=Goal(0.3, least=True)))
        rows.append(Figure(f"{name}: 256 KiB", scan(reply(256 * 1024), 4), "s", took, "64 KiB", Goal(4.5, "ratio")))
    return rows
