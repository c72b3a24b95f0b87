"""Arguments against a schema: what is rejected and why, what is left to the server, and bounds on time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from calls.schema.test_coerce import (
    LIST,
    NEEDY,
    NUMBER,
    OBJECT,
    PAIR,
    SHAPE,
    TEXT,
    TEXTS,
    TRUTH,
    WHOLE,
    WHOLES,
    schema_of,
)
from calls.schema.test_validate import KINDS, LEAVES, SCHEMAS, VALUES
from cpu_time import limit_cpu
from fuzzing import examples
from rkllm_chat.calls.arguments import MAX_MESSAGE_LENGTH, ValidatedArguments, validate_arguments
from rkllm_chat.calls.schema.resolve import remove_patterns
from rkllm_chat.core.errors import ValidationError

MOST_CPU_S = 5

REJECTED: list[tuple[Any, Any, str]] = [
    (WHOLE, "3.5", "a whole number"),
    (WHOLE, "007", "a whole number"),
    (WHOLE, "１２", "a whole number"),
    (WHOLE, "1e300", "a whole number"),
    (WHOLE, True, "a whole number"),
    (NUMBER, "NaN", "a number"),
    (NUMBER, "-1e999", "a number"),
    (TRUTH, "yes", "true or false"),
    (TRUTH, 1, "true or false"),
    (TEXT, None, "text"),
    (LIST, "a, b", "a list"),
    (TEXTS, '["a"', "a list"),
    ({"type": "array", "items": {"enum": ["A B", "a-b"]}}, "ab", "a list"),
    (WHOLES, [1, "two"], '"x.1" must be a whole number, not "two"'),
    (OBJECT, "{'a': open('f')}", "an object"),
    (OBJECT, "{'a': 1e999}", "an object"),
    (OBJECT, json.dumps(json.dumps({"a": 1})), "an object"),
    (OBJECT, "{" * 100_000, f'not "{"{" * 58}…'),
    (PAIR, '{"n": "one"}', '"x.n" must be a whole number, not "one"'),
    (NEEDY, {"n": ""}, '"x.n"'),
    ({"enum": ["red", "green"]}, "redd", 'red, green, not "redd" (did you mean "red"?)'),
    ({"type": "string", "maxLength": 2}, 100, "at most 2 characters, not 3"),
    ({"anyOf": [WHOLE, TRUTH]}, "yes", "a whole number, or true or false"),
    (SHAPE, {"kind": "square"}, '"x.a" is required'),
    (False, 1, '"x"'),
]


@pytest.mark.parametrize(("child", "value", "words"), REJECTED, ids=lambda part: str(part)[:60])
def test_a_value_that_does_not_fit_is_rejected_with_its_name_and_what_is_wanted(
    child: Any, value: Any, words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        validate_arguments({"x": value}, {**schema_of(child), "required": ["x"]})
    message, details = caught.value.message, caught.value.details
    assert message.startswith('Argument "x') and words in message
    assert (details["got"], caught.value.exit_code) == ({"x": value}, 2)


KNOWN = {"type": "object", "properties": {"colour": TEXT, "size": WHOLE}}
CLOSED = {**KNOWN, "additionalProperties": False}
MISSING, BAD = "missing_argument", "bad_arguments"


@pytest.mark.parametrize(
    ("schema", "given", "words", "code"),
    [
        ({**KNOWN, "required": ["size"]}, {"colour": "a"}, '"size" is required (a whole number).', MISSING),
        ({**KNOWN, "required": ["colour"]}, {"color": "a"}, 'required (text), and "color" is not known', MISSING),
        ({**KNOWN, "required": ["colour"]}, {"size": "?"}, '"colour" is required', MISSING),
        ({"required": ["x"]}, {}, '"x" is required.', MISSING),
        (CLOSED, {"zzz": 1}, '"zzz" is unknown (known: colour, size)', BAD),
        ({**CLOSED, "required": ["colour"]}, {"color": "a"}, '"color" is unknown (did you mean "colour"?)', BAD),
        ({"minProperties": 1}, {}, "at least 1 name, not 0", BAD),
        ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"b": 1}, '"b" is unknown', BAD),
    ],
)
def test_a_missing_or_unknown_argument_is_rejected_with_the_nearest_name(
    schema: Any, given: Any, words: str, code: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        validate_arguments(given, schema)
    assert words in caught.value.message
    assert caught.value.details["code"] == code
    assert caught.value.details["expected"] == schema


def test_an_argument_that_the_schema_does_not_name_is_passed_on() -> None:
    assert validate_arguments({"y": "1"}, KNOWN) == ValidatedArguments({"y": "1"})


@pytest.mark.parametrize(
    ("child", "value"),
    [
        (WHOLE, "a" * 100_000),
        (WHOLE, "line\nline\r\nline"),
        ({"enum": [f"choice number {number}" for number in range(500)]}, "choice number x"),
        ({"anyOf": [{"const": "c" * 90}, {"const": "d" * 90}]}, "e" * 90),
    ],
)
def test_a_message_is_one_short_line_that_ends_with_the_given_value(child: Any, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        validate_arguments({"x": value}, schema_of(child))
    message = caught.value.message
    assert len(message) <= MAX_MESSAGE_LENGTH and message.isprintable()
    assert message.startswith('Argument "x" must be') and message.endswith(".")
    assert value[:4] in message[-MAX_MESSAGE_LENGTH // 2 :]


SLOW = "^(a+)+$"
EVIL = "a" * 40 + "!"


@pytest.mark.parametrize(
    "child",
    [
        {"type": "string", "pattern": SLOW},
        {"type": "string", "not": {"pattern": SLOW}},
        {"if": {"pattern": SLOW}, "then": {"type": "string"}, "else": {"type": "string"}},
        {"type": "string", "pattern": "a*" * 20 + "b"},
        {"type": "string", "pattern": "(x"},
        {"unevaluatedItems": False, "pattern": SLOW},
    ],
    ids=str,
)
def test_a_pattern_that_may_take_for_ever_is_left_to_the_server(child: Any) -> None:
    with limit_cpu(MOST_CPU_S):
        assert validate_arguments({"x": EVIL}, schema_of(child)) == ValidatedArguments({"x": EVIL})


def test_another_argument_is_checked_beside_a_pattern_that_was_not_tried() -> None:
    schema = schema_of({"type": "string", "pattern": SLOW}) | {"additionalProperties": WHOLE}
    with pytest.raises(ValidationError, match='"n" must be'):
        validate_arguments({"x": EVIL, "n": "many"}, schema)


def test_a_name_is_not_rejected_for_a_pattern_that_was_not_tried() -> None:
    schema = {"properties": {}, "patternProperties": {SLOW: WHOLE}, "additionalProperties": False}
    assert validate_arguments({EVIL: 1}, schema) == ValidatedArguments({EVIL: 1})
    with pytest.raises(ValidationError, match="is unknown"):
        validate_arguments({EVIL: 1}, {**schema, "patternProperties": {"^b": WHOLE}})


def test_a_keyword_that_jsonschema_does_not_know_is_not_given_to_it() -> None:
    whole = {"properties": {"a": {"type": "integer", "nullable": True}}}
    assert validate_arguments({"a": None}, {"allOf": [whole], "unevaluatedProperties": False}) == ValidatedArguments(
        {"a": None}
    )


def nest(word: str, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {word: [schema]} if word.endswith("Of") else {word: schema}
    return schema


NODE = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/node"}}] * 2}
LOOP = {"allOf": [{"$ref": "#/$defs/loop"}] * 100}
DYNAMIC = {"$dynamicAnchor": "n", "anyOf": [{"type": "array", "items": {"$dynamicRef": "#n"}}] * 3}
UNEVALUATED: dict[str, Any] = {}
for _ in range(20):
    UNEVALUATED = {"unevaluatedProperties": False, "anyOf": [UNEVALUATED] * 3}
DEEP_VALUE: Any = "leaf"
for _ in range(40):
    DEEP_VALUE = [DEEP_VALUE]
LONG_VALUE = ["ab" * 400] * 200
HOSTILE: dict[str, tuple[Any, Any]] = {
    "allOf": (nest("allOf", 10_000), "5"),
    "anyOf": (nest("anyOf", 10_000), "5"),
    "not": (nest("not", 10_000), {"x": {"x": "5"}}),
    "items": (nest("items", 10_000), DEEP_VALUE),
    "additionalProperties": (nest("additionalProperties", 10_000), {"x": {"x": "5"}}),
    "branches": ({"$defs": {"node": NODE}, "properties": {"x": {"$ref": "#/$defs/node"}}}, DEEP_VALUE),
    "loop": ({"$defs": {"loop": LOOP}, "properties": {"x": {"$ref": "#/$defs/loop"}}}, "5"),
    "unevaluated": ({"properties": {"x": UNEVALUATED}}, {"a": 1}),
    "dynamic": ({"properties": {"x": DYNAMIC}}, DEEP_VALUE),
    "patterns": (
        {"properties": {"x": {"allOf": [{"uniqueItems": True, "contains": {"pattern": "a*b*c*d"}}] * 1000}}},
        LONG_VALUE,
    ),
    "choices": (
        {"anyOf": [{"properties": {"x": {"enum": [f"{n}{m}" for m in range(1000)]}}} for n in range(1000)]},
        LONG_VALUE,
    ),
}


DEAR = ("branches", "dynamic", "patterns", "unevaluated")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in DEAR else name for name in HOSTILE]
)
def test_the_time_for_a_hostile_schema_is_bounded(name: str) -> None:
    schema, value = HOSTILE[name]
    try:
        with limit_cpu(MOST_CPU_S):
            assert validate_arguments({"x": value}, schema).arguments.keys() <= {"x"}
    except ValidationError as error:
        assert len(error.message) <= MAX_MESSAGE_LENGTH


def test_a_large_schema_and_a_long_list_are_checked_like_any_other() -> None:
    names = {f"name_{number}": WHOLE for number in range(10_000)}
    schema = {"type": "object", "properties": names, "additionalProperties": False, "required": ["name_7"]}
    assert validate_arguments({"name_7": "1"}, schema) == ValidatedArguments(
        {"name_7": 1}, ("name_7: text to integer",)
    )
    with pytest.raises(ValidationError, match="is unknown"):
        validate_arguments({"name": "1"}, schema)
    with pytest.raises(ValidationError, match="name_7"):
        validate_arguments({}, schema)
    given = {"x": [str(number) for number in range(5000)]}
    assert validate_arguments(given, schema_of(WHOLES)).arguments == {"x": list(range(5000))}


@pytest.mark.parametrize("reference", ["https://example.org/schema.json", "file:///etc/passwd", "#/$defs/nothing"])
def test_a_reference_out_of_the_schema_is_left_to_the_server(reference: str) -> None:
    schema = {**schema_of({"$ref": reference}), "unevaluatedProperties": False}
    assert validate_arguments({"x": "5"}, schema) == ValidatedArguments({"x": "5"})


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"properties": {"x": {"type": {"a": 1}}}},
        {"properties": {"x": {"type": "object", "properties": 5}}},
        {"properties": {"x": {"required": 5}}, "unevaluatedProperties": 5},
        {"type": "nonsense"},
    ],
    ids=str,
)
def test_a_broken_schema_leaves_the_arguments_as_they_are(schema: dict[str, Any]) -> None:
    assert validate_arguments({"x": {"n": "1"}}, schema) == ValidatedArguments({"x": {"n": "1"}})


def test_a_schema_without_its_patterns_has_no_rule_for_other_names() -> None:
    closed = {"pattern": "a", "patternProperties": {"^x-": TEXT}, "additionalProperties": False, "type": "object"}
    assert remove_patterns({"items": closed}) == {"items": {"type": "object"}}
    assert remove_patterns(CLOSED) == CLOSED


TEXTUAL = st.sampled_from(["", "1", "2.0", "true", "null", "[1, 'a']", '{"a": "1"}', "[", "007", "None"])
GIVEN = st.dictionaries(st.sampled_from(["x", "a", "y"]), VALUES | TEXTUAL, max_size=3)


def root_of(schema: Any, one: Any, two: Any, kind: str) -> dict[str, Any]:
    return {"$defs": {"one": one, "two": two}, "properties": {"x": schema, "y": {"type": kind}}}


def as_json(value: Any) -> Any:
    """JSON of a value for which 1.0 is 1, as it is for JSON Schema, and true is not."""
    return json.dumps(value, sort_keys=True).replace(".0", "")


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(schema=SCHEMAS, one=LEAVES, two=LEAVES, kind=KINDS, value=GIVEN)
def test_valid_arguments_are_not_changed_and_accepted_ones_are_valid(
    schema: Any, one: Any, two: Any, kind: str, value: dict[str, Any]
) -> None:
    root = root_of(schema, one, two, kind)
    is_valid = Draft202012Validator(root).is_valid
    try:
        checked = validate_arguments(value, root)
    except ValidationError as error:
        assert not is_valid(value)
        assert error.message and len(error.message) <= MAX_MESSAGE_LENGTH
        return
    assert is_valid(checked.arguments)
    assert validate_arguments(checked.arguments, root) == ValidatedArguments(checked.arguments)
    assert bool(checked.coercions) is (json.dumps(value) != json.dumps(checked.arguments))
    if is_valid(value):
        assert as_json(checked.arguments) == as_json(value)


def test_the_only_missing_name_is_read_in_another_spelling_and_an_optional_one_is_reported() -> None:
    schema = {"type": "object", "properties": {"file_name": TEXT, "limit": WHOLE}, "required": ["file_name"]}
    checked = validate_arguments({"fileName": "a", "limit": "3"}, schema)
    assert checked.arguments == {"file_name": "a", "limit": 3}
    assert checked.coercions == ("file_name: spelling", "limit: text to integer")
    assert validate_arguments({"file_name": "a", "limits": 3}, schema).misspelled == {"limits": "limit"}
    assert validate_arguments({"file_name": "a", "limit": 3, "limits": 3}, schema).misspelled == {}
    with pytest.raises(ValidationError):
        validate_arguments({"fileNames": "a"}, schema)
