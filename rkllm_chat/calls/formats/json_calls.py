"""Readers of calls written as JSON between markers: one object, or an array of them.

A body ends by its own brackets; markers inside its strings do not end it. An end marker outside a string closes a body
that lacks one bracket; the opener of a new call there means that this one was abandoned.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ...core.events import CallFound, CallUnreadable
from ..incremental_reader import CharPattern, EndOfTextError, Parsing, Reader
from ..json_repair import MAX_DEPTH, parse_lenient_json
from ..literals import Markers
from .common import (
    ARGUMENT_KEYS,
    CALL_KEYS,
    FENCE,
    NAME_KEYS,
    NO_END,
    Body,
    ParsedCalls,
    ReadContext,
    add_repairs,
    build_call,
    char_class,
    parse_json_calls,
    read_end_marker,
    unreadable_call,
)

SEPARATORS = (",", ";")
"""What may separate calls that stand side by side."""

_HEAD = re.compile(r"""(?:\[\s*)?(?:\{\s*(?:["'“]?(\w*)["'”]?\s*(?::\s*(\S.*)?)?)?)?""", re.DOTALL)
_TEXT = re.compile(r"""["“]([^"”]*)(["”]?)|'([^']*)('?)""")
_CLOSING_QUOTE = re.compile("[\"'”]")
_SECOND_KEY = re.compile(r"""\s*,?\s*["'“]?(\w*)["'”]?\s*(:)?""")
_QUOTES = {'"': '"', "'": "'", "“": "”"}
_LINE_END = re.compile("\n")
_EDGE_OF_NAME = re.compile(r"[^\w./:-]")
_OUTSIDE = "\"'“{}[]/#"
INSIDE = {close: re.compile(rf"[{close}\\\n]") for close in _QUOTES.values()}
_WAKE = "}]\n"  # no body can end before one of these or a marker
_BEFORE_A_TOKEN = frozenset("{[,:")


@dataclass
class JsonBody:
    """The text of a JSON object or array.

    Attributes:
        text: The JSON.
        is_open: Whether the end marker, which was consumed, or the end of the reply came before the last bracket.
        closer: That end marker.
    """

    text: str
    is_open: bool = False
    closer: str = ""


def json_body(key: str = "arguments", begins: str = "{[", needs_end: bool = True) -> Body:
    """Return the body of calls in JSON.

    Args:
        key: The format's name of the arguments.
        begins: The brackets that may open the JSON.
        needs_end: Whether a missing end marker counts as a repair.
    """

    def read(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
        fence = ""
        if "{" not in begins or not reader.text.startswith("{", reader.at):
            yield from reader.skip_space()
            fence = yield from skip_fence(reader)
            if not (yield from begins_json(reader, begins)):
                return None
        reader.commit()
        return (yield from read_json_call(reader, context, closers, key, fence, needs_end))

    return read


def series_body(key: str = "arguments") -> Body:
    """Return the body of JSON calls side by side, each with an end marker or not."""

    def read(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
        yield from reader.skip_space()
        calls: list[CallFound | CallUnreadable] = []
        try:
            while (yield from begins_json(reader)):
                reader.commit()
                calls += (yield from read_json_call(reader, context, closers, key, needs_end=False)) or ()
                yield from reader.skip_space()
                yield from reader.skip(";")
                yield from reader.skip_space()
        except EndOfTextError:
            if not calls:
                raise
            calls += unreadable_call("truncated", "The reply ended before the call did.")
        return calls or None

    return read


def read_json_call(
    reader: Reader,
    context: ReadContext,
    closers: tuple[str, ...],
    key: str = "arguments",
    fence: str = "",
    needs_end: bool = True,
) -> Parsing[ParsedCalls]:
    """Read the calls in the JSON that begins here, in a code fence or not, and their end marker.

    Several objects before one end marker, on lines of their own or with separators, are several calls.
    """
    repairs = (FENCE,) if fence else ()
    within = (*closers, fence) if fence else closers
    calls: list[CallFound | CallUnreadable] = []
    while True:
        body = yield from read_body(reader, context, within, may_end=True)
        if isinstance(body, CallUnreadable):
            return [*calls, body]
        end = "" if body.is_open else (yield from _peek_end(reader, context, within))
        extra = () if body.is_open or end else (yield from skip_extra_bracket(reader, context, within))
        found = parse_json_calls(body.text, (*extra, *repairs), body.is_open, context, key)
        if found is None:
            return None
        calls += found
        if body.is_open:
            return calls
        if end and not fence:
            reader.take(len(end))
            return calls
        if end or not within or not (yield from _skip_to_next_call(reader)):
            break
    if fence:
        yield from reader.skip_space()
        yield from reader.skip(fence)
    faults = yield from read_end_marker(reader, context, closers)
    if not needs_end and faults == (NO_END,):
        faults = ()
    return [add_repairs(call, *faults) for call in calls]


def _peek_end(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[str]:
    """Return the end marker that follows, and consume the white space before it; "" if none follows."""
    size = reader.size
    yield from reader.skip_space()
    end = (yield from reader.peek_literal((*closers, *context.openers))) if closers else ""
    if end not in closers:
        reader.rewind(size)
    return end if end in closers else ""


def _skip_to_next_call(reader: Reader) -> Parsing[bool]:
    """Consume what separates two calls of one block; consumes nothing if no further call follows."""
    size = reader.size
    yield from reader.skip_space()
    for separator in SEPARATORS:
        yield from reader.skip(separator)
    yield from reader.skip_space()
    if (yield from reader.is_next("{")) and (yield from read_json_head(reader, lambda _name: True)):
        return True
    reader.rewind(size)
    return False


def read_json_arguments(
    reader: Reader, context: ReadContext, name: str, closers: tuple[str, ...]
) -> Parsing[ParsedCalls]:
    """Read the JSON arguments of a named tool, in a code fence or not, and the end marker."""
    yield from reader.skip_space()
    fence = yield from skip_fence(reader)
    if not (yield from reader.is_next("{")) and not (reader.is_committed and (yield from reader.is_next("["))):
        return None
    reader.commit()
    within = (*closers, fence) if fence else tuple(closers)
    body = yield from read_body(reader, context, within)
    if isinstance(body, CallUnreadable):
        return [body]
    extra = () if body.is_open else (yield from skip_extra_bracket(reader, context, within))
    if fence:
        yield from reader.skip_space()
        yield from reader.skip(fence)
    end = () if body.is_open else (yield from read_end_marker(reader, context, closers))
    try:
        arguments, json_repairs = parse_lenient_json(body.text, may_close=body.is_open)
    except ValueError as error:
        return unreadable_call("bad_json", f"The arguments cannot be read: {error}.")
    return [build_call(name, arguments, (*json_repairs, *extra, *end))]


def read_tool_name(reader: Reader) -> Parsing[str]:
    """Read what may be a tool's name; "" if there is none."""
    return (yield from reader.read_up_to(_EDGE_OF_NAME))


def read_json_head(reader: Reader, is_tool: Callable[[str], bool]) -> Parsing[bool]:
    """Tell whether the JSON that begins here may be a call, by its first keys and its name; consumes nothing."""
    while True:
        verdict = _may_be_call(reader.text[reader.at : reader.at + reader.max_head_length], is_tool)
        if isinstance(verdict, bool):
            return verdict
        if len(reader.text) - reader.at >= reader.max_head_length:
            return False
        yield from reader.wait_for_text(verdict)


def _may_be_call(head: str, is_tool: Callable[[str], bool]) -> bool | CharPattern | None:
    """Tell whether JSON with this beginning may be a call; if that is undecided, what decides it, or None for any."""
    match = _HEAD.fullmatch(head)
    if not match:
        return False
    key, value = match[1], match[2]
    if not value:
        return None
    if key in ARGUMENT_KEYS:
        return value[0] in "{\"'“"
    if key in ("type", "function") and value[0] == "{":
        return key == "function"
    text = _TEXT.match(value)
    if not text:
        return False
    name, quote = text.group(1, 2) if text[1] is not None else text.group(3, 4)
    if not quote:
        return _CLOSING_QUOTE
    if key == "type":
        return name == "function"
    if key not in (*NAME_KEYS, "id") or (key != "id" and not is_tool(name.strip())):
        return False
    rest = value[text.end() :]
    second = _SECOND_KEY.fullmatch(rest)
    if second and not second[2]:
        return None
    second = second or _SECOND_KEY.match(rest)
    return rest.lstrip().startswith("}") or bool(second and second[2] and second[1] in CALL_KEYS)


def begins_json(reader: Reader, begins: str = "[{") -> Parsing[bool]:
    """Tell whether an object, or an array of objects, begins here."""
    if "[" not in begins or not (yield from reader.is_next("[")):
        return "{" in begins and (yield from reader.is_next("{"))
    size = reader.size
    reader.take(1)
    yield from reader.skip_space()
    is_array = yield from reader.is_next("{")
    reader.rewind(size)
    return is_array


def skip_fence(reader: Reader) -> Parsing[str]:
    """Consume the first line of a code fence and the blanks after it.

    Returns:
        The fence; "" if there is none.
    """
    if not (yield from reader.skip("```")):
        return ""
    while (yield from reader.peek()).isalpha() or reader.text[reader.at] == "_":
        reader.take(1)
    yield from reader.skip_space()
    return "```"


def skip_extra_bracket(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[tuple[str, ...]]:
    """Consume one bracket too many, if the end marker follows it; return the repair."""
    size = reader.size
    yield from reader.skip_space()
    if (yield from reader.peek_literal(("}", "]"))):
        reader.take(1)
        if (yield from _peek_end(reader, context, closers)):
            return ("extra brace",)
    reader.rewind(size)
    return ()


@dataclass(frozen=True)
class _BodyPatterns:
    """What matters in a JSON body that has these end markers.

    Attributes:
        markers: The end markers, and the openers of a new call.
        first_chars: Their first characters.
        run: Pattern of text outside a string in which nothing matters, with the strings in it that are whole.
        wake: Pattern of a character before which no body can end.
    """

    markers: Markers
    first_chars: frozenset[str]
    run: re.Pattern[str]
    wake: re.Pattern[str]


@lru_cache(256)
def _patterns_of(closers: tuple[str, ...], openers: tuple[str, ...]) -> _BodyPatterns:
    # A word may be a value of damaged JSON, and a closing bracket must end the body at once.
    symbols = tuple(opener for opener in openers if not opener[0].isalnum() and opener[0] not in "]})")
    first_chars = frozenset(marker[0] for marker in (*closers, *symbols))
    outside = re.escape("".join(sorted({*_OUTSIDE, *first_chars})))
    run = re.compile(rf'(?:[^{outside}]+|"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*")*')
    return _BodyPatterns(Markers((*closers, *symbols)), first_chars, run, char_class(_WAKE, (*closers, *symbols)))


def read_body(
    reader: Reader, context: ReadContext, closers: tuple[str, ...], may_end: bool = False
) -> Parsing[JsonBody | CallUnreadable]:
    """Read a JSON object or array from its first bracket to its last.

    Args:
        reader: What to read.
        context: Which openers begin a new call.
        closers: What ends the body before its last bracket.
        may_end: Whether the end of a reply that was not cut off does so, too.
    """
    patterns = _patterns_of(closers, context.openers)
    begun = reader.size
    depth = deepest = 0
    mark = ""
    while depth > 0 or not mark:
        size = reader.size
        try:
            between = yield from reader.read_run(patterns.run, patterns.wake)
        except EndOfTextError:
            if depth == 1 and may_end and reader.is_complete and mark in "}]" and '"' not in reader.recorded(size):
                return JsonBody(reader.recorded(begun), True)
            raise
        before, mark = (between.rstrip() or mark)[-1:], reader.text[reader.at]
        marker = (yield from reader.peek_literal(patterns.markers)) if depth and mark in patterns.first_chars else ""
        if marker in closers:
            body = reader.recorded(begun)
            reader.take(len(marker))
            return JsonBody(body, True, marker)
        if marker:
            return CallUnreadable("bad_json", "A new call begins before this one has ended.", "")
        reader.take(1)
        depth += (mark in "{[") - (mark in "}]")
        deepest = max(depth, deepest)
        if mark in "/#":
            yield from _skip_comment(reader, mark)
        elif (mark == '"' or (mark in _QUOTES and before in _BEFORE_A_TOKEN)) and not (
            yield from skip_string(reader, _QUOTES[mark], INSIDE[_QUOTES[mark]], closers, patterns.wake)
        ):
            return CallUnreadable("bad_json", "A string is not closed before the end marker.", "")
    if deepest > MAX_DEPTH:
        return CallUnreadable("too_large", f"The JSON is nested deeper than {MAX_DEPTH} levels.", "")
    return JsonBody(reader.recorded(begun))


def _skip_comment(reader: Reader, mark: str) -> Parsing[None]:
    """Consume the rest of a comment that begins with `mark`; nothing if it is none."""
    if mark == "/" and (yield from reader.skip("*")):
        yield from reader.read_through("*/")
    elif mark == "#" or (yield from reader.is_next("/")):
        yield from reader.read_up_to(_LINE_END)


def skip_string(
    reader: Reader,
    close: str,
    edge: CharPattern,
    closers: tuple[str, ...] = (),
    wake: CharPattern | None = None,
) -> Parsing[bool]:
    """Consume the rest of a string. False if an end marker on a line of its own comes before its closing quote.

    Args:
        reader: What to read.
        close: The closing quote.
        edge: Pattern of a character that matters inside the string.
        closers: The end markers.
        wake: Pattern of the characters to wait for.
    """
    while True:
        yield from reader.read_up_to(edge, wake)
        if (yield from reader.skip(close)):
            return True
        mark = reader.take(1)
        if mark == "\\":
            yield from reader.peek()
            reader.take(1)
        elif mark == "\n" and (end := (yield from reader.peek_literal(closers))):
            reader.take(len(end))
            return False
