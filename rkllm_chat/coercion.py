"""Values turned towards a JSON Schema where nothing is lost on the way. It refuses nothing: `arguments.py` does.

A value that fits stays as it is, so a text stays a text whatever it looks like. Of several forms that a value may have,
the first that it can be turned to counts. Where a schema says nothing of a value, it stays: whether a text is the text
of a list or was meant as a text cannot be told then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from .exact import exact_json
from .faults import IS_KIND, is_fit, is_number
from .literals import read_literal
from .schemas import choices_of, further_of, item_of, kind_of, leaves_of, properties_of, required_of, same

if TYPE_CHECKING:
    from .faults import Place

LARGEST_WHOLE = 2**53
"""Beyond this a float is not one whole number, but several."""

Coerced = tuple[Any, tuple[str, ...]]
"""A value, and what was done to it: "a.0.b: text to integer"."""


def coerce(value: Any, schema: Any, root: Mapping[str, Any], place: Place = ()) -> Coerced:
    """The value as the schema wants it if that loses nothing, else as near as it comes.

    Raises what a bounded root raises, and RecursionError for a schema that is nested too deep.
    """
    if not isinstance(schema, Mapping):
        return value, ()
    if is_fit(value, schema, root):
        return make_whole(value, schema, root, place) if holds_whole_float(value) else (value, ())
    leaves = leaves_of(schema, root)
    nearest: Coerced | None = None
    for read in (read_as, read_as_entry):
        for found in (found for leaf in leaves for found in read(value, leaf, root, place)):
            if is_fit(found[0], schema, root):
                return found
            nearest = nearest or found
    return nearest or (value, ())


def read_as(value: Any, leaf: Mapping[str, Any], root: Mapping[str, Any], place: Place) -> Iterator[Coerced]:
    """What the value may mean by one form."""
    kind, choices = kind_of(leaf), choices_of(leaf)
    if choices is not None:
        found = choose(value, choices)
        yield from ((choice, note(place, value, choice)) for choice in found)
        if found:
            return
    if not kind or IS_KIND[kind](value):
        yield coerce_inside(value, leaf, root, place)
        return
    for turned in TURNS[kind](value):
        inner, notes = coerce_inside(turned, leaf, root, place)
        yield inner, (*note(place, value, turned), *notes)


def read_as_entry(value: Any, leaf: Mapping[str, Any], root: Mapping[str, Any], place: Place) -> Iterator[Coerced]:
    """A list of one entry, where the list says what its entries are and this is one; never of what begins as a list."""
    items = item_of(leaf, 0)
    is_broken = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
    if kind_of(leaf) != "array" or not items or value is None or isinstance(value, list) or is_broken:
        return
    entry, notes = coerce(value, items, root, (*place, 0))
    if is_fit(entry, items, root):
        yield [entry], (f"{name_place(place)}: {kind_word(value)} into list", *notes)


def coerce_inside(value: Any, leaf: Mapping[str, Any], root: Mapping[str, Any], place: Place) -> Coerced:
    if isinstance(value, dict):
        return coerce_members(value, leaf, root, place)
    if not isinstance(value, list):
        return value, ()
    items = [coerce(item, item_of(leaf, index), root, (*place, index)) for index, item in enumerate(value)]
    return [item for item, _ in items], tuple(one for _, notes in items for one in notes)


def coerce_members(value: dict[str, Any], leaf: Mapping[str, Any], root: Mapping[str, Any], place: Place) -> Coerced:
    """The object with its members coerced; an empty text for an optional one that cannot be text is left out."""
    known, required = properties_of(leaf), required_of(leaf)
    found: dict[str, Any] = {}
    notes: list[str] = []
    for name, item in value.items():
        child = known[name] if name in known else further_of(leaf, name, True, root)
        if name not in required and is_blank(item) and not may_be_text(item, child, root):
            notes.append(f"{name_place((*place, name))}: empty text left out")
            continue
        found[name], more = coerce(item, child, root, (*place, name))
        notes += more
    return found, tuple(notes)


def is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def may_be_text(value: str, schema: Any, root: Mapping[str, Any]) -> bool:
    kinds = {kind_of(leaf) for leaf in leaves_of(schema, root)}
    return bool(kinds & {"string", ""}) or is_fit(value, schema, root)


def choose(value: Any, choices: list[Any]) -> list[Any]:
    """The choice whose JSON text this is, or that is the JSON text of this."""
    texts = list(parse(value.strip())) if isinstance(value, str) else list(to_text(value))
    return [choice for choice in choices for text in texts if same(choice, text)][:1]


def parse(text: str) -> Iterator[Any]:
    try:
        yield exact_json(text)
    except ValueError:
        return


def to_text(value: Any) -> Iterator[str]:
    if isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        yield json.dumps(value)


def to_integer(value: Any) -> Iterator[int]:
    for number in to_number(value):
        if isinstance(number, int):
            yield number
        elif number.is_integer() and abs(number) <= LARGEST_WHOLE:
            yield int(number)


def to_number(value: Any) -> Iterator[int | float]:
    if isinstance(value, str):
        yield from (number for number in parse(value.strip()) if is_number(number))


def to_boolean(value: Any) -> Iterator[bool]:
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in ("true", "false"):
        yield word == "true"


def to_null(value: Any) -> Iterator[None]:
    if isinstance(value, str) and value.strip() in ("null", "None"):
        yield None


def to_list(value: Any) -> Iterator[list[Any]]:
    yield from (found for found in read_container(value) if isinstance(found, list))


def to_object(value: Any) -> Iterator[dict[str, Any]]:
    yield from (found for found in read_container(value) if isinstance(found, dict))


def read_container(value: Any) -> Iterator[Any]:
    """What a text is as JSON, else as Python would write it."""
    text = value.strip() if isinstance(value, str) else ""
    if text[:1] in ("[", "{"):
        try:
            yield exact_json(text)
        except ValueError:
            yield from read_literal(text)


TURNS = {
    "string": to_text,
    "integer": to_integer,
    "number": to_number,
    "boolean": to_boolean,
    "null": to_null,
    "array": to_list,
    "object": to_object,
}


def holds_whole_float(value: Any) -> bool:
    """Whether there is a 3.0 in a value."""
    if isinstance(value, list | dict):
        return any(map(holds_whole_float, value if isinstance(value, list) else value.values()))
    return isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_WHOLE


def make_whole(value: Any, schema: Any, root: Mapping[str, Any], place: Place) -> Coerced:
    """A value that fits, with 3 for 3.0 where the schema wants whole numbers: in JSON Schema that is the same number,
    but many a server turns it down."""
    leaves = leaves_of(schema, root)
    kinds = {kind_of(leaf) for leaf in leaves}
    if isinstance(value, list | dict):
        return coerce_inside(value, leaves[0], root, place) if len(leaves) == 1 else (value, ())
    is_meant = holds_whole_float(value) and kinds & WHOLE == {"integer"}
    return (int(value), note(place, value, int(value))) if is_meant else (value, ())


WHOLE = {"integer", "number", ""}
WORDS = {bool: "boolean", int: "integer", float: "number", str: "text", list: "list", dict: "object"}


def kind_word(value: Any) -> str:
    return WORDS.get(type(value), "null")


def note(place: Place, before: Any, after: Any) -> tuple[str, ...]:
    """What was done to the value at a place, in words."""
    one, other = kind_word(before), kind_word(after)
    return (f"{name_place(place)}: {f'{one} to {other}' if one != other else 'quotes taken off'}",)


def name_place(place: Place) -> str:
    return ".".join(map(str, place))
