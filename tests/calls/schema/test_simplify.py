"""A simplified schema accepts the same values and is shorter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from calls.grammar.schemas import tool_schemas
from calls.grammar.schemas import values as fitting
from calls.schema.test_validate import LEAVES, SCALARS, SCHEMAS, VALUES
from fuzzing import examples
from rkllm_chat.calls.schema.simplify import MAX_DEPTH, simplify_schema
from rkllm_chat.calls.schema.validate import is_valid

REAL_TOOLS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "real_tools.json").read_text(encoding="utf-8")
)
ARGUMENTS = st.dictionaries(st.sampled_from(["x", "y", "a"]), VALUES, max_size=3)


def agree(schema: Any, value: Any) -> bool:
    """Whether a value fits, by both judges and by the schema before and after: they all say the same."""
    thin = simplify_schema(schema)
    said = {is_valid(value, accepted, accepted) for accepted in (schema, thin)}
    said |= {Draft202012Validator(accepted).is_valid(value) for accepted in (schema, thin)}
    assert len(said) == 1, (schema, thin, value)
    return said.pop()


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(schema=SCHEMAS, beside=SCHEMAS, one=SCHEMAS, two=LEAVES, value=VALUES)
def test_a_simplified_schema_accepts_the_same_values(schema: Any, beside: Any, one: Any, two: Any, value: Any) -> None:
    without = json.loads(json.dumps(one).replace("#/$defs/one", "#/$defs/two"))
    root = {"$defs": {"one": without, "two": two}, "properties": {"x": schema, "y": beside}}
    agree(root, {"x": value})
    agree({**root, "allOf": [{"properties": {"x": beside}}]}, {"x": value})


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(data=st.data(), schema=tool_schemas())
def test_the_simplified_schema_of_a_tool_accepts_the_same_arguments(data: Any, schema: Any) -> None:
    assert agree(schema, data.draw(fitting(schema)))
    agree(schema, data.draw(st.dictionaries(st.sampled_from([*schema["properties"], "z"]), VALUES, max_size=3)))


def near(schema: Any) -> st.SearchStrategy[Any]:
    """Values that are of the schema's shape more often than not."""
    kinds = {
        "object": lambda: st.fixed_dictionaries(
            {}, optional={name: near(child) for name, child in schema.get("properties", {}).items()}
        ),
        "array": lambda: st.lists(near(schema.get("items", {})), max_size=2),
    }
    return st.one_of(kinds.get(schema.get("type"), lambda: SCALARS)(), VALUES)


@pytest.mark.parametrize("server", REAL_TOOLS)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_the_simplified_schemas_of_real_servers_accept_the_same_values(server: str, data: st.DataObject) -> None:
    for schema in (tool["inputSchema"] for tool in REAL_TOOLS[server]):
        agree(schema, data.draw(near(schema)))
        assert len(json.dumps(simplify_schema(schema))) <= len(json.dumps(schema))


OBJECT: dict[str, Any] = {"type": "object"}
STRING: dict[str, Any] = {"type": "string"}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
LONG = {"type": "string", "enum": [f"a value of many, number {number}" for number in range(20)]}


