"""Validation of a value: the verdict of jsonschema, and the violations with kind and path."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fuzzing import examples
from rkllm_chat.calls.schema.resolve import BudgetedSchema, BudgetExceededError, Node
from rkllm_chat.calls.schema.validate import is_valid, iter_errors

NAMES = st.sampled_from(["a", "b", "cc"])
NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 0.5, 1.0, 2.5, 10**20])
TEXTS = st.sampled_from(["", "a", "ab", "abc", "1", "ä😀"])
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
COUNTS = st.integers(0, 3)
IF_WHOLE = {"if": {"type": "integer"}, "then": {"minimum": 1}, "else": {"type": "string"}}
CLOSED = {"properties": {"hue": {}}, "additionalProperties": False}
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
        "unevaluatedProperties": inner,
        "unevaluatedItems": inner,
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


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(schema=SCHEMAS, one=LEAVES, two=LEAVES, value=VALUES)
def test_a_value_is_faulty_exactly_when_jsonschema_says_so(schema: Any, one: Any, two: Any, value: Any) -> None:
    root = {"$defs": {"one": one, "two": two}, "properties": {"x": schema}}
    kinds = [violation.kind for violation in iter_errors({"x": value}, root, root)]
    assert (not kinds) is Draft202012Validator(root).is_valid({"x": value}), kinds


@pytest.mark.parametrize(
    ("schema", "value", "kind", "path", "words"),
    [
        ({"type": ["integer", "null"]}, 2.5, "type", (), "a whole number or null, not 2.5"),
        ({"enum": ["red", "green"]}, "gren", "enum", (), 'one of red, green, not "gren" (did you mean "green"?)'),
        ({"type": "integer", "nullable": True}, "x", "type", (), 'a whole number or null, not "x"'),
        ({"const": 3}, 4, "const", (), "3, not 4"),
        ({"minimum": 1}, 0, "minimum", (), "at least 1, not 0"),
        ({"maximum": 1.5}, 2, "maximum", (), "at most 1.5, not 2"),
        ({"exclusiveMinimum": 0}, 0, "exclusiveMinimum", (), "more than 0, not 0"),
        ({"exclusiveMaximum": 9}, 9, "exclusiveMaximum", (), "less than 9, not 9"),
        ({"multipleOf": 0.1}, 0.35, "multipleOf", (), "multiple of 0.1, not 0.35"),
        ({"minLength": 2}, "a", "minLength", (), "at least 2 characters, not 1"),
        ({"maxLength": 1}, "ab", "maxLength", (), "at most 1 character, not 2"),
        ({"minItems": 1}, [], "minItems", (), "at least 1 entry, not 0"),
        ({"maxItems": 2}, [1, 2, 3], "maxItems", (), "at most 2 entries, not 3"),
        ({"minProperties": 1}, {}, "minProperties", (), "at least 1 name, not 0"),
        ({"maxProperties": 0}, {"a": 1}, "maxProperties", (), "at most 0 names, not 1"),
        ({"uniqueItems": True}, [1, 2, 1.0], "uniqueItems", (), "1.0 twice"),
        ({"pattern": "^[a-z]+$"}, "A1", "pattern", (), '^[a-z]+$, not "A1"'),
        ({"items": {"type": "string"}}, ["a", 1], "type", (1,), "text, not 1"),
        ({"contains": {"type": "string"}}, [1], "minContains", (), "0 entries that are text: too few"),
        ({"contains": {}, "maxContains": 1}, [1, 2], "maxContains", (), "2 entries that are any value: too many"),
        ({"properties": {"a": {"type": "string"}}}, {"a": None}, "type", ("a",), "text, not null"),
        ({"required": ["a"]}, {}, "required", ("a",), "required"),
        (CLOSED, {"Hu": 1}, "additionalProperties", ("Hu",), '"hue"'),
        ({"anyOf": [CLOSED, {}], "unevaluatedProperties": False}, {"b": 1}, "additionalProperties", ("b",), "unknown"),
        ({"prefixItems": [{}], "unevaluatedItems": False}, [1, 2], "false", (1,), "not be given"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "propertyNames", (), '"ab", which must have at most 1'),
        ({"anyOf": [{"type": "integer"}, {"enum": ["auto"]}]}, "x", "anyOf", (), 'a whole number, or auto, not "x"'),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "x", "oneOf", (), 'a whole number, or null, not "x"'),
        ({"oneOf": [{"type": "integer"}, {"minimum": 0}]}, 3, "several", (), "matches 2 of"),
        ({"not": {"type": "null"}}, None, "not", (), "not be null"),
        (IF_WHOLE, 0, "minimum", (), "at least 1, not 0"),
        (IF_WHOLE, None, "type", (), "text, not null"),
        ({"patternProperties": {"^n": {"type": "null"}}}, {"n": 1, "m": 1}, "type", ("n",), "null, not 1"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "required", ("b",), "required"),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, "required", ("b",), "required"),
        (False, 1, "false", (), "not be given"),
    ],
)  # fmt: skip
def test_a_violation_has_its_kind_its_path_and_says_what_is_expected(
    schema: Any, value: Any, kind: str, path: tuple[Any, ...], words: str
) -> None:
    (violation,) = iter_errors(value, schema, schema)
    assert (violation.kind, violation.path) == (kind, path)
    assert words in violation.message


def test_the_violations_are_those_of_the_branch_that_was_meant() -> None:
    circle = {"required": ["radius"], "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}}
    square = {"properties": {"kind": {"const": "square"}}}
    schema = {"anyOf": [{"type": "string"}, square, {"type": "object", **circle}]}
    (violation,) = iter_errors({"kind": "circle"}, schema, schema)
    assert (violation.kind, violation.path) == ("required", ("radius",))


BROKEN = {"type": 5, "enum": "x", "minimum": "1", "required": 3, "properties": [], "items": 7, "anyOf": {}}


@pytest.mark.parametrize(
    "schema",
    [
        {**BROKEN, "pattern": "("},
        {"$ref": "#/$defs/none"},
        {"$ref": "#"},
        {"$ref": "https://example.org/schema.json"},
        {"allOf": [{"$ref": "#"}]},
        {"pattern": "\\p{L}", "additionalProperties": {"$ref": "#/%ZZ"}},
        [],
        None,
    ],
)
def test_a_broken_schema_accepts_any_value(schema: Any) -> None:
    for value in (1, "a", [1], {"a": {"a": 1}}, None):
        assert list(iter_errors(value, schema, schema)) == []


def test_the_violation_in_a_deep_value_under_a_recursive_union_has_its_path() -> None:
    node = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/node"}}]}
    schema = {"$defs": {"node": node}, "$ref": "#/$defs/node"}
    value: Any = "leaf"
    for _ in range(15):
        value = [value]
    (violation,) = iter_errors(value, schema, schema)
    assert violation.path == (0,) * 15
    assert 'a whole number, or a list of (a whole number, or a list)), not "leaf"' in violation.message


@pytest.mark.parametrize(
    "schema", [{"type": "integer", "nullable": True}, {"allOf": [{"type": "integer"}], "nullable": True}]
)
def test_null_fits_where_openapi_allows_it(schema: Any) -> None:
    assert is_valid(None, schema, schema)
    assert not is_valid(None, {**schema, "nullable": False}, schema)


def test_a_bounded_schema_is_read_and_validated_for_a_number_of_steps() -> None:
    schema = {"allOf": [{"$ref": "#"}] * 100, "items": {"type": "integer"}}
    with pytest.raises(BudgetExceededError):
        Node(BudgetedSchema(schema, 10_000)).variants()
    numbers = {"items": {"type": "integer"}}
    assert is_valid([1] * 99, numbers, BudgetedSchema(numbers, 100))
    with pytest.raises(BudgetExceededError):
        is_valid([1] * 100, numbers, BudgetedSchema(numbers, 100))


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|aa)+$", "a*a*a*a*a*a*b"])
def test_a_pattern_that_may_take_for_ever_is_assumed_to_match_or_not_to(pattern: str) -> None:
    schema = BudgetedSchema({"pattern": pattern}, 100)
    assert is_valid("a" * 60 + "!", schema, schema) and schema.has_untested_pattern
    schema.assumed_match = False
    assert not is_valid("a" * 60 + "!", schema, schema)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^[a-z0-9-]+$", "a-name" * 20),
        (r"^[^@\s]+@[^@\s]+\.[a-z]+$", "someone@example.org"),
        (r"^(?:north|south)$", "south"),
        (r"\)+\*", ")*"),
    ],
)
def test_a_common_pattern_is_tried(pattern: str, text: str) -> None:
    schema = BudgetedSchema({"pattern": pattern}, 100_000)
    assert is_valid(text, schema, schema)
    assert not is_valid("?", schema, schema)
    assert not schema.has_untested_pattern
