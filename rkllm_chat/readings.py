"""One text becomes one value, as a schema wants it. It knows no flags.

Nothing is guessed: where a schema wants text, the text stays as it is, and where it wants text *or* something else, the
something else must be written exactly as JSON writes it, so that `007` is never the number 7.
"""

from __future__ import annotations

import json
import re
from math import isfinite

from .exact import exact_json
from .faults import is_fit, quote
from .schemas import choices_of, describe, item_of, kind_of, leaves_of, same

TYPE_CHECKING = False  # importing typing costs 2 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# Patterns are compiled when they are first needed: all of them together cost as much as half a call.
INTEGER = r"[+-]?[0-9]+"
NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


def read_text(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """The value that a text means by a schema: by the first form it may have that the text fits.

    What reads like JSON of a list or an object is one, before it is text. A value may still be at fault (too large,
    not among the choices); one that is not even of the kind raises ValueError, the end of a sentence.
    """
    leaves = leaves_of(schema, root)
    strict = any(kind_of(leaf) == "string" and choices_of(leaf) is None for leaf in leaves)
    if text[:1] in ("[", "{"):
        leaves.sort(key=lambda leaf: kind_of(leaf) not in ("array", "object"))
    faulty: list[Any] = []
    for read in (readings, entry_readings):
        for value in (value for leaf in leaves for value in read(text, leaf, root, strict)):
            if is_fit(value, schema, root):
                return value
            faulty.append(value)
    if faulty:
        return faulty[0]
    raise ValueError(f"must be {describe(schema, root)}, not {quote(text)}{broken_json(text, leaves)}")


def broken_json(text: str, leaves: list[dict[str, Any]]) -> str:
    """Why a text that was to be a list or an object is none."""
    wanted = {kind_of(leaf) for leaf in leaves} & {"array", "object"}
    if wanted and text.lstrip()[:1] in ("[", "{"):
        try:
            exact_json(text)
        except ValueError as error:
            return f" ({error})"
    return " (it is written as JSON)" if wanted == {"object"} else ""


def readings(text: str, leaf: Mapping[str, Any], root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    """The values that a text may mean by one form, the best first; `strict`: it may also stay text."""
    choices = choices_of(leaf)
    if choices is not None:
        yield from (choice for choice in choices if isinstance(choice, str) and choice == text)
        parsed = list(parse(text, strict=False))
        yield from (choice for choice in choices for value in parsed if same(choice, value))
        yield from (value for value in parsed if not isinstance(value, str) and kind_of(leaf) == "")
    yield from READINGS[kind_of(leaf)](text, leaf, root, strict)


def parse(text: str, strict: bool) -> Iterator[Any]:
    """The JSON value that a text is; `strict`: only as JSON itself would write it."""
    try:
        value = exact_json(text)
    except ValueError:
        return
    if not strict or isinstance(value, list | dict) or json.dumps(value, ensure_ascii=False) == text:
        yield value


def read_string(text: str, _leaf: Mapping[str, Any], _root: Mapping[str, Any], _strict: bool) -> Iterator[Any]:
    yield text


def read_integer(text: str, _leaf: Mapping[str, Any], _root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    try:
        number = int(text) if re.fullmatch(INTEGER, text) else None
    except ValueError:  # more than 4300 digits
        return
    if number is not None and (not strict or str(number) == text):
        yield number


def read_number(text: str, leaf: Mapping[str, Any], root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    yield from read_integer(text, leaf, root, strict)
    if not re.fullmatch(INTEGER, text) and re.fullmatch(NUMBER, text):
        number = float(text)
        if isfinite(number) and (not strict or repr(number) == text):
            yield number


def read_boolean(text: str, _leaf: Mapping[str, Any], _root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    word = text if strict else text.lower()
    if word in ("true", "false"):
        yield word == "true"


def read_null(text: str, _leaf: Mapping[str, Any], _root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    if text == "null" and not strict:
        yield None


def read_list(text: str, _leaf: Mapping[str, Any], _root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    yield from (value for value in parse(text, strict) if isinstance(value, list))


def entry_readings(text: str, leaf: Mapping[str, Any], root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    """A list of one entry, where a text can be nothing else."""
    if kind_of(leaf) == "array" and not strict:
        yield [read_text(text, item_of(leaf, 0), root)]


def read_object(text: str, _leaf: Mapping[str, Any], _root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    yield from (value for value in parse(text, strict) if isinstance(value, dict))


def read_anything(text: str, _leaf: Mapping[str, Any], _root: Mapping[str, Any], _strict: bool) -> Iterator[Any]:
    """Nothing is known: JSON, but for what looks like a number, which may as well be a postal code; else text."""
    parsed = parse(text, strict=False)
    yield from (value for value in parsed if isinstance(value, bool) or not isinstance(value, int | float))
    yield text


READINGS = {
    "string": read_string,
    "integer": read_integer,
    "number": read_number,
    "boolean": read_boolean,
    "null": read_null,
    "array": read_list,
    "object": read_object,
    "": read_anything,
}
