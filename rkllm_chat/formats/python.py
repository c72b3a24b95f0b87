"""Calls written as Python: `[f(x='a'), g()]`, or one call a line, in a fence or not. It knows no tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..events import CallFound, CallGarbled
from ..messages import ToolCall
from ..reader import EndOfTextError, Reader, Reading
from .found import NO_END, Found, garbled, read_end
from .jsons import begins_json, read_json_call, skip_fence
from .pycalls import read_calls

Read = Callable[[Reader], Reading[Found]]

_CODE = re.compile("[\"'()\\[\\]{}#<`]")
_STRING = {mark: re.compile(rf"[{mark}\\]") for mark in "\"'"}
_LINE_END = re.compile("\n")
_END_OF_NAME = re.compile(r"[^\w.]")


def python_call(closers: tuple[str, ...]) -> Read:
    """The reader of Python calls, or of an array in JSON, up to one of `closers`."""

    def read(reader: Reader) -> Reading[Found]:
        yield from reader.skip_space()
        fence = yield from skip_fence(reader)
        if (yield from begins_json(reader)):
            reader.commit()
            return (yield from read_json_call(reader, closers, fence=fence))
        if not (yield from begins_call(reader)):
            return None
        reader.commit()
        return (yield from read_python_calls(reader, closers, fence))

    return read


def begins_call(reader: Reader) -> Reading[str]:
    """The name of the call that begins here, in a list or not; "" where none does. Nothing is consumed."""
    size = reader.size
    yield from reader.skip("[")
    yield from reader.skip_space()
    name = yield from reader.up_to(_END_OF_NAME)
    is_call = yield from reader.next_is("(")
    reader.rewind(size)
    return name if is_call else ""


def read_python_calls(reader: Reader, closers: tuple[str, ...], fence: str = "") -> Reading[Found]:
    """The calls in the Python that begins here, with their end marker. A fence is part of some forms."""
    code, is_ended = yield from read_code(reader, (fence,) if fence else closers)
    if fence or not is_ended:
        yield from reader.skip_space()
        yield from reader.skip("```")
        end = yield from read_end(reader, tuple(closer for closer in closers if closer != "```"))
    else:
        end = ()
    return calls_of_code(code, end)


def calls_of_code(code: str, repairs: Sequence[str] = ()) -> Found:
    try:
        calls = read_calls(code)
    except ValueError as error:
        return garbled("bad_python", f"The calls cannot be read: {error}.")
    found: list[CallFound | CallGarbled] = [CallFound(ToolCall(name, given, tuple(repairs))) for name, given in calls]
    return found or garbled("bad_python", "There is no call between the markers.")


def read_code(reader: Reader, closers: tuple[str, ...], is_alone: bool = False) -> Reading[tuple[str, bool]]:
    """Python up to an end marker outside its strings, and whether one ended it, which is consumed.

    A list ends by its own bracket, and so does a call that `is_alone`. Code that is whole when the reply ends needs
    no end marker.
    """
    parts: list[str] = []
    depth, begun = 0, reader.size
    is_list = (yield from reader.peek()) == "["
    while True:
        try:
            parts.append((yield from reader.up_to(_CODE)))
        except EndOfTextError:
            code = reader.recorded[begun:]
            if depth or not code.rstrip().endswith(")"):
                raise
            return code, False
        closer = yield from reader.next_of(closers)
        if closer:
            reader.take(len(closer))
            return "".join(parts), True
        mark = reader.take(1)
        parts.append(mark)
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif mark == "#":
            yield from reader.up_to(_LINE_END)
        elif mark in _STRING:
            yield from read_string(reader, parts, mark)
        if depth <= 0 and mark in ")]" and (is_list or is_alone):
            return "".join(parts), False


def read_string(reader: Reader, parts: list[str], mark: str) -> Reading[None]:
    """The rest of a string, that of three quotes too."""
    close = mark
    if (yield from reader.skip(mark * 2)):
        parts.append(mark * 2)
        close = mark * 3
    elif (yield from reader.skip(mark)):
        parts.append(mark)
        return
    while True:
        parts.append((yield from reader.up_to(_STRING[mark])))
        if (yield from reader.skip(close)):
            parts.append(close)
            return
        parts.append(reader.take(1))
        if parts[-1] == "\\":
            yield from reader.peek()
            parts.append(reader.take(1))


def read_chatglm(reader: Reader, name: str) -> Reading[Found]:
    """ChatGLM3: a line with the tool's name, then ```python, `tool_call(x='v')`, and the fence again."""
    if not (yield from skip_fence(reader)):
        return None
    reader.commit()
    code, is_ended = yield from read_code(reader, ("```",))
    found = calls_of_code(code, () if is_ended else (NO_END,))
    return [CallFound(ToolCall(name, one.call.arguments)) if isinstance(one, CallFound) else one for one in found or ()]
