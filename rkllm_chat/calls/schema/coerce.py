"""Coerce values to the types of a JSON Schema: JSON values where that is lossless, and texts of a command line.

A valid value stays as it is, so a text stays a text whatever it looks like. Of several variants, the first that the
value can be converted to is taken. Where a schema does not restrict a JSON value, it stays: whether a text is the text
of a list or was meant as text cannot be known. Invalid values are not rejected here but in `arguments.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from itertools import chain
from math import isfinite
from typing import Any

from ...core.strict_json import parse_strict_json
from .resolve import Node, Variant, json_equal
from .validate import TYPE_PREDICATES, allows, is_number
from .wording import ValuePath, describe_type, quote_value

Coerced = tuple[Any, tuple[str, ...]]
"""A value, and what was changed in it: "a.0.b: text to integer"."""

# Patterns are compiled at their first use: compiling all of them takes half the time of a one-shot call.
_INTEGER = r"[+-]?[0-9]+"
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_NULL_WORDS = ("null", "None")
_MAX_EXACT_FLOAT = 2**53
"""Each larger float represents more than one whole number."""


class _Strictness(Enum):
    """How a value is read."""

    MODEL = auto()
    """A JSON value, in which texts may stand for other values, as JSON or Python."""
    TYPED = auto()
    """A text that a user typed where no text is accepted: `+5`, `TRUE`."""
    EXACT = auto()
    """A text that may stay one: any other type must be written as JSON writes it, so `007` is not the number 7."""


_MODEL, _TYPED, _EXACT = _Strictness


def coerce(value: Any, node: Node, path: ValuePath = ()) -> Coerced:
    """Convert a JSON value to the type that a schema expects, if that is lossless; else as near to it as possible.

    Args:
        value: A JSON value.
        node: The schema of the value.
        path: Path of the value, for the notes.

    Raises:
        BudgetExceededError: The step budget of a `BudgetedSchema` root is spent.
        RecursionError: The schema is nested too deep.
    """
    if not isinstance(node.schema, Mapping):
        return value, ()
    if allows(node, value):
        return _floats_to_integers(value, node, path) if _contains_whole_float(value) else (value, ())
    return _convert_by_variants(value, node, node.variants(), _MODEL, path) or (value, ())


def parse_text(text: str, node: Node) -> Any:
    """Convert a text of a command line to a value of the schema.

    A text that looks like a JSON list or object is tried as one before it is tried as a string. The returned value may
    violate other constraints, such as a maximum or an enum.

    Raises:
        ValueError: The text has none of the accepted types; the message completes a sentence that begins with the flag.
    """
    variants = node.variants()
    is_text = any(variant.type == "string" and variant.enum is None for variant in variants)
    if text[:1] in ("[", "{"):
        variants.sort(key=lambda variant: variant.type not in ("array", "object"))
    if converted := _convert_by_variants(text, node, variants, _EXACT if is_text else _TYPED, ()):
        return converted[0]
    raise ValueError(f"must be {describe_type(node)}, not {quote_value(text)}{_explain_json_error(text, variants)}")


def _explain_json_error(text: str, variants: list[Variant]) -> str:
    """Return why a text is not the list or object that the schema requires."""
    types = {variant.type for variant in variants} & {"array", "object"}
    if types and text.lstrip()[:1] in ("[", "{"):
        try:
            parse_strict_json(text)
        except ValueError as error:
            return f" ({error})"
    return " (it is written as JSON)" if types == {"object"} else ""


def _convert_by_variants(
    value: Any, node: Node, variants: list[Variant], how: _Strictness, path: ValuePath
) -> Coerced | None:
    """Return the first conversion that is valid, else the first one; None if there is none."""
    nearest: Coerced | None = None
    for convert in (_convert, _wrap_in_list):
        for candidate in chain.from_iterable(convert(value, variant, how, path) for variant in variants):
            if allows(node, candidate[0]):
                return candidate
            nearest = nearest or candidate
    return nearest


def _convert(value: Any, variant: Variant, how: _Strictness, path: ValuePath) -> Iterator[Coerced]:
    """Yield conversions of the value to one variant, the best first."""
    yield from ((choice, _note(path, value, choice)) for choice in _choose(value, variant, how))
    if how is _MODEL:
        yield from ((choice, (f"{_format_path(path)}: spelling",)) for choice in _choose_alike(value, variant))
    if how is _MODEL and (not variant.type or TYPE_PREDICATES[variant.type](value)):
        yield _coerce_inside(value, variant, path)
        return
    for converted in _CONVERSIONS[variant.type](value, how):
        inner, notes = _coerce_inside(converted, variant, path) if how is _MODEL else (converted, ())
        yield inner, (*_note(path, value, converted), *notes)


def _choose(value: Any, variant: Variant, how: _Strictness) -> Iterator[Any]:
    """Yield the choice whose JSON text this is, or that is the JSON text of this; from a command line, also this."""
    if variant.enum is None:
        return
    readings = list(_parse(_strip(value, how)) if isinstance(value, str) else _to_text(value, how))
    for reading in readings if how is _MODEL else [value, *readings]:
        yield from (choice for choice in variant.enum if json_equal(choice, reading))
    if how is not _MODEL and not variant.type:
        yield from (reading for reading in readings if not isinstance(reading, str))


def _choose_alike(value: Any, variant: Variant) -> Iterator[str]:
    """Yield the only choice that differs from a text in nothing but case, blanks and hyphens."""
    if variant.enum is None or not isinstance(value, str):
        return
    alike = [choice for choice in variant.enum if isinstance(choice, str) and _fold(choice) == _fold(value)]
    if len(alike) == 1 and _fold(value):
        yield alike[0]


def _fold(text: str) -> str:
    return re.sub(r"[\s_-]+", "", text).casefold()


def _wrap_in_list(value: Any, variant: Variant, how: _Strictness, path: ValuePath) -> Iterator[Coerced]:
    """Yield the value as the only entry of a list.

    A JSON value only if the list declares its items and the value is a valid one; never a text that begins like a list
    or an object, or that may be several texts ("a, b"). Values of another type than text are told apart by commas.
    """
    if variant.type != "array":
        return
    item = variant.item(0)
    is_broken = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
    if how is _TYPED:
        yield [parse_text(value, item)], ()
    elif how is _MODEL and item.schema and value is not None and not isinstance(value, list) and not is_broken:
        parts = re.split(r"[,;，、；]", value) if isinstance(value, str) else []
        if len(parts) > 1:
            entries = [coerce(part.strip(), item, (*path, index))[0] for index, part in enumerate(parts)]
            if all(allows(item, entry) for entry in entries) and not _is_free_text(item):
                yield entries, (f"{_format_path(path)}: text to list",)
            return
        entry, notes = coerce(value, item, (*path, 0))
        if allows(item, entry):
            yield [entry], (f"{_format_path(path)}: {_type_word(value)} into list", *notes)


def _is_free_text(node: Node) -> bool:
    """Tell whether a value may be a text that is not one of a few."""
    return any(variant.type in ("string", "") and variant.enum is None for variant in node.variants())


def _coerce_inside(value: Any, variant: Variant, path: ValuePath) -> Coerced:
    if isinstance(value, dict):
        return _coerce_members(value, variant, path)
    if not isinstance(value, list):
        return value, ()
    items = [coerce(item, variant.item(index), (*path, index)) for index, item in enumerate(value)]
    return [item for item, _ in items], tuple(note for _, notes in items for note in notes)


def _coerce_members(value: dict[str, Any], variant: Variant, path: ValuePath) -> Coerced:
    """Coerce the members of an object.

    For an optional member, a null that is not valid, and an empty text or the word for null where none can be, are left
    out. An undeclared name that is spelled like the only missing one is that one.
    """
    known, required = variant.properties, variant.required
    members: dict[str, Any] = {}
    notes: list[str] = []
    missing = [name for name in required if name not in value]
    for given, item in value.items():
        name = missing[0] if len(missing) == 1 and given not in known and _fold(given) == _fold(missing[0]) else given
        if name != given:
            notes.append(f"{_format_path((*path, name))}: spelling")
        child = variant.part(known[name] if name in known else variant.additional(name))
        is_nothing = isinstance(item, str) and item.strip() in (("",) if allows(child, None) else ("", *_NULL_WORDS))
        if name not in required and is_nothing and not (_is_free_text(child) or allows(child, item)):
            notes.append(f"{_format_path((*path, name))}: {'null' if item.strip() else 'empty text'} left out")
        elif name not in required and item is None and not allows(child, None):
            notes.append(f"{_format_path((*path, name))}: null left out")
        elif name in members:
            members[given] = item
        else:
            members[name], more = coerce(item, child, (*path, name))
            notes += more
    return members, tuple(notes)


def _strip(value: Any, how: _Strictness) -> str:
    """Return a text as it is read; "" for any other value."""
    return "" if not isinstance(value, str) else value.strip() if how is _MODEL else value


def _parse(text: str) -> Iterator[Any]:
    try:
        yield parse_strict_json(text)
    except ValueError:
        return


def _to_text(value: Any, _how: _Strictness) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        yield json.dumps(value)


def _to_integer(value: Any, how: _Strictness) -> Iterator[int]:
    for number in _to_number(value, how):
        if isinstance(number, int):
            yield number
        elif how is _MODEL and number.is_integer() and abs(number) <= _MAX_EXACT_FLOAT:
            yield int(number)


def _to_number(value: Any, how: _Strictness) -> Iterator[int | float]:
    text = _strip(value, how)
    if how is _MODEL:
        yield from filter(is_number, _parse(text))
        return
    is_whole = re.fullmatch(_INTEGER, text)
    if is_whole or re.fullmatch(_NUMBER, text):
        try:
            number = int(text) if is_whole else float(text)
        except ValueError:  # more than 4300 digits
            return
        if (is_whole or isfinite(number)) and (how is _TYPED or repr(number) == text):
            yield number


def _to_boolean(value: Any, how: _Strictness) -> Iterator[bool]:
    word = _strip(value, how) if how is _EXACT else _strip(value, how).lower()
    if word in ("true", "false"):
        yield word == "true"


def _to_null(value: Any, how: _Strictness) -> Iterator[None]:
    if _strip(value, how) in {_MODEL: _NULL_WORDS, _TYPED: ("null",), _EXACT: ()}[how]:
        yield None


def _to_list(value: Any, how: _Strictness) -> Iterator[list[Any]]:
    yield from (candidate for candidate in _to_container(value, how) if isinstance(candidate, list))


def _to_object(value: Any, how: _Strictness) -> Iterator[dict[str, Any]]:
    if how is _MODEL and isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        yield value[0]
    yield from (candidate for candidate in _to_container(value, how) if isinstance(candidate, dict))


def _to_container(value: Any, how: _Strictness) -> Iterator[Any]:
    """Yield what a text is as JSON; in a JSON value, else as a Python literal."""
    text = _strip(value, how)
    if text.lstrip()[:1] not in ("[", "{"):
        return
    try:
        yield parse_strict_json(text)
    except ValueError:
        if how is _MODEL:
            from ..python_parser import parse_literal

            try:
                yield parse_literal(text)
            except ValueError:
                return


def _to_anything(value: Any, how: _Strictness) -> Iterator[Any]:
    """Yield the JSON value of a text, then the text. A number stays text, because it may be a postal code."""
    yield from (parsed for parsed in _parse(_strip(value, how)) if not is_number(parsed))
    yield value


_CONVERSIONS = {
    "string": _to_text,
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
    "null": _to_null,
    "array": _to_list,
    "object": _to_object,
    "": _to_anything,
}


def _contains_whole_float(value: Any) -> bool:
    """Tell whether a value contains a float such as 3.0."""
    if isinstance(value, list | dict):
        return any(map(_contains_whole_float, value if isinstance(value, list) else value.values()))
    return isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT_FLOAT


def _floats_to_integers(value: Any, node: Node, path: ValuePath) -> Coerced:
    """Replace 3.0 by 3 in a valid value where the schema expects whole numbers.

    In JSON Schema both are the same number, but many servers reject the float.
    """
    variants = node.variants()
    if isinstance(value, list | dict):
        return _coerce_inside(value, variants[0], path) if len(variants) == 1 else (value, ())
    is_whole = {variant.type for variant in variants} & {"integer", "number", ""} == {"integer"}
    return (int(value), _note(path, value, int(value))) if is_whole else (value, ())


_TYPE_WORDS = {bool: "boolean", int: "integer", float: "number", str: "text", list: "list", dict: "object"}


def _type_word(value: Any) -> str:
    return _TYPE_WORDS.get(type(value), "null")


def _note(path: ValuePath, before: Any, after: Any) -> tuple[str, ...]:
    """Describe the change of a value at a path."""
    one, other = _type_word(before), _type_word(after)
    return (f"{_format_path(path)}: {f'{one} to {other}' if one != other else 'quotes taken off'}",)


def _format_path(path: ValuePath) -> str:
    return ".".join(map(str, path))
