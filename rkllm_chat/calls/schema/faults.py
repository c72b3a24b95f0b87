"""Find what makes a JSON Schema invalid, for a client that sends one: it learns so instead of getting a looser reply.

Schemas of MCP servers are read as far as they can be instead, see `resolve.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .resolve import follow_pointer

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_SCHEMAS = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMA_TABLES = ("properties", "patternProperties", "$defs", "definitions")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_MAX_PARTS, _MAX_QUOTED = 20_000, 100


def find_schema_fault(schema: Any) -> str:
    """Return the first keyword of a schema that has no valid value, with its place; "" if there is none."""
    pending: list[tuple[str, Any]] = [("", schema)]
    for _ in range(_MAX_PARTS):
        if not pending:
            return ""
        place, part = pending.pop()
        if isinstance(part, bool):
            continue
        if not isinstance(part, Mapping):
            return f"{place or 'the schema'} is no object"
        if fault := _find_wrong_value(part, schema):
            return f"{place}.{fault}".lstrip(".")
        pending += _list_parts(place, part)
    return "it is too large"


def _list_parts(place: str, part: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the schemas in a schema with their places."""
    found = [(f"{place}.{key}", part[key]) for key in _SCHEMAS if key in part and not isinstance(part[key], list)]
    for key in (*_SCHEMA_LISTS, "items"):
        if isinstance(part.get(key), list):
            found += [(f"{place}.{key}.{index}", schema) for index, schema in enumerate(part[key])]
    for key in _SCHEMA_TABLES:
        found += [(f"{place}.{key}.{name}", schema) for name, schema in part.get(key, {}).items()]
    return [(where.lstrip("."), schema) for where, schema in found]


def _find_wrong_value(part: Mapping[str, Any], root: Any) -> str:
    kinds = part.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in _TYPES:
            return f"type: {kind!r:.{_MAX_QUOTED}} is no type"
    shapes = (
        (_SCHEMA_TABLES, dict, "no object"),
        (_SCHEMA_LISTS, list, "no list"),
        (("enum", "required"), list, "no list"),
        (("pattern", "$ref"), str, "no text"),
    )
    for keys, shape, fault in shapes:
        for key in keys:
            if key in part and not isinstance(part[key], shape):
                return f"{key} is {fault}"
    if not all(isinstance(name, str) for name in part.get("required", [])):
        return "required has something else than names"
    return _find_wrong_number(part) or _find_wrong_text(part, root)


def _find_wrong_number(part: Mapping[str, Any]) -> str:
    for key in (*_COUNTS, *_NUMBERS):
        value = part.get(key, 0)
        is_old_flag = key.startswith("exclusive") and isinstance(value, bool)  # of draft 4
        is_number = isinstance(value, int if key in _COUNTS else int | float) and not isinstance(value, bool)
        if not is_old_flag and (not is_number or (key in _COUNTS and value < 0)):
            return f"{key}: {value!r:.{_MAX_QUOTED}} is no {'count' if key in _COUNTS else 'number'}"
    return ""


def _find_wrong_text(part: Mapping[str, Any], root: Any) -> str:
    try:
        re.compile(part.get("pattern", ""))
    except (re.error, OverflowError, RecursionError) as error:
        return f"pattern: {error}"
    reference = part.get("$ref", "#")
    if reference.startswith("#/") and follow_pointer(reference, root) is None:
        return f"$ref: {reference[:_MAX_QUOTED]} is not in the schema"
    return ""
