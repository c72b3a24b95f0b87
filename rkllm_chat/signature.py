"""Whether arguments fit a tool's schema, as far as is seen quickly: what must be there, of which type, which values.

`arguments.py` validates everything, with a library that takes 0.1 s to import. What passes here may still be refused by
the server, whose word is the last; what is refused here would be refused there too.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NamedTuple

    class Fault(NamedTuple):
        """What is wrong, in one sentence; `path` is where, as "point.x"."""

        sentence: str
        path: str
        expected: Any
        got: Any
else:
    from collections import namedtuple

    Fault = namedtuple("Fault", "sentence path expected got")

DEEPEST = 32
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def find_fault(arguments: Any, schema: Any, root: Any = None, path: str = "", depth: int = 0) -> Fault | None:
    """The first thing that does not fit (JSON Schema 2020-12: type, enum, const, required, properties, items, $ref)."""
    root = schema if root is None else root
    schema = resolve(schema, root)
    if not isinstance(schema, dict) or depth > DEEPEST:
        return None
    return find_own(arguments, schema, path) or find_inside(arguments, schema, root, path, depth)


def find_own(value: Any, schema: dict[str, Any], path: str) -> Fault | None:
    """What is wrong with the value itself."""
    where = f'"{path}"' if path else "what is given"
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if all(isinstance(kind, str) and kind in TYPES for kind in kinds) and not any(
        is_kind(value, kind) for kind in kinds
    ):
        expected = " or ".join(kinds)
        return Fault(f"{where} must be of type {expected}, not {name_type(value)}.", path, expected, value)
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(is_same(value, choice) for choice in choices):
        return Fault(f"{where} must be one of {', '.join(map(repr, choices))}.", path, choices, value)
    if "const" in schema and not is_same(value, schema["const"]):
        return Fault(f"{where} must be {schema['const']!r}.", path, schema["const"], value)
    return None


def find_inside(value: Any, schema: dict[str, Any], root: Any, path: str, depth: int) -> Fault | None:
    """What is wrong in an object or a list."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        parts = [(f"{path}.{i}".lstrip("."), item, schema["items"]) for i, item in enumerate(value)]
    elif isinstance(value, dict):
        if fault := find_missing(value, schema, path):
            return fault
        known = schema.get("properties")
        known = known if isinstance(known, dict) else {}
        parts = [(f"{path}.{name}".lstrip("."), item, known[name]) for name, item in value.items() if name in known]
    else:
        return None
    faults = (find_fault(item, inner, root, place, depth + 1) for place, item, inner in parts)
    return next((fault for fault in faults if fault), None)


def find_missing(value: dict[str, Any], schema: dict[str, Any], path: str) -> Fault | None:
    """A name that has to be there and is not, or one that must not be there."""
    prefix = f"{path}." if path else ""
    required, known = schema.get("required"), schema.get("properties")
    for name in required if isinstance(required, list) else []:
        if isinstance(name, str) and name not in value:
            return Fault(f'"{prefix}{name}" is required and missing.', prefix + name, describe(known, name), None)
    if schema.get("additionalProperties") is False and isinstance(known, dict) and "patternProperties" not in schema:
        for name in value:
            if name not in known and not schema.keys() & {"allOf", "anyOf", "oneOf"}:
                from difflib import get_close_matches

                near = get_close_matches(name, list(known), n=1)
                hint = f'Did you mean "{near[0]}"?' if near else f"There are {', '.join(known) or 'none'}."
                return Fault(f'there is no "{prefix}{name}". {hint}', prefix + name, list(known), value[name])
    return None


def describe(properties: Any, name: str) -> Any:
    """What is expected under a name: its type if it has one, else its schema."""
    inner = properties.get(name) if isinstance(properties, dict) else None
    return inner.get("type", inner) if isinstance(inner, dict) else "a value"


def is_kind(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES[kind])


def is_same(value: Any, choice: Any) -> bool:
    return value == choice and isinstance(value, bool) == isinstance(choice, bool)


def name_type(value: Any) -> str:
    return next(
        kind for kind in ("null", "boolean", "integer", "number", "string", "array", "object") if is_kind(value, kind)
    )


def resolve(schema: Any, root: Any) -> Any:
    """Follows a local `$ref`, at most eight steps; of anything else nothing is known."""
    for _ in range(8):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str):
            return schema
        if not reference.startswith("#/"):
            return None
        target: Any = root
        for key in reference[2:].split("/"):
            target = target.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
        schema = target
    return None
