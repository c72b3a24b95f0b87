"""Calls written as JSON between markers: one object, or an array of them. It knows no tool.

A body ends by its own brackets: markers inside its strings end nothing. An end marker outside a string closes a body
that has one bracket too few; a new call there means that this one was given up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ..events import CallGarbled
from ..reader import Reader, Reading
from .found import DEEPEST, FENCE, NO_END, Found, calls_of_text, read_end

Read = Callable[[Reader], Reading[Found]]

STARTS = ("[TOOL_CALL]", "<tool_call>", "<tool_call ", "<function=")
"""Where these stand outside a string of a JSON body, a new call begins."""

_QUOTES = {'"': '"', "'": "'", "“": "”"}
_LINE_END = re.compile("\n")
_OUTSIDE = re.compile("[\"'“{}\\[\\]/#<`✿]")
_INSIDE = {close: re.compile(rf"[{close}\\\n]") for close in _QUOTES.values()}
_WAKE = re.compile("[}\\]\\[<`✿\n]")  # no body ends, in whatever way, before one of these
_MARKERS = frozenset("[<`✿")
_OPENS = frozenset("\"'“/#")
_BEFORE_A_TOKEN = frozenset("{[,:")


@dataclass
class Body:
    """The text of a JSON object or array. `is_open`: an end marker, consumed, came before its last bracket."""

    text: str
    is_open: bool = False


def json_call(closers: tuple[str, ...], key: str = "arguments", begins: str = "{", needs_end: bool = True) -> Read:
    """The reader of JSON up to one of `closers`; no closers: the form has no end marker. `begins`: what may open it.

    `needs_end`: a missing end marker counts as a repair.
    """

    def read(reader: Reader) -> Reading[Found]:
        fence = ""
        if "{" not in begins or not reader.text.startswith("{", reader.at):
            yield from reader.skip_space()
            fence = yield from skip_fence(reader)
            if not (yield from begins_json(reader, begins)):
                return None
        reader.commit()
        return (yield from read_json_call(reader, closers, key, fence, needs_end))

    return read


def read_json_call(
    reader: Reader, closers: tuple[str, ...], key: str = "arguments", fence: str = "", needs_end: bool = True
) -> Reading[Found]:
    """The calls in the JSON that begins here, in a fence or not, with their end marker."""
    repairs = (FENCE,) if fence else ()
    body = yield from read_body(reader, (*closers, fence) if fence else closers)
    if isinstance(body, CallGarbled):
        return [body]
    if body.is_open:
        return calls_of_text(body.text, repairs, may_close=True, key=key)
    extra = yield from skip_extra_bracket(reader, (*closers, fence) if fence else closers)
    if fence:
        yield from reader.skip_space()
        yield from reader.skip(fence)
    end = yield from read_end(reader, closers)
    if not needs_end and end == (NO_END,):
        end = ()
    return calls_of_text(body.text, (*extra, *repairs, *end), may_close=False, key=key)


def begins_json(reader: Reader, begins: str = "[{") -> Reading[bool]:
    """Whether an object, or an array of them, begins here."""
    if "[" not in begins or not (yield from reader.next_is("[")):
        return "{" in begins and (yield from reader.next_is("{"))
    size = reader.size
    reader.take(1)
    yield from reader.skip_space()
    is_array = yield from reader.next_is("{")
    reader.rewind(size)
    return is_array


def skip_fence(reader: Reader) -> Reading[str]:
    """Consumes the first line of a code fence and the blanks behind it; gives the fence, "" where there is none."""
    if not (yield from reader.skip("```")):
        return ""
    while (yield from reader.peek()).isalpha() or reader.text[reader.at] == "_":
        reader.take(1)
    yield from reader.skip_space()
    return "```"


def skip_extra_bracket(reader: Reader, closers: tuple[str, ...]) -> Reading[tuple[str, ...]]:
    """Consumes one bracket too many, where the end marker follows."""
    size = reader.size
    yield from reader.skip_space()
    if (yield from reader.next_of(("}", "]"))):
        reader.take(1)
        yield from reader.skip_space()
        if (yield from reader.next_of(closers)):
            return ("extra brace",)
    reader.rewind(size)
    return ()


def read_body(reader: Reader, closers: tuple[str, ...]) -> Reading[Body | CallGarbled]:
    """The text of a JSON object or array from its first bracket to its last."""
    parts: list[str] = []
    depth = deepest = 0
    last, markers = "", (*closers, *STARTS)
    while depth > 0 or not parts:
        between = yield from reader.up_to(_OUTSIDE, _WAKE)
        parts.append(between)
        last = (between.rstrip() or last)[-1:]
        mark = reader.text[reader.at]
        marker = (yield from reader.next_of(markers)) if depth and mark in _MARKERS else ""
        if marker in closers:
            reader.take(len(marker))
            return Body("".join(parts), is_open=True)
        if marker:
            return CallGarbled("bad_json", "A new call begins before this one has ended.", "")
        parts.append(reader.take(1))
        depth += (mark in "{[") - (mark in "}]")
        deepest = max(depth, deepest)
        if mark in _OPENS and not (yield from read_behind(reader, parts, mark, last, closers)):
            return CallGarbled("bad_json", "A string is not closed before the end marker.", "")
        last = mark
    if deepest > DEEPEST:
        return CallGarbled("too_large", f"The JSON is nested deeper than {DEEPEST} levels.", "")
    return Body("".join(parts))


def read_behind(reader: Reader, parts: list[str], mark: str, before: str, closers: tuple[str, ...]) -> Reading[bool]:
    """The rest of a string or a comment that `mark` begins; False for a string that an end marker ends.

    Single and curly quotes begin a string only where a token may stand: elsewhere they are an apostrophe.
    """
    if mark in "/#":
        parts.append((yield from read_comment(reader, mark)))
    elif mark == '"' or (mark in _QUOTES and before in _BEFORE_A_TOKEN):
        return (yield from read_string(reader, parts, _QUOTES[mark], closers))
    return True


def read_comment(reader: Reader, mark: str) -> Reading[str]:
    """The rest of a comment that begins with `mark`, "" where it is none."""
    if mark == "/" and (yield from reader.skip("*")):
        return "*" + (yield from reader.until("*/")) + "*/"
    if mark == "#" or (yield from reader.next_is("/")):
        return (yield from reader.up_to(_LINE_END))
    return ""


def read_string(reader: Reader, parts: list[str], close: str, closers: tuple[str, ...]) -> Reading[bool]:
    """The rest of a string; False when an end marker stands on a line of its own inside it."""
    edge = _INSIDE[close]
    while True:
        parts.append((yield from reader.up_to(edge, _WAKE)))
        mark = reader.take(1)
        parts.append(mark)
        if mark == close:
            return True
        if mark == "\\":
            yield from reader.peek()
            parts.append(reader.take(1))
        elif end := (yield from reader.next_of(closers)):
            reader.take(len(end))
            return False
