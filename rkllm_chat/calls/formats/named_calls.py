"""Readers of calls that name the tool before the JSON of its arguments."""

from __future__ import annotations

import re

from ...core.events import CallFound, CallUnreadable
from ..incremental_reader import Parsing, Reader
from ..json_repair import parse_lenient_json
from .common import BodyReader, ParsedCalls, ReadContext, add_repairs, build_call, read_end_marker, unreadable_call
from .json_calls import begins_json, json_reader, read_body, read_json_arguments, read_json_call, skip_fence
from .tag_syntax import GLM, MINICPM5, QWEN, SEED, SEED_OSS, STEP3, PairSyntax, TagSyntax, invoke_syntax
from .tagged_calls import block_reader, read_named_tag, read_pairs, read_values, tag_reader

_LINE_OR_ARGUMENTS = re.compile("[✿\n]")
_LINE_OR_JSON = re.compile(r"[\n{`]")
_END_OF_TAG = re.compile(r"[>\n<]")
_EDGE = re.compile(r"[^\w./:-]")
_HEAD = re.compile(r"[<\n]")
_HEAD_OF_TAG = re.compile("<")
_CALL_NUMBER = re.compile(r":\d+$")


def read_tool_name(reader: Reader) -> Parsing[str]:
    """Read what may be a tool's name; "" if there is none."""
    return (yield from reader.read_up_to(_EDGE))