@pytest.mark.parametrize(
    ("schema", "thin"),
    [
        (
            {"$schema": "x", "$id": "https://a.example/b", "title": "f", "properties": {"title": {"title": "T"}}},
            {"properties": {"title": {}}},
        ),
        ({"default": 3, "examples": [1], "readOnly": True, "x-order": 1, "type": "integer"}, {"type": "integer"}),
        ({"const": None, "enum": [{"title": 1}]}, {"const": None, "enum": [{"title": 1}]}),
        ({"$ref": "#/definitions/a", "definitions": {"a": STRING}}, STRING),
        (
            {"properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": {"node": NODE, "other": {}}},
            {"properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": {"node": NODE}},
        ),
        (
            {"prefixItems": [{"$ref": "#/$defs/a b"}] * 2, "$defs": {"a b": LONG}},
            {"prefixItems": [{"$ref": "#/$defs/a_b"}] * 2, "$defs": {"a_b": LONG}},
        ),
        (
            {
                "prefixItems": [{"$ref": "#/$defs/a b"}, {"$ref": "#/definitions/a_b"}] * 2,
                "$defs": {"a b": LONG},
                "definitions": {"a_b": {**LONG, "maxLength": 9}},
            },
            {
                "prefixItems": [{"$ref": "#/$defs/a_b"}, {"$ref": "#/$defs/a_b_2"}] * 2,
                "$defs": {"a_b": LONG, "a_b_2": {**LONG, "maxLength": 9}},
            },
        ),
        ({"items": {"$ref": "#/$defs/long"}, "$defs": {"long": LONG}}, {"items": LONG}),
        (
            {"allOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"minimum": 1}}}], "minimum": 2},
            {"minimum": 2, "required": ["a", "b"], "properties": {"b": {"minimum": 1}}},
        ),
        ({"allOf": [{"type": "number", "minimum": 1}, {"type": "integer"}]}, {"type": "integer", "minimum": 1}),
        ({"allOf": [{"maxLength": 1}, {"maxLength": 3}]}, {"maxLength": 1}),
        ({"pattern": "a", "allOf": [{"pattern": "b"}]}, {"pattern": "a", "allOf": [{"pattern": "b"}]}),
        (
            {"properties": {"a": {}}, "allOf": [{"additionalProperties": False}]},
            {"properties": {"a": {}}, "allOf": [{"additionalProperties": False}]},
        ),
        ({"anyOf": [STRING, {"type": "null"}], "default": None}, {"type": ["string", "null"]}),
        ({"anyOf": [{**STRING, "enum": []}, {"type": "null"}]}, {"type": ["string", "null"], "enum": [None]}),
        ({"anyOf": [{"const": "a"}, {"type": "null"}]}, {"anyOf": [{"const": "a"}, {"type": "null"}]}),
        ({"anyOf": [STRING], "minLength": 2}, {"minLength": 2, "type": "string"}),
        ({"required": [], "additionalProperties": True, "items": {}, "type": ["array"]}, {"type": "array"}),
        ({"properties": {"user_name": {"description": "The name of the user."}}}, {"properties": {"user_name": {}}}),
        (
            {"properties": {"day": {"description": "The day. As\nYYYY-MM-DD. Days before 1900 are not known."}}},
            {"properties": {"day": {"description": "As YYYY-MM-DD. Days before 1900 are not known"}}},
        ),
        (
            {"$ref": "#a", "$defs": {"x": {"$anchor": "a", "title": "A", **OBJECT}}},
            {"$ref": "#a", "$defs": {"x": {"$anchor": "a", **OBJECT}}},
        ),
        (
            {"title": "f", "allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
            {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
        ),
        ({"properties": 5, "anyOf": {}, "items": 7, "allOf": 1, "required": True, "type": "array"}, {"type": "array"}),
        ({"allOf": [False]}, {"not": {}}),
    ],
    ids=str,
)
def test_what_no_call_needs_is_removed(schema: dict[str, Any], thin: dict[str, Any]) -> None:
    assert simplify_schema(schema) == thin
    assert simplify_schema(thin) == thin


def tower(width: int) -> dict[str, Any]:
    """Definitions that each refer to the next one twice, and so to the last one more often than there are atoms."""
    refers = [{"$ref": f"#/$defs/d{number + 1}"} for number in range(width)]
    floors = {f"d{number}": {"properties": {"a": ref, "b": ref}} for number, ref in enumerate(refers)}
    return {"$ref": "#/$defs/d0", "$defs": {**floors, f"d{width}": {"type": "string"}}}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        tower(500),
        nested(900),
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"allOf": [{"$ref": "#"}] * 1000},
        {"anyOf": [{"anyOf": [{"$ref": "#/anyOf/0"}] * 100}] * 100},
        {"allOf": [{"properties": {f"k{n}": {"type": "string"}}, "required": [f"k{n}"]} for n in range(1000)]},
        {"properties": {"a": {"description": "Word " * 200_000}}},
    ],
    ids=["tower", "deep", "circle", "itself", "unions", "parts", "words"],
)
def test_a_hostile_schema_does_not_grow(schema: dict[str, Any]) -> None:
    assert len(json.dumps(simplify_schema(schema))) <= len(json.dumps(schema)) * 1.1


def test_a_schema_is_cut_only_below_the_deepest_level() -> None:
    assert simplify_schema(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    assert simplify_schema(nested(MAX_DEPTH + 1)) != nested(MAX_DEPTH + 1)
