"""Bodies that name the tool before the JSON of its arguments, and readers of the forms that no layout describes."""

from __future__ import annotations

import re
from contextlib import suppress

from ...core.events import CallFound
from ..incremental_reader import EndOfTextError, Parsing, Reader
from .common import Body, BodyReader, ParsedCalls, ReadContext, unreadable_call
from .json_calls import read_json_arguments, read_tool_name
from .layout import MARK, Layout, find_marks
from .tag_syntax import MUSE, QWEN, STEP3, TagSyntax
from .tagged_calls import block_body, read_equals, read_named_tag, tag_reader

_HEAD = re.compile(r"[<\n]")
_HEAD_OF_TAG = re.compile("<")
_END_OF_WORDS = re.compile(r"[<\n✿]")
_END_OF_NAME = re.compile(r"[<\n{`✿[]")
_CALL_NUMBER = re.compile(r":\d+$")
_WITH_TEXT = re.compile(rf"({MARK})([^<✿[]*)")


def named_body(layout: Layout) -> Body:
    """Return the body that is a tool's name and the JSON of its arguments, after the first mark of the call."""
    before, _, behind = layout.call.partition("NAME")
    between, _, after = behind.partition("ARGUMENTS")
    lead, ends = re.findall(MARK, before)[1:], find_marks(after)[:1]
    marks = [(mark, text.strip()) for mark, text in _WITH_TEXT.findall(between)]
    marks = marks or [(word, "") for word in between.split() if "`" not in word]
    last = (lead or [layout.opener])[-1] if not marks else marks[0][0]

    def read(reader: Reader, context: ReadContext, _closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
        yield from reader.skip_space()
        yield from reader.skip(":")
        name = (yield from reader.read_up_to(_END_OF_NAME)).strip()
        for mark in lead:  # what precedes it is an id or a word, or the name, if nothing else follows
            if not (yield from reader.skip(mark)):
                return None
            reader.commit()
            name = (yield from reader.read_up_to(_END_OF_NAME)).strip() or name
        size = reader.size
        yield from reader.skip_space()
        for mark, text in marks:
            if (yield from reader.skip(mark)):
                reader.commit()
                yield from reader.skip(text)
                size = reader.size
            elif mark == last:
                return None
            yield from reader.skip_space()
        name = _CALL_NUMBER.sub("", name.removeprefix("functions."))
        parsed = (yield from read_json_arguments(reader, context, name, ends)) if name else None
        if not parsed:
            reader.rewind(size)  # a fence that holds no arguments still holds text
            yield from _skip_words(reader)
        return parsed or unreadable_call("bad_json", f"No JSON object follows {last}.")

    return read


def _skip_words(reader: Reader) -> Parsing[None]:
    """Consume what stands on the line in place of arguments, up to a mark or a fence."""
    size = reader.size
    with suppress(EndOfTextError):
        yield from reader.read_up_to(_END_OF_WORDS)
    if "`" in reader.recorded(size):
        reader.rewind(size)


def alone_reader(tags: TagSyntax) -> BodyReader:
    """Return a reader of a call in tags whose block did not begin: of a known tool, and not in a sentence."""

    def read(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        if reader.is_mid_line or reader.is_in_markup:
            return None
        parsed = yield from tag_reader(tags)(reader, context)
        names = [event.call.name for event in parsed or () if isinstance(event, CallFound)]
        return None if not all(map(context.is_known, names)) or (yield from is_in_sentence(reader)) else parsed

    return read


def read_function_name(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read `f>` and JSON or `<parameter=..>` after `<function=`; a word behind a call without values quotes it."""
    parsed = yield from read_equals(reader, context, QWEN)
    is_empty = parsed and all(isinstance(event, CallFound) and not event.call.arguments for event in parsed)
    return None if is_empty and (yield from is_in_sentence(reader)) else parsed


def is_in_sentence(reader: Reader) -> Parsing[bool]:
    """Tell whether a word follows on the same line; consumes nothing."""
    size = reader.size
    while (yield from reader.skip(" ")):
        pass
    is_word = not (yield from reader.is_at_end()) and reader.text[reader.at].isalnum()
    reader.rewind(size)
    return is_word


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


def recipient_reader(read_header: BodyReader) -> BodyReader:
    """Return a reader of a reply that begins in the header of a message: `to=functions.f<|message|>{..}`."""

    def read(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        return (yield from read_header(reader, context)) if (yield from reader.skip("to=")) else None

    return read


def read_muse(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `to=`: the tool, `<|message|>`, and its call; in other messages such tags are an example."""
    yield from reader.read_up_to(_HEAD)
    for mark in ("<|message|>", "<atem:function_calls>"):
        if not (yield from reader.skip(mark)):
            return None
    return (yield from _read_muse_block(reader, context, ("</atem:function_calls>",)))


_read_muse_block = block_body(MUSE.call_opener, tag_reader(MUSE))


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
    if not parsed:
        yield from _skip_words(reader)
    return parsed or unreadable_call("bad_json", "No JSON object follows <|message|>.")


def read_inkling_header(reader: Reader, _context: ReadContext) -> Parsing[ParsedCalls]:
    """Read the name of the tool before a call of Inkling, which contains it, too."""
    name = yield from read_tool_name(reader)
    return [] if name and (yield from reader.is_next("<|content_invoke_tool_json|>")) else None


def read_functionary(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows `>>>` in Functionary v3.2: a line with the tool's name, then JSON; `all` announces text."""
    name = yield from read_tool_name(reader)
    if not name or not (yield from reader.skip("\n")):
        return None
    return [] if name == "all" else (yield from read_json_arguments(reader, context, name, ()))
