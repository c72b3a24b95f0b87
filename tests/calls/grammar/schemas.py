"""Schemas as servers write them, and values that they take, drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]

NAMES = st.text(st.sampled_from("abck_-日é"), min_size=1, max_size=4)
CHARACTERS = st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from('"\\<>&\n/{}[]日😀'))
TEXTS = st.text(CHARACTERS, max_size=8)
CHOICES = st.one_of(TEXTS, st.integers(-100, 100), st.booleans(), st.none())
STEPS = st.integers(-4000, 4000).map(lambda number: number / 100)


@st.composite
def ranges(draw: st.DrawFn, kind: str) -> Schema:
    """A schema of numbers, with some bounds."""
    ends = st.integers(-3000, 3000) if kind == "integer" else STEPS
    low, high = sorted((draw(ends), draw(ends)))
    words = {}
    if draw(st.booleans()):
        words[draw(st.sampled_from(["minimum", "exclusiveMinimum"]))] = low
    if draw(st.booleans()):
        words[draw(st.sampled_from(["maximum", "exclusiveMaximum"]))] = high + 2
    return {"type": kind, **words}


@st.composite
def counted(draw: st.DrawFn, schema: Schema, what: str, most: int) -> Schema:
    words = {}
    if draw(st.booleans()):
        words[f"min{what}"] = draw(st.integers(0, 3))
    if draw(st.booleans()):
        words[f"max{what}"] = draw(st.integers(3, most))
    return {**schema, **words}


@cache
def scalars() -> st.SearchStrategy[Schema]:
    return st.one_of(
        counted({"type": "string"}, "Length", 80),
        ranges("integer"),
        ranges("number"),
        st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["integer", "null"]}, {"const": "x<y"}]),
        st.lists(TEXTS, min_size=1, max_size=4, unique=True).map(lambda texts: {"type": "string", "enum": texts}),
        st.lists(CHOICES, min_size=1, max_size=4).map(lambda choices: {"enum": choices}),
    )


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(NAMES, inner, max_size=4))
    required = [name for name in properties if draw(st.booleans())]
    return {"type": "object", "properties": properties, "required": required}


@cache
def schemas() -> st.SearchStrategy[Schema]:
    """Anything that a value may be."""
    return st.recursive(
        scalars(),
        lambda inner: st.one_of(
            inner.flatmap(lambda items: counted({"type": "array", "items": items}, "Items", 40)),
            objects(inner),
            st.lists(inner.filter(lambda schema: "anyOf" not in schema), min_size=1, max_size=3).map(
                lambda branches: {"anyOf": branches}
            ),
        ),
        max_leaves=6,
    )


@cache
def tool_schemas() -> st.SearchStrategy[Schema]:
    return objects(st.one_of(schemas(), st.just({"$ref": "#/$defs/tree"}))).map(
        lambda schema: {**schema, "$defs": {"tree": TREE}}
    )


TREE = {
    "type": "object",
    "properties": {"leaf": {"type": "boolean"}, "trees": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    "required": ["leaf"],
}


def grown(leaf: bool, trees: list[Any]) -> dict[str, Any]:
    return {"leaf": leaf, "trees": trees}


TREES = st.recursive(
    st.fixed_dictionaries({"leaf": st.booleans()}),
    lambda inner: st.builds(grown, st.booleans(), st.lists(inner, max_size=2)),
    max_leaves=4,
)


def values(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """A value that a schema takes, keys in its order."""
    if "$ref" in schema:
        return TREES
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([values(branch) for branch in schema["anyOf"]])
    if "const" in schema:
        return st.just(schema["const"])
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    return VALUES[kind](schema)


def whole_numbers(schema: Mapping[str, Any]) -> st.SearchStrategy[int]:
    low, high = schema.get("minimum"), schema.get("maximum")
    low = schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else low
    high = schema["exclusiveMaximum"] - 1 if "exclusiveMaximum" in schema else high
    return st.integers(-(10**18) if low is None else low, 10**18 if high is None else high)


def numbers(schema: Mapping[str, Any]) -> st.SearchStrategy[float]:
    """Within bounds numbers with few digits; without any, whatever a double is but the very large and small."""
    ends = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} & schema.keys()
    if not ends:
        return st.floats(-1e307, 1e307, allow_subnormal=False).filter(lambda number: not 0 < abs(number) < 1e-307)
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    low = high - 1000 if low is None else low
    high = low + 1000 if high is None else high
    steps = st.integers(round(low * 100) + 1, round(high * 100) - 1)
    inner = steps.map(lambda step: step / 100)
    ends_in = [schema[word] for word in ("minimum", "maximum") if word in schema]
    return st.one_of(inner, st.sampled_from(ends_in)) if ends_in else inner


def members(schema: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    properties, required = schema["properties"], schema["required"]
    given = {name: values(child) for name, child in properties.items() if name in required}
    optional = {name: values(child) for name, child in properties.items() if name not in required}
    drawn = st.fixed_dictionaries(given, optional=optional)
    return drawn.map(lambda found: {name: found[name] for name in properties if name in found})


VALUES = {
    "string": lambda schema: st.text(
        CHARACTERS, min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 30)
    ),
    "integer": whole_numbers,
    "number": numbers,
    "boolean": lambda _: st.booleans(),
    "null": lambda _: st.none(),
    "array": lambda schema: st.lists(
        values(schema["items"]), min_size=schema.get("minItems", 0), max_size=min(schema.get("maxItems", 4), 40)
    ),
    "object": members,
}
