"""What is wrong with a value by a schema: judged as jsonschema judges, and said in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fuzzing import examples
from rkllm_chat.faults import find_faults, is_fit
from rkllm_chat.schemas import Bounded, TooCostlyError, leaves_of

NAMES = st.sampled_from(["a", "b", "cc"])
NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 0.5, 1.0, 2.5, 10**20])
TEXTS = st.sampled_from(["", "a", "ab", "abc", "1", "ä😀"])
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
COUNTS = st.integers(0, 3)
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
PATTERNS = st.sampled_from(["^a", "b$", "^[0-9]+$", "."])


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of up to four keywords."""
    branches = st.lists(inner, min_size=1, max_size=3)
    table = st.dictionaries(NAMES, inner, max_size=2)
    known: dict[str, st.SearchStrategy[Any]] = {
        "type": KINDS | st.lists(KINDS, min_size=1, max_size=2, unique=True),
        "enum": st.lists(SCALARS, min_size=1, max_size=3),
        "const": VALUES,
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "exclusiveMinimum": NUMBERS,
        "exclusiveMaximum": NUMBERS,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": COUNTS,
        "maxLength": COUNTS,
        "minItems": COUNTS,
        "maxItems": COUNTS,
        "minProperties": COUNTS,
        "maxProperties": COUNTS,
        "uniqueItems": st.booleans(),
        "pattern": PATTERNS,
        "items": inner,
        "prefixItems": branches,
        "contains": inner,
        "minContains": COUNTS,
        "properties": table,
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "propertyNames": inner,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
        "dependentSchemas": table,
        "allOf": branches,
        "anyOf": branches,
        "oneOf": branches,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "$ref": st.sampled_from(["#/$defs/one", "#/$defs/two"]),
    }
    words = st.lists(st.sampled_from(sorted(known)), max_size=4, unique=True)
    return words.flatmap(lambda chosen: st.fixed_dictionaries({word: known[word] for word in chosen}))


SCHEMAS = st.recursive(st.booleans() | keywords(st.booleans()), keywords, max_leaves=8)
LEAVES = st.booleans() | st.fixed_dictionaries({"type": KINDS})


@settings(max_examples=examples(600))
@given(schema=SCHEMAS, one=LEAVES, two=LEAVES, value=VALUES)
def test_a_value_is_faulty_exactly_when_jsonschema_says_so(schema: Any, one: Any, two: Any, value: Any) -> None:
    root = {"$defs": {"one": one, "two": two}, "properties": {"x": schema}}
    faults = list(find_faults({"x": value}, root, root))
    assert (not faults) is Draft202012Validator(root).is_valid({"x": value}), faults


@pytest.mark.parametrize(
    ("schema", "value", "place", "sentence"),
    [
        ({"type": "integer"}, "3", (), 'must be a whole number, not "3"'),
        ({"type": ["integer", "null"]}, 2.5, (), "must be a whole number or null, not 2.5"),
        ({"enum": ["red", "green"]}, "gren", (), 'must be one of red, green, not "gren" (did you mean "green"?)'),
        ({"enum": ["red", "green"]}, "RED", (), 'must be one of red, green, not "RED" (did you mean "red"?)'),
        ({"type": "integer", "nullable": True}, "x", (), 'must be a whole number or null, not "x"'),
        ({"const": 3}, 4, (), "must be 3, not 4"),
        ({"minimum": 1}, 0, (), "must be at least 1, not 0"),
        ({"maximum": 1.5}, 2, (), "must be at most 1.5, not 2"),
        ({"exclusiveMinimum": 0}, 0, (), "must be more than 0, not 0"),
        ({"exclusiveMaximum": 9}, 9, (), "must be less than 9, not 9"),
        ({"multipleOf": 0.1}, 0.35, (), "must be a multiple of 0.1, not 0.35"),
        ({"minLength": 2}, "a", (), "must have at least 2 characters, not 1"),
        ({"maxLength": 1}, "ab", (), "must have at most 1 character, not 2"),
        ({"minItems": 1}, [], (), "must have at least 1 entry, not 0"),
        ({"uniqueItems": True}, [1, 2, 1.0], (), "must not hold 1.0 twice"),
        ({"pattern": "^[a-z]+$"}, "A1", (), 'must fit the pattern ^[a-z]+$, not "A1"'),
        ({"items": {"type": "string"}}, ["a", 1], (1,), "must be text, not 1"),
        ({"contains": {"type": "string"}}, [1], (), "has 0 entries that are text: too few"),
        ({"properties": {"a": {"type": "string"}}}, {"a": None}, ("a",), "must be text, not null"),
        ({"required": ["a"]}, {}, ("a",), "is required"),
        (
            {"properties": {"colour": {}}, "additionalProperties": False},
            {"color": 1},
            ("color",),
            'is unknown (did you mean "colour"?)',
        ),
        (
            {"propertyNames": {"maxLength": 1}},
            {"ab": 1},
            (),
            'has the name "ab", which must have at most 1 character, not 2',
        ),
        ({"anyOf": [{"type": "integer"}, {"enum": ["auto"]}]}, "x", (), 'must be a whole number, or auto, not "x"'),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 0}]},
            3,
            (),
            "fits 2 of the forms it may have, and may fit only one",
        ),
        ({"not": {"type": "null"}}, None, (), "must not be null"),
        (False, 1, (), "must not be given"),
    ],
)
def test_a_fault_is_said_in_one_sentence(schema: Any, value: Any, place: tuple[Any, ...], sentence: str) -> None:
    assert list(find_faults(value, schema, schema)) == [(place, sentence)]


