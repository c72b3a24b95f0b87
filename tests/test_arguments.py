"""Arguments that do not fit a schema, and the sentence that says why; what is left to the server, and what it costs."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fuzzing import examples
from rkllm_chat.arguments import LONGEST_FAULT, Checked, check, without_patterns
from rkllm_chat.errors import ValidationError
from test_coercion import LIST, NEEDY, NUMBER, OBJECT, PAIR, SHAPE, TEXT, TEXTS, TRUTH, WHOLE, WHOLES, schema_of
from test_faults import KINDS, LEAVES, SCHEMAS, VALUES

HANG_S = 20

REFUSED: list[tuple[Any, Any, str]] = [
    (WHOLE, "3.5", '"x" must be a whole number, not "3.5"'),
    (WHOLE, "three", '"x" must be a whole number, not "three"'),
    (WHOLE, "007", '"x" must be a whole number, not "007"'),
    (WHOLE, "+3", '"x" must be a whole number, not "+3"'),
    (WHOLE, "0x10", '"x" must be a whole number, not "0x10"'),
    (WHOLE, "1_000", '"x" must be a whole number, not "1_000"'),
    (WHOLE, "3,5", '"x" must be a whole number, not "3,5"'),
    (WHOLE, "１２", '"x" must be a whole number, not "１２"'),
    (WHOLE, "1e300", '"x" must be a whole number, not "1e300"'),
    (WHOLE, "null", '"x" must be a whole number, not "null"'),
    (WHOLE, 3.5, '"x" must be a whole number, not 3.5'),
    (WHOLE, True, '"x" must be a whole number, not true'),
    (WHOLE, None, '"x" must be a whole number, not null'),
    (WHOLE, [3], '"x" must be a whole number, not [3]'),
    (NUMBER, "NaN", '"x" must be a number, not "NaN"'),
    (NUMBER, "Infinity", '"x" must be a number, not "Infinity"'),
    (NUMBER, "1e999", '"x" must be a number, not "1e999"'),
    (NUMBER, "-1e999", '"x" must be a number, not "-1e999"'),
    (NUMBER, "2 km", '"x" must be a number, not "2 km"'),
    (TRUTH, "yes", '"x" must be true or false, not "yes"'),
    (TRUTH, "on", '"x" must be true or false, not "on"'),
    (TRUTH, "1", '"x" must be true or false, not "1"'),
    (TRUTH, 1, '"x" must be true or false, not 1'),
    (TRUTH, 0.0, '"x" must be true or false, not 0.0'),
    (TEXT, None, '"x" must be text, not null'),
    (TEXT, ["a"], '"x" must be text, not ["a"]'),
    (TEXT, {"a": 1}, '"x" must be text, not {"a": 1}'),
    (LIST, "a, b", '"x" must be a list, not "a, b"'),
    (LIST, 4, '"x" must be a list, not 4'),
    (TEXTS, "[a, b]", '"x" must be a list, not "[a, b]"'),
    (TEXTS, '["a"', '"x" must be a list, not "["a""'),
    (TEXTS, None, '"x" must be a list, not null'),
    (WHOLES, "four", '"x" must be a list, not "four"'),
    (WHOLES, [1, "two"], '"x.1" must be a whole number, not "two"'),
    (OBJECT, "{'a': open('f')}", '''"x" must be an object, not "{'a': open('f')}"'''),
    (OBJECT, "{'a': 1, 'a': 2}", '''"x" must be an object, not "{'a': 1, 'a': 2}"'''),
    (OBJECT, '{"a": 1, "a": 2}', '"x" must be an object, not "{"a": 1, "a": 2}"'),
    (OBJECT, "{1: 2}", '"x" must be an object, not "{1: 2}"'),
    (OBJECT, "{1, 2}", '"x" must be an object, not "{1, 2}"'),
    (OBJECT, "{'a': 1e999}", '''"x" must be an object, not "{'a': 1e999}"'''),
    (OBJECT, json.dumps(json.dumps({"a": 1})), r'"x" must be an object, not ""{\"a\": 1}""'),
    (OBJECT, "[1]", '"x" must be an object, not "[1]"'),
    (OBJECT, "{" * 100_000, f'"x" must be an object, not "{"{" * 58}…'),
    (PAIR, {"n": "one"}, '"x.n" must be a whole number, not "one"'),
    (PAIR, '{"n": "one"}', '"x.n" must be a whole number, not "one"'),
    (NEEDY, {}, '"x.n" is required'),
    (NEEDY, {"n": ""}, '"x.n" must be a whole number, not ""'),
    ({"enum": ["red", "green"]}, "RED", '"x" must be one of red, green, not "RED" (did you mean "red"?)'),
    ({"enum": ["red", "green"]}, "gren", '"x" must be one of red, green, not "gren" (did you mean "green"?)'),
    ({"enum": ["red", "green"]}, " red", '"x" must be one of red, green, not " red" (did you mean "red"?)'),
    ({"enum": ["red", "green"]}, "blue", '"x" must be one of red, green, not "blue"'),
    ({"enum": [1, 2, 3]}, "4", '"x" must be one of 1, 2, 3, not "4"'),
    ({"enum": [1]}, True, '"x" must be 1, not true'),
    ({"const": 3}, "4", '"x" must be 3, not "4"'),
    ({"type": "integer", "maximum": 9}, "10", '"x" must be at most 9, not 10'),
    ({"type": "string", "maxLength": 2}, 100, '"x" must have at most 2 characters, not 3'),
    ({"type": "string", "pattern": "^[a-z]+$"}, "A1", '"x" must fit the pattern ^[a-z]+$, not "A1"'),
    ({"type": ["integer", "null"]}, "none", '"x" must be a whole number or null, not "none"'),
    ({"type": "string", "nullable": True, "enum": ["a"]}, None, '"x" must be a, not null'),
    ({"anyOf": [WHOLE, TRUTH]}, "yes", '"x" must be a whole number, or true or false, not "yes"'),
    (SHAPE, {"kind": "square"}, '"x.a" is required'),
    (False, 1, '"x" must not be given'),
]  # fmt: skip


@pytest.mark.parametrize(("child", "value", "fault"), REFUSED, ids=lambda part: str(part)[:60])
def test_a_value_that_does_not_fit_is_named_with_what_is_wanted_and_what_was_given(
    child: Any, value: Any, fault: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        check({"x": value}, {**schema_of(child), "required": ["x"]})
    assert caught.value.message == f"Argument {fault}."
    assert caught.value.details["got"] == {"x": value}
    assert caught.value.exit_code == 2


KNOWN = {"type": "object", "properties": {"colour": TEXT, "size": WHOLE}}
CLOSED = {**KNOWN, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "given", "fault", "code"),
    [
        ({**KNOWN, "required": ["colour"]}, {}, 'Argument "colour" is required (text).', "missing_argument"),
        (
            {**KNOWN, "required": ["size"]},
            {"colour": "a"},
            'Argument "size" is required (a whole number).',
            "missing_argument",
        ),
        (
            {**KNOWN, "required": ["colour"]},
            {"color": "a"},
            'Argument "colour" is required (text), and "color" is not known.',
            "missing_argument",
        ),
        ({"required": ["x"]}, {}, 'Argument "x" is required.', "missing_argument"),
        (CLOSED, {"Colour": "a"}, 'Argument "Colour" is unknown (did you mean "colour"?).', "bad_arguments"),
        (CLOSED, {"zzz": 1}, 'Argument "zzz" is unknown (known: colour, size).', "bad_arguments"),
        (
            {**CLOSED, "required": ["colour"]},
            {"color": "a"},
            'Argument "color" is unknown (did you mean "colour"?).',
            "bad_arguments",
        ),
        ({**KNOWN, "required": ["colour"]}, {"size": "?"}, 'Argument "colour" is required (text).', "missing_argument"),
        ({"minProperties": 1}, {}, "The arguments must have at least 1 name, not 0.", "bad_arguments"),
        (
            {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
            {"b": 1},
            "The arguments cannot be taken: ",
            "bad_arguments",
        ),
    ],
)
def test_a_missing_or_unknown_argument_is_named_with_the_nearest(
    schema: Any, given: Any, fault: str, code: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        check(given, schema)
    assert caught.value.message.startswith(fault)
    assert caught.value.details["code"] == code
    assert caught.value.details["expected"] == schema


def test_an_argument_that_the_schema_does_not_name_is_passed_on() -> None:
    assert check({"y": "1"}, KNOWN) == Checked({"y": "1"})


@pytest.mark.parametrize(
    ("child", "value"),
    [
        (WHOLE, "a" * 100_000),
        (WHOLE, "line\nline\r\nline"),
        ({"enum": [f"choice number {number}" for number in range(500)]}, "choice number x"),
        ({"anyOf": [{"const": "c" * 90}, {"const": "d" * 90}]}, "e" * 90),
    ],
)
def test_a_fault_is_one_short_line_whatever_was_given_and_its_end_is_kept(child: Any, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        check({"x": value}, schema_of(child))
    message = caught.value.message
    assert len(message) <= LONGEST_FAULT and message.isprintable()
    assert message.startswith('Argument "x" must be') and message.endswith(".")
    assert value[:4] in message[-LONGEST_FAULT // 2 :]


SLOW = "^(a+)+$"
EVIL = "a" * 40 + "!"


@pytest.mark.parametrize(
    "child",
    [
        {"type": "string", "pattern": SLOW},
        {"type": "string", "not": {"pattern": SLOW}},
        {"if": {"pattern": SLOW}, "then": {"type": "string"}, "else": {"type": "string"}},
        {"type": "string", "pattern": "a*" * 20 + "b"},
        {"type": "string", "pattern": "(a|aa)+$"},
        {"type": "string", "pattern": "(x"},
        {"unevaluatedItems": False, "pattern": SLOW},
    ],
    ids=str,
)
def test_a_pattern_that_may_take_for_ever_is_left_to_the_server(child: Any) -> None:
    begun = time.monotonic()
    assert check({"x": EVIL}, schema_of(child)) == Checked({"x": EVIL})
    assert time.monotonic() - begun < HANG_S


def test_a_name_is_not_refused_for_a_pattern_that_was_not_tried() -> None:
    schema = {"properties": {}, "patternProperties": {SLOW: WHOLE}, "additionalProperties": False}
    assert check({EVIL: 1}, schema) == Checked({EVIL: 1})
    with pytest.raises(ValidationError, match="is unknown"):
        check({EVIL: 1}, {**schema, "patternProperties": {"^b": WHOLE}})


def test_what_jsonschema_does_not_know_is_not_asked_of_it() -> None:
    whole = {"properties": {"a": {"type": "integer", "nullable": True}}}
    assert check({"a": None}, {"allOf": [whole], "unevaluatedProperties": False}) == Checked({"a": None})


def nest(word: str, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {word: [schema]} if word.endswith("Of") else {word: schema}
    return schema


DEEP = ("allOf", "anyOf", "oneOf", "not", "items", "additionalProperties", "if")
NODE = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/node"}}] * 2}
LOOP = {"allOf": [{"$ref": "#/$defs/loop"}] * 100}
DYNAMIC = {"$dynamicAnchor": "n", "anyOf": [{"type": "array", "items": {"$dynamicRef": "#n"}}] * 3}
DEEP_VALUE: Any = "leaf"
for _ in range(40):
    DEEP_VALUE = [DEEP_VALUE]


@pytest.mark.parametrize(
    "schema",
    [
        *(nest(word, 10_000) for word in DEEP),
        {"$defs": {"node": NODE}, "properties": {"x": {"$ref": "#/$defs/node"}}},
        {"$defs": {"loop": LOOP}, "properties": {"x": {"$ref": "#/$defs/loop"}}},
        {"properties": {"x": DYNAMIC}},
        {"properties": {"x": {"allOf": [{"uniqueItems": True, "contains": {"pattern": "a*b*c*d"}}] * 1000}}},
        {"anyOf": [{"properties": {"x": {"enum": [f"{n}{m}" for m in range(1000)]}}} for n in range(1000)]},
    ],
    ids=[*DEEP, "branches", "loop", "dynamic", "patterns", "choices"],
)
@pytest.mark.parametrize(
    "value", ["5", DEEP_VALUE, ["ab" * 400] * 200, {"x": {"x": "5"}}], ids=["text", "deep", "long", "object"]
)
def test_a_hostile_schema_costs_bounded_time(schema: Any, value: Any) -> None:
    begun = time.monotonic()
    try:
        assert check({"x": value}, schema).arguments.keys() <= {"x"}
    except ValidationError as error:
        assert len(error.message) <= LONGEST_FAULT
    assert time.monotonic() - begun < HANG_S


def test_a_schema_of_ten_thousand_names_is_checked_like_any_other() -> None:
    names = {f"name_{number}": WHOLE for number in range(10_000)}
    schema = {"type": "object", "properties": names, "additionalProperties": False, "required": ["name_7"]}
    begun = time.monotonic()
    assert check({"name_7": "1"}, schema) == Checked({"name_7": 1}, ("name_7: text to integer",))
    with pytest.raises(ValidationError, match="is unknown"):
        check({"name": "1"}, schema)
    with pytest.raises(ValidationError, match=r'^Argument "name_7" is required \(a whole number\)\.$'):
        check({}, schema)
    assert time.monotonic() - begun < HANG_S


def test_a_long_list_is_not_taken_for_a_hostile_schema() -> None:
    given = {"x": [str(number) for number in range(5000)]}
    assert check(given, schema_of(WHOLES)).arguments == {"x": list(range(5000))}


@pytest.mark.parametrize("reference", ["https://example.org/schema.json", "file:///etc/passwd", "#/$defs/nothing"])
def test_what_a_reference_out_of_the_schema_wants_is_left_to_the_server(reference: str) -> None:
    schema = {**schema_of({"$ref": reference}), "unevaluatedProperties": False}
    assert check({"x": "5"}, schema) == Checked({"x": "5"})


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
        {"properties": {"x": {"required": 5}}, "unevaluatedProperties": 5},
        {"required": True},
        {"type": "nonsense"},
    ],
    ids=str,
)
def test_a_broken_schema_leaves_the_arguments_as_they_are(schema: dict[str, Any]) -> None:
    assert check({"x": {"n": "1"}}, schema) == Checked({"x": {"n": "1"}})


def test_a_schema_without_its_patterns_says_nothing_of_the_other_names() -> None:
    closed = {"pattern": "a", "patternProperties": {"^x-": TEXT}, "additionalProperties": False, "type": "object"}
    assert without_patterns({"items": closed}) == {"items": {"type": "object"}}
    assert without_patterns(CLOSED) == CLOSED


TEXTUAL = st.sampled_from(["", "1", "2.0", "true", "null", "[1, 'a']", '{"a": "1"}', "[", "007", "None"])
GIVEN = st.dictionaries(st.sampled_from(["x", "a", "y"]), VALUES | TEXTUAL, max_size=3)


def root_of(schema: Any, one: Any, two: Any, kind: str) -> dict[str, Any]:
    return {"$defs": {"one": one, "two": two}, "properties": {"x": schema, "y": {"type": kind}}}


def as_json(value: Any) -> Any:
    """JSON of a value for which 1.0 is 1, as it is for JSON Schema, and true is not."""
    return json.dumps(value, sort_keys=True).replace(".0", "")


@settings(max_examples=examples(500), suppress_health_check=[HealthCheck.too_slow])
@given(schema=SCHEMAS, one=LEAVES, two=LEAVES, kind=KINDS, value=GIVEN)
def test_what_is_valid_is_not_changed_and_what_comes_out_is_valid(
    schema: Any, one: Any, two: Any, kind: str, value: dict[str, Any]
) -> None:
    root = root_of(schema, one, two, kind)
    is_valid = Draft202012Validator(root).is_valid
    try:
        checked = check(value, root)
    except ValidationError as error:
        assert not is_valid(value)
        assert error.message and len(error.message) <= LONGEST_FAULT
        return
    assert is_valid(checked.arguments)
    assert check(checked.arguments, root) == Checked(checked.arguments)
    assert bool(checked.coercions) is (json.dumps(value) != json.dumps(checked.arguments))
    if is_valid(value):
        assert as_json(checked.arguments) == as_json(value)
