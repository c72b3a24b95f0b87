"""Merge two JSON Schemas that both apply into one that allows exactly the same values, where there is one.

Unlike `resolve.combine_schemas`, which always merges, nothing may be lost here: what cannot be merged stays under
`allOf`. A schema is a dict, or False, which allows nothing; True is written {}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .resolve import json_equal, required_of, types_of

Schema = dict[str, Any] | bool

_TOGETHER = (
    {"properties", "patternProperties", "additionalProperties"},
    {"items", "prefixItems", "additionalItems"},
    {"contains", "minContains", "maxContains"},
    {"if", "then", "else"},
)
"""Groups of keywords that depend on each other: two schemas that both have keywords of a group cannot be merged."""
_LARGER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_SMALLER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_OF_ANY_KIND = frozenset(("$ref", "enum", "const", "not", "if", "then", "else", "allOf", "anyOf", "oneOf", "nullable"))
"""Keywords that may say something about null; `type` is considered besides."""
_NULL_WORDS = {"type", "description"}


def merge_schemas(one: Schema, other: Schema) -> Schema:
    """Return a schema for the values that both allow; what cannot be merged becomes `allOf`.

    Of two descriptions the first one stays.
    """
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    merged = _merge(one, other)
    return merged if merged is not None else {**one, "allOf": [*one.get("allOf", ()), other]}


def _merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any] | None:
    """Merge two schemas; None if that is impossible."""
    further = {word: value for word, value in other.items() if word not in one}
    if not other or not one or other.keys() == {"description"}:
        return {**one, **further}
    if "nullable" in one or "nullable" in other or any(_is_entangled(one, other, words) for words in _TOGETHER):
        return None
    merged = {**one, **further}
    for word in one.keys() & other.keys() - {"description"}:
        both = _both_of(word, one[word], other[word])
        if both is None:
            return None
        merged[word] = both
    return merged


def _is_entangled(one: Mapping[str, Any], other: Mapping[str, Any], words: set[str]) -> bool:
    mine, others = words & one.keys(), words & other.keys()
    return bool(mine and others) and mine | others != {"properties"}


def _both_of(word: str, one: Any, other: Any) -> Any:
    """Merge two values of a keyword; None if that is impossible."""
    if json_equal(one, other):
        return one
    if word == "properties" and isinstance(one, Mapping) and isinstance(other, Mapping):
        return {**one, **other, **{name: merge_schemas(one[name], other[name]) for name in one.keys() & other.keys()}}
    if word == "required":
        return list(dict.fromkeys([*required_of({word: one}), *required_of({word: other})]))
    if word == "allOf":
        return [*one, *other]
    if word in _LARGER + _SMALLER and all(type(bound) in (int, float) for bound in (one, other)):
        return max(one, other) if word in _LARGER else min(one, other)
    return _both_kinds(one, other) if word == "type" else None


def _both_kinds(one: Any, other: Any) -> str | list[str] | None:
    """Return the types that two `type` keywords both allow: an integer is a number."""
    mine, others = types_of({"type": one}), types_of({"type": other})
    found = [kind for kind in mine if kind in others or (kind == "integer" and "number" in others)]
    found += [kind for kind in others if kind == "integer" and "number" in mine and kind not in found]
    return (found[0] if len(found) == 1 else found) or None


def normalize_schema(schema: Schema) -> Schema:
    """Remove keywords without effect; merge `allOf` and unions of one branch into the schema."""
    if not isinstance(schema, dict):
        return schema
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            schema = _tidy_union(schema, word)
            if not isinstance(schema, dict):
                return False
    parts = schema.get("allOf")
    if isinstance(parts, list):
        found: Schema = {key: value for key, value in schema.items() if key != "allOf"}
        for part in parts:
            found = merge_schemas(found, part)
        if not isinstance(found, dict):
            return False
        schema = found
    return {word: _tidy_value(word, value) for word, value in schema.items() if not _says_nothing(word, value)}


def _tidy_union(schema: dict[str, Any], word: str) -> Schema:
    """Merge a union of one branch into the schema, and turn "or null" into a type."""
    branches = schema[word]
    rest = {key: value for key, value in schema.items() if key != word}
    if word == "anyOf" and {} in branches:
        return rest
    possible = [branch for branch in branches if branch is not False]
    if not possible:
        return False if branches else rest
    alone = possible[0] if len(possible) == 1 else _or_null(possible)
    if alone is None:
        return {**schema, word: possible}
    merged = _merge(rest, alone)
    return merged if merged is not None else {**schema, word: possible}


def _or_null(branches: list[Any]) -> dict[str, Any] | None:
    """Merge two branches, one of them null, into the other with null among its types; None if that is impossible."""
    null = next(
        (branch for branch in branches if branch.get("type") == "null" and not branch.keys() - _NULL_WORDS), None
    )
    other = next((branch for branch in branches if branch is not null), None)
    if len(branches) != 2 or null is None or other is None or not types_of(other):
        return None
    if "enum" in other and isinstance(other["enum"], list) and not other.keys() & (_OF_ANY_KIND - {"enum"}):
        other = {**other, "enum": [*other["enum"], *([] if None in other["enum"] else [None])]}
    elif other.keys() & _OF_ANY_KIND or "null" in types_of(other):
        return None
    kinds = types_of(other)
    return {**other, "type": kinds if "null" in kinds else [*kinds, "null"]}


def _says_nothing(word: str, value: Any) -> bool:
    if word == "required":
        return not required_of({word: value})
    return word in ("additionalProperties", "items", "then", "else") and value == {}


def _tidy_value(word: str, value: Any) -> Any:
    """Return the shortest equivalent value of a keyword."""
    if word == "required":
        return required_of({word: value})
    return value[0] if word == "type" and isinstance(value, list) and len(value) == 1 else value
