"""Generate example arguments of a tool, as JSON and as flags.

Candidate values come from the schema and from fixed samples; only values that validate are used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from ...calls.schema.resolve import Node, Variant
from ...calls.schema.validate import allows
from ...core.errors import ChatError
from .flags import Flag, format_flag, merge_arguments, node_at, parse_words

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
    root = Node(schema)
    return next((value for value in _candidates(root, 0) if isinstance(value, dict) and allows(root, value)), None)


def _candidates(node: Node, depth: int) -> Iterator[Any]:
    """Yield candidate values for a schema, the most likely first."""
    yield from node.examples()
    for variant in node.variants() if depth < _MAX_DEPTH else ():
        yield from variant.enum or _candidates_by_type(variant, depth)


def _candidates_by_type(variant: Variant, depth: int) -> Iterator[Any]:
    """Yield candidate values for one variant of a schema, by its type."""
    match variant.type:
        case "string" | "":
            yield from _candidate_strings(variant)
        case "integer" | "number":
            yield from _candidate_numbers(variant)
        case "boolean":
            yield True
        case "null":
            yield None
        case "array":
            min_items = variant.get("minItems")
            count = min(max(min_items, 1), 20) if isinstance(min_items, int) else 1
            yield [_first_valid(variant.item(index), depth) for index in range(count)]
            yield []
        case _:
            yield {name: _first_valid(node_at((name,), variant), depth) for name in variant.required}


def _first_valid(node: Node, depth: int) -> Any:
    """Return the first candidate that validates, or None."""
    return next((value for value in _candidates(node, depth + 1) if allows(node, value)), None)


def _candidate_strings(variant: Variant) -> Iterator[str]:
    """Yield candidate strings, adjusted to the length limits."""
    format_name = variant.get("format")
    yield from (
        (_FORMAT_SAMPLES[format_name],) if isinstance(format_name, str) and format_name in _FORMAT_SAMPLES else ()
    )
    min_length, max_length = variant.get("minLength"), variant.get("maxLength")
    min_length, max_length = (limit if isinstance(limit, int) else None for limit in (min_length, max_length))
    for text in (*_TEXT_SAMPLES, *_FORMAT_SAMPLES.values()):
        yield text.ljust(min(min_length or 0, 1000), "a")[:max_length]


def _candidate_numbers(variant: Variant) -> Iterator[Any]:
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
        parsed = merge_arguments(parse_words(words, schema), schema, {})
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
