"""Calls without a marker: only where a reply begins or a call has just ended, and only of a known tool.

Turned down again as soon as it cannot be a call, so that an answer in JSON is held back for its first name only.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..events import CallFound, CallGarbled
from ..reader import Reader, Reading
from .found import ARGUMENTS, NAMES, Found, calls_of_text
from .jsons import read_body
from .named import read_arguments, read_word
from .python import begins_call, calls_of_code, read_chatglm, read_code

IsKnown = Callable[[str], bool]
Bare = Callable[[Reader, IsKnown], Reading[Found]]

BEHIND = ("<|", "<｜", "</s>", "<eos>", "<end_of_turn>", "```", "~~~")
"""What may follow a call without a marker, besides another call: control tokens and the end of a fence."""

SEPARATORS = (";", ",")

_HEAD = re.compile(r"""(?:\[\s*)?(?:\{\s*(?:["'“]?(\w*)["'”]?\s*(?::\s*(\S.*)?)?)?)?""", re.DOTALL)
_TEXT = re.compile(r"""["'“]([^"'”]*)(["'”]?)""")


def read_json_head(reader: Reader, is_known: IsKnown) -> Reading[bool]:
    """Whether the JSON that begins here may be a call, by its first key and value; consumes nothing."""
    while (judged := judge(reader.text[reader.at : reader.at + reader.longest_head], is_known)) is None:
        if len(reader.text) - reader.at >= reader.longest_head:
            return False
        yield from reader.more()
    return judged


def judge(head: str, is_known: IsKnown) -> bool | None:
    """Whether JSON that begins so may be a call; None while that is open."""
    found = _HEAD.fullmatch(head)
    if not found:
        return False
    key, value = found[1], found[2]
    if not value:
        return None
    if key in ARGUMENTS:
        return value[0] in "{\"'“"
    if key in ("type", "function") and value[0] == "{":
        return key == "function"
    named = _TEXT.match(value)
    if not named:
        return False
    if not named[2]:
        return None
    return named[1] == "function" if key == "type" else key in NAMES and is_known(named[1].strip())


def read_bare_json(reader: Reader, is_known: IsKnown) -> Reading[Found]:
    """Llama 3, xLAM: `{"name": .., "parameters": {..}}`, several joined by `;`, or an array of them."""
    if not (yield from reader.next_of(("{", "["))) or not (yield from read_json_head(reader, is_known)):
        return None
    reader.commit()
    body = yield from read_body(reader, ())
    if isinstance(body, CallGarbled):
        return [body]
    if not (yield from is_behind(reader)):
        return None
    calls = calls_of_text(body.text, (), may_close=False, key="parameters", is_bare=True)
    is_meant = calls and all(isinstance(one, CallGarbled) or is_known(one.call.name) for one in calls)
    return calls if is_meant else None


def is_behind(reader: Reader) -> Reading[bool]:
    """Whether what follows may follow a bare call: another, which a separator may stand before, or nothing more."""
    yield from reader.skip_space()
    for separator in SEPARATORS:
        yield from reader.skip(separator)
    yield from reader.skip_space()
    return (yield from reader.is_at_end()) or bool((yield from reader.next_of((*BEHIND, "{", "["))))


def read_bare_list(reader: Reader, is_known: IsKnown) -> Reading[Found]:
    """`[f(x='a'), g()]`."""
    return (yield from read_bare_python(reader, is_known)) if (yield from reader.next_is("[")) else None


def read_bare_python(reader: Reader, is_known: IsKnown) -> Reading[Found]:
    """`[f(x='a'), g()]`, and `f(x='a')` alone; no positional arguments."""
    if not is_known((yield from begins_call(reader))):
        return None
    reader.commit()
    code, _ = yield from read_code(reader, (), is_alone=True)
    if not (yield from is_behind(reader)):
        return None
    found = calls_of_code(code)
    if not all(isinstance(one, CallFound) and is_known(one.call.name) for one in found or ()):
        return None
    return found


def read_name_line(reader: Reader, is_known: IsKnown) -> Reading[Found]:
    """GLM-4, Functionary, ChatGLM3: a line with a tool's name, then JSON, or Python in a fence."""
    name = yield from read_word(reader)
    if not is_known(name) or not (yield from reader.skip("\n")):
        return None
    if (yield from reader.next_is("```python")):
        return (yield from read_chatglm(reader, name))
    return (yield from read_arguments(reader, name, ()))


def skip_all_line(reader: Reader, _is_known: IsKnown) -> Reading[Found]:
    """Functionary: the line `all`, behind which stands text."""
    return [] if (yield from reader.skip("all\n")) else None
