"""What a value may be, in signs that a model reads: `integer 1..100`, `[string] of 1+ items`, `{any name: number}`.

Every keyword that makes a call invalid has its sign, and notes of a server stand behind the type of a parameter where
they say more than its name. A hostile schema ends in `any`, by depth and by steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .brief import cut, note
from .clean import clean, clean_line
from .schemas import (
    TELLING,
    UNIONS,
    Bounded,
    TooCostlyError,
    choices_of,
    properties_of,
    required_of,
    resolve,
    same,
    spend,
    types_of,
)

DEEPEST = 4
MOST_STEPS = 2000
LONGEST_CHOICES = 800
"""Characters: a correction names the nearest of those that are not told."""
LONGEST_PATTERN = 60
LONGEST_NOTE = 100
ANY = "any"
SAID = ("properties", "required", "type", "$defs", "description")
"""What the call says itself."""


class Shapes:
    """The signs of one tool's schema. `known` is what need not be said of a parameter again."""

    def __init__(self, root: Mapping[str, Any], known: Iterable[str] = ()) -> None:
        self.root = Bounded(root, MOST_STEPS)
        self.known = tuple(known)
        self.told: dict[str, str] = {}

    def parameters(self) -> dict[str, str]:
        """Parameter name -> what it may be; a trailing `?` in the name marks an optional one."""
        required = required_of(self.root)
        return {
            name if name in required else f"{name}?": self.member(name, child, name not in required, 0)
            for name, child in properties_of(self.root).items()
        }

    def beside(self) -> str:
        """What holds of the arguments as a whole; "" where each may be written by itself."""
        declared = properties_of(self.root)
        rest = {word: value for word, value in self.root.items() if word not in SAID}
        if undeclared := [name for name in required_of(self.root) if name not in declared]:
            rest["required"] = undeclared
        if not isinstance(rest.get("additionalProperties"), Mapping):
            rest.pop("additionalProperties", None)
        shape = self.of(rest)
        return "" if shape == ANY else shape

    def member(self, name: str, schema: Any, is_optional: bool, depth: int) -> str:
        shape = self.of(schema, depth, is_optional)
        described = resolve(schema, self.root).get("description") if isinstance(schema, Mapping) else None
        told = clean_line(note(described, [name, shape, *self.known], LONGEST_NOTE))
        first = self.told.setdefault(told, name)
        return shape if not told else f"{shape} ({told})" if first == name else f"{shape} (as {write(first)})"

    def of(self, schema: Any, depth: int = 0, is_optional: bool = False) -> str:
        """A schema anywhere in it. Of an optional parameter is not said that it may be null: it can be left out."""
        if schema is False:
            return "nothing"
        if not isinstance(schema, Mapping) or depth > DEEPEST:
            return ANY
        schema = resolve(schema, self.root)
        try:
            spend(self.root, 1 + len(properties_of(schema)))
        except TooCostlyError:
            return ANY
        unions = [word for word in UNIONS if isinstance(schema.get(word), list) and schema[word]]
        if len(unions) == 1 and not schema.keys() - {"type", "description", *unions}:
            return self.union(unions[0], schema, depth, is_optional)
        parts = [self.plain(schema, depth, is_optional), *(self.union(word, schema, depth, False) for word in unions)]
        parts += [sign for word, write in BESIDE.items() if word in schema and (sign := write(self, schema, depth))]
        parts = [part for part in parts if part not in ("", ANY)]
        return " & ".join(in_brackets(part) for part in parts) if len(parts) > 1 else (parts or [ANY])[0]

    def union(self, word: str, schema: Mapping[str, Any], depth: int, is_optional: bool) -> str:
        """The branches of a union, each with the type that stands beside it."""
        kind = {"type": schema["type"]} if types_of(schema) else {}
        branches = [
            {**kind, **resolve(branch, self.root)} if isinstance(branch, Mapping) else branch for branch in schema[word]
        ]
        shapes = list(dict.fromkeys(self.of(branch, depth + 1) for branch in branches))
        shapes = [shape for shape in shapes if shape != "null" or not is_optional] or shapes
        several = " | ".join(shapes)
        is_told = word == "anyOf" or len(shapes) == 1 or are_apart(branches)
        return several if is_told else f"only one of ({several})"

    def plain(self, schema: Mapping[str, Any], depth: int, is_optional: bool) -> str:
        """The values that a schema names, else its types."""
        if "const" in schema:
            return write(schema["const"])
        if isinstance(schema.get("enum"), list):
            values = [value for value in schema["enum"] if value is not None or not is_optional]
            return write_choices(values or schema["enum"])
        kinds = types_of(schema) or [
            kind for kind, words in TELLING.items() if any(word in schema for word in (*words, *MORE_TELLING[kind]))
        ]
        kinds = [kind for kind in kinds if kind != "null" or not is_optional] or kinds
        return " | ".join(KINDS[kind](self, schema, depth) if kind in KINDS else clean_line(kind) for kind in kinds)

    def number(self, schema: Mapping[str, Any], _depth: int, kind: str = "number") -> str:
        return " ".join([kind, *write_bounds(schema), *multiple_of(schema)])

    def integer(self, schema: Mapping[str, Any], depth: int) -> str:
        return self.number(schema, depth, "integer")

    def string(self, schema: Mapping[str, Any], _depth: int) -> str:
        forms = [cut(clean_line(form), LONGEST_PATTERN) for word in FORMS if isinstance(form := schema.get(word), str)]
        return " ".join(["string", *forms, *count(schema, "Length", "characters"), *write_pattern(schema)])

    def array(self, schema: Mapping[str, Any], depth: int) -> str:
        items, first = schema.get("items"), schema.get("prefixItems")
        if isinstance(items, list):  # until draft 2019-09
            first, items = items, schema.get("additionalItems")
        known = [self.of(one, depth + 1) for one in first] if isinstance(first, list) else []
        if known and items is False:
            schema = {"maxItems": len(known), **schema}
        further = "..." if items in (None, True, {}) else "" if items is False else f"{self.of(items, depth + 1)}..."
        inner = ", ".join([*known, *([further] if further else [])]) if known else self.of(items, depth + 1)
        different = "different " if schema.get("uniqueItems") is True else ""
        counted = count(schema, "Items", f"{different}items") or ([f"of {different}items"] if different else [])
        return " ".join([f"[{inner}]", *counted, *self.contains(schema, depth)])

    def contains(self, schema: Mapping[str, Any], depth: int) -> list[str]:
        least, most = schema.get("minContains", 1), schema.get("maxContains")
        if "contains" not in schema or (not least and most is None):
            return []
        counted = write_count(least, most)
        return [f"with {counted} of {in_brackets(self.of(schema['contains'], depth + 1))}"]

    def object(self, schema: Mapping[str, Any], depth: int) -> str:
        required, declared = required_of(schema), properties_of(schema)
        members = [
            f"{write(name)}: {self.member(name, child, False, depth + 1)}"
            if name in required
            else f"{write(name)}?: {self.member(name, child, True, depth + 1)}"
            for name, child in declared.items()
        ]
        members += [f"{write(name)}: any" for name in required if name not in declared]
        patterns = schema.get("patternProperties")
        for pattern, child in patterns.items() if isinstance(patterns, Mapping) else ():
            members.append(f"name {' '.join(write_pattern({'pattern': pattern}))}: {self.of(child, depth + 1)}")
        further = schema.get("additionalProperties")
        if isinstance(further, Mapping) and further:
            members.append(f"any {'other ' if members else ''}name: {self.of(further, depth + 1)}")
        shape = f"{{{', '.join(members)}}}" if members or further is False else "object"
        return " ".join([shape, *count(schema, "Properties", "names"), *self.names(schema, depth)])

    def names(self, schema: Mapping[str, Any], depth: int) -> list[str]:
        names = schema.get("propertyNames")
        if names is False or (isinstance(names, Mapping) and names):
            told = self.of({"type": "string", **names} if isinstance(names, Mapping) else names, depth + 1)
            return [f"with names {in_brackets(told)}"]
        return []

    def all_of(self, schema: Mapping[str, Any], depth: int) -> str:
        parts = schema["allOf"] if isinstance(schema["allOf"], list) else []
        shapes = dict.fromkeys(self.of(part, depth + 1) for part in parts)
        return " & ".join(in_brackets(shape) for shape in shapes if shape != ANY)

    def but(self, schema: Mapping[str, Any], depth: int) -> str:
        return f"not {in_brackets(self.of(schema['not'], depth + 1))}"

    def condition(self, schema: Mapping[str, Any], depth: int) -> str:
        """`if {"kind": "ship"} then {"name": any} else ...`."""
        ways = [f"{word} {self.of(schema[word], depth + 1)}" for word in ("then", "else") if word in schema]
        return " ".join([f"(if {self.of(schema['if'], depth + 1)}", *ways]) + ")" if ways else ""

    def dependent(self, word: str, schema: Mapping[str, Any], depth: int) -> str:
        """`"a" only with "b"`: what a name brings with it."""
        table = schema[word] if isinstance(schema[word], Mapping) else {}
        told = [
            f"{write(name)} only with "
            + (" and ".join(map(write, wanted)) if isinstance(wanted, list) else self.of(wanted, depth + 1))
            for name, wanted in table.items()
            if wanted not in ([], {}, True)
        ]
        return ", ".join(told)


