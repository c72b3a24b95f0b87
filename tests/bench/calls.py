"""How fast calls are found in replies that arrive in chunks."""

from __future__ import annotations

import time
from collections.abc import Callable

from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.scanner import Scanner

from .figures import Figure, Goal

SHORT = {"place": "Tokyo"}


def repeated(text: str) -> Callable[[int], str]:
    return lambda size: text * (size // len(text))


def long_argument(size: int) -> str:
    return FORMATS["json"].render_call(
        "write_file", {"path": "a.py", "content": "def f(x):\n    return x\n" * (size // 26)}
    )


REPLIES: dict[str, Callable[[int], str]] = {
    "plain prose": repeated("It is a fine day, and nobody minds the rain that fell at night.\n"),
    "prose": repeated("It is a fine day, and `code` <b>helps</b>.\nIs it not?\n"),
    "many calls, JSON": repeated(FORMATS["json"].render_call("get_time", SHORT) + "\n"),
    "many calls, XML": repeated(FORMATS["xml"].render_call("get_time", SHORT) + "\n"),
    "many calls, Hermes": repeated(FORMATS["hermes"].render_call("get_time", SHORT) + "\n"),
    "one long argument": long_argument,
    "near-markers": repeated("[TOOL_CAL<tool_cal<thin[END_TOOL"),
    "openers of nothing": repeated('[TOOL_CALL]{<tool_call name="'),
    "brackets": repeated("{[" * 8),
}
# Replies that no model writes, whose markers keep the scanner busiest.
HOSTILE: dict[str, Callable[[int], str]] = {
    "bare lists": repeated("[get_time()]\n"),
    "broken calls": repeated('[TOOL_CALL]{"name": }[END_TOOL_CALL]'),
    "bare JSON": repeated('{"name": "get_time", "parameters": {}};'),
    "deep arrays": repeated("[TOOL_CALL]{" + '"a":[' * 40),
    "backticks": repeated("`"),
    "brackets of tags": repeated("<"),
    "inline code": repeated("`a` "),
    "small fences": repeated("```\nx\n```\n"),
    "thoughts of nothing": repeated("<think></think>"),
    "end tags in a value": lambda size: '<tool_call name="f"><argument name="a">' + "</argument>x" * (size // 12),
    "lines of a transcript": repeated("\nuser: <tool_call>x"),
    "dropped end tags": repeated('<tool_call name="f"><argument name="a">x</tool_call>'),
    "openers without a name": repeated("<function"),
    "trailing commas": repeated('[TOOL_CALL]{"name": "get_time", "arguments": {"a": [1,],},}[END_TOOL_CALL]'),
}


GOALS = {"plain prose": 5.0}
"""Megabytes in a second of a reply, where they are more than of others of its kind."""


def scan(text: str, size: int) -> float:
    """Seconds of this process for a reply in pieces of so many characters."""
    scanner = Scanner(is_known={"get_time", "write_file"}.__contains__)
    begun = time.process_time()
    for start in range(0, len(text), size):
        scanner.feed(text[start : start + size])
    scanner.close()
    return time.process_time() - begun


def scanner_speed() -> list[Figure]:
    """Megabytes of reply in a second, in pieces of 4 and of 1 characters, and what four times as much costs."""
    rows: list[Figure] = []
    for name, reply in (REPLIES | HOSTILE).items():
        text = reply(64 * 1024)
        took = scan(text, 4)
        fast, slow = len(text) / took / 1e6, len(text) / scan(text, 1) / 1e6
        goal = Goal(GOALS.get(name, 0.5 if name in HOSTILE else 1.0), least=True)
        rows.append(Figure(f"{name}, by 4", fast, "MB/s", goal=goal))
        rows.append(Figure(f"{name}, by 1", slow, "MB/s", goal=Goal(0.3, least=True)))
        rows.append(Figure(f"{name}: 256 KiB", scan(reply(256 * 1024), 4), "s", took, "64 KiB", Goal(4.5, "ratio")))
    return rows
