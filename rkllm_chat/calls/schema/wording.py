"""Describe what a JSON Schema allows and how a value violates it, for people and models.

`Violation` carries facts; its message is written only when it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .resolve import Node, Variant

ValuePath = tuple[str | int, ...]

_MAX_VALUE_LENGTH = 60
_MAX_CHOICES = 12
_MAX_ITEM_DEPTH = 2
_MAX_COMPARED = 1000
_VALUE_KINDS = frozenset(
    (
        "type",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    )
)
TYPE_DESCRIPTIONS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
    "": "any value",
}


def describe_type(node: Node) -> str:
    """Describe what a value may be: "a whole number, or null"."""
    return _join(map(_describe_variant, node.variants()))


def _describe_variant(variant: Variant, depth: int = 0) -> str:
    if variant.enum is not None:
        return describe_choices(variant.enum)
    if variant.type == "array" and isinstance(items := variant.get("items"), Mapping) and depth < _MAX_ITEM_DEPTH:
        return f"a list of ({_join(_describe_variant(item, depth + 1) for item in variant.part(items).variants())})"
    return TYPE_DESCRIPTIONS[variant.type]


def _join(descriptions: Iterable[str]) -> str:
    return ", or ".join(dict.fromkeys(descriptions))


def describe_choices(choices: Iterable[Any], most: int = _MAX_CHOICES) -> str:
    """Write the values as "one of a, b"; after `most` values, the number of the rest."""
    words = [format_value(choice) for choice in choices]
    if not words:
        return "nothing"
    rest = [f"{len(words) - most} more"] if len(words) > most else []
    return words[0] if len(words) == 1 else f"one of {', '.join([*words[:most], *rest])}"


def format_value(value: Any) -> str:
    """Write a value as a user would type it after a flag."""
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def quote_value(value: Any) -> str:
    """Write a value as JSON, truncated."""
    from ...core.sanitize import truncate

    text = f'"{value}"' if isinstance(value, str) else format_value(value)
    return truncate(text, _MAX_VALUE_LENGTH)


class Violation:
    """One violation of a schema.

    Attributes:
        path: Names and indices that lead to the invalid value, or to the name that is missing or unknown.
        kind: The violated keyword ("required", "type" ...); "false" for the schema `false`, "several" for a value that
            matches several branches of a `oneOf`.
        value: The invalid value; the name for "additionalProperties" and "propertyNames", the unknown names beside a
            "required" one, the repeated item for "uniqueItems", the number of matching entries for "minContains" and
            "maxContains".
        expected: What the keyword demands: its value in the schema, as far as it is not listed here. The known names
            for "additionalProperties", the violation of the name for "propertyNames", the subschema for "minContains"
            and "maxContains", a schema of the union alone for "anyOf" and "oneOf", the number of matches for "several".
        root: The document that `$ref` in `expected` resolves against.
    """

    __slots__ = ("expected", "kind", "path", "root", "value")

    def __init__(self, path: ValuePath, kind: str, value: Any = None, expected: Any = None, root: Any = None) -> None:
        self.path = path
        self.kind = kind
        self.value = value
        self.expected = expected
        self.root = root

    @property
    def message(self) -> str:
        """The end of a sentence that begins with the name of the value: "must be text, not 1"."""
        return _MESSAGES[self.kind](self)

    @property
    def suggestion(self) -> str:
        """The known name or enumerated text most similar to the given one, ignoring case; "" if none is similar."""
        if self.kind not in ("enum", "additionalProperties") or not isinstance(self.value, str):
            return ""
        if len(self.value) > _MAX_VALUE_LENGTH:
            return ""
        from difflib import get_close_matches

        texts = [choice for choice in list(self.expected)[:_MAX_COMPARED] if isinstance(choice, str)]
        by_folded = {text.casefold(): text for text in texts}
        closest = get_close_matches(self.value.casefold(), by_folded, n=1)
        return by_folded[closest[0]] if closest else ""

    @property
    def mistaken(self) -> str:
        """Of a name that is missing: the end of a sentence about the unknown name that may have been meant for it."""
        from difflib import get_close_matches

        unknown = [name for name in list(self.value)[:_MAX_COMPARED] if len(name) <= _MAX_VALUE_LENGTH]
        similar = get_close_matches(str(self.path[-1]), unknown, n=1)
        return f', and "{similar[0]}" is not known' if similar else ""

    @property
    def is_wrong_value(self) -> bool:
        """Whether a value is wrong, rather than the structure around it: its names, size or number."""
        return self.expected.is_wrong_value if self.kind == "propertyNames" else self.kind in _VALUE_KINDS


def _must_be(expected: str, violation: Violation) -> str:
    return f"must be {expected}, not {quote_value(violation.value)}"


def _describe_wrong_type(violation: Violation) -> str:
    return _must_be(" or ".join(TYPE_DESCRIPTIONS[name] for name in violation.expected), violation)


def _describe_wrong_choice(violation: Violation) -> str:
    return _must_be(describe_choices(violation.expected), violation) + _ask_suggestion(violation)


def _describe_wrong_variant(violation: Violation) -> str:
    return _must_be(_describe_expected(violation), violation)


def _describe_expected(violation: Violation) -> str:
    return describe_type(Node(violation.expected, violation.root))


def _ask_suggestion(violation: Violation) -> str:
    return f' (did you mean "{violation.suggestion}"?)' if violation.suggestion else ""


def _bound(relation: str) -> Callable[[Violation], str]:
    """Return the writer for a number beyond a bound."""
    return lambda violation: (
        f"must be {relation} {format_value(violation.expected)}, not {format_value(violation.value)}"
    )


def _size(relation: str, unit: str, units: str) -> Callable[[Violation], str]:
    """Return the writer for a text, list or object of the wrong size."""
    return lambda violation: (
        f"must have {relation} {violation.expected} {unit if violation.expected == 1 else units}"
        f", not {len(violation.value)}"
    )


def _contains(relation: str) -> Callable[[Violation], str]:
    """Return the writer for a list that contains too few or too many entries of a kind."""
    return lambda violation: f"has {violation.value} entries that are {_describe_expected(violation)}: too {relation}"


_MESSAGES: dict[str, Callable[[Violation], str]] = {
    "false": lambda _: "must not be given",
    "type": _describe_wrong_type,
    "enum": _describe_wrong_choice,
    "const": lambda violation: _must_be(format_value(violation.expected), violation),
    "minimum": _bound("at least"),
    "maximum": _bound("at most"),
    "exclusiveMinimum": _bound("more than"),
    "exclusiveMaximum": _bound("less than"),
    "multipleOf": _bound("a multiple of"),
    "minLength": _size("at least", "character", "characters"),
    "maxLength": _size("at most", "character", "characters"),
    "minItems": _size("at least", "entry", "entries"),
    "maxItems": _size("at most", "entry", "entries"),
    "minProperties": _size("at least", "name", "names"),
    "maxProperties": _size("at most", "name", "names"),
    "pattern": lambda violation: f"must match the pattern {violation.expected}, not {quote_value(violation.value)}",
    "uniqueItems": lambda violation: f"must not contain {quote_value(violation.value)} twice",
    "minContains": _contains("few"),
    "maxContains": _contains("many"),
    "additionalProperties": lambda violation: f"is unknown{_ask_suggestion(violation)}",
    "propertyNames": lambda violation: (
        f"has the name {quote_value(violation.value)}, which {violation.expected.message}"
    ),
    "required": lambda violation: f"is required{violation.mistaken}",
    "anyOf": _describe_wrong_variant,
    "oneOf": _describe_wrong_variant,
    "several": lambda violation: (
        f"matches {violation.expected} of the alternatives of its schema, but must match exactly one"
    ),
    "not": lambda violation: f"must not be {_describe_expected(violation)}",
}
"""Kind of violation -> its writer."""
