"""Coerce values to the types of a JSON Schema where that is lossless.

A valid value stays as it is, so a text stays a text whatever it looks like. Of several variants, the first that the
value can be converted to is taken. Where a schema does not restrict a value, it stays: whether a text is the text of a
list or was meant as text cannot be known. Invalid values are not rejected here but in `arguments.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any

from ...core.strict_json import parse_strict_json
from ..python_parser import parse_literal
from .resolve import (
    additional_schema,
    enum_values,
    item_schema,
    json_equal,
    list_variants,
    properties_of,
    required_of,
    type_of,
)
from .validate import TYPE_PREDICATES, is_number, is_valid

if TYPE_CHECKING:
    from .wording import ValuePath

_MAX_EXACT_FLOAT = 2**53
"""Each larger float represents more than one whole number."""

Coerced = tuple[Any, tuple[str, ...]]
"""A value, and what was changed in it: "a.0.b: text to integer"."""


def coerce(value: Any, schema: Any, root: Mapping[str, Any], path: ValuePath = ()) -> Coerced:
    """Convert a value to the type that a schema expects, if that is lossless; else as near to it as possible.

    Args:
        value: A JSON value.
        schema: The schema of the value.
        root: The document that references resolve against.
        path: Path of the value, for the notes.

    Raises:
        BudgetExceededError: The step budget of a `BudgetedSchema` root is spent.
        RecursionError: The schema is nested too deep.
    """
    if not isinstance(schema, Mapping):
        return value, ()
    if is_valid(value, schema, root):
        return _floats_to_integers(value, schema, root, path) if _contains_whole_float(value) else (value, ())
    variants = list_variants(schema, root)
    nearest: Coerced | None = None
    for read in (_convert, _wrap_in_list):
        for candidate in chain.from_iterable(read(value, variant, root, path) for variant in variants):
            if is_valid(candidate[0], schema, root):
                return candidate
            nearest = nearest or candidate
    return nearest or (value, ())


def _convert(value: Any, variant: Mapping[str, Any], root: Mapping[str, Any], path: ValuePath) -> Iterator[Coerced]:
    """Yield conversions of the value to one variant."""
    type_name, choices = type_of(variant), enum_values(variant)
    if choices is not None:
        matching = _choose(value, choices)
        yield from ((choice, _note(path, value, choice)) for choice in matching)
        if matching:
            return
    if not type_name or TYPE_PREDICATES[type_name](value):
        yield _coerce_inside(value, variant, root, path)
        return
    for converted in _CONVERSIONS[type_name](value):
        inner, notes = _coerce_inside(converted, variant, root, path)
        yield inner, (*_note(path, value, converted), *notes)


def _wrap_in_list(
    value: Any, variant: Mapping[str, Any], root: Mapping[str, Any], path: ValuePath
) -> Iterator[Coerced]:
    """Yield the value as the only entry of a list.

    Only if the list declares its items and the value is a valid one; never for a text that begins like a list or an
    object.
    """
    items = item_schema(variant, 0)
    is_broken = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
    if type_of(variant) != "array" or not items or value is None or isinstance(value, list) or is_broken:
        return
    entry, notes = coerce(value, items, root, (*path, 0))
    if is_valid(entry, items, root):
        yield [entry], (f"{_format_path(path)}: {_type_word(value)} into list", *notes)


def _coerce_inside(value: Any, variant: Mapping[str, Any], root: Mapping[str, Any], path: ValuePath) -> Coerced:
    if isinstance(value, dict):
        return _coerce_members(value, variant, root, path)
    if not isinstance(value, list):
        return value, ()
    items = [coerce(item, item_schema(variant, index), root, (*path, index)) for index, item in enumerate(value)]
    return [item for item, _ in items], tuple(one for _, notes in items for one in notes)


def _coerce_members(
    value: dict[str, Any], variant: Mapping[str, Any], root: Mapping[str, Any], path: ValuePath
) -> Coerced:
    """Coerce the members of an object.

    For an optional member, a null that is not valid, and an empty text where none can be, are left out.
    """
    known, required = properties_of(variant), required_of(variant)
    members: dict[str, Any] = {}
    notes: list[str] = []
    for name, item in value.items():
        child = known[name] if name in known else additional_schema(variant, name, True, root)
        if name not in required and _is_blank(item) and not _may_be_text(item, child, root):
            notes.append(f"{_format_path((*path, name))}: empty text left out")
            continue
        if name not in required and item is None and not is_valid(None, child, root):
            notes.append(f"{_format_path((*path, name))}: null left out")
            continue
        members[name], more = coerce(item, child, root, (*path, name))
        notes += more
    return members, tuple(notes)


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _may_be_text(value: str, schema: Any, root: Mapping[str, Any]) -> bool:
    types = {type_of(variant) for variant in list_variants(schema, root)}
    return bool(types & {"string", ""}) or is_valid(value, schema, root)


def _choose(value: Any, choices: list[Any]) -> list[Any]:
    """Return the choice whose JSON text this is, or that is the JSON text of this."""
    texts = list(_parse(value.strip())) if isinstance(value, str) else list(_to_text(value))
    return [choice for choice in choices for text in texts if json_equal(choice, text)][:1]


def _parse(text: str) -> Iterator[Any]:
    try:
        yield parse_strict_json(text)
    except ValueError:
        return


def _to_text(value: Any) -> Iterator[str]:
    if isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        yield json.dumps(value)


def _to_integer(value: Any) -> Iterator[int]:
    for number in _to_number(value):
        if isinstance(number, int):
            yield number
        elif number.is_integer() and abs(number) <= _MAX_EXACT_FLOAT:
            yield int(number)


def _to_number(value: Any) -> Iterator[int | float]:
    if isinstance(value, str):
        yield from (number for number in _parse(value.strip()) if is_number(number))


def _to_boolean(value: Any) -> Iterator[bool]:
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in ("true", "false"):
        yield word == "true"


def _to_null(value: Any) -> Iterator[None]:
    if isinstance(value, str) and value.strip() in ("null", "None"):
        yield None


def _to_list(value: Any) -> Iterator[list[Any]]:
    yield from (candidate for candidate in _read_container(value) if isinstance(candidate, list))


def _to_object(value: Any) -> Iterator[dict[str, Any]]:
    yield from (candidate for candidate in _read_container(value) if isinstance(candidate, dict))


def _read_container(value: Any) -> Iterator[Any]:
    """Yield what a text is as JSON, else as a Python literal."""
    text = value.strip() if isinstance(value, str) else ""
    if text[:1] in ("[", "{"):
        for parse in (parse_strict_json, parse_literal):
            try:
                yield parse(text)
            except ValueError:
                continue
            return


_CONVERSIONS = {
    "string": _to_text,
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
    "null": _to_null,
    "array": _to_list,
    "object": _to_object,
}


def _contains_whole_float(value: Any) -> bool:
    """Tell whether a value contains a float such as 3.0."""
    if isinstance(value, list | dict):
        return any(map(_contains_whole_float, value if isinstance(value, list) else value.values()))
    return isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT_FLOAT


def _floats_to_integers(value: Any, schema: Any, root: Mapping[str, Any], path: ValuePath) -> Coerced:
    """Replace 3.0 by 3 in a valid value where the schema expects whole numbers.

    In JSON Schema both are the same number, but many servers reject the float.
    """
    variants = list_variants(schema, root)
    types = {type_of(variant) for variant in variants}
    if isinstance(value, list | dict):
        return _coerce_inside(value, variants[0], root, path) if len(variants) == 1 else (value, ())
    is_whole = _contains_whole_float(value) and types & _NUMERIC_TYPES == {"integer"}
    return (int(value), _note(path, value, int(value))) if is_whole else (value, ())


_NUMERIC_TYPES = {"integer", "number", ""}
_TYPE_WORDS = {bool: "boolean", int: "integer", float: "number", str: "text", list: "list", dict: "object"}


def _type_word(value: Any) -> str:
    return _TYPE_WORDS.get(type(value), "null")


def _note(path: ValuePath, before: Any, after: Any) -> tuple[str, ...]:
    """Describe the change of a value at a path."""
    one, other = _type_word(before), _type_word(after)
    return (f"{_format_path(path)}: {f'{one} to {other}' if one != other else 'quotes taken off'}",)


def _format_path(path: ValuePath) -> str:
    return ".".join(map(str, path))
