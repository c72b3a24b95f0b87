"""Readers of calls without a marker: accepted only at the start of a reply or after a call, and only of a known tool.

A candidate is rejected as soon as it cannot be a call, so that an answer in JSON is delayed only up to its first name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from ...core.events import CallFound, CallUnreadable
from ...core.messages import ToolCall
from ..incremental_reader import EndOfTextError, Parsing, Reader
from .common import NO_OPENER, BodyReader, ParsedCalls, ReadContext, parse_json_calls, skip_wrong_end, unreadable_call
from .json_calls import SEPARATORS, read_body, read_json_arguments, read_json_head, read_tool_name
from .python_calls import parse_python_calls, peek_call_name, read_chatglm_code, read_python_code

_FUNCTION_NAME = re.compile(r"[a-z_]\w*(?:[.:/-]\w+)*", re.ASCII)
"""What an unknown tool may be called if its arguments are not called that; else it may be data about somebody."""
_MAX_NAME_LENGTH = 64
"""Maximum length of an unknown name that is not shown as an answer: `{"name": "Empire State", "arguments": {}}`."""
_CODE_NAME = re.compile(r"\w*(?:[_.:/-]|\d|[a-z][A-Z])[\w.:/-]*", re.ASCII)
"""A name that is no word of a sentence."""
_NAME_ALONE = re.compile(r"[`\"']{0,3}(?P<name>[\w.:/-]*)(?P<call>\(\s*\)?)?[`\"']{0,3}\.?\s*", re.ASCII)


def read_bare_json(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read calls of Llama 3 and xLAM.

    That is `{"name": .., "parameters": {..}}`, several joined by `;`, or an array of them.
    """
    return (yield from read_unmarked_json(reader, context, context.is_known))


def read_unmarked_json(
    reader: Reader, context: ReadContext, is_tool: Callable[[str], bool], fence: tuple[str, ...] = ()
) -> Parsing[ParsedCalls]:
    """Read calls in one JSON value without a marker, and an end marker that may follow it nevertheless.

    Args:
        reader: What to read.
        context: What is known about tools and formats.
        is_tool: Tells whether a name counts as that of a tool, known or not.
        fence: The end of the code fence that the call is in, if it is in one.
    """
    if not (yield from reader.peek_literal(("{", "["))) or not (yield from read_json_head(reader, is_tool)):
        return None
    reader.commit()
    body = yield from read_body(reader, context, (*context.closers, *fence), may_end=True)
    if isinstance(body, CallUnreadable):
        return [body]
    repairs: tuple[str, ...] = (NO_OPENER,) if body.closer in context.closers else ()
    repairs = (yield from _read_redundant_end(reader, context)) or repairs
    if not (yield from ends_cleanly(reader, context)):
        return None
    calls = parse_json_calls(body.text, repairs, body.is_open, context, key="parameters", is_bare=True)
    names = [call.call.name for call in calls or () if isinstance(call, CallFound)]
    may_be_data = '"arguments"' not in body.text
    if may_be_data and not all(context.is_known(name) or _FUNCTION_NAME.fullmatch(name) for name in names):
        return None
    if not all(map(is_tool, names)) or (names and body.text.startswith("[") and not any(map(context.is_known, names))):
        return None
    return calls


def read_shown_json(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read the call of a known tool in a JSON object, whatever follows it."""
    if not (yield from read_json_head(reader, context.is_known)):
        return None
    reader.commit()
    body = yield from read_body(reader, context, ())
    return None if isinstance(body, CallUnreadable) else parse_json_calls(body.text, (), False, context, is_bare=True)


def _read_redundant_end(reader: Reader, context: ReadContext) -> Parsing[tuple[str, ...]]:
    """Consume the end markers behind a call that has no start marker; return the repair."""
    repairs: tuple[str, ...] = ()
    while True:
        size = reader.size
        yield from reader.skip_space()
        closer = yield from reader.peek_literal(context.closers)
        reader.take(len(closer))
        if not closer and not (yield from skip_wrong_end(reader)):
            reader.rewind(size)
            return repairs
        repairs = (NO_OPENER,)


def ends_cleanly(reader: Reader, context: ReadContext) -> Parsing[bool]:
    """Tell whether what follows may follow an unmarked call: another call, or nothing more."""
    yield from reader.skip_space()
    if reader.text.startswith(("{", "["), reader.at):
        return True
    for separator in SEPARATORS:
        yield from reader.skip(separator)
    yield from reader.skip_space()
    return (yield from reader.is_at_end()) or bool((yield from reader.peek_literal(context.turn_ends)))


def may_be_unknown_tool(name: str) -> bool:
    """Tell whether a name that no tool has may be meant as that of a tool, and is not data."""
    return 0 < len(name.strip()) <= _MAX_NAME_LENGTH


def read_name_alone(reader: Reader, needs: Mapping[str, bool]) -> Parsing[ParsedCalls]:
    """Read a reply that is only the name of a tool: `get_time`, `get_time()`. A single word may be an answer.

    Args:
        reader: What to read.
        needs: Maps the names of the tools to whether they need arguments.
    """
    while True:
        head = reader.text[reader.at : reader.at + reader.max_head_length]
        match = _NAME_ALONE.match(head)
        if not match or match.end() < len(head) or not _is_beginning(match["name"], needs):
            return None
        if (yield from _is_over(reader, len(head))):
            break
    name = match["name"].rstrip(".")
    if name not in needs or not (match["call"] or _CODE_NAME.fullmatch(name)):
        return None
    reader.take(len(head))
    if needs[name]:
        return unreadable_call("bare_name", f'The reply is only the name "{name}".')
    return [CallFound(ToolCall(name, {}, (NO_OPENER,)))]


def _is_beginning(text: str, names: Iterable[str]) -> bool:
    return any(name.startswith(text.rstrip(".")) for name in names)


def _is_over(reader: Reader, length: int) -> Parsing[bool]:
    """Tell whether the text has only `length` characters more; waits until it has more, or has ended."""
    try:
        while len(reader.text) - reader.at <= length:
            yield from reader.wait_for_text()
    except EndOfTextError:
        return True
    return False


def read_bare_list(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read `[f(x='a'), g()]`."""
    return (yield from read_bare_python(reader, context)) if (yield from reader.is_next("[")) else None


def read_bare_python(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read `[f(x='a'), g()]`, or `f(x='a')` alone; without positional arguments."""
    if not context.is_known((yield from peek_call_name(reader))):
        return None
    reader.commit()
    code, _ = yield from read_python_code(reader, (), is_alone=True)
    if not (yield from ends_cleanly(reader, context)):
        return None
    parsed = parse_python_calls(code)
    if not all(isinstance(event, CallFound) and context.is_known(event.call.name) for event in parsed or ()):
        return None
    return parsed


def read_name_line(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read calls of GLM-4, Functionary and ChatGLM3: a line with the tool's name, then JSON or fenced Python."""
    name = yield from read_tool_name(reader)
    if not context.is_known(name) or not (yield from reader.skip("\n")):
        return None
    if (yield from reader.is_next("```python")):
        return (yield from read_chatglm_code(reader, name))
    return (yield from read_json_arguments(reader, context, name, ()))


def skip_all_line(reader: Reader, _context: ReadContext) -> Parsing[ParsedCalls]:
    """Read the line `all` of Functionary, after which text follows."""
    return [] if (yield from reader.skip("all\n")) else None


FIRST_CHARS: Mapping[BodyReader, str] = {read_bare_json: "{[", read_bare_list: "["}
"""With what the calls of some readers begin."""