KINDS: dict[str, Callable[[Shapes, Mapping[str, Any], int], str]] = {
    "string": Shapes.string,
    "integer": Shapes.integer,
    "number": Shapes.number,
    "array": Shapes.array,
    "object": Shapes.object,
}
BESIDE: dict[str, Callable[[Shapes, Mapping[str, Any], int], str]] = {
    "allOf": Shapes.all_of,
    "not": Shapes.but,
    "if": Shapes.condition,
    **{
        word: lambda shapes, schema, depth, word=word: shapes.dependent(word, schema, depth)  # type: ignore[misc]
        for word in ("dependentRequired", "dependentSchemas", "dependencies")
    },
}
FORMS = ("format", "contentEncoding", "contentMediaType")
# What tells of a type beside the words that `schemas.TELLING` has.
MORE_TELLING: dict[str, tuple[str, ...]] = {
    "object": ("propertyNames", "maxProperties"),
    "array": ("prefixItems", "contains"),
    "string": FORMS,
    "number": (),
}


def write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def write_choices(values: list[Any]) -> str:
    """All values, as far as LONGEST_CHOICES characters bear; then how many more there are."""
    written: list[str] = []
    room = LONGEST_CHOICES
    for value in values:
        written.append(write(value))
        room -= len(written[-1])
        if room < 0:
            break
    left = len(values) - len(written)
    return (
        " | ".join([cut(one, LONGEST_CHOICES) for one in written] + ([f"… ({left} more)"] if left else [])) or "nothing"
    )