def test_the_branch_that_was_plainly_meant_gives_the_sentence() -> None:
    circle = {"required": ["radius"], "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}}
    schema = {"anyOf": [{"type": "string"}, {"type": "object", **circle}]}
    assert list(find_faults({"kind": "circle"}, schema, schema)) == [(("radius",), "is required")]


@pytest.mark.parametrize(
    "schema",
    [
        {
            "type": 5,
            "enum": "x",
            "minimum": "1",
            "required": 3,
            "properties": [],
            "items": 7,
            "pattern": "(",
            "anyOf": {},
        },
        {"$ref": "#/$defs/none"},
        {"$ref": "#"},
        {"$ref": "https://example.org/schema.json"},
        {"allOf": [{"$ref": "#"}]},
        {"pattern": "\\p{L}", "additionalProperties": {"$ref": "#/%ZZ"}},
        [],
        None,
    ],
)
@pytest.mark.parametrize("value", [1, "a", [1], {"a": {"a": 1}}, None])
def test_a_broken_schema_says_nothing(schema: Any, value: Any) -> None:
    assert list(find_faults(value, schema, schema)) == []


def test_a_deep_value_under_a_recursive_union_is_judged_at_once() -> None:
    node = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/node"}}]}
    schema = {"$defs": {"node": node}, "$ref": "#/$defs/node"}
    value: Any = "leaf"
    for _ in range(15):
        value = [value]
    ((place, sentence),) = find_faults(value, schema, schema)
    assert place == (0,) * 15
    assert (
        sentence
        == 'must be a whole number, or a list of (a whole number, or a list of (a whole number, or a list)), not "leaf"'
    )


@pytest.mark.parametrize(
    "schema", [{"type": "integer", "nullable": True}, {"allOf": [{"type": "integer"}], "nullable": True}]
)
def test_null_fits_where_openapi_allows_it(schema: Any) -> None:
    assert is_fit(None, schema, schema)
    assert not is_fit(None, {**schema, "nullable": False}, schema)


def test_a_bounded_schema_is_read_and_judged_for_so_many_steps() -> None:
    schema = {"allOf": [{"$ref": "#"}] * 100, "items": {"type": "integer"}}
    with pytest.raises(TooCostlyError):
        leaves_of(schema, Bounded(schema, 10_000))
    numbers = {"items": {"type": "integer"}}
    assert is_fit([1] * 99, numbers, Bounded(numbers, 100))
    with pytest.raises(TooCostlyError):
        is_fit([1] * 100, numbers, Bounded(numbers, 100))


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|aa)+$", "(?:a*)*b", "a*a*a*a*a*a*b", "(?P<x>a+){9}b"])
def test_a_pattern_that_may_take_for_ever_is_assumed_to_match_or_not_to(pattern: str) -> None:
    schema = Bounded({"pattern": pattern}, 100)
    assert is_fit("a" * 60 + "!", schema, schema) and schema.has_assumed
    schema.assumed = False
    assert not is_fit("a" * 60 + "!", schema, schema)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^[a-z0-9-]+$", "a-name" * 20),
        (r"^\d{4}-\d{2}-\d{2}$", "2026-11-20"),
        (r"^[^@\s]+@[^@\s]+\.[a-z]+$", "someone@example.org"),
        (r"^(\+\d{1,3} )?\d+$", "+49 123456"),
        (r"^(?:north|south)$", "south"),
        (r"\)+\*", ")*"),
    ],
)
def test_a_common_pattern_is_tried(pattern: str, text: str) -> None:
    schema = Bounded({"pattern": pattern}, 100_000)
    assert is_fit(text, schema, schema)
    assert not is_fit("?", schema, schema)
    assert not schema.has_assumed
