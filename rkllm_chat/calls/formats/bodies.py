"""BODIES: what may stand between the marks of a call, whatever marks these are.

Marks and bodies are two lists. A format says what marks its calls have and which bodies stand between them; any other
body is read there as well if it calls a known tool. If none can be read although a known tool is named, or nothing else
is in the reply, a call was meant: the model is told, and its markup is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...core.events import CallFound, CallUnreadable
from ...core.messages import ToolCall
from ..incremental_reader import EndOfTextError, Parsing, Reader, TooLongError
from ..literals import compile_markers
from .common import (
    ARGUMENT_KEYS,
    DEFINITION_KEYS,
    NAME_KEYS,
    Body,
    BodyReader,
    ParsedCalls,
    ReadContext,
    build_call,
    read_end_marker,
    unreadable_call,
)
from .gemma import gemma_body
from .json_calls import (
    SEPARATORS,
    begins_json,
    json_body,
    read_json_arguments,
    read_json_call,
    read_json_head,
    skip_fence,
)
from .layout import MARK, GemmaArguments, Layout, PythonArguments
from .named_calls import is_in_sentence, named_body, read_function_name
from .python_calls import parse_python_calls, peek_call_name, python_body, read_python_code
from .tag_syntax import GLM, INVOKE, MINICPM5, TagSyntax
from .tagged_calls import block_body, pair_body, read_values, tag_reader

_NOT_NAME = re.compile(r"[^\w./:-]")
_NAME = re.compile(r"[\w./:-]+")
_CALL_NUMBER = re.compile(r":\d+$")
_PLAIN_TAG = re.compile(r"</?\w")
_LEADING_WORDS = frozenset(("call", "function_call", "tool_call", *NAME_KEYS))
_WORDS_BEHIND_NAME = frozenset(("json", "code", "input", *ARGUMENT_KEYS))
_MAX_LEADING, _MAX_BETWEEN = 4, 8
"""How many words may stand before a name, and how many things between it and its arguments."""
_MAX_MARK_LENGTH = 64
_MAX_WORDS = 24


@dataclass(frozen=True, eq=False)
class Wrapper:
    """The marks of calls.

    Attributes:
        closers: The end markers.
        bodies: What stands between them, the usual one first.
        is_open: Whether any other of BODIES may stand there, too.
    """

    closers: tuple[str, ...]
    bodies: tuple[Body, ...]
    is_open: bool = True


def wrap(*bodies: Body, end: str = "", is_open: bool = True) -> Wrapper:
    """Return what stands behind a mark: bodies, and the end markers with white space between them."""
    return Wrapper(tuple(end.split()), bodies, is_open)


def merge_wrappers(wrappers: Iterable[Wrapper]) -> Wrapper:
    """Return one wrapper for what several formats write between the same marks."""
    found = list(wrappers)
    closers = dict.fromkeys(closer for wrapper in found for closer in wrapper.closers)
    bodies = dict.fromkeys(body for wrapper in found for body in wrapper.bodies)
    return Wrapper(tuple(closers), tuple(bodies), any(wrapper.is_open for wrapper in found))


def read_wrapped(wrapper: Wrapper) -> BodyReader:
    """Return the reader of what stands between marks."""
    bodies = (*wrapper.bodies, *map(_of_known_tool, BODIES), read_unreadable) if wrapper.is_open else wrapper.bodies

    def read(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        size = reader.size
        for body in bodies:
            try:
                parsed = yield from body(reader, context, wrapper.closers)
            except (EndOfTextError, TooLongError):
                if reader.is_committed:
                    raise
                parsed = None
            if parsed is not None:
                return parsed
            reader.rewind(size)
            reader.commit(False)
        return None

    return read


def as_body(read: BodyReader) -> Body:
    """Return the body that a reader reads, which knows its own end."""

    def read_body(reader: Reader, context: ReadContext, _closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
        return (yield from read(reader, context))

    return read_body


def body_of(layout: Layout) -> Body:
    """Return the body that stands between the marks of a layout."""
    arguments = layout.arguments
    match arguments:
        case TagSyntax(key_end=""):
            return block_body(arguments.call_opener, tag_reader(arguments))
        case TagSyntax():
            return pair_body(arguments)
        case GemmaArguments():
            return gemma_body(arguments.quote)
        case PythonArguments():
            return python_body()
        case _ if layout.is_object:
            key = re.search(r'"(\w+)": ARGUMENTS', layout.call)
            return json_body(key[1] if key else "")
        case _:
            return named_body(layout)


def _of_known_tool(body: Body) -> Body:
    """Return a body that counts only if all its calls are of known tools."""

    def read(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
        parsed = yield from body(reader, context, closers)
        names = [event.call.name for event in parsed or () if isinstance(event, CallFound)]
        return parsed if all(map(context.is_known, names)) else None

    return read


def read_json(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
    """Read `{"name": .., "arguments": {..}}`, or a list of them."""
    yield from reader.skip_space()
    fence = yield from skip_fence(reader)
    if not (yield from begins_json(reader)) or not (yield from read_json_head(reader, context.is_known)):
        return None
    reader.commit()
    return (yield from read_json_call(reader, context, closers, fence=fence))


def read_named(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
    """Read the name of a tool and its arguments: JSON, in parentheses, or none at all; several side by side."""
    calls: list[CallFound | CallUnreadable] = []
    while True:
        size = reader.size
        for separator in SEPARATORS if calls else ():
            yield from reader.skip(separator)
        parsed = yield from _read_named_call(reader, context, closers)
        if not parsed:
            reader.rewind(size)
            return calls or None
        calls += parsed
        size = reader.size
        if any(isinstance(event, CallUnreadable) or not event.call.repairs for event in parsed):
            return calls


def _read_named_call(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
    name = yield from _read_known_name(reader, context)
    if not name:
        return None
    size = reader.size
    yield from _skip_between(reader, closers)
    if (yield from reader.is_next("(")):
        return (yield from _read_parentheses(reader, context, name, closers))
    if (yield from reader.peek_literal(("{", "```"))):
        return (yield from read_json_arguments(reader, context, name, closers))
    if (yield from reader.is_next(GLM.value_openers[0])):
        reader.commit()
        return (yield from read_values(reader, context, name, GLM))
    is_over = (yield from reader.peek_literal(closers)) if closers else (yield from reader.is_at_end())
    if not is_over or reader.is_mid_line or reader.recorded(size).strip():
        return None
    end = yield from read_end_marker(reader, context, closers)
    return [CallFound(ToolCall(name, {}, end))]


def _read_known_name(reader: Reader, context: ReadContext) -> Parsing[str]:
    """Read the name of a known tool, behind words and marks that announce it; "" if there is none."""
    for _ in range(_MAX_LEADING):
        yield from reader.skip_space()
        while (mark := (yield from _peek_mark(reader))) or (yield from reader.peek_literal(('"', "`", "*"))):
            reader.take(len(mark) or 1)
            yield from reader.skip_space()
        try:
            written = yield from reader.read_up_to(_NOT_NAME)
        except EndOfTextError:
            written = reader.recorded()[-_MAX_MARK_LENGTH:].split()[-1] if reader.recorded().strip() else ""
        name = strip_name(written)
        if name and context.is_known(name):
            yield from reader.skip('"')
            return name
        if written.strip(":").lower() not in _LEADING_WORDS and not mark:
            return ""
    return ""


def strip_name(written: str) -> str:
    """Return a name without what models write around it: `call:`, `functions.`, `.call`, and a number."""
    name = written.removeprefix("call:").removeprefix("functions.").strip(":").removesuffix(".call")
    return _CALL_NUMBER.sub("", name)


def _peek_mark(reader: Reader) -> Parsing[str]:
    """Return the mark that follows; "" if none does."""
    if not (yield from reader.peek_literal(("<", "[", "✿"))):
        return ""
    first = reader.text[reader.at]
    if first == "✿":
        return "✿"
    mark = yield from reader.peek_until({"<": ">", "[": "]"}[first], _MAX_MARK_LENGTH)
    return mark if re.fullmatch(MARK, mark) and not _PLAIN_TAG.match(mark) else ""


def _skip_between(reader: Reader, closers: tuple[str, ...]) -> Parsing[None]:
    """Consume what stands between the name of a tool and its arguments: marks, words for arguments, punctuation."""
    for _ in range(_MAX_BETWEEN):
        yield from reader.skip_space()
        if (yield from reader.peek_literal((*closers, *GLM.value_openers, *_TAG_OPENERS))):
            return
        mark = (yield from _peek_mark(reader)) or (yield from reader.peek_literal((":", "=", ",", "->")))
        reader.take(len(mark))
        size = reader.size
        try:
            word = yield from reader.read_up_to(_NOT_NAME)
        except EndOfTextError:
            word = ""
        is_id = (mark == ":" and word.isdigit()) or (len(mark) > 1 and (yield from _peek_mark(reader)))
        if not is_id and word.strip(":").lower() not in _WORDS_BEHIND_NAME:
            reader.rewind(size)
            if not mark:
                return


def _read_parentheses(
    reader: Reader, context: ReadContext, name: str, closers: tuple[str, ...]
) -> Parsing[ParsedCalls]:
    """Read arguments in parentheses: `(x='a')` as in Python, `({"x": "a"})`, or `(x: "a")`."""
    reader.commit()
    code, is_ended = yield from read_python_code(reader, closers, is_alone=True)
    parsed = parse_python_calls(f"f{code}") or ()
    end = () if is_ended else (yield from read_end_marker(reader, context, closers))
    return [
        build_call(name, event.call.arguments, (*event.call.repairs, *end)) if isinstance(event, CallFound) else event
        for event in parsed
    ]


def read_python_list(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
    """Read `[f(x='a'), g()]`."""
    yield from reader.skip_space()
    if not (yield from reader.is_next("[")) or not context.is_known((yield from peek_call_name(reader))):
        return None
    return (yield from python_body()(reader, context, closers))


_TAG_BODIES = {
    INVOKE.call_opener: block_body(INVOKE.call_opener, tag_reader(INVOKE)),
    "<function=": block_body("<function=", read_function_name),
    MINICPM5.call_opener: block_body(MINICPM5.call_opener, tag_reader(MINICPM5)),
}
_TAG_OPENERS = tuple(_TAG_BODIES)


def read_tags(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
    """Read calls in the tags that several families write."""
    yield from reader.skip_space()
    opener = yield from reader.peek_literal(_TAG_OPENERS)
    return (yield from _TAG_BODIES[opener](reader, context, closers)) if opener else None


BODIES: tuple[Body, ...] = (read_json, read_tags, read_python_list, read_named)
"""What may stand between marks: each reads the calls of known tools, or returns None."""


def read_unreadable(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[ParsedCalls]:
    """Read what is no call although one was meant: a known tool is named, or nothing else is in the reply."""
    if reader.is_mid_line:
        return None
    head, closer = yield from _peek_block(reader, closers)
    if any(f'"{key}"' in head for key in DEFINITION_KEYS):
        return None
    words = list(filter(None, map(strip_name, _NAME.findall(head)[:_MAX_WORDS])))
    is_named = any(context.is_known(word) for word in words)
    if closer:
        reader.take(len(head) + len(closer))
        if (yield from is_in_sentence(reader)):
            return None
        yield from reader.skip_space()
        if not is_named and not (reader.is_alone and words and (yield from reader.is_at_end())):
            return None
    else:
        behind = head.lstrip().partition(words[0])[2] if words else ""
        is_sentence = behind.lstrip(" ")[:1].isalpha() and (closers or not reader.is_alone)
        if not words or not context.is_known(words[0]) or is_sentence:
            return None
        reader.commit()
        yield from skip_to_end(reader)
    return unreadable_call("bad_json", "What stands between the markers is not a call in a known form.")


def _peek_block(reader: Reader, closers: tuple[str, ...]) -> Parsing[tuple[str, str]]:
    """Return the text up to the first end marker, and that; the text that is there, and "" if none comes soon."""
    pattern = compile_markers(closers).pattern
    while True:
        end = reader.at + reader.max_head_length
        match = pattern.search(reader.text, reader.at, end)
        if match:
            return reader.text[reader.at : match.start()], match[0]
        if reader.ended or len(reader.text) >= end:
            return reader.text[reader.at : end], ""
        yield None


def skip_to_end(reader: Reader) -> Parsing[None]:
    """Consume the rest of the reply."""
    try:
        while True:
            reader.take_to(len(reader.text))
            yield from reader.wait_for_text()
    except EndOfTextError:
        return
