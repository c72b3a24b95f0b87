"""Readers of calls without a marker: accepted only at the start of a reply or after a call, and only of a known tool.

A candidate is rejected as soon as it cannot be a call, so that an answer in JSON is delayed only up to its first name.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ...core.events import CallFound, CallUnreadable
from ..incremental_reader import Parsing, Reader
from .common import ARGUMENT_KEYS, NAME_KEYS, ParsedCalls, ReadContext, parse_json_calls
from .json_calls import read_body, read_json_arguments
from .named_calls import read_tool_name
from .python_calls import parse_python_calls, peek_call_name, read_chatglm_code, read_python_code

_SEPARATORS = (";", ",")

_HEAD = re.compile(r"""(?:\[\s*)?(?:\{\s*(?:["'“]?(\w*)["'”]?\s*(?::\s*(\S.*)?)?)?)?""", re.DOTALL)
_TEXT = re.compile(r"""["'“]([^"'”]*)(["'”]?)""")


def _read_json_head(reader: Reader, is_known: Callable[[str], bool]) -> Parsing[bool]:
    """Tell whether the JSON that begins here may be a call, by its first key and value; consumes nothing."""
    while (verdict := _may_be_call(reader.text[reader.at : reader.at + reader.max_head_length], is_known)) is None:
        if len(reader.text) - reader.at >= reader.max_head_length:
            return False
        yield from reader.wait_for_text()
    return verdict


def _may_be_call(head: str, is_known: Callable[[str], bool]) -> bool | None:
    """Tell whether JSON with this beginning may be a call; None while that is undecided."""
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
    name_text = _TEXT.match(value)
    if not name_text:
        return False
    if not name_text[2]:
        return None
    return name_text[1] == "function" if key == "type" else key in NAME_KEYS and is_known(name_text[1].strip())


def read_bare_json(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read calls of Llama 3 and xLAM.

    That is `{"name": .., "parameters": {..}}`, several joined by `;`, or an array of them.
    """
    if not (yield from reader.peek_literal(("{", "["))) or not (yield from _read_json_head(reader, context.is_known)):
        return None
    reader.commit()
    body = yield from read_body(reader, context, ())
    if isinstance(body, CallUnreadable):
        return [body]
    if not (yield from _ends_cleanly(reader, context)):
        return None
    calls = parse_json_calls(body.text, (), may_close=False, key="parameters", is_bare=True)
    is_call = calls and all(isinstance(one, CallUnreadable) or context.is_known(one.call.name) for one in calls)
    return calls if is_call else None


def _ends_cleanly(reader: Reader, context: ReadContext) -> Parsing[bool]:
    """Tell whether what follows may follow an unmarked call: another call, or nothing more."""
    yield from reader.skip_space()
    for separator in _SEPARATORS:
        yield from reader.skip(separator)
    yield from reader.skip_space()
    return (yield from reader.is_at_end()) or bool((yield from reader.peek_literal((*context.turn_ends, "{", "["))))


def read_bare_list(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read `[f(x='a'), g()]`."""
    return (yield from read_bare_python(reader, context)) if (yield from reader.is_next("[")) else None


def read_bare_python(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read `[f(x='a'), g()]`, or `f(x='a')` alone; without positional arguments."""
    if not context.is_known((yield from peek_call_name(reader))):
        return None
    reader.commit()
    code, _ = yield from read_python_code(reader, (), is_alone=True)
    if not (yield from _ends_cleanly(reader, context)):
        return None
    parsed = parse_python_calls(code)
    if not all(isinstance(one, CallFound) and context.is_known(one.call.name) for one in parsed or ()):
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
