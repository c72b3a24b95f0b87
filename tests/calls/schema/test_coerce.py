"""Which values are coerced to a schema, and which stay as they are. Each row goes through `validate_arguments`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rkllm_chat.calls.arguments import validate_arguments

NUMBER, WHOLE, TEXT, TRUTH = {"type": "number"}, {"type": "integer"}, {"type": "string"}, {"type": "boolean"}
NOTHING, LIST, OBJECT = {"type": "null"}, {"type": "array"}, {"type": "object"}
WHOLES, TEXTS = {"type": "array", "items": WHOLE}, {"type": "array", "items": TEXT}
PAIR = {"type": "object", "properties": {"n": WHOLE, "s": TEXT}}
PAIRS = {"type": "array", "items": PAIR}
NEEDY = {"type": "object", "properties": {"n": WHOLE}, "required": ["n"]}
DEFINITIONS = {
    "count": WHOLE,
    "counts": {"type": "array", "items": {"$ref": "#/$defs/count"}},
    "a/b c": WHOLE,
    "round": {"$ref": "#/$defs/round"},
    "tree": {
        "type": "object",
        "properties": {"size": WHOLE, "twigs": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    },
    "circle": {"type": "object", "properties": {"kind": {"const": "circle"}, "r": NUMBER}, "required": ["kind", "r"]},
    "square": {"type": "object", "properties": {"kind": {"const": "square"}, "a": WHOLE}, "required": ["kind", "a"]},
}
SHAPE = {"oneOf": [{"$ref": "#/$defs/circle"}, {"$ref": "#/$defs/square"}]}


def schema_of(child: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": child}, "$defs": DEFINITIONS}


COERCED: list[tuple[Any, Any, Any, str]] = [
    # text to a number
    (WHOLE, "\n-3 ", -3, "x: text to integer"),
    (WHOLE, "3.0", 3, "x: text to integer"),
    (WHOLE, "1e3", 1000, "x: text to integer"),
    (WHOLE, "123456789012345678901234567890", 123456789012345678901234567890, "x: text to integer"),
    (WHOLE, 3.0, 3, "x: number to integer"),
    (WHOLE, -0.0, 0, "x: number to integer"),
    (NUMBER, " 2.5", 2.5, "x: text to number"),
    (NUMBER, "7", 7, "x: text to integer"),
    (NUMBER, "1e30", 1e30, "x: text to number"),
    ({"minimum": 1}, "4", "4", ""),  # a schema without a type takes the text
    # text to true, false and null
    (TRUTH, " True\n", True, "x: text to boolean"),
    (TRUTH, "FALSE", False, "x: text to boolean"),
    ({"type": ["integer", "null"]}, "None", None, "x: text to null"),
    ({"anyOf": [WHOLE, NOTHING]}, " null ", None, "x: text to null"),
    ({"type": "integer", "nullable": True}, "null", None, "x: text to null"),
    ({"type": "integer", "nullable": True}, "5", 5, "x: text to integer"),
    ({"enum": ["low", None]}, "null", None, "x: text to null"),
    # to text
    (TEXT, 3, "3", "x: integer to text"),
    (TEXT, 2.5, "2.5", "x: number to text"),
    (TEXT, True, "true", "x: boolean to text"),
    # choices
    ({"type": "integer", "enum": [1, 2, 3]}, "3", 3, "x: text to integer"),
    ({"enum": ["1", "2"]}, 2, "2", "x: integer to text"),
    ({"enum": [True, "auto"]}, "true", True, "x: text to boolean"),
    ({"type": "string", "enum": ["red", "green"]}, '"red"', "red", "x: quotes taken off"),
    ({"const": [1, 2]}, "[1, 2]", [1, 2], "x: text to list"),
    # lists
    (LIST, "['a', (1, None)]", ["a", [1, None]], "x: text to list"),
    (LIST, "[True, false, -2.5]", [True, False, -2.5], "x: text to list"),
    (WHOLES, '["1", 2]', [1, 2], "x: text to list; x.0: text to integer"),
    (WHOLES, [1.0, "2"], [1, 2], "x.0: number to integer; x.1: text to integer"),
    (WHOLES, [1.0, 2], [1, 2], "x.0: number to integer"),
    (WHOLES, "4", [4], "x: text into list; x.0: text to integer"),
    (TEXTS, "a b", ["a b"], "x: text into list"),
    (WHOLES, "1, 2", [1, 2], "x: text to list"),
    (PAIR, [{"s": "a", "n": 1}], {"s": "a", "n": 1}, "x: list to object"),
    ({"enum": ["metric", "imperial"]}, " Metric", "metric", "x: spelling"),
    ({"enum": ["metric", "imperial"]}, "None", ..., "x: null left out"),
    (WHOLE, "null", ..., "x: null left out"),
    (TEXTS, 4, ["4"], "x: integer into list; x.0: integer to text"),
    (PAIRS, {"n": "1"}, [{"n": 1}], "x: object into list; x.0.n: text to integer"),
    (PAIRS, ['{"n": 1}'], [{"n": 1}], "x.0: text to object"),
    ({"type": "array", "prefixItems": [WHOLE, TEXT]}, ["1", 2], [1, "2"], "x.0: text to integer; x.1: integer to text"),
    ({"type": "array", "items": [WHOLE, TEXT]}, ["1", 2], [1, "2"], "x.0: text to integer; x.1: integer to text"),
    # objects
    (OBJECT, "{'a': True, 'b': {'c': None}}", {"a": True, "b": {"c": None}}, "x: text to object"),
    (PAIR, '{"n": "1", "m": "1"}', {"n": 1, "m": "1"}, "x: text to object; x.n: text to integer"),
    ({"type": "object", "additionalProperties": WHOLE}, {"a": "1"}, {"a": 1}, "x.a: text to integer"),
    ({"patternProperties": {"^n": WHOLE}}, {"n1": "1", "m": "1"}, {"n1": 1, "m": "1"}, "x.n1: text to integer"),
    # an empty text for what is optional and no text
    (PAIR, {"n": "", "s": ""}, {"s": ""}, "x.n: empty text left out"),
    (WHOLES, " \n", ..., "x: empty text left out"),
    ({"anyOf": [TRUTH, OBJECT]}, "", ..., "x: empty text left out"),
    (WHOLE, None, ..., "x: null left out"),
    # references, and all of several
    ({"$ref": "#/$defs/a~1b%20c"}, "5", 5, "x: text to integer"),
    ({"$ref": "#/$defs/counts"}, ["5"], [5], "x.0: text to integer"),
    ({"$ref": "#/$defs/count", "minimum": 2}, "5", 5, "x: text to integer"),
    ({"$ref": "#/$defs/tree"}, {"twigs": [{"size": "2"}]}, {"twigs": [{"size": 2}]}, "x.twigs.0.size: text to integer"),
    ({"allOf": [{"$ref": "#/$defs/count"}], "nullable": True}, "5", 5, "x: text to integer"),
    ({"allOf": [PAIR, NEEDY]}, {"n": "1"}, {"n": 1}, "x.n: text to integer"),
    # one of several
    ({"anyOf": [WHOLE, TRUTH]}, "true", True, "x: text to boolean"),
    ({"type": ["boolean", "integer"]}, "5", 5, "x: text to integer"),
    ({"anyOf": [{"type": "integer", "maximum": 9}, NUMBER]}, "12.5", 12.5, "x: text to number"),
    ({"anyOf": [WHOLES, WHOLE]}, "7", 7, "x: text to integer"),
    (SHAPE, {"kind": "square", "a": "2"}, {"kind": "square", "a": 2}, "x.a: text to integer"),
    (SHAPE, '{"kind": "circle", "r": "2"}', {"kind": "circle", "r": 2}, "x: text to object; x.r: text to integer"),
]  # fmt: skip


@pytest.mark.parametrize(("child", "given", "wanted", "how"), COERCED, ids=str)
def test_a_value_is_coerced_to_the_schema_and_the_coercion_is_named(
    child: Any, given: Any, wanted: Any, how: str
) -> None:
    checked = validate_arguments({"x": given}, schema_of(child))
    # as JSON text, for which 3 is not 3.0 and true is not 1
    assert json.dumps(checked.arguments) == json.dumps({} if wanted is ... else {"x": wanted})
    assert "; ".join(checked.coercions) == how


VALID: list[tuple[Any, Any]] = [
    (TEXT, "true"),
    (TEXT, '{"a": 1}'),
    (TEXT, ""),
    (NUMBER, 3.0),
    (WHOLE, 1e20),
    ({"type": ["string", "null"]}, "null"),
    ({"type": ["string", "integer"]}, "5"),
    ({"anyOf": [WHOLE, TEXT]}, "5"),
    ({"enum": ["3", 3]}, "3"),
    ({"allOf": [{"$ref": "#/$defs/count"}], "nullable": True}, None),
    (TEXTS, ["1", "[2]"]),
    (PAIR, {"s": "1", "other": "2"}),
    (SHAPE, {"kind": "circle", "r": 2.0}),
    ({}, '{"a": 1}'),
    ({"$ref": "#/$defs/round"}, "5"),
]


@pytest.mark.parametrize(("child", "given"), VALID, ids=str)
def test_a_valid_value_is_not_changed(child: Any, given: Any) -> None:
    checked = validate_arguments({"x": given}, schema_of(child))
    assert json.dumps(checked.arguments) == json.dumps({"x": given})
    assert checked.coercions == ()
