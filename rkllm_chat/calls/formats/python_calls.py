"""Readers of calls written as Python: `[f(x='a'), g()]`, or one call a line, in a code fence or not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from ...core.events import CallFound, CallUnreadable
from ...core.messages import ToolCall
from ..incremental_reader import EndOfTextError, Parsing, Reader
from ..json_repair import parse_lenient_json
from ..python_parser import parse_calls
from .common import (
    NO_END,
    Body,
    ParsedCalls,
    ReadContext,
    build_call,
    char_class,
    read_end_marker,
    unreadable_call,
)
from .json_calls import begins_json, read_json_call, skip_fence, skip_string

_CODE = "\"'()[]{}#"
_WAKE = ")]"  # no code can end before one of these or a marker
_STRING = {mark: re.compile(rf"[{mark}\\]") for mark in "\"'"}
_LINE_END = re.compile("\n")
_END_OF_NAME = re.compile(r"[^\w.]")
_CALL = re.compile(r"\s*\[?\s*(?P<name>[\w./:-]+)\s*\(\s*(?P<inner>.*?)\s*\)\s*\]?\s*", re.DOTALL)
_CALL_HEAD = re.compile(r"(?:\[|(?!\[))\s*(?P<name>[\w.]*)(?P<next>[^\w.\s]|(?<=[\w.])\s)")


def python_body(is_common: bool = False) -> Body:
    """Return the body of calls in Python, or in a JSON array.

    Args:
        is_common: Whether other text has such markers. A call then does not stand behind text on its line.
    """

    def read(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
        if is_common and reader.is_mid_line:
            return None
        yield from reader.skip_space()
        fence = yield from skip_fence(reader)
        if (yield from begins_json(reader)):
            reader.commit()
            return (yield from read_json_call(reader, context, closers, fence=fence))
        if not (yield from peek_call_name(reader)):
            return None
        reader.commit()
        code, is_ended = yield from read_python_code(reader, (fence,) if fence else closers)
        end: tuple[str, ...] = ()
        if fence or not is_ended:
            yield from reader.skip_space()
            yield from reader.skip("```")
            end = yield from read_end_marker(reader, context, tuple(closer for closer in closers if closer != "```"))
        return parse_python_calls(code, end)

    return read


def peek_call_name(reader: Reader) -> Parsing[str]:
    """Return the name of the call that begins here, in a list or not; "" if none does. Nothing is consumed."""
    while not (head := _CALL_HEAD.match(reader.text, reader.at, reader.at + reader.max_head_length)):
        if len(reader.text) - reader.at >= reader.max_head_length:
            return ""
        yield from reader.wait_for_text(_END_OF_NAME)
    return head["name"] if head["next"] == "(" else ""


def parse_python_calls(code: str, repairs: Sequence[str] = ()) -> ParsedCalls:
    """Parse Python code into calls, noting `repairs` with each; or one call of a JSON object or its members."""
    try:
        calls = parse_calls(code)
    except ValueError as error:
        call = _CALL.fullmatch(code)
        with suppress(ValueError):
            if call:
                inner = call["inner"] if call["inner"].startswith("{") else f"{{{call['inner']}}}"
                return [build_call(call["name"], parse_lenient_json(inner)[0], repairs)]
        return unreadable_call("bad_python", f"The calls cannot be read: {error}.")
    found: list[CallFound | CallUnreadable] = [
        CallFound(ToolCall(name, values, tuple(repairs))) for name, values in calls
    ]
    return found or unreadable_call("bad_python", "There is no call between the markers.")


def read_python_code(reader: Reader, closers: tuple[str, ...], is_alone: bool = False) -> Parsing[tuple[str, bool]]:
    """Read Python up to an end marker outside its strings.

    A list ends by its own bracket, and so does a call if `is_alone`. Code that is complete when the reply ends needs no
    end marker.

    Returns:
        The code, and whether an end marker, which was consumed, ended it.
    """
    depth, begun = 0, reader.size
    run, wake = _code_run(closers), char_class(_WAKE, closers)
    is_list = (yield from reader.peek()) == "["
    while True:
        try:
            yield from reader.read_run(run, wake)
        except EndOfTextError:
            code = reader.recorded(begun)
            if depth or not code.rstrip().endswith(")"):
                raise
            return code, False
        if closers and (closer := (yield from reader.peek_literal(closers))):
            code = reader.recorded(begun)
            reader.take(len(closer))
            return code, True
        mark = reader.take(1)
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif mark == "#":
            yield from reader.read_up_to(_LINE_END)
        elif mark in _STRING:
            yield from _skip_string(reader, mark)
        if depth <= 0 and mark in ")]" and (is_list or is_alone):
            return reader.recorded(begun), False


@lru_cache(256)
def _code_run(closers: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of code in which nothing matters, with the strings in it that are whole."""
    outside = re.escape("".join(sorted({*_CODE, *(closer[0] for closer in closers)})))
    strings = "|".join(rf"{mark}(?!{mark})[^{mark}\\]*(?:\\.[^{mark}\\]*)*{mark}" for mark in _STRING)
    return re.compile(rf"(?:[^{outside}]+|{strings})*", re.DOTALL)


def _skip_string(reader: Reader, mark: str) -> Parsing[None]:
    """Consume the rest of a string, also of a triple-quoted one."""
    close = mark
    if (yield from reader.skip(mark * 2)):
        close = mark * 3
    elif (yield from reader.skip(mark)):
        return
    yield from skip_string(reader, close, _STRING[mark])


def read_chatglm_code(reader: Reader, name: str) -> Parsing[ParsedCalls]:
    """Read a ChatGLM3 call after the line with its name: ```python, `tool_call(x='v')`, and the closing fence."""
    if not (yield from skip_fence(reader)):
        return None
    reader.commit()
    code, is_ended = yield from read_python_code(reader, ("```",))
    calls = parse_python_calls(code, () if is_ended else (NO_END,)) or []
    return [CallFound(replace(event.call, name=name)) if isinstance(event, CallFound) else event for event in calls]
