"""Arguments made to fit a schema where nothing is lost, and the sentence that says why they do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from rkllm_chat.arguments import LONGEST_FAULT, check
from rkllm_chat.errors import ValidationError

PAIR = {"type": "object", "properties": {"n": {"type": "integer"}}}


def schema_of(child: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": child}, "$defs": {"count": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("child", "value", "wanted"),
    [
        ({"type": "integer"}, "3", 3),
        ({"type": "integer"}, " -3 ", -3),
        ({"type": "integer"}, 3.0, 3),
        ({"type": "integer"}, "3.0", 3),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "string"}, "007", "007"),
        ({"type": "string"}, '{"a": 1}', '{"a": 1}'),
        ({"type": "string"}, "true", "true"),
        ({"type": "string"}, 3, "3"),
        ({"type": "string"}, True, "true"),
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, '["1", 2]', [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, ["1", 2], [1, 2]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        (PAIR, '{"n": "1"}', {"n": 1}),
        (PAIR, {"n": "1", "m": "1"}, {"n": 1, "m": "1"}),
        ({"type": ["integer", "null"]}, "5", 5),
        ({"type": ["integer", "null"]}, "null", None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "None", None),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5", "5"),
        ({"oneOf": [{"type": "boolean"}, {"$ref": "#/$defs/count"}]}, "5", 5),
        ({"$ref": "#/$defs/count"}, "5", 5),
        ({}, "5", "5"),
        (True, "5", "5"),
    ],
)
def test_a_value_becomes_what_the_schema_wants_if_that_loses_nothing(child: Any, value: Any, wanted: Any) -> None:
    got = check({"x": value}, schema_of(child))
    assert got == {"x": wanted}
    assert type(got["x"]) is type(wanted)


@pytest.mark.parametrize(
    ("child", "value", "fault"),
    [
        ({"type": "integer"}, "3.5", "'3.5' is not of type 'integer'"),
        ({"type": "integer"}, "three", "'three' is not of type 'integer'"),
        ({"type": "integer"}, "007", "'007' is not of type 'integer'"),
        ({"type": "integer"}, True, "True is not of type 'integer'"),
        ({"type": "integer"}, None, "None is not of type 'integer'"),
        ({"type": "number"}, "NaN", "'NaN' is not of type 'number'"),
        ({"type": "boolean"}, "yes", "'yes' is not of type 'boolean'"),
        ({"type": "boolean"}, 1, "1 is not of type 'boolean'"),
        ({"type": "array"}, "a, b", "'a, b' is not of type 'array'"),
        ({"type": "string"}, ["a"], "['a'] is not of type 'string'"),
        ({"enum": ["low", "high"]}, "mid", "'mid' is not one of ['low', 'high']"),
        ({"type": "integer", "maximum": 9}, "10", "10 is greater than the maximum of 9"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_place(child: Any, value: Any, fault: str) -> None:
    with pytest.raises(ValidationError) as caught:
        check({"x": value}, schema_of(child))
    assert caught.value.message == f'Argument "x": {fault}.'
    assert caught.value.details == {"expected": schema_of(child), "got": {"x": value}}


def test_the_place_of_a_fault_is_its_path() -> None:
    with pytest.raises(ValidationError, match=r'^Argument "x\.1\.n": ') as caught:
        check({"x": [{"n": 1}, {"n": "one"}]}, schema_of({"type": "array", "items": PAIR}))
    assert caught.value.exit_code == 2


def test_a_missing_argument_is_named() -> None:
    schema = {**schema_of({"type": "string"}), "required": ["x"]}
    assert check({"x": "a"}, schema) == {"x": "a"}
    with pytest.raises(ValidationError, match=r"^'x' is a required property\.$"):
        check({}, schema)


def test_an_argument_too_many_passes_unless_the_schema_forbids_it() -> None:
    schema = schema_of({"type": "string"})
    assert check({"y": 1}, schema) == {"y": 1}
    with pytest.raises(ValidationError, match="'y' was unexpected"):
        check({"y": 1}, {**schema, "additionalProperties": False})


def test_a_fault_is_told_shortly() -> None:
    with pytest.raises(ValidationError) as caught:
        check({"x": "a" * 1000}, schema_of({"type": "integer"}))
    assert len(caught.value.message) == LONGEST_FAULT


@pytest.mark.parametrize("reference", ["https://example.org/schema.json", "file:///etc/passwd", "#/$defs/nothing"])
def test_a_reference_that_is_not_in_the_schema_leaves_the_check_to_the_server(reference: str) -> None:
    assert check({"x": "5"}, schema_of({"$ref": reference})) == {"x": "5"}


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert check({"x": "5"}, schema_of({"$ref": "#/properties/x"})) == {"x": "5"}


@pytest.mark.parametrize("text", ["1e999", "-1e999"])
def test_a_number_too_large_for_json_is_not_made_infinite(text: str) -> None:
    assert check({"x": "1e30"}, schema_of({"type": "number"})) == {"x": 1e30}
    with pytest.raises(ValidationError):
        check({"x": text}, schema_of({"type": "number"}))


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": "x"},
        {"properties": []},
        {"properties": {"x": 5}},
        {"properties": {"x": {"type": 5}}},
        {"properties": {"x": {"type": {"a": 1}}}},
        {"properties": {"x": {"anyOf": 5}}},
        {"properties": {"x": {"anyOf": "string"}}},
        {"properties": {"x": {"enum": 5}}},
        {"properties": {"x": {"$ref": 5}}},
        {"properties": {"x": {"type": "object", "properties": 5}}},
        {"required": True},
        {"type": "nonsense"},
    ],
    ids=str,
)
def test_a_broken_schema_leaves_the_arguments_as_they_are(schema: dict[str, Any]) -> None:
    assert check({"x": {"n": "1"}}, schema) == {"x": {"n": "1"}}
