"""Generate example arguments of a tool, as JSON and as flags.

Candidate values come from the schema and from fixed samples; only values that validate are used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from ...calls.schema.resolve import (
    enum_values,
    expand_schema,
    item_schema,
    list_variants,
    member_schema,
    required_of,
    type_of,
)
from ...calls.schema.validate import is_valid
from ...core.errors import ChatError
from .flags import Flag, format_flag, merge_arguments, parse_words

_MAX_DEPTH = 6
_FORMAT_SAMPLES = {
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "name@example.org",
    "uri": "https://example.org/",
    "url": "https://example.org/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.org",
}
_TEXT_SAMPLES = (
    "text",
    "a",
    "A",
    "1",
    "abc",
    "ABC",
    "a1",
    "A1",
    "0000",
    "12345",
    "a-b",
    "a_b",
    "a/b",
    "/tmp",
    "#aabbcc",
    "1.0.0",
)


def make_example(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the required arguments with values that validate against the schema, or None if none were found."""
    for value in _candidates(schema, schema, 0):
        if isinstance(value, dict) and is_valid(value, schema, schema):
            return value
    return None


def _candidates(schema: Any, root: Mapping[str, Any], depth: int) -> Iterator[Any]:
    """Yield candidate values for a schema, the most likely first."""
    merged = expand_schema(schema, root)
    examples = merged.get("examples")
    yield from examples if isinstance(examples, list) else ()
    if "default" in merged:
        yield merged["default"]
    for variant in list_variants(schema, root) if depth < _MAX_DEPTH else ():
        yield from enum_values(variant) or _candidates_by_type(variant, root, depth)


def _candidates_by_type(variant: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Iterator[Any]:
    """Yield candidate values for one variant of a schema, by its type."""
    type_name = type_of(variant)
    if type_name in ("string", ""):
        yield from _candidate_strings(variant)
    elif type_name in ("integer", "number"):
        yield from _candidate_numbers(variant)
    elif type_name == "boolean":
        yield True
    elif type_name == "null":
        yield None
    elif type_name == "array":
        min_items = variant.get("minItems")
        count = min_items if isinstance(min_items, int) else 0
        yield [_first_valid(item_schema(variant, index), root, depth) for index in range(min(max(count, 1), 20))]
        yield []
    else:
        yield {name: _first_valid(member_schema(variant, name, root), root, depth) for name in required_of(variant)}


def _first_valid(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    """Return the first candidate that validates, or None."""
    return next((value for value in _candidates(schema, root, depth + 1) if is_valid(value, schema, root)), None)


def _candidate_strings(variant: Mapping[str, Any]) -> Iterator[str]:
    """Yield candidate strings, adjusted to the length limits."""
    format_name = variant.get("format")
    yield from (
        (_FORMAT_SAMPLES[format_name],) if isinstance(format_name, str) and format_name in _FORMAT_SAMPLES else ()
    )
    min_length, max_length = variant.get("minLength"), variant.get("maxLength")
    min_length, max_length = (limit if isinstance(limit, int) else None for limit in (min_length, max_length))
    for text in (*_TEXT_SAMPLES, *_FORMAT_SAMPLES.values()):
        yield text.ljust(min(min_length or 0, 1000), "a")[:max_length]


def _candidate_numbers(variant: Mapping[str, Any]) -> Iterator[Any]:
    """Yield candidate numbers, including the limits of the schema."""
    yield from (1, 0)
    limits = [
        variant.get(word) for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    ]
    for limit in limits:
        if isinstance(limit, int | float):
            yield from (limit, limit + 1, limit - 1, limit / 2)


def format_as_flags(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str] | None:
    """Convert arguments to command-line words, or return None if flags cannot express them."""
    words = [word for name, value in arguments.items() for word in _flag_words(name, value, schema)]
    try:
        flags, _ = parse_words(words, schema, {})
        parsed = merge_arguments(flags, schema, {})
    except ChatError:
        return None
    return words if json.dumps(parsed) == json.dumps(arguments) else None


def _flag_words(name: str, value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Convert one argument to command-line words."""
    flag = format_flag((name,))
    value_text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return [flag] if value else [f"{flag}=false"]
    try:
        if merge_arguments([Flag((name,), "=", value_text)], schema, {}) == {name: value}:
            return [f"{flag}={value_text}"] if value_text.startswith("--") else [flag, value_text]
    except ChatError:
        pass
    return [f"{flag}:={json.dumps(value, ensure_ascii=False)}"]


def quote_command(*words: str) -> str:
    """Quote words for a shell and join them."""
    return " ".join(quote(word) for word in words)
