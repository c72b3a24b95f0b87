"""Write the type of a value in a notation for models: `integer 1..100`, `[string] of 1+ items`, `{any name: number}`.

Every keyword that can make a call invalid is written, and the server's description of a parameter follows its type
where it says more than its name. Depth and number of steps are limited; beyond them a hostile schema becomes `any`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...core.sanitize import sanitize_for_terminal, sanitize_line
from .descriptions import extract_note, truncate_line
from .resolve import (
    TYPE_KEYWORDS,
    UNIONS,
    BudgetedSchema,
    BudgetExceededError,
    enum_values,
    items_of,
    json_equal,
    properties_of,
    required_of,
    resolve_ref,
    spend_steps,
    types_of,
)

_MAX_DEPTH = 4
_MAX_STEPS = 2000
MAX_ENUM_LENGTH = 800
"""Characters of enumerated values that are written; a correction names the nearest of the others."""
MAX_PATTERN_LENGTH = 60
_MAX_NOTE_LENGTH = 100
_ANY = "any"
_LISTED_KEYWORDS = ("properties", "required", "type", "$defs", "description")
"""Keywords of the root that the list of parameters already expresses."""


class SignatureWriter:
    """Writes the types of one tool's schema.

    Attributes:
        root: The schema, with a step budget.
        known: Texts that a description need not repeat.
        first_parameters: Description -> the parameter that was first written with it.
    """

    def __init__(self, root: Mapping[str, Any], known: Iterable[str] = ()) -> None:
        """Prepare to write a schema.

        Args:
            root: The schema of the tool's arguments.
            known: Texts, such as the tool's description, that the description of a parameter need not repeat.
        """
        self.root = BudgetedSchema(root, _MAX_STEPS)
        self.known = tuple(known)
        self.first_parameters: dict[str, str] = {}

    def parameters(self) -> dict[str, str]:
        """Return parameter name -> type; a trailing `?` in the name marks an optional one."""
        required = required_of(self.root)
        return {
            name if name in required else f"{name}?": self.member(name, child, name not in required, 0)
            for name, child in properties_of(self.root).items()
        }

    def root_constraints(self) -> str:
        """Write the constraints on the arguments as a whole; "" if there are none."""
        declared = properties_of(self.root)
        rest = {word: value for word, value in self.root.items() if word not in _LISTED_KEYWORDS}
        if undeclared := [name for name in required_of(self.root) if name not in declared]:
            rest["required"] = undeclared
        if not isinstance(rest.get("additionalProperties"), Mapping):
            rest.pop("additionalProperties", None)
        notation = self.write_type(rest)
        return "" if notation == _ANY else notation

    def member(self, name: str, schema: Any, is_optional: bool, depth: int) -> str:
        """Write the type of a member and what its description adds."""
        notation = self.write_type(schema, depth, is_optional)
        described = resolve_ref(schema, self.root).get("description") if isinstance(schema, Mapping) else None
        note_text = sanitize_line(extract_note(described, [name, notation, *self.known], _MAX_NOTE_LENGTH))
        first = self.first_parameters.setdefault(note_text, name)
        if not note_text:
            return notation
        return f"{notation} ({note_text if first == name else f'as {format_json(first)}'})"

    def write_type(self, schema: Any, depth: int = 0, is_optional: bool = False) -> str:
        """Write any subschema.

        For an optional parameter, null is not mentioned: it can be left out instead.
        """
        if schema is False:
            return "nothing"
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return _ANY
        schema = resolve_ref(schema, self.root)
        try:
            spend_steps(self.root, 1 + len(properties_of(schema)))
        except BudgetExceededError:
            return _ANY
        unions = [word for word in UNIONS if isinstance(schema.get(word), list) and schema[word]]
        if len(unions) == 1 and not schema.keys() - {"type", "description", *unions}:
            return self.union(unions[0], schema, depth, is_optional)
        parts = [
            self.enum_or_type(schema, depth, is_optional),
            *(self.union(word, schema, depth, False) for word in unions),
        ]
        parts += [part for word, write in _MODIFIERS.items() if word in schema and (part := write(self, schema, depth))]
        parts = [part for part in parts if part not in ("", _ANY)]
        return " & ".join(_in_brackets(part) for part in parts) if len(parts) > 1 else (parts or [_ANY])[0]

    def union(self, word: str, schema: Mapping[str, Any], depth: int, is_optional: bool) -> str:
        """Write the branches of a union, each combined with the type beside the union."""
        shared = {"type": schema["type"]} if types_of(schema) else {}
        branches = [
            {**shared, **resolve_ref(branch, self.root)} if isinstance(branch, Mapping) else branch
            for branch in schema[word]
        ]
        notations = list(dict.fromkeys(self.write_type(branch, depth + 1) for branch in branches))
        notations = [notation for notation in notations if notation != "null" or not is_optional] or notations
        joined = " | ".join(notations)
        is_exclusive = word == "anyOf" or len(notations) == 1 or _are_apart(branches)
        return joined if is_exclusive else f"only one of ({joined})"

    def enum_or_type(self, schema: Mapping[str, Any], depth: int, is_optional: bool) -> str:
        """Write the enumerated values, else the types."""
        if "const" in schema:
            return format_json(schema["const"])
        if isinstance(schema.get("enum"), list):
            values = [value for value in schema["enum"] if value is not None or not is_optional]
            return _write_choices(values or schema["enum"])
        type_names = types_of(schema) or [
            type_name
            for type_name, words in TYPE_KEYWORDS.items()
            if any(word in schema for word in (*words, *_MORE_TYPE_KEYWORDS[type_name]))
        ]
        type_names = [type_name for type_name in type_names if type_name != "null" or not is_optional] or type_names
        return " | ".join(
            _WRITERS[type_name](self, schema, depth) if type_name in _WRITERS else sanitize_line(type_name)
            for type_name in type_names
        )

    def number(self, schema: Mapping[str, Any], _depth: int, type_name: str = "number") -> str:
        """Write a number with its bounds."""
        return " ".join([type_name, *_write_bounds(schema), *_multiple_of(schema)])

    def integer(self, schema: Mapping[str, Any], depth: int) -> str:
        """Write an integer with its bounds."""
        return self.number(schema, depth, "integer")

    def string(self, schema: Mapping[str, Any], _depth: int) -> str:
        """Write a string with its format, length and pattern."""
        formats = [
            truncate_line(sanitize_line(format_name), MAX_PATTERN_LENGTH)
            for word in _FORMAT_KEYWORDS
            if isinstance(format_name := schema.get(word), str)
        ]
        return " ".join(["string", *formats, *_count(schema, "Length", "characters"), *_write_pattern(schema)])

    def array(self, schema: Mapping[str, Any], depth: int) -> str:
        """Write a list: its items and their number."""
        first, items = items_of(schema)
        notations = [self.write_type(schema, depth + 1) for schema in first]
        if notations and items is False:
            schema = {"maxItems": len(notations), **schema}
        further = (
            "..." if items in (None, True, {}) else "" if items is False else f"{self.write_type(items, depth + 1)}..."
        )
        inner = (
            ", ".join([*notations, *([further] if further else [])]) if notations else self.write_type(items, depth + 1)
        )
        different = "different " if schema.get("uniqueItems") is True else ""
        counted = _count(schema, "Items", f"{different}items") or ([f"of {different}items"] if different else [])
        return " ".join([f"[{inner}]", *counted, *self.contains(schema, depth)])

    def contains(self, schema: Mapping[str, Any], depth: int) -> list[str]:
        """Write `contains` with its counts, as a list of at most one part."""
        least, most = schema.get("minContains", 1), schema.get("maxContains")
        if "contains" not in schema or (not least and most is None):
            return []
        counted = _write_count(least, most)
        return [f"with {counted} of {_in_brackets(self.write_type(schema['contains'], depth + 1))}"]

    def object(self, schema: Mapping[str, Any], depth: int) -> str:
        """Write an object: its members and the constraints on names."""
        required, declared = required_of(schema), properties_of(schema)
        members = [
            f"{format_json(name)}{mark}: {self.member(name, child, bool(mark), depth + 1)}"
            for name, child in declared.items()
            for mark in ("" if name in required else "?",)
        ]
        members += [f"{format_json(name)}: any" for name in required if name not in declared]
        patterns = schema.get("patternProperties")
        for pattern, child in patterns.items() if isinstance(patterns, Mapping) else ():
            members.append(
                f"name {' '.join(_write_pattern({'pattern': pattern}))}: {self.write_type(child, depth + 1)}"
            )
        further = schema.get("additionalProperties")
        if isinstance(further, Mapping) and further:
            members.append(f"any {'other ' if members else ''}name: {self.write_type(further, depth + 1)}")
        notation = f"{{{', '.join(members)}}}" if members or further is False else "object"
        return " ".join([notation, *_count(schema, "Properties", "names"), *self.names(schema, depth)])

    def names(self, schema: Mapping[str, Any], depth: int) -> list[str]:
        """Write `propertyNames`, as a list of at most one part."""
        names = schema.get("propertyNames")
        if names is False or (isinstance(names, Mapping) and names):
            notation = self.write_type({"type": "string", **names} if isinstance(names, Mapping) else names, depth + 1)
            return [f"with names {_in_brackets(notation)}"]
        return []

    def all_of(self, schema: Mapping[str, Any], depth: int) -> str:
        """Write the parts of `allOf`."""
        parts = schema["allOf"] if isinstance(schema["allOf"], list) else []
        notations = dict.fromkeys(self.write_type(part, depth + 1) for part in parts)
        return " & ".join(_in_brackets(notation) for notation in notations if notation != _ANY)

    def negation(self, schema: Mapping[str, Any], depth: int) -> str:
        """Write `not`."""
        return f"not {_in_brackets(self.write_type(schema['not'], depth + 1))}"

    def condition(self, schema: Mapping[str, Any], depth: int) -> str:
        """Write `if {"kind": "ship"} then {"name": any} else ...`."""
        branches = [f"{word} {self.write_type(schema[word], depth + 1)}" for word in ("then", "else") if word in schema]
        return " ".join([f"(if {self.write_type(schema['if'], depth + 1)}", *branches]) + ")" if branches else ""

    def dependencies(self, word: str, schema: Mapping[str, Any], depth: int) -> str:
        """Write what the presence of a name requires: `"a" only with "b"`."""
        table = schema[word] if isinstance(schema[word], Mapping) else {}
        parts = [
            f"{format_json(name)} only with "
            + (
                " and ".join(map(format_json, required))
                if isinstance(required, list)
                else self.write_type(required, depth + 1)
            )
            for name, required in table.items()
            if required not in ([], {}, True)
        ]
        return ", ".join(parts)


_WRITERS: dict[str, Callable[[SignatureWriter, Mapping[str, Any], int], str]] = {
    "string": SignatureWriter.string,
    "integer": SignatureWriter.integer,
    "number": SignatureWriter.number,
    "array": SignatureWriter.array,
    "object": SignatureWriter.object,
}
_MODIFIERS: dict[str, Callable[[SignatureWriter, Mapping[str, Any], int], str]] = {
    "allOf": SignatureWriter.all_of,
    "not": SignatureWriter.negation,
    "if": SignatureWriter.condition,
    **{
        word: lambda writer, schema, depth, word=word: writer.dependencies(word, schema, depth)  # type: ignore[misc]
        for word in ("dependentRequired", "dependentSchemas", "dependencies")
    },
}
_FORMAT_KEYWORDS = ("format", "contentEncoding", "contentMediaType")
# Keywords that imply a type, besides those of `resolve.TYPE_KEYWORDS`.
_MORE_TYPE_KEYWORDS: dict[str, tuple[str, ...]] = {
    "object": ("propertyNames", "maxProperties"),
    "array": ("prefixItems", "contains"),
    "string": _FORMAT_KEYWORDS,
    "number": (),
}


def format_json(value: Any) -> str:
    """Write a value as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _write_choices(values: list[Any]) -> str:
    """Write values up to `MAX_ENUM_LENGTH` characters, then the number of the rest."""
    written: list[str] = []
    room = MAX_ENUM_LENGTH
    for value in values:
        written.append(format_json(value))
        room -= len(written[-1])
        if room < 0:
            break
    left = len(values) - len(written)
    return (
        " | ".join(
            [truncate_line(value, MAX_ENUM_LENGTH) for value in written] + ([f"… ({left} more)"] if left else [])
        )
        or "nothing"
    )


