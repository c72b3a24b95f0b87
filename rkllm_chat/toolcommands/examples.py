"""An example of a tool's arguments that its schema takes, as JSON and as flags. It guesses, and checks its guess."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from ..errors import ChatError
from ..faults import is_fit
from ..flags import Given, flag_of, join_arguments, read_words
from ..schemas import child_of, choices_of, item_of, kind_of, leaves_of, required_of, whole

DEEPEST = 6
FORMATS = {
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
TEXTS = (
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
    """The required arguments with values that the schema takes; None where none were found."""
    for value in values_for(schema, schema, 0):
        if isinstance(value, dict) and is_fit(value, schema, schema):
            return value
    return None


def values_for(schema: Any, root: Mapping[str, Any], depth: int) -> Iterator[Any]:
    """Values that may fit, the likeliest first."""
    found = whole(schema, root)
    examples = found.get("examples")
    yield from examples if isinstance(examples, list) else ()
    if "default" in found:
        yield found["default"]
    for leaf in leaves_of(schema, root) if depth < DEEPEST else ():
        yield from choices_of(leaf) or values_of_kind(leaf, root, depth)


def values_of_kind(leaf: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Iterator[Any]:
    kind = kind_of(leaf)
    if kind in ("string", ""):
        yield from texts_for(leaf)
    elif kind in ("integer", "number"):
        yield from numbers_for(leaf)
    elif kind == "boolean":
        yield True
    elif kind == "null":
        yield None
    elif kind == "array":
        least = leaf.get("minItems")
        count = least if isinstance(least, int) else 0
        yield [first_fit(item_of(leaf, index), root, depth) for index in range(min(max(count, 1), 20))]
        yield []
    else:
        yield {name: first_fit(child_of(leaf, name, root), root, depth) for name in required_of(leaf)}


def first_fit(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    return next((value for value in values_for(schema, root, depth + 1) if is_fit(value, schema, root)), None)


def texts_for(leaf: Mapping[str, Any]) -> Iterator[str]:
    named = leaf.get("format")
    yield from (FORMATS[named],) if isinstance(named, str) and named in FORMATS else ()
    least, most = leaf.get("minLength"), leaf.get("maxLength")
    least, most = (limit if isinstance(limit, int) else None for limit in (least, most))
    for text in (*TEXTS, *FORMATS.values()):
        yield text.ljust(min(least or 0, 1000), "a")[:most]


def numbers_for(leaf: Mapping[str, Any]) -> Iterator[Any]:
    yield from (1, 0)
    limits = [leaf.get(word) for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")]
    for limit in limits:
        if isinstance(limit, int | float):
            yield from (limit, limit + 1, limit - 1, limit / 2)


def show_as_flags(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str] | None:
    """The arguments as words behind the tool's name; None if they cannot be said so."""
    words = [word for name, value in arguments.items() for word in flag_words(name, value, schema)]
    try:
        given, _ = read_words(words, schema, {})
        said = join_arguments(given, schema, {})
    except ChatError:
        return None
    return words if json.dumps(said) == json.dumps(arguments) else None


def flag_words(name: str, value: Any, schema: Mapping[str, Any]) -> list[str]:
    flag = flag_of((name,))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return [flag] if value else [f"{flag}=false"]
    try:
        if join_arguments([Given((name,), "=", text)], schema, {}) == {name: value}:
            return [f"{flag}={text}"] if text.startswith("--") else [flag, text]
    except ChatError:
        pass
    return [f"{flag}:={json.dumps(value, ensure_ascii=False)}"]


def command_line(*words: str) -> str:
    """Words as a shell reads them."""
    return " ".join(quote(word) for word in words)
