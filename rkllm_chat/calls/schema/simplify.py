"""Shorten a JSON Schema without changing which values are valid.

Removed are titles, defaults (servers apply their own), examples, ids and everything else that does not validate;
references are inlined, `allOf` is merged where that is lossless, descriptions are shortened. Engines with native tool
calling receive such schemas, and the tool listing is written from them. Parts beyond the limits of size and depth
allow anything; the server validates them anyway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any

from .descriptions import extract_note
from .merge import Schema, merge_schemas, normalize_schema
from .resolve import READING_STEPS, BudgetedSchema, BudgetExceededError, follow_pointer, spend_steps
from .validate import KEYWORD_CHECKS

MAX_DEPTH = 64
_MAX_DESCRIPTION_LENGTH = 240
_MAX_COPY_LENGTH = 200
"""Length in characters up to which a definition is inlined at every reference; a longer one only if referenced once."""

_MANY_USES = 2

_SUBSCHEMA = (
    "not",
    "if",
    "then",
    "else",
    "contains",
    "items",
    "additionalItems",
    "additionalProperties",
    "propertyNames",
)
_SUBSCHEMA_LIST = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SUBSCHEMA_TABLE = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_DEFINITIONS = ("$defs", "definitions")
_VALIDATING = {*KEYWORD_CHECKS, "minContains", "maxContains", "then", "else", "additionalItems", "nullable"}
_VALIDATING |= {"format", "contentEncoding", "contentMediaType"}
_ANNOTATIONS = {"title", "default", "examples", "example", "$comment", "deprecated", "readOnly", "writeOnly"}
"""Keywords that are removed even where the structure must stay."""
_LOCATION_KEYWORDS = {"$id", "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"}
"""Keywords that make a schema depend on its location."""


def simplify_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten the schema of a tool's arguments; exactly the same values stay valid."""
    simplified = _Simplifier(schema).simplify_root()
    return simplified if isinstance(simplified, dict) else {"not": {}}


