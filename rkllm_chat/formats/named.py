"""Calls whose tool is named before the JSON of its arguments. It knows no tool."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..events import CallGarbled
from ..reader import Reader, Reading
from .damaged import read_json
from .found import Found, call_with, garbled, read_end, repaired
from .jsons import json_call, read_body, read_json_call, skip_extra_bracket, skip_fence
from .xml import MINICPM5, QWEN, SEED, read_keys_and_values, read_named, read_values

Read = Callable[[Reader], Reading[Found]]

_LINE_OR_ARGUMENTS = re.compile("[✿\n]")
_LINE_OR_JSON = re.compile(r"[\n{`]")
_END_OF_TAG = re.compile(r"[>\n<]")
_EDGE = re.compile(r"[^\w./:-]")
_HEAD = re.compile(r"[<\n]")


def read_arguments(reader: Reader, name: str, closers: tuple[str, ...]) -> Reading[Found]:
    """The JSON of a named tool's arguments, in a fence or not, with its end marker."""
    yield from reader.skip_space()
    fence = yield from skip_fence(reader)
    if not (yield from reader.next_is("{")) and not (reader.is_committed and (yield from reader.next_is("["))):
        return None
    reader.commit()
    within = (*closers, fence) if fence else tuple(closers)
    body = yield from read_body(reader, within)
    if isinstance(body, CallGarbled):
        return [body]
    extra = () if body.is_open else (yield from skip_extra_bracket(reader, within))
    if fence:
        yield from reader.skip_space()
        yield from reader.skip(fence)
    end = () if body.is_open else (yield from read_end(reader, closers))
    try:
        arguments, mended = read_json(body.text, may_close=body.is_open)
    except ValueError as error:
        return garbled("bad_json", f"The arguments cannot be read: {error}.")
    return [call_with(name, arguments, (*mended, *extra, *end))]


def read_word(reader: Reader) -> Reading[str]:
    """What may be a tool's name, "" where none stands here."""
    return (yield from reader.up_to(_EDGE))


def read_mistral(reader: Reader) -> Reading[Found]:
    """Behind `[TOOL_CALLS]`: an array, or `f[ARGS]{..}`, with `[CALL_ID]id` between, or without `[ARGS]`."""
    yield from reader.skip_space()
    if (yield from reader.next_of(("[{", "[ ", "[\n", "{"))):
        return (yield from json_call((), begins="[{")(reader))
    name = yield from read_word(reader)
    yield from reader.skip_space()
    if not name:
        return None
    if (yield from reader.skip("[CALL_ID]")):
        yield from read_word(reader)
    marked = yield from reader.skip("[ARGS]")
    found = yield from read_arguments(reader, name, ())
    return found if found or not marked else garbled("bad_json", "Behind [ARGS] there is no JSON object.")


DEEPSEEK_END = "<｜tool▁call▁end｜>"


def read_deepseek_calls(reader: Reader) -> Reading[Found]:
    """The beginning of several calls, each of which has its own."""
    yield from reader.skip_space()
    return [] if (yield from reader.next_is("<｜tool▁call▁begin｜>")) else None


def read_deepseek(reader: Reader) -> Reading[Found]:
    """`function<｜tool▁sep｜>f` and fenced JSON (R1, V3), or `f<｜tool▁sep｜>{..}` (V3.1)."""
    name = (yield from reader.up_to(_HEAD)).strip()
    if not (yield from reader.skip("<｜tool▁sep｜>")):
        return None
    reader.commit()
    if name == "function":
        name = (yield from reader.up_to(_LINE_OR_JSON)).strip()
    return (yield from read_arguments(reader, name, (DEEPSEEK_END,)))


def read_qwen2(reader: Reader) -> Reading[Found]:
    """`: f`, a line end, `✿ARGS✿: {..}`, from behind `✿FUNCTION✿`."""
    if not (yield from reader.skip(":")):
        return None
    name = (yield from reader.up_to(_LINE_OR_ARGUMENTS)).strip()
    yield from reader.skip_space()
    if not name or not (yield from reader.skip("✿ARGS✿")):
        return None
    reader.commit()
    yield from reader.skip(":")
    found = yield from read_arguments(reader, name, ())
    return found or garbled("bad_json", "Behind ✿ARGS✿ there is no JSON object.")


def read_function(reader: Reader) -> Reading[Found]:
    """Behind `<function`: `=f>` and JSON or `<parameter=..>`, or ` name="f">` and `<param name="..">`."""
    if not (yield from reader.skip("=")):
        return (yield from read_named(reader, MINICPM5))
    return (yield from read_equals(reader, ("</function>",)))


def read_equals(reader: Reader, closers: tuple[str, ...]) -> Reading[Found]:
    """From behind `<function=`."""
    name = (yield from reader.up_to(_END_OF_TAG)).strip().strip("\"'")
    if not name or not (yield from reader.skip(">")):
        return None
    yield from reader.skip_space()
    if (yield from reader.next_is("{")):
        return (yield from read_arguments(reader, name, closers))
    if not (yield from reader.next_of((*QWEN.value, "</function>"))):
        return None
    reader.commit()
    return (yield from read_values(reader, name, QWEN))


def read_tool_call(reader: Reader) -> Reading[Found]:
    """Behind `<tool_call`: the seed's tags, or what several families write behind `<tool_call>`."""
    if not (yield from reader.skip(">")):
        return (yield from read_named(reader, SEED))
    yield from reader.skip_space()
    fence = yield from skip_fence(reader)
    begin = yield from reader.next_of(("{", "["))
    if begin:
        reader.commit()
        needs_end = begin == "{"  # Granite 3.1 writes no end marker behind its array
        return (yield from read_json_call(reader, ("</tool_call>",), fence=fence, needs_end=needs_end))
    if (yield from reader.skip("<function=")):
        found = yield from read_equals(reader, ("</function>",))
        end = yield from read_end(reader, ("</tool_call>",) if found else ())
        return found and [repaired(one, *end) for one in found]
    name = yield from read_word(reader)
    yield from reader.skip_space()
    if not name or not (yield from reader.next_of(("<arg_key>", "</tool_call>"))):
        return None
    reader.commit()
    return (yield from read_keys_and_values(reader, name))


def read_harmony(reader: Reader) -> Reading[Found]:
    """Behind `to=`: the tool, the rest of the header up to `<|message|>`, and JSON up to `<|call|>`."""
    name = (yield from read_word(reader)).removeprefix("functions.")
    if not name:
        return None
    yield from reader.until("<|message|>")
    reader.commit()
    found = yield from read_arguments(reader, name, ("<|call|>",))
    return found or garbled("bad_json", "Behind <|message|> there is no JSON object.")


def read_functionary(reader: Reader) -> Reading[Found]:
    """Functionary v3.2, behind `>>>`: a line with the tool's name, then JSON; the name `all` means text."""
    name = yield from read_word(reader)
    if not name or not (yield from reader.skip("\n")):
        return None
    return [] if name == "all" else (yield from read_arguments(reader, name, ()))
