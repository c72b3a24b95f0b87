"""A JSON Schema without what no call needs: as short as it goes while it lets through exactly what it did. It is pure.

Gone are titles, defaults (a server applies its own), examples, ids and whatever else judges nothing; references are
followed, `allOf` is drawn together where that loses nothing, descriptions are shortened. Engines with tools of their
own are given schemas so; `sketch.py` writes its lines from them.

A schema that is too large or too deep lets anything through where it is cut: its server decides, as it does anyway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .brief import note
from .conjoin import Schema, conjoin, tidy
from .faults import CHECKS
from .schemas import Bounded, TooCostlyError, follow, spend

DEEPEST = 64
MOST_STEPS = 20_000
LONGEST_DESCRIPTION = 240
LONGEST_COPY = 200
"""Characters of a definition that is written out wherever it is referred to; a longer one only if that is once."""

MANY_USES = 2

ONE = ("not", "if", "then", "else", "contains", "items", "additionalItems", "additionalProperties", "propertyNames")
MANY = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
NAMED = ("properties", "patternProperties", "dependentSchemas", "dependencies")
DEFINITIONS = ("$defs", "definitions")
KEPT = {*CHECKS, "minContains", "maxContains", "then", "else", "additionalItems", "nullable"}
KEPT |= {"format", "contentEncoding", "contentMediaType"}
DROPPED = {"title", "default", "examples", "example", "$comment", "deprecated", "readOnly", "writeOnly"}
"""All that goes where the structure must stay."""
ELSEWHERE = {"$id", "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"}
"""Words by which a schema depends on where it stands."""


def slim(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments on its diet: a value fits it exactly when it fits the one that is given."""
    found = Diet(schema).root()
    return found if isinstance(found, dict) else {"not": {}}


class Diet:
    """One schema on its way. References that lead back to themselves stay, and the long ones that are used twice."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self.bound = Bounded({}, MOST_STEPS)
        self.uses, leads = count_uses(schema)
        self.circular = circular_of(leads)
        self.is_rigid = any(not is_local(reference) for reference in self.uses)
        self.names: dict[str, str] = {}
        self.definitions: dict[str, Schema] = {}

    def root(self) -> Schema:
        found = self.of(self.schema, "", 0)
        if not self.names or not isinstance(found, dict):
            return found
        return {**found, "$defs": {name: self.definitions[one] for one, name in self.names.items()}}

    def of(self, schema: Any, name: str, depth: int) -> Schema:
        """A schema anywhere in it; `name` is that of the property, for which its description need not speak."""
        if not isinstance(schema, Mapping):
            return False if schema is False else {}
        try:
            spend(self.bound)
        except TooCostlyError:
            return {}
        if depth > DEEPEST:
            return {}
        found = dict(self.words(schema, depth))
        if told := note(schema.get("description"), [name], LONGEST_DESCRIPTION):
            found["description"] = told
        if self.is_rigid:
            return found
        reference = schema.get("$ref")
        return tidy(conjoin(found, self.target(reference, depth)) if isinstance(reference, str) else found)

    def words(self, schema: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
        """What a schema says but for its description and where it refers to, all inner schemas slim."""
        named = (*NAMED, *DEFINITIONS) if self.is_rigid else NAMED
        for key, value in schema.items():
            if key in named and isinstance(value, Mapping):
                yield key, {name: self.dependent(one, name, depth) for name, one in value.items()}
            elif key in MANY and isinstance(value, list):
                yield key, [self.of(one, "", depth + 1) for one in value]
            elif key in ONE and isinstance(value, Mapping | bool):
                yield key, self.of(value, "", depth + 1)
            elif key in (*NAMED, *MANY, *ONE):  # broken, so it says nothing
                continue
            elif key in KEPT or (self.is_rigid and key not in DROPPED and key != "description"):
                yield key, value

    def dependent(self, schema: Any, name: str, depth: int) -> Any:
        return schema if isinstance(schema, list) else self.of(schema, name, depth + 1)

    def target(self, reference: str, depth: int) -> Schema:
        """What a reference says: its schema, or the reference to its definition."""
        if reference == "#":
            return {"$ref": reference}
        if reference in self.circular or reference in self.names:
            return self.define(reference, depth)
        found = self.definition(reference, depth)
        is_copied = (
            self.uses.get(reference, MANY_USES) < MANY_USES or len(json.dumps(found, default=str)) <= LONGEST_COPY
        )
        return found if is_copied else self.define(reference, depth)

    def definition(self, reference: str, depth: int) -> Schema:
        if reference not in self.definitions:
            self.definitions[reference] = self.of(follow(reference, self.schema), "", depth + 1)
        return self.definitions[reference]

    def define(self, reference: str, depth: int) -> Schema:
        """Keeps a definition, under the last part of its name, and refers to it."""
        if reference not in self.names:
            last = re.sub(r"\W+", "_", reference.rpartition("/")[2]) or "_"
            names = (last, *(f"{last}_{number}" for number in range(2, len(self.names) + 3)))
            taken = set(self.names.values())
            self.names[reference] = next(name for name in names if name not in taken)
            self.definition(reference, depth)
        return {"$ref": f"#/$defs/{self.names[reference]}"}


def is_local(reference: str) -> bool:
    return reference == "#" or reference.startswith("#/")


def count_uses(schema: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, set[str]]]:
    """How often each reference stands where something leads to it, and which references stand in what each leads to;
    "" stands for what depends on its place. Of a schema too large to be counted, nothing."""
    uses: dict[str, int] = {}
    leads: dict[str, set[str]] = {}
    bound = Bounded({}, MOST_STEPS)
    waiting: list[tuple[str, Any]] = [("", {key: value for key, value in schema.items() if key != "$id"})]
    try:
        while waiting:
            inside, root = waiting.pop()
            for reference in references_in(root, bound):
                uses[reference] = uses.get(reference, 0) + 1
                leads.setdefault(inside, set()).add(reference)
                if reference not in leads and is_local(reference):
                    leads[reference] = set()
                    waiting.append((reference, follow(reference, schema)))
    except TooCostlyError:
        return {}, {}
    return uses, leads


def references_in(schema: Any, bound: Bounded) -> Iterator[str]:
    """The references in a schema, its definitions left out."""
    waiting = [schema]
    while waiting:
        spend(bound)
        one = waiting.pop()
        if not isinstance(one, Mapping):
            continue
        if isinstance(one.get("$ref"), str):
            yield one["$ref"]
        if one.keys() & ELSEWHERE:
            yield ""
        for key, value in one.items():
            if key in NAMED and isinstance(value, Mapping):
                waiting += value.values()
            elif key in MANY and isinstance(value, list):
                waiting += value
            elif key in ONE:
                waiting.append(value)


def circular_of(leads: Mapping[str, set[str]]) -> set[str]:
    """The references that lead back to themselves, and those between two such circles."""
    backwards: dict[str, set[str]] = {one: set() for one in leads}
    for one, others in leads.items():
        for other in others:
            backwards.setdefault(other, set()).add(one)
    ends = peel(leads, backwards)
    return set(leads) - ends - peel(backwards, leads)


def peel(leads: Mapping[str, set[str]], backwards: Mapping[str, set[str]]) -> set[str]:
    """All that leads to no circle: what leads nowhere, then what leads only there, and so on."""
    open_ways = {one: len(others) for one, others in leads.items()}
    waiting = [one for one in backwards if not open_ways.get(one)]
    found: set[str] = set()
    while waiting:
        one = waiting.pop()
        found.add(one)
        for other in backwards.get(one, ()):
            open_ways[other] -= 1
            if not open_ways[other]:
                waiting.append(other)
    return found
