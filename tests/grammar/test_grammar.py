"""The grammars of calls: what they let through is valid, and every valid call that we write is let through.

llama.cpp itself reads them.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from grammar.matcher import Matcher
from grammar.schemas import Schema, tool_schemas, values
from rkllm_chat.arguments import check
from rkllm_chat.errors import ValidationError
from rkllm_chat.events import CallFound
from rkllm_chat.formats import FORMATS, formats_for
from rkllm_chat.grammar import GRAMMARS, CallGrammar, call_grammar
from rkllm_chat.messages import Tool
from rkllm_chat.scanner import Scanner

pytestmark = [pytest.mark.model, pytest.mark.timeout(180)]
FEW = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
FORMS = sorted(GRAMMARS)


@pytest.fixture(scope="module")
def matcher(shipped_model: Path) -> Matcher:
    return Matcher(shipped_model)


def grammar_of(schema: Schema, form: str, name: str = "do_it") -> CallGrammar:
    found = call_grammar([Tool(name, schema=schema)], form)
    assert found
    return found


def read_call(form: str, text: str) -> CallFound:
    """The one call that a text is."""
    scanner = Scanner(formats_for(form))
    (found,) = scanner.feed(text) + scanner.close()
    assert isinstance(found, CallFound), found
    assert found.call.repairs == ()
    return found


def is_carried(form: str, name: str, arguments: dict[str, Any], schema: Schema) -> bool:
    """Whether a form can hold these arguments: in tags, a null beside a text is the text "null"."""
    try:
        return check(read_call(form, FORMATS[form].show(name, arguments)).call.arguments, schema).arguments == arguments
    except ValidationError:
        return False


@pytest.mark.parametrize("form", FORMS)
@FEW
@given(data=st.data())
def test_every_valid_call_that_is_shown_is_let_through(form: str, matcher: Matcher, data: st.DataObject) -> None:
    schema = data.draw(tool_schemas())
    arguments = data.draw(values(schema))
    Draft202012Validator(schema).validate(arguments)
    assume(is_carried(form, "do_it", arguments, schema))
    grammar = grammar_of(schema, form)
    written = FORMATS[form].show("do_it", arguments).removeprefix(grammar.trigger)
    assert matcher.read(grammar.gbnf, written) == written + "$"


@pytest.mark.parametrize("form", FORMS)
@FEW
@given(schema=tool_schemas(), seed=st.integers(0, 10**6))
def test_whatever_is_let_through_is_a_valid_call(form: str, matcher: Matcher, schema: Schema, seed: int) -> None:
    grammar = grammar_of(schema, form)
    if written := matcher.walk(grammar.gbnf, Random(seed)):
        arguments = read_call(form, grammar.trigger + written).call.arguments
        Draft202012Validator(schema).validate(check(arguments, schema).arguments if form == "xml" else arguments)


OBJECT = {"type": "object"}


@pytest.mark.parametrize(
    ("schema", "taken", "refused"),
    [
        ({"type": "integer"}, ["0", "-7", "12345678901234567890"], ["1.0", "01", "1e3", '"1"', "1" * 21]),
        ({"type": "integer", "minimum": 3, "exclusiveMaximum": 120}, ["3", "42", "119"], ["2", "120", "-3", "1190"]),
        ({"type": "integer", "minimum": -12, "maximum": -3}, ["-12", "-3"], ["-13", "-2", "3", "0"]),
        ({"type": "number"}, ["0.5", "-1e-07", "1.5e+300", "7"], ["NaN", "1e308", ".5", "1."]),
        (
            {"type": "number", "minimum": 0, "maximum": 1},
            ["0", "1", "0.25", "1.0", "1e-09"],
            ["1.1", "2", "-0.5", "1e0"],
        ),
        ({"type": "number", "exclusiveMinimum": 0.25, "maximum": 2.5}, ["0.251", "2.5", "1"], ["0.25", "0.2", "2.51"]),
        ({"type": "boolean"}, ["true", "false"], ["True", "null", "1"]),
        ({"type": "null"}, ["null"], ["None"]),
        ({"type": ["string", "null"]}, ['"a"', "null"], ["1"]),
        ({"enum": ["a", "ab", 1, None, [1, 2]]}, ['"a"', '"ab"', "1", "null", "[1, 2]"], ['"b"', "2", '"abc"']),
        ({"type": "string", "enum": ["a", 1]}, ['"a"'], ["1"]),
        ({"const": {"a": 1}}, ['{"a": 1}'], ["{}"]),
        ({"type": "string"}, ['""', '"日本\\n\\u00e9\\"/"'], ['"\n"', '"\\ud800"', '"\\x"', "a"]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', '"\\nbc"'], ['"a"', '"abcd"']),
        ({"type": "string", "maxLength": 200}, [f'"{"x" * 200}"', '""'], [f'"{"x" * 201}"']),
        (
            {"type": "array", "items": {"type": "integer"}},
            ["[]", "[1]", "[1, 2,3]", "[\n  1,\n  2\n]"],
            ["[1,]", "[a]"],
        ),
        (
            {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "null"}},
            ["[null]"],
            ["[]", "[null,null,null]"],
        ),
        ({"prefixItems": [{"type": "null"}, {"const": 1}], "items": False}, ["[]", "[null, 1]"], ["[1]", "[null,1,1]"]),
        ({"anyOf": [{"type": "integer"}, {"const": "x"}]}, ["1", '"x"'], ['"y"']),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, ["1", "null"], ["true"]),
        ({"allOf": [{"properties": {"a": {"const": 1}}}, {"required": ["a"]}]}, ['{"a": 1}'], ["{}", '{"a": 2}']),
        ({**OBJECT, "properties": {}}, ["{}", "{ }"], ['{"a": 1}']),
        ({**OBJECT}, ["{}", '{"a": [1, {"b": null}], "c": true}'], ["[]"]),
        ({**OBJECT, "additionalProperties": {"type": "integer"}}, ['{"any \\" name": 1}'], ['{"a": "b"}']),
        (
            {**OBJECT, "properties": {"ab": {"type": "null"}}, "additionalProperties": {"const": 1}},
            ['{"ab": null, "a": 1, "abc": 1}', '{"x": 1}', "{}"],
            ['{"ab": 1}', '{"x": 1, "ab": null}', '{"a": 2}'],
        ),
        ({**OBJECT, "required": ["b"], "properties": {"a": True}}, ['{"a": 1, "b": [2]}', '{"b": 2}'], ['{"a": 1}']),
        ({}, ["1", '{"a": [[[[]]]]}'], ["[" * 10 + "]" * 10]),
        ({"$ref": "#/$defs/list"}, ['{"next": {"next": null}}', '{"next": null}'], ['{"next": 1}']),
    ],
    ids=str,
)
def test_a_schema_says_which_values_are_taken(
    schema: Schema, taken: list[str], refused: list[str], matcher: Matcher
) -> None:
    tail = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/list"}]}
    definitions = {"list": {"type": "object", "properties": {"next": tail}, "required": ["next"]}}
    tool = {"type": "object", "properties": {"v": schema}, "required": ["v"], "$defs": definitions}
    gbnf = grammar_of(tool, "json", "f").gbnf

    def is_taken(value: str) -> bool:
        written = f'\n{{"name": "f", "arguments": {{"v": {value}}}}}\n[END_TOOL_CALL]'
        return matcher.read(gbnf, written) == written + "$"

    assert [value for value in taken if not is_taken(value)] == []
    assert [value for value in refused if is_taken(value)] == []


@pytest.mark.parametrize("form", FORMS)
def test_the_names_are_those_that_the_model_is_shown(form: str, matcher: Matcher) -> None:
    tools = [Tool("get", server="a"), Tool("get", server="b"), Tool("get_time", server="b")]
    grammar = call_grammar(tools, form)
    assert grammar

    def is_taken(name: str) -> bool:
        written = FORMATS[form].show(name, {}).removeprefix(grammar.trigger)
        return matcher.read(grammar.gbnf, written) == written + "$"

    assert [name for name in ("a__get", "b__get", "get_time", "get", "b__get_time", "gets") if is_taken(name)] == [
        "a__get",
        "b__get",
        "get_time",
    ]


def test_a_tool_that_nothing_fits_takes_anything(matcher: Matcher) -> None:
    gbnf = grammar_of({"properties": {"a": {"enum": []}, "b": {"const": 1}}, "required": ["a"]}, "json").gbnf
    written = '{"name": "do_it", "arguments": {"a": 1, "c": 2}}[END_TOOL_CALL]'
    assert matcher.read(gbnf, written) == written + "$"


def test_white_space_has_an_end(matcher: Matcher) -> None:
    gbnf = grammar_of({}, "json").gbnf
    assert len(matcher.read(gbnf, " " * 100)) == 8
    assert len(matcher.read(gbnf, '{"name":' + "\n" * 100)) == len('{"name":') + 1
    assert len(matcher.read(gbnf, '{"name":\n' + " " * 100)) == len('{"name":\n') + 20


def test_an_argument_in_tags_may_hold_any_text(matcher: Matcher) -> None:
    grammar = grammar_of({"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}, "xml")
    text = "if a < b && c:\n\t</arg> <argument> </argumen\n"
    written = f'name="do_it">\n<argument name="code">{text}</argument>\n</tool_call>'
    assert matcher.read(grammar.gbnf, written) == written + "$"
    assert read_call("xml", grammar.trigger + written).call.arguments == {"code": text.removesuffix("\n")}
    twice = written.replace("</tool_call>", '<argument name="code">x</argument></tool_call>')
    assert not matcher.read(grammar.gbnf, twice).endswith("$")


def test_one_hundred_tools_are_one_grammar(matcher: Matcher) -> None:
    tools = [Tool(f"tool_{number}", schema=MANY, server="s") for number in range(100)]
    grammar = call_grammar(tools, "json")
    assert grammar and call_grammar(tools, "json") is grammar
    written = '{"name": "tool_77", "arguments": {"unit": "kelvin", "limits": [1, 2]}}[END_TOOL_CALL]'
    assert matcher.read(grammar.gbnf, written) == written + "$"


MANY = {
    "type": "object",
    "properties": {
        "unit": {"enum": ["celsius", "kelvin"]},
        "place": {"type": "string"},
        "limits": {"type": "array", "items": {"type": "integer", "minimum": 1}},
    },
    "required": ["unit"],
}


def wide() -> Schema:
    return {"allOf": [{"$ref": "#/properties/a"}] * 20}


def deep() -> Schema:
    schema: Schema = {}
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [wide(), deep(), {"enum": [f"{number}{'x' * 100}" for number in range(10_000)]}, {"const": {1, 2}}],
    ids=["wide", "deep", "large", "no JSON"],
)
def test_a_schema_that_is_too_much_for_a_grammar_has_none(schema: Schema) -> None:
    assert call_grammar([Tool("f", schema={"type": "object", "properties": {"a": schema}})], "json") is None
    assert call_grammar([Tool("f", schema={"type": "object", "allOf": [{"$ref": "#"}] * 9})], "json") is None
    assert call_grammar([Tool("f", schema={"type": "object", "properties": {"a": {}}})], "json")


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/nowhere"},
        {"type": 7, "properties": [], "required": "x"},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}]}}},
        {"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]},
        {"type": "string"},
        {"type": "object", "properties": {"a": {"minLength": -1, "maxLength": "x", "type": "string"}}},
        {"type": "object", "properties": {'a\n"b\\\ud800': {"type": "array", "minItems": 3, "maxItems": 1}}},
        {"type": "object", "properties": {"a": {"pattern": "(a+)+$", "enum": ["a" * 40 + "b"]}}, "required": ["a"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", FORMS)
def test_a_broken_schema_still_gives_a_grammar_that_llama_reads(form: str, schema: Schema, matcher: Matcher) -> None:
    grammar = grammar_of(schema, form)
    with matcher.reading(grammar.gbnf):
        pass