class _Simplifier:
    """The shortening of one schema. Circular references stay, and long definitions that are used more than once."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self.budget = BudgetedSchema({}, READING_STEPS)
        self.uses, references = _count_uses(schema)
        self.circular = _circular_of(references)
        self.is_rigid = any(not _is_local(reference) for reference in self.uses)
        self.names: dict[str, str] = {}
        self.definitions: dict[str, Schema] = {}

    def simplify_root(self) -> Schema:
        simplified = self.simplify(self.schema, "", 0)
        if not self.names or not isinstance(simplified, dict):
            return simplified
        return {**simplified, "$defs": {name: self.definitions[pointer] for pointer, name in self.names.items()}}

    def simplify(self, schema: Any, name: str, depth: int) -> Schema:
        """Shorten a subschema; `name` is that of its property, which its description need not repeat."""
        if not isinstance(schema, Mapping):
            return False if schema is False else {}
        try:
            spend_steps(self.budget)
        except BudgetExceededError:
            return {}
        if depth > MAX_DEPTH:
            return {}
        simplified = dict(self.simplify_keywords(schema, depth))
        if description := extract_note(schema.get("description"), [name], _MAX_DESCRIPTION_LENGTH):
            simplified["description"] = description
        if self.is_rigid:
            return simplified
        reference = schema.get("$ref")
        return normalize_schema(
            merge_schemas(simplified, self.inline(reference, depth)) if isinstance(reference, str) else simplified
        )

    def simplify_keywords(self, schema: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
        """Yield the keywords of a schema except its description and reference, with subschemas shortened."""
        named = (*_SUBSCHEMA_TABLE, *_DEFINITIONS) if self.is_rigid else _SUBSCHEMA_TABLE
        for key, value in schema.items():
            if key in named and isinstance(value, Mapping):
                yield key, {name: self.simplify_entry(entry, name, depth) for name, entry in value.items()}
            elif key in _SUBSCHEMA_LIST and isinstance(value, list):
                yield key, [self.simplify(entry, "", depth + 1) for entry in value]
            elif key in _SUBSCHEMA and isinstance(value, Mapping | bool):
                yield key, self.simplify(value, "", depth + 1)
            elif key in (*_SUBSCHEMA_TABLE, *_SUBSCHEMA_LIST, *_SUBSCHEMA):  # invalid, so it has no effect
                continue
            elif key in _VALIDATING or (self.is_rigid and key not in _ANNOTATIONS and key != "description"):
                yield key, value

    def simplify_entry(self, schema: Any, name: str, depth: int) -> Any:
        return schema if isinstance(schema, list) else self.simplify(schema, name, depth + 1)

    def inline(self, reference: str, depth: int) -> Schema:
        """Return what replaces a reference: its schema, or a reference to its definition."""
        if reference == "#":
            return {"$ref": reference}
        if reference in self.circular or reference in self.names:
            return self.define(reference, depth)
        simplified = self.definition(reference, depth)
        is_copied = (
            self.uses.get(reference, _MANY_USES) < _MANY_USES
            or len(json.dumps(simplified, default=str)) <= _MAX_COPY_LENGTH
        )
        return simplified if is_copied else self.define(reference, depth)

    def definition(self, reference: str, depth: int) -> Schema:
        if reference not in self.definitions:
            self.definitions[reference] = self.simplify(follow_pointer(reference, self.schema), "", depth + 1)
        return self.definitions[reference]

    def define(self, reference: str, depth: int) -> Schema:
        """Keep a definition under the last part of its name and return a reference to it."""
        if reference not in self.names:
            last = re.sub(r"\W+", "_", reference.rpartition("/")[2]) or "_"
            names = (last, *(f"{last}_{number}" for number in range(2, len(self.names) + 3)))
            taken = set(self.names.values())
            self.names[reference] = next(name for name in names if name not in taken)
            self.definition(reference, depth)
        return {"$ref": f"#/$defs/{self.names[reference]}"}


def _is_local(reference: str) -> bool:
    return reference == "#" or reference.startswith("#/")


def _count_uses(schema: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Count how often each reachable reference is used, and collect the references inside each of their targets.

    "" denotes a subschema that depends on its location. Empty for a schema that is too large.
    """
    uses: dict[str, int] = {}
    references: dict[str, set[str]] = {}
    budget = BudgetedSchema({}, READING_STEPS)
    waiting: list[tuple[str, Any]] = [("", {key: value for key, value in schema.items() if key != "$id"})]
    try:
        while waiting:
            inside, root = waiting.pop()
            for reference in _references_in(root, budget):
                uses[reference] = uses.get(reference, 0) + 1
                references.setdefault(inside, set()).add(reference)
                if reference not in references and _is_local(reference):
                    references[reference] = set()
                    waiting.append((reference, follow_pointer(reference, schema)))
    except BudgetExceededError:
        return {}, {}
    return uses, references


def _references_in(schema: Any, budget: BudgetedSchema) -> Iterator[str]:
    """Yield the references in a schema, except those in its definitions."""
    waiting = [schema]
    while waiting:
        spend_steps(budget)
        part = waiting.pop()
        if not isinstance(part, Mapping):
            continue
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        if part.keys() & _LOCATION_KEYWORDS:
            yield ""
        for key, value in part.items():
            if key in _SUBSCHEMA_TABLE and isinstance(value, Mapping):
                waiting += value.values()
            elif key in _SUBSCHEMA_LIST and isinstance(value, list):
                waiting += value
            elif key in _SUBSCHEMA:
                waiting.append(value)


def _circular_of(references: Mapping[str, set[str]]) -> set[str]:
    """Return the references that lead back to themselves, and those between two such cycles."""
    backwards: dict[str, set[str]] = {pointer: set() for pointer in references}
    for pointer, others in references.items():
        for other in others:
            backwards.setdefault(other, set()).add(pointer)
    return set(references) - _acyclic_of(references) - _acyclic_of(backwards)


def _acyclic_of(references: Mapping[str, set[str]]) -> set[str]:
    """Return all references that lead to no cycle."""
    sorter = TopologicalSorter(references)
    with suppress(CycleError):  # raised for the first cycle; what depends on no cycle is sorted nevertheless
        sorter.prepare()
    acyclic: set[str] = set()
    while ready := sorter.get_ready():
        acyclic.update(ready)
        sorter.done(*ready)
    return acyclic