def read_mistral(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `[TOOL_CALLS]`.

    That is an array, or `f[ARGS]{..}`, with `[CALL_ID]id` after the name, or without `[ARGS]`.
    """
    yield from reader.skip_space()
    if (yield from reader.peek_literal(("[{", "[ ", "[\n", "{"))):
        return (yield from json_reader((), begins="[{")(reader, context))
    name = yield from read_tool_name(reader)
    yield from reader.skip_space()
    if not name:
        return None
    if (yield from reader.skip("[CALL_ID]")):
        yield from read_tool_name(reader)
    marked = yield from reader.skip("[ARGS]")
    parsed = yield from read_json_arguments(reader, context, name, ())
    return parsed if parsed or not marked else unreadable_call("bad_json", "No JSON object follows [ARGS].")


DEEPSEEK_END = "<｜tool▁call▁end｜>"


def read_deepseek(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read `function<｜tool▁sep｜>f` and fenced JSON (R1, V3), or `f<｜tool▁sep｜>{..}` (V3.1)."""
    name = (yield from reader.read_up_to(_HEAD)).strip()
    if not (yield from reader.skip("<｜tool▁sep｜>")):
        return None
    reader.commit()
    if name == "function":
        name = (yield from reader.read_up_to(_LINE_OR_JSON)).strip()
    return (yield from read_json_arguments(reader, context, name, (DEEPSEEK_END,)))


def read_qwen2(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `✿FUNCTION✿`: `: f`, a line end, `✿ARGS✿: {..}`."""
    if not (yield from reader.skip(":")):
        return None
    name = (yield from reader.read_up_to(_LINE_OR_ARGUMENTS)).strip()
    yield from reader.skip_space()
    if not name or not (yield from reader.skip("✿ARGS✿")):
        return None
    reader.commit()
    yield from reader.skip(":")
    parsed = yield from read_json_arguments(reader, context, name, ())
    return parsed or unreadable_call("bad_json", "No JSON object follows ✿ARGS✿.")


def read_function_name(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read `=f>` and JSON or `<parameter=..>` after `<function`; a word behind a call without values quotes it."""
    if not (yield from reader.skip("=")):
        return None
    parsed = yield from _read_equals(reader, context, ("</function>",))
    is_empty = parsed and all(isinstance(one, CallFound) and not one.call.arguments for one in parsed)
    return None if is_empty and (yield from _is_in_sentence(reader)) else parsed


def _is_in_sentence(reader: Reader) -> Parsing[bool]:
    """Tell whether a word follows on the same line; consumes nothing."""
    size = reader.size
    while (yield from reader.skip(" ")):
        pass
    is_word = not (yield from reader.is_at_end()) and reader.text[reader.at].isalnum()
    reader.rewind(size)
    return is_word


def read_function_attribute(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `<function`: ` name="f">` and `<param name="..">`."""
    return (yield from read_named_tag(reader, context, MINICPM5))


def _read_equals(
    reader: Reader, context: ReadContext, closers: tuple[str, ...], tags: TagSyntax = QWEN
) -> Parsing[ParsedCalls]:
    """Read what follows `<function=`."""
    name = (yield from reader.read_up_to(_END_OF_TAG)).strip().strip("\"'")
    if not name or not (yield from reader.skip(">")):
        return None
    yield from reader.skip_space()
    if (yield from reader.is_next("{")):
        return (yield from read_json_arguments(reader, context, name, closers))
    if not (yield from reader.peek_literal((*tags.value_openers, "</function>"))):
        return None
    reader.commit()
    return (yield from read_values(reader, context, name, tags))


def read_tool_call_tag(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `<tool_call`: tags of the format `xml`, or what several families write after `<tool_call>`."""
    if not (yield from reader.skip(">")):
        return (yield from read_named_tag(reader, context, SEED))
    yield from reader.skip_space()
    fence = yield from skip_fence(reader)
    begin = yield from reader.peek_literal(("{", "["))
    if begin:
        reader.commit()
        needs_end = begin == "{"  # Granite 3.1 writes no end marker after its array
        return (yield from read_json_call(reader, context, ("</tool_call>",), fence=fence, needs_end=needs_end))
    if (yield from reader.skip("<function=")):
        parsed = yield from _read_equals(reader, context, ("</function>",))
        end = yield from read_end_marker(reader, ("</tool_call>",) if parsed else ())
        return parsed and [add_repairs(one, *end) for one in parsed]
    return (yield from _read_pair_call(reader, context, GLM))


def _read_pair_call(reader: Reader, context: ReadContext, pairs: PairSyntax) -> Parsing[ParsedCalls]:
    """Read the name of a tool and pairs of keys and values."""
    name = yield from read_tool_name(reader)
    yield from reader.skip_space()
    separator = pairs.tag("tool_sep")
    following = yield from reader.peek_literal((pairs.tag("arg_key"), pairs.call_closer, separator))
    if not name or not following:
        return None
    if following == pairs.call_closer and reader.is_mid_line and not context.is_known(name):
        return None  # a sentence about the tags
    reader.commit()
    yield from reader.skip(separator)
    return (yield from read_pairs(reader, context, name, pairs))


def pair_reader(pairs: PairSyntax) -> BodyReader:
    """Return a reader of JSON, or of the name of a tool and pairs of keys and values."""

    def read(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        yield from reader.skip_space()
        if (yield from reader.peek_literal(("{", "["))):
            reader.commit()
            return (yield from read_json_call(reader, context, (pairs.call_closer,)))
        return (yield from _read_pair_call(reader, context, pairs))

    return read


def read_kimi(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `<|tool_call_begin|>`: `functions.f:0<|tool_call_argument_begin|>{..}<|tool_call_end|>`."""
    name = (yield from reader.read_up_to(_HEAD)).strip()
    yield from reader.skip_space()
    if not name or not (yield from reader.skip("<|tool_call_argument_begin|>")):
        return None
    reader.commit()
    name = _CALL_NUMBER.sub("", name.removeprefix("functions."))
    parsed = yield from read_json_arguments(reader, context, name, ("<|tool_call_end|>",))
    return parsed or unreadable_call("bad_json", "No JSON object follows <|tool_call_argument_begin|>.")


def read_solar(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `<|tool_call:begin|>`: an id, `<|tool_call:name|>f<|tool_call:args|>{..}<|tool_call:end|>`."""
    yield from reader.read_up_to(_HEAD)
    if not (yield from reader.skip("<|tool_call:name|>")):
        return None
    name = (yield from reader.read_up_to(_HEAD)).strip()
    if not name or not (yield from reader.skip("<|tool_call:args|>")):
        return None
    reader.commit()
    parsed = yield from read_json_arguments(reader, context, name, ("<|tool_call:end|>",))
    return parsed or unreadable_call("bad_json", "No JSON object follows <|tool_call:args|>.")


def read_plamo(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows the begin of a `tool_request` of PLaMo: the tool's name and JSON, each between marks."""
    yield from reader.skip_space()
    if not (yield from reader.skip("<|plamo:begin_tool_name:plamo|>")):
        return None
    name = (yield from reader.read_through("<|plamo:end_tool_name:plamo|>")).strip()
    yield from reader.skip_space()
    reader.commit()
    yield from reader.skip("<|plamo:begin_tool_arguments:plamo|>")
    yield from reader.skip("<|plamo:constrain|>json")
    yield from reader.skip("<|plamo:msg|>")
    parsed = yield from read_json_arguments(reader, context, name, ("<|plamo:end_tool_arguments:plamo|>",))
    return parsed or unreadable_call("bad_json", "No JSON object follows the name of the tool.")


def read_apertus(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `<|tools_prefix|>`: `[{"f": {..}}, {"g": {..}}]<|tools_suffix|>`."""
    yield from reader.skip_space()
    if not (yield from begins_json(reader, "[{")):
        return None
    reader.commit()
    body = yield from read_body(reader, context, ("<|tools_suffix|>",))
    if isinstance(body, CallUnreadable):
        return [body]
    end = () if body.is_open else (yield from read_end_marker(reader, ("<|tools_suffix|>",)))
    try:
        value, json_repairs = parse_lenient_json(body.text, may_close=body.is_open)
    except ValueError as error:
        return unreadable_call("bad_json", f"The JSON cannot be read: {error}.")
    entries = value if isinstance(value, list) else [value]
    if not entries or not all(isinstance(entry, dict) and len(entry) == 1 for entry in entries):
        return unreadable_call("bad_json", 'Each call is an object with one key: {"tool": {...}}.')
    return [build_call(name, value, (*json_repairs, *end)) for entry in entries for name, value in entry.items()]


def read_seed_oss(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `<seed:tool_call>`: `<function=f>`, values that keep their line ends, and both end tags."""
    yield from reader.skip_space()
    if not (yield from reader.skip("<function=")):
        return None
    parsed = yield from _read_equals(reader, context, ("</function>",), SEED_OSS)
    end = yield from read_end_marker(reader, ("</seed:tool_call>",) if parsed else ())
    return parsed and [add_repairs(one, *end) for one in parsed]


def read_tool_calls(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `<tool_calls>`: a JSON array, or objects, and the end tag; or the first `<tool_call>`."""
    yield from reader.skip_space()
    if (yield from reader.is_next("<tool_call>")):
        return []
    calls: list[CallFound | CallUnreadable] = []
    while (yield from begins_json(reader)):
        reader.commit()
        calls += (yield from read_json_call(reader, context, ("</tool_calls>",), needs_end=False)) or ()
        yield from reader.skip_space()
    return calls or None


def read_step3(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what Step 3 writes before a call, `<｜tool_call_begin｜>function<｜tool_sep｜>f`, and the call."""
    yield from reader.skip_space()
    yield from reader.skip("<｜tool_call_begin｜>")
    yield from reader.read_up_to(_HEAD_OF_TAG)
    yield from reader.skip("<｜tool_sep｜>")
    yield from reader.read_up_to(_HEAD_OF_TAG)
    if not (yield from reader.skip(STEP3.call_opener)):
        return None
    return (yield from read_named_tag(reader, context, STEP3))


def read_python_tag(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `<|python_tag|>`: JSON, or several objects joined by semicolons."""
    yield from reader.skip_space()
    calls: list[CallFound | CallUnreadable] = []
    while (yield from begins_json(reader)):
        reader.commit()
        calls += (yield from read_json_call(reader, context, (), "parameters")) or ()
        yield from reader.skip_space()
        yield from reader.skip(";")
        yield from reader.skip_space()
    return calls or None


def read_recipient(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read a reply that begins in the header of a message: `to=functions.f<|channel|>commentary<|message|>{..}`."""
    return (yield from read_harmony(reader, context)) if (yield from reader.skip("to=")) else None


def read_muse_recipient(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read a reply that begins in the header of a message to a tool."""
    return (yield from read_muse(reader, context)) if (yield from reader.skip("to=")) else None


def read_muse(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `to=`: the tool, `<|message|>`, and its call; in other messages such tags are an example."""
    yield from reader.read_up_to(_HEAD)
    for mark in ("<|message|>", "<atem:function_calls>"):
        if not (yield from reader.skip(mark)):
            return None
    return (yield from _read_muse_block(reader, context))


_read_muse_block = block_reader("<atem:invoke", tag_reader(invoke_syntax("atem:")), "</atem:function_calls>")


def read_harmony(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `to=`: the tool, the rest of the header up to `<|message|>`, and JSON up to `<|call|>`."""
    name = (yield from read_tool_name(reader)).removeprefix("functions.")
    if not name or not (yield from reader.peek_literal(("<|", " "))):
        return None
    yield from reader.read_through("<|message|>")
    if (yield from reader.is_next("<")):
        return None  # another form that begins alike
    reader.commit()
    parsed = yield from read_json_arguments(reader, context, name, ("<|call|>",))
    return parsed or unreadable_call("bad_json", "No JSON object follows <|message|>.")


def read_functionary(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `>>>` in Functionary v3.2: a line with the tool's name, then JSON; `all` announces text."""
    name = yield from read_tool_name(reader)
    if not name or not (yield from reader.skip("\n")):
        return None
    return [] if name == "all" else (yield from read_json_arguments(reader, context, name, ()))