def _in_brackets(notation: str) -> str:
    """Enclose a type in parentheses if it would be ambiguous among others."""
    return f"({notation})" if " | " in notation and notation[0] not in "([{" else notation


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _write_bounds(schema: Mapping[str, Any]) -> list[str]:
    """Write `1..100`, or `>= 1`, `> 0 and < 1`."""
    low, high = schema.get("minimum"), schema.get("maximum")
    over, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if _is_number(low) and _is_number(high) and over in (None, False) and under in (None, False):
        return [f"{format_json(low)}..{format_json(high)}"]
    relations = [
        (">=" if over is not True else ">", low),
        (">", over),
        ("<=" if under is not True else "<", high),
        ("<", under),
    ]
    parts = [f"{relation} {format_json(bound)}" for relation, bound in relations if _is_number(bound)]
    return [" and ".join(parts)] if parts else []


def _multiple_of(schema: Mapping[str, Any]) -> list[str]:
    step = schema.get("multipleOf")
    return [f"multiple of {format_json(step)}"] if _is_number(step) and step not in (0, 1) else []


def _write_pattern(schema: Mapping[str, Any]) -> list[str]:
    pattern = schema.get("pattern")
    if not isinstance(pattern, str):
        return []
    line = sanitize_for_terminal(pattern).replace("\n", "\\n")
    return [f"like /{line if len(line) <= MAX_PATTERN_LENGTH else line[:MAX_PATTERN_LENGTH] + '…'}/"]


