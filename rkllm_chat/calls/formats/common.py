"""Shared by the body readers: calls in JSON values, and the end of a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ...core.events import CallFound, CallUnreadable
from ...core.messages import ToolCall
from ..incremental_reader import Parsing, Reader
from ..json_repair import parse_lenient_json
from ..literals import Markers

ParsedCalls = list[CallFound | CallUnreadable] | None
"""The calls that a body reader found; None if the text is not a call after all."""


@dataclass(frozen=True, eq=False)
class ReadContext:
    """What a body reader may ask about the offered tools and the accepted formats.

    Attributes:
        is_known: Tells whether a tool has that name.
        parameters_of: Returns the names of the parameters that a tool declares; none if it is unknown.
        openers: Literals that begin a call in one of the accepted formats, longest first.
        turn_ends: What may follow an unmarked call: special tokens, the end of a code fence, another call.
        closers: End markers of the accepted formats, which an unmarked call may have.
    """

    is_known: Callable[[str], bool]
    parameters_of: Callable[[str], Collection[str]]
    openers: tuple[str, ...]
    turn_ends: Markers
    closers: tuple[str, ...] = ()


BodyReader = Callable[[Reader, ReadContext], Parsing[ParsedCalls]]
"""Reads what follows the opener of a candidate call, or an unmarked call."""

Body = Callable[[Reader, ReadContext, tuple[str, ...]], Parsing[ParsedCalls]]
"""Reads what stands between the marks of a call, given the end markers; None if it is of another kind."""

NO_END, WRONG_END, FENCE, NO_OPENER = "missing end marker", "wrong end marker", "fence", "missing start marker"
DOUBLED = "doubled tag"
"""Names of repairs."""

NAME_KEYS = ("name", "tool_name", "tool", "function")
ARGUMENT_KEYS = ("arguments", "parameters", "args")
CALL_KEYS = frozenset((*NAME_KEYS, *ARGUMENT_KEYS, "type", "id", "call_id", "tool_call_id", "index"))
"""The keys that the object of a call may have."""

DEFINITION_KEYS = frozenset({"description", "inputSchema", "input_schema", "outputSchema", "properties"})
"""The keys that tell the definition of a tool from a call."""

_WRONG_END = re.compile(r"</[\w:.-]{1,32}>|\[/[A-Z_]{1,32}\]|\[END_[A-Z_]{1,32}\]")
_END_OF_WRONG = {"<": ">", "[": "]"}


def unreadable_call(fault: Any, detail: str) -> list[CallFound | CallUnreadable]:
    """Return one unreadable call; the scanner adds its original text.

    Args:
        fault: Kind of the error, as in `CallUnreadable`.
        detail: The error in one sentence.
    """
    return [CallUnreadable(fault, detail, "")]


def parse_json_calls(
    text: str,
    repairs: Sequence[str],
    may_close: bool,
    context: ReadContext,
    key: str = "arguments",
    is_bare: bool = False,
) -> ParsedCalls:
    """Parse the calls in a JSON object or array.

    Args:
        text: The JSON, possibly damaged.
        repairs: Repairs that were made before, to be reported with each call.
        may_close: Whether one missing last brace may be added.
        context: Tells what is declared about the tools.
        key: The format's name of the arguments; "" if the only key of an object is the tool: `{"f": {..}}`.
        is_bare: Whether the text has no markers; an entry without arguments, or with other keys, is then not a call.

    Returns:
        None for the definition of a tool; if `is_bare`, for everything that is not written exactly as a call is.
    """
    try:
        value, json_repairs = parse_lenient_json(text, may_close=may_close)
    except ValueError as error:
        return unreadable_call("bad_json", f"The JSON cannot be read: {error}.")
    entries = [_unwrap(entry, not key) for entry in (value if isinstance(value, list) else [value])]
    if any(_is_definition(entry, context) for entry in entries):
        return None
    if is_bare and not all(_is_exactly_call(entry) for entry in entries):
        return None
    calls = [_call_of_value(entry, (*json_repairs, *repairs), key or "arguments") for entry in entries]
    return calls or unreadable_call("bad_json", "The list of calls is empty.")


def _unwrap(value: Any, is_keyed: bool) -> Any:
    """Return the call in `{"type": "function", "function": {..}}`, or in `{"f": {..}}` if calls are keyed."""
    if is_keyed and isinstance(value, dict) and len(value) == 1:
        return {"name": next(iter(value)), "arguments": next(iter(value.values()))}
    if isinstance(value, dict) and isinstance(value.get("function"), dict) and CALL_KEYS.issuperset(value):
        return value["function"]
    return value


def _is_definition(value: Any, context: ReadContext) -> bool:
    """Tell whether a value defines a tool: it describes it, or gives a schema in place of arguments."""
    if not isinstance(value, dict):
        return False
    if not DEFINITION_KEYS.isdisjoint(value):
        return True
    name = next((value[word] for word in NAME_KEYS if isinstance(value.get(word), str)), "")
    for schema in (value[word] for word in ARGUMENT_KEYS if isinstance(value.get(word), dict)):
        looks_like_schema = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
        if looks_like_schema and not {"type", "properties"}.issubset(context.parameters_of(name)):
            return True
    return False


def _is_exactly_call(value: Any) -> bool:
    return isinstance(value, dict) and CALL_KEYS.issuperset(value) and any(word in value for word in ARGUMENT_KEYS)


def _call_of_value(value: Any, repairs: Sequence[str], key: str) -> CallFound | CallUnreadable:
    """Read `{"name": .., "arguments": {..}}`.

    `key` is the format's name of the arguments; another name counts as a repair.
    """
    if not isinstance(value, dict):
        return CallUnreadable("bad_json", "A call is a JSON object.", "")
    name_key = next((word for word in NAME_KEYS if word in value), None)
    if name_key is None:
        return CallUnreadable("bad_json", "The JSON object has no 'name'.", "")
    name = value[name_key]
    if not isinstance(name, str) or not name.strip():
        return CallUnreadable("bad_json", 'The "name" is not the name of a tool.', "")
    if other := next((word for word in value if word not in CALL_KEYS), None):
        return CallUnreadable("bad_json", f'The key "{other[:40]}" does not belong beside "name" and "{key}".', "")
    arguments_key = key if key in value else next((word for word in ARGUMENT_KEYS if word in value), None)
    if arguments_key not in (key, "arguments", None):
        repairs = (*repairs, "parameters for arguments")
    arguments = None if arguments_key is None else value[arguments_key]
    return build_call(name, {} if arguments is None else arguments, repairs)


def build_call(name: str, arguments: Any, repairs: Sequence[str] = ()) -> CallFound | CallUnreadable:
    """Return the call of a tool; `arguments` may be an object, its JSON text, or the whole call once more."""
    if isinstance(arguments, str):
        try:
            arguments, json_repairs = parse_lenient_json(arguments)
        except ValueError:
            arguments, json_repairs = None, ()
        repairs = (*repairs, *json_repairs, "encoded arguments")
    if not isinstance(arguments, dict):
        return CallUnreadable("bad_json", 'The "arguments" are not an object.', "")
    if arguments.keys() == {"name", "arguments"} and arguments["name"] == name:
        return build_call(name, arguments["arguments"], repairs)
    return CallFound(ToolCall(name.strip(), arguments, tuple(dict.fromkeys(repairs))))


def add_repairs(call: CallFound | CallUnreadable, *repairs: str) -> CallFound | CallUnreadable:
    """Return the call with further repairs noted."""
    if isinstance(call, CallUnreadable) or not repairs:
        return call
    return CallFound(replace(call.call, repairs=tuple(dict.fromkeys((*call.call.repairs, *repairs)))))


def read_end_marker(reader: Reader, context: ReadContext, closers: tuple[str, ...]) -> Parsing[tuple[str, ...]]:
    """Consume the end marker after a body and return the repairs: none, a wrong marker, or a missing one."""
    if not closers:
        return ()
    yield from reader.skip_space()
    marker = yield from reader.peek_literal((*closers, *context.openers))  # an opener may begin like an end marker
    if marker in closers:
        reader.take(len(marker))
        return ()
    if marker:
        return (NO_END,)
    return (WRONG_END,) if (yield from skip_wrong_end(reader)) else (NO_END,)


def skip_wrong_end(reader: Reader) -> Parsing[bool]:
    """Consume what looks like the end marker of another format: `</tool>`, `[/TOOL_CALL]`, `[END_TOOL]`."""
    if not (yield from reader.peek_literal(("</", "[/", "[END_"))):
        return False
    marker = yield from reader.peek_until(_END_OF_WRONG[reader.text[reader.at]], 36)
    if not _WRONG_END.fullmatch(marker) or marker in ("</think>",):
        return False
    reader.take(len(marker))
    return True


@lru_cache(256)
def char_class(characters: str, literals: tuple[str, ...] = ()) -> re.Pattern[str]:
    """Return the pattern of one of `characters` or of the first characters of `literals`."""
    return re.compile(f"[{re.escape(''.join(sorted({*characters, *(literal[0] for literal in literals)})))}]")