def in_brackets(shape: str) -> str:
    """A shape that may stand beside others."""
    return f"({shape})" if " | " in shape and shape[0] not in "([{" else shape


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def write_bounds(schema: Mapping[str, Any]) -> list[str]:
    """`1..100`, or `>= 1`, `> 0 and < 1`."""
    low, high = schema.get("minimum"), schema.get("maximum")
    over, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if is_number(low) and is_number(high) and over in (None, False) and under in (None, False):
        return [f"{write(low)}..{write(high)}"]
    signs = [
        (">=" if over is not True else ">", low),
        (">", over),
        ("<=" if under is not True else "<", high),
        ("<", under),
    ]
    told = [f"{sign} {write(bound)}" for sign, bound in signs if is_number(bound)]
    return [" and ".join(told)] if told else []


def multiple_of(schema: Mapping[str, Any]) -> list[str]:
    step = schema.get("multipleOf")
    return [f"multiple of {write(step)}"] if is_number(step) and step not in (0, 1) else []


def write_pattern(schema: Mapping[str, Any]) -> list[str]:
    pattern = schema.get("pattern")
    if not isinstance(pattern, str):
        return []
    line = clean(pattern).replace("\n", "\\n")
    return [f"like /{line if len(line) <= LONGEST_PATTERN else line[:LONGEST_PATTERN] + '…'}/"]


def count(schema: Mapping[str, Any], what: str, unit: str) -> list[str]:
    """`of 1..20 characters`; nothing where any number will do."""
    least, most = schema.get(f"min{what}", 0), schema.get(f"max{what}")
    least, most = least if is_number(least) else 0, most if is_number(most) else None
    return [f"of {write_count(least, most)} {unit}"] if least > 0 or most is not None else []


def write_count(least: Any, most: Any) -> str:
    """`3`, `1+`, `0..20`."""
    return f"{least}+" if most is None else f"{most}" if least == most else f"{least}..{most}"


def are_apart(branches: list[Any]) -> bool:
    """Whether it is plain that no value fits two branches: they differ in type, or in a value that each asks for."""
    return all(is_apart(one, other) for at, one in enumerate(branches) for other in branches[:at])


def is_apart(one: Any, other: Any) -> bool:
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return one is False or other is False
    mine, others = kinds_of(one), kinds_of(other)
    if mine and others and not mine & others:
        return True
    values, further = choices_of(one), choices_of(other)
    if values is not None and further is not None:
        return not any(same(value, choice) for value in values for choice in further)
    shared = set(required_of(one)) & set(required_of(other))
    return any(is_apart(properties_of(one).get(name), properties_of(other).get(name)) for name in shared)


def kinds_of(schema: Mapping[str, Any]) -> set[str]:
    return {"number" if kind == "integer" else kind for kind in types_of(schema)}
