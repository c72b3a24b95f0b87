"""Arguments against a JSON Schema: coerced where nothing is lost, then validated. It knows no server.

A model writes `"3"` for an integer, and an XML call has only text; a string stays a string whatever it looks like.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from .errors import ValidationError
from .schemas import properties_of, resolve

LONGEST_FAULT = 300
DEEPEST = 64


def check(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the schema wants them. Raises ValidationError, one sentence that names the fault.

    No remote `$ref` is fetched: a reference that is not in the schema is an error of the schema, and the server's
    own check then decides.
    """
    properties = properties_of(schema)
    coerced = {name: coerce(value, properties.get(name, {}), schema) for name, value in arguments.items()}
    if fault := find_fault(coerced, schema):
        raise ValidationError(fault[:LONGEST_FAULT], expected=dict(schema), got=dict(arguments))
    return coerced


def coerce(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    """The value in the schema's type if that loses nothing, else the value as it is."""
    if not isinstance(schema, Mapping):
        return value
    schema = resolve(schema, root)
    branches = branches_of(schema) or [schema]
    kinds = [kind for branch in branches for kind in kinds_of(branch, root)]
    if not kinds or any(is_kind(value, kind) for kind in kinds):
        return coerce_inside(value, schema, root)
    for kind in kinds:
        found = coerce_to(value, kind)
        if is_kind(found, kind):
            return coerce_inside(found, schema, root)
    return value


def coerce_inside(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    if isinstance(value, list) and "items" in schema:
        return [coerce(item, schema["items"], root) for item in value]
    properties = properties_of(schema)
    if isinstance(value, dict) and properties:
        return {key: coerce(item, properties.get(key, {}), root) for key, item in value.items()}
    return value


def branches_of(schema: Mapping[str, Any]) -> list[Any]:
    """What a value may be one of; empty where the schema does not branch."""
    branches = schema.get("anyOf") or schema.get("oneOf")
    return branches if isinstance(branches, list) else []


def kinds_of(schema: Any, root: Mapping[str, Any]) -> list[str]:
    kind = resolve(schema, root).get("type") if isinstance(schema, Mapping) else None
    kinds = kind if isinstance(kind, list) else [kind]
    return [kind for kind in kinds if isinstance(kind, str)]


def is_kind(value: Any, kind: str) -> bool:
    types: dict[str, tuple[type, ...]] = {
        "string": (str,),
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
        "array": (list,),
        "object": (dict,),
        "null": (type(None),),
    }
    return isinstance(value, types.get(kind, (object,))) and (kind == "boolean" or not isinstance(value, bool))


def coerce_to(value: Any, kind: str) -> Any:
    """The value as `kind` where its text says exactly that, else unchanged."""
    if kind == "string":
        return json.dumps(value) if isinstance(value, int | float) else value
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, str):
        return value
    text = value.strip()
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower(), value)
    try:
        parsed = json.loads(text, parse_constant=lambda word: word)
    except (ValueError, RecursionError):
        return None if kind == "null" and text in ("", "None") else value
    if isinstance(parsed, float) and not isfinite(parsed):  # 1e999
        return value
    return int(parsed) if kind == "integer" and isinstance(parsed, float) and parsed.is_integer() else parsed


def find_fault(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """One sentence on what is wrong, "" when nothing is."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from referencing import Registry

    validator = Draft202012Validator(without_patterns(schema), registry=Registry())
    try:
        error = best_match(validator.iter_errors(dict(arguments)))
    except Exception:  # jsonschema raises a dozen kinds for a broken schema or an unknown $ref
        return ""
    if error is None:
        return ""
    place = ".".join(str(part) for part in error.absolute_path)
    return f'Argument "{place}": {error.message}.' if place else f"{error.message}."


def without_patterns(schema: Any, depth: int = 0) -> Any:
    """The schema without regular expressions: a hostile one takes for ever, and the server checks its own anyway."""
    if depth > DEEPEST:
        return {}
    if isinstance(schema, Mapping):
        kept = {key: value for key, value in schema.items() if not (key == "pattern" and isinstance(value, str))}
        kept.pop("patternProperties", None)
        return {key: without_patterns(value, depth + 1) for key, value in kept.items()}
    return [without_patterns(item, depth + 1) for item in schema] if isinstance(schema, list) else schema