def _count(schema: Mapping[str, Any], what: str, unit: str) -> list[str]:
    """Write `of 1..20 characters`; nothing if any number is allowed."""
    least, most = schema.get(f"min{what}", 0), schema.get(f"max{what}")
    least, most = least if _is_number(least) else 0, most if _is_number(most) else None
    return [f"of {_write_count(least, most)} {unit}"] if least > 0 or most is not None else []


def _write_count(least: Any, most: Any) -> str:
    """Write `3`, `1+`, `0..20`."""
    return f"{least}+" if most is None else f"{most}" if least == most else f"{least}..{most}"


def _are_apart(branches: list[Any]) -> bool:
    """Tell whether no value can be valid for two branches: they differ in type, or in a required value."""
    return all(_is_apart(branch, other) for at, branch in enumerate(branches) for other in branches[:at])


def _is_apart(one: Any, other: Any) -> bool:
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return one is False or other is False
    mine, others = _kinds_of(one), _kinds_of(other)
    if mine and others and not mine & others:
        return True
    values, further = enum_values(one), enum_values(other)
    if values is not None and further is not None:
        return not any(json_equal(value, choice) for value in values for choice in further)
    shared = set(required_of(one)) & set(required_of(other))
    return any(_is_apart(properties_of(one).get(name), properties_of(other).get(name)) for name in shared)


def _kinds_of(schema: Mapping[str, Any]) -> set[str]:
    return {"number" if type_name == "integer" else type_name for type_name in types_of(schema)}
