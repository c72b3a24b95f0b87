"""Convert a text to the value that a JSON Schema requires.

Where the schema accepts a string, the text stays as it is; where it accepts a string or another type, the other type
must be written exactly as in JSON, so that `007` never becomes the number 7. Flags are parsed in `flags.py`.
"""

from __future__ import annotations

import json
import re
from math import isfinite

from ...calls.schema.resolve import enum_values, item_schema, json_equal, list_variants, type_of
from ...calls.schema.validate import is_valid
from ...calls.schema.wording import describe_type, quote_value
from ...core.strict_json import parse_strict_json

TYPE_CHECKING = False  # importing typing costs 2 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# Patterns are compiled at their first use: compiling all of them takes half the time of a call.
_INTEGER = r"[+-]?[0-9]+"
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


def convert_text(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """Convert a text to a value of the schema, by the first variant that the result validates against.

    A text that looks like a JSON list or object is tried as one before it is tried as a string. The returned value may
    violate other constraints, such as a maximum or an enum.

    Raises:
        ValueError: The text has none of the accepted types; the message completes a sentence that begins with the flag.
    """
    variants = list_variants(schema, root)
    strict = any(type_of(variant) == "string" and enum_values(variant) is None for variant in variants)
    if text[:1] in ("[", "{"):
        variants.sort(key=lambda variant: type_of(variant) not in ("array", "object"))
    invalid: list[Any] = []
    for read in (_read_variant, _read_single_element):
        for value in (value for variant in variants for value in read(text, variant, root, strict)):
            if is_valid(value, schema, root):
                return value
            invalid.append(value)
    if invalid:
        return invalid[0]
    raise ValueError(
        f"must be {describe_type(schema, root)}, not {quote_value(text)}{_explain_json_error(text, variants)}"
    )


def _explain_json_error(text: str, variants: list[dict[str, Any]]) -> str:
    """Return why a text is not the list or object that the schema requires."""
    types = {type_of(variant) for variant in variants} & {"array", "object"}
    if types and text.lstrip()[:1] in ("[", "{"):
        try:
            parse_strict_json(text)
        except ValueError as error:
            return f" ({error})"
    return " (it is written as JSON)" if types == {"object"} else ""


def _read_variant(text: str, variant: Mapping[str, Any], root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    """Yield the values of a text for one variant of the schema, the best first.

    Args:
        text: The text.
        variant: The variant.
        root: The tool's input schema.
        strict: Whether the text may also stay a string.
    """
    choices = enum_values(variant)
    if choices is not None:
        yield from (choice for choice in choices if isinstance(choice, str) and choice == text)
        parsed = list(_parse(text, strict=False))
        yield from (choice for choice in choices for value in parsed if json_equal(choice, value))
        yield from (value for value in parsed if not isinstance(value, str) and type_of(variant) == "")
    yield from _READERS[type_of(variant)](text, variant, root, strict)


def _parse(text: str, strict: bool) -> Iterator[Any]:
    """Yield the JSON value of a text, if it is one; `strict` requires the exact form that `json.dumps` writes."""
    try:
        value = parse_strict_json(text)
    except ValueError:
        return
    if not strict or isinstance(value, list | dict) or json.dumps(value, ensure_ascii=False) == text:
        yield value


def _read_string(text: str, _variant: Mapping[str, Any], _root: Mapping[str, Any], _strict: bool) -> Iterator[Any]:
    yield text


def _read_integer(text: str, _variant: Mapping[str, Any], _root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    try:
        number = int(text) if re.fullmatch(_INTEGER, text) else None
    except ValueError:  # more than 4300 digits
        return
    if number is not None and (not strict or str(number) == text):
        yield number


def _read_number(text: str, variant: Mapping[str, Any], root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    yield from _read_integer(text, variant, root, strict)
    if not re.fullmatch(_INTEGER, text) and re.fullmatch(_NUMBER, text):
        number = float(text)
        if isfinite(number) and (not strict or repr(number) == text):
            yield number


def _read_boolean(text: str, _variant: Mapping[str, Any], _root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    word = text if strict else text.lower()
    if word in ("true", "false"):
        yield word == "true"


def _read_null(text: str, _variant: Mapping[str, Any], _root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    if text == "null" and not strict:
        yield None


def _read_list(text: str, _variant: Mapping[str, Any], _root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    yield from (value for value in _parse(text, strict) if isinstance(value, list))


def _read_single_element(text: str, variant: Mapping[str, Any], root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    """Yield a list with the text as its only element, used if nothing else matches."""
    if type_of(variant) == "array" and not strict:
        yield [convert_text(text, item_schema(variant, 0), root)]


def _read_object(text: str, _variant: Mapping[str, Any], _root: Mapping[str, Any], strict: bool) -> Iterator[Any]:
    yield from (value for value in _parse(text, strict) if isinstance(value, dict))


def _read_anything(text: str, _variant: Mapping[str, Any], _root: Mapping[str, Any], _strict: bool) -> Iterator[Any]:
    """Yield candidates for a schema without a type: the JSON value, then the text.

    Numbers stay text, because they may be postal codes or the like.
    """
    parsed = _parse(text, strict=False)
    yield from (value for value in parsed if isinstance(value, bool) or not isinstance(value, int | float))
    yield text


_READERS = {
    "string": _read_string,
    "integer": _read_integer,
    "number": _read_number,
    "boolean": _read_boolean,
    "null": _read_null,
    "array": _read_list,
    "object": _read_object,
    "": _read_anything,
}
