"""What the readers of bodies have in common: the call in a JSON value, and how a call ends. It knows no marker."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..events import CallFound, CallGarbled
from ..messages import ToolCall
from ..reader import Reader, Reading
from .damaged import read_json

DEEPEST = 64

Found = list[CallFound | CallGarbled] | None
"""The calls of a region; None when it is no call after all."""

NO_END, WRONG_END, FENCE = "missing end marker", "wrong end marker", "fence"
"""Names of repairs."""

NAMES = ("name", "tool_name", "tool", "function")
ARGUMENTS = ("arguments", "parameters", "args")

_WRONG_END = re.compile(r"</[\w:.-]{1,32}>|\[/[A-Z_]{1,32}\]|\[END_[A-Z_]{1,32}\]")
_END_OF_WRONG = {"<": ">", "[": "]"}


def garbled(fault: Any, detail: str) -> list[CallFound | CallGarbled]:
    """A call that cannot be read; whoever records what was consumed adds how it was written."""
    return [CallGarbled(fault, detail, "")]


def calls_of_text(
    text: str, repairs: Sequence[str], may_close: bool, key: str = "arguments", is_bare: bool = False
) -> Found:
    """The calls in a JSON object or array; None where one that `is_bare` of markers has no arguments."""
    try:
        value, mended = read_json(text, may_close=may_close)
    except ValueError as error:
        return garbled("bad_json", f"The JSON cannot be read: {error}.")
    found: list[CallFound | CallGarbled] = []
    entries = value if isinstance(value, list) else [value]
    if is_bare and not all(has_arguments(entry) for entry in entries):
        return None
    for entry in entries:
        found.append(call_of_value(entry, (*mended, *repairs), key))
    return found or garbled("bad_json", "The list of calls is empty.")


def has_arguments(value: Any) -> bool:
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    return isinstance(value, dict) and any(word in value for word in ARGUMENTS)


def call_of_value(value: Any, repairs: Sequence[str], key: str) -> CallFound | CallGarbled:
    """The call in `{"name": .., "arguments": {..}}`, also wrapped as `{"type": "function", "function": {..}}`.

    `key` is what the form calls the arguments; another word for them is a repair.
    """
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict):
        return CallGarbled("bad_json", "A call is a JSON object.", "")
    named = next((word for word in NAMES if word in value), None)
    if named is None:
        return CallGarbled("bad_json", "The JSON object has no 'name'.", "")
    name = value[named]
    if not isinstance(name, str) or not name.strip():
        return CallGarbled("bad_json", 'The "name" is not the name of a tool.', "")
    given = key if key in value else next((word for word in ARGUMENTS if word in value), None)
    if given not in (key, "arguments", None):
        repairs = (*repairs, "parameters for arguments")
    return call_with(name, {} if given is None else value[given], repairs)


def call_with(name: str, arguments: Any, repairs: Sequence[str] = ()) -> CallFound | CallGarbled:
    """The call of a tool with these arguments, which may have been written as text."""
    if isinstance(arguments, str):
        try:
            arguments, mended = read_json(arguments)
        except ValueError:
            arguments, mended = None, ()
        repairs = (*repairs, *mended, "encoded arguments")
    if not isinstance(arguments, dict):
        return CallGarbled("bad_json", 'The "arguments" are not an object.', "")
    return CallFound(ToolCall(name.strip(), arguments, tuple(dict.fromkeys(repairs))))


def repaired(found: CallFound | CallGarbled, *repairs: str) -> CallFound | CallGarbled:
    """The same call with these repairs too."""
    if isinstance(found, CallGarbled):
        return found
    return CallFound(replace(found.call, repairs=tuple(dict.fromkeys((*found.call.repairs, *repairs)))))


def read_end(reader: Reader, closers: tuple[str, ...]) -> Reading[tuple[str, ...]]:
    """Consumes the end marker behind a body that has ended by itself, and says what was wrong with it."""
    if not closers:
        return ()
    yield from reader.skip_space()
    closer = yield from reader.next_of(closers)
    if closer:
        reader.take(len(closer))
        return ()
    return (WRONG_END,) if (yield from skip_wrong_end(reader)) else (NO_END,)


def skip_wrong_end(reader: Reader) -> Reading[bool]:
    """Consumes what looks like the end marker of another form: `</tool>`, `[/TOOL_CALL]`, `[END_TOOL]`."""
    if not (yield from reader.next_of(("</", "[/", "[END_"))):
        return False
    written = yield from reader.ahead_to(_END_OF_WRONG[reader.text[reader.at]], 36)
    if not _WRONG_END.fullmatch(written) or written in ("</think>",):
        return False
    reader.take(len(written))
    return True
