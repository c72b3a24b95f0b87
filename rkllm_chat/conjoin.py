"""Two JSON Schemas that both hold, as one that says the same, where there is one. It is pure.

`schemas.join` does so always, to read a text by; here nothing may be lost, so what cannot be one stays under `allOf`.
A schema is a dict, or False, which nothing fits; True is written {}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .schemas import required_of, same, types_of

Schema = dict[str, Any] | bool

TOGETHER = (
    {"properties", "patternProperties", "additionalProperties"},
    {"items", "prefixItems", "additionalItems"},
    {"contains", "minContains", "maxContains"},
    {"if", "then", "else"},
)
"""Words that judge by what stands beside them: of two schemas with one of a group each, none says what both say."""
LARGER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
SMALLER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
OF_ANY_KIND = frozenset(("$ref", "enum", "const", "not", "if", "then", "else", "allOf", "anyOf", "oneOf", "nullable"))
"""Words that may say something of null; `type` is looked at beside them."""
NULL_WORDS = {"type", "description"}


def conjoin(one: Schema, other: Schema) -> Schema:
    """What fits both; what cannot be one is an `allOf` in it. Of two descriptions the first one's stays."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    merged = merge(one, other)
    return merged if merged is not None else {**one, "allOf": [*one.get("allOf", ()), other]}


def merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any] | None:
    """Two schemas as one that lets through what both do; None where there is none."""
    further = {word: value for word, value in other.items() if word not in one}
    if not other or not one or other.keys() == {"description"}:
        return {**one, **further}
    if "nullable" in one or "nullable" in other or any(is_entangled(one, other, words) for words in TOGETHER):
        return None
    merged = {**one, **further}
    for word in one.keys() & other.keys() - {"description"}:
        both = both_of(word, one[word], other[word])
        if both is None:
            return None
        merged[word] = both
    return merged


def is_entangled(one: Mapping[str, Any], other: Mapping[str, Any], words: set[str]) -> bool:
    mine, others = words & one.keys(), words & other.keys()
    return bool(mine and others) and mine | others != {"properties"}


def both_of(word: str, one: Any, other: Any) -> Any:
    """What a keyword says where it has two values that both hold; None where it cannot say that."""
    if same(one, other):
        return one
    if word == "properties" and isinstance(one, Mapping) and isinstance(other, Mapping):
        return {**one, **other, **{name: conjoin(one[name], other[name]) for name in one.keys() & other.keys()}}
    if word == "required":
        return list(dict.fromkeys([*required_of({word: one}), *required_of({word: other})]))
    if word == "allOf":
        return [*one, *other]
    if word in LARGER + SMALLER and all(type(bound) in (int, float) for bound in (one, other)):
        return max(one, other) if word in LARGER else min(one, other)
    return both_kinds(one, other) if word == "type" else None


def both_kinds(one: Any, other: Any) -> str | list[str] | None:
    """The types that two `type` both name: a whole number is a number."""
    mine, others = types_of({"type": one}), types_of({"type": other})
    found = [kind for kind in mine if kind in others or (kind == "integer" and "number" in others)]
    found += [kind for kind in others if kind == "integer" and "number" in mine and kind not in found]
    return (found[0] if len(found) == 1 else found) or None


def tidy(schema: Schema) -> Schema:
    """The schema without words that say nothing, and with what is in `allOf` and in a union of one drawn into it."""
    if not isinstance(schema, dict):
        return schema
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            schema = tidy_union(schema, word)
            if not isinstance(schema, dict):
                return False
    parts = schema.get("allOf")
    if isinstance(parts, list):
        found: Schema = {key: value for key, value in schema.items() if key != "allOf"}
        for part in parts:
            found = conjoin(found, part)
        if not isinstance(found, dict):
            return False
        schema = found
    return {word: tidy_value(word, value) for word, value in schema.items() if not says_nothing(word, value)}


def tidy_union(schema: dict[str, Any], word: str) -> Schema:
    """The schema with a union of one branch drawn into it, and with "or null" as a type."""
    branches = schema[word]
    rest = {key: value for key, value in schema.items() if key != word}
    if word == "anyOf" and {} in branches:
        return rest
    possible = [branch for branch in branches if branch is not False]
    if not possible:
        return False if branches else rest
    alone = possible[0] if len(possible) == 1 else or_null(possible)
    if alone is None:
        return {**schema, word: possible}
    merged = merge(rest, alone)
    return merged if merged is not None else {**schema, word: possible}


def or_null(branches: list[Any]) -> dict[str, Any] | None:
    """Of two branches, one of them null, the other with null among its types; None where that cannot be said."""
    null = next(
        (branch for branch in branches if branch.get("type") == "null" and not branch.keys() - NULL_WORDS), None
    )
    other = next((branch for branch in branches if branch is not null), None)
    if len(branches) != 2 or null is None or other is None or not types_of(other):
        return None
    if "enum" in other and isinstance(other["enum"], list) and not other.keys() & (OF_ANY_KIND - {"enum"}):
        other = {**other, "enum": [*other["enum"], *([] if None in other["enum"] else [None])]}
    elif other.keys() & OF_ANY_KIND or "null" in types_of(other):
        return None
    kinds = types_of(other)
    return {**other, "type": kinds if "null" in kinds else [*kinds, "null"]}


def says_nothing(word: str, value: Any) -> bool:
    if word == "required":
        return not required_of({word: value})
    return word in ("additionalProperties", "items", "then", "else") and value == {}


def tidy_value(word: str, value: Any) -> Any:
    """What a keyword says, in its shortest form."""
    if word == "required":
        return required_of({word: value})
    return value[0] if word == "type" and isinstance(value, list) and len(value) == 1 else value
