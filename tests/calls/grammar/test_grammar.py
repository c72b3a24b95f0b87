"""The grammars of calls: they accept valid calls only, and every valid call that we write.

llguidance itself reads them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from calls.grammar import ASKED, KINDS
from calls.grammar.matcher import Matcher
from calls.grammar.schemas import Schema, tool_schemas, values
from rkllm_chat.calls.arguments import validate_arguments
from rkllm_chat.calls.formats import FORMATS, select_formats
from rkllm_chat.calls.grammar import GRAMMARS, CallGrammar, build_call_grammar
from rkllm_chat.calls.grammar.tagged_values import ArgumentTags
from rkllm_chat.calls.grammar.trigger import CallDetector
from rkllm_chat.calls.model_families import FAMILIES
from rkllm_chat.calls.scanner import Scanner
from rkllm_chat.core.errors import ValidationError
from rkllm_chat.core.events import CallFound, Text
from rkllm_chat.core.messages import Tool

pytestmark = pytest.mark.timeout(180)
FEW = settings(
    max_examples=12, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


def mark(format_names: Iterable[str], fast: Container[str]) -> list[Any]:
    """The names as parameters; all but some are those of slow tests."""
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in format_names]


FORMS = mark(KINDS, ASKED)
TAGGED_FORMS = [name for name in KINDS if isinstance(GRAMMARS[name].arguments, ArgumentTags)]


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    return Matcher()


def grammar_of(schema: Schema, format_name: str, name: str = "do_it") -> CallGrammar:
    found = build_call_grammar([Tool(name, schema=schema)], format_name)
    assert found
    return found


def read_calls(format_name: str, text: str) -> list[CallFound]:
    """The calls that a text is; some readers pass on white space between the calls of a group."""
    scanner = Scanner(select_formats(format_name))
    events = scanner.feed(text) + scanner.close()
    found = [event for event in events if isinstance(event, CallFound) and not event.call.repairs]
    assert found == [event for event in events if not (isinstance(event, Text) and event.text.isspace())]
    return found


def read_call(format_name: str, text: str) -> CallFound:
    """The one call that a text is."""
    (found,) = read_calls(format_name, text)
    return found


def is_carried(format_name: str, name: str, arguments: dict[str, Any], schema: Schema) -> bool:
    """Whether a form can hold these arguments: in tags, a null beside a text is the text "null", and NUL is no text."""
    written = FORMATS[format_name].render_call(name, arguments)
    try:
        return (
            "\0" not in written
            and validate_arguments(read_call(format_name, written).call.arguments, schema).arguments == arguments
        )
    except ValidationError:
        return False


@pytest.mark.parametrize("format_name", FORMS)
@settings(FEW, max_examples=6)
@given(data=st.data())
def test_every_valid_call_that_is_shown_is_accepted(format_name: str, matcher: Matcher, data: st.DataObject) -> None:
    schema = data.draw(tool_schemas())
    arguments = data.draw(values(schema))
    Draft202012Validator(schema).validate(arguments)
    assume(is_carried(format_name, "do_it", arguments, schema))
    grammar = grammar_of(schema, format_name)
    written = FORMATS[format_name].render_call("do_it", arguments).removeprefix(grammar.trigger)
    assert matcher.read(grammar.rules, written) == written + "$"


@pytest.mark.parametrize("format_name", mark(KINDS, ["json"]))
@FEW
@given(schema=tool_schemas(), seed=st.integers(0, 10**6))
def test_every_accepted_text_is_a_valid_call(format_name: str, matcher: Matcher, schema: Schema, seed: int) -> None:
    grammar = grammar_of(schema, format_name)
    if written := matcher.walk(
        grammar.rules, Random(seed), "inner" if GRAMMARS[format_name].layout.instead else "call"
    ):
        for found in read_calls(format_name, grammar.trigger + written):
            arguments = found.call.arguments
            if isinstance(GRAMMARS[format_name].arguments, ArgumentTags):
                arguments = validate_arguments(arguments, schema).arguments
            Draft202012Validator(schema).validate(arguments)


OBJECT = {"type": "object"}


@pytest.mark.parametrize(
    ("schema", "taken", "rejected"),
    [
        ({"type": "integer"}, ["0", "-7", "12345678901234567890"], ["1.0", "01", "1e3", '"1"', "1" * 21]),
        ({"type": "integer", "minimum": 3, "exclusiveMaximum": 120}, ["3", "42", "119"], ["2", "120", "-3", "1190"]),
        ({"type": "integer", "minimum": -12, "maximum": -3}, ["-12", "-3"], ["-13", "-2", "3", "0"]),
        ({"type": "number"}, ["0.5", "-1e-07", "1.5e+300", "7"], ["NaN", "1e308", ".5", "1."]),
        (
            {"type": "number", "minimum": 0, "maximum": 1},
            ["0", "1", "0.25", "1.0", "0.000000001"],
            ["1.1", "-0.5", "1e0"],
        ),
        ({"type": "number", "exclusiveMinimum": 0.25, "maximum": 2.5}, ["0.251", "2.5", "1"], ["0.25", "0.2", "2.51"]),
        ({"type": ["boolean", "null"]}, ["true", "false", "null"], ["True", "None", "1"]),
        ({"enum": ["a", "ab", 1, None, [1, 2]]}, ['"a"', '"ab"', "1", "null", "[1, 2]"], ['"b"', "2", '"abc"']),
        ({"type": "string", "enum": ["a", 1]}, ['"a"'], ["1"]),
        ({"const": {"a": 1}}, ['{"a": 1}'], ["{}"]),
        ({"type": "string"}, ['""', '"日本\\n\\u00e9\\"/"'], ['"\n"', '"\\ud800"', '"\\x"', "a"]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', '"\\nbc"'], ['"a"', '"abcd"']),
        ({"type": "string", "maxLength": 200}, [f'"{"x" * 200}"', '""'], [f'"{"x" * 201}"']),
        ({"type": "array", "items": {"type": "integer"}}, ["[]", "[1, 2,3]", "[\n  1,\n  2\n]"], ["[1,]", "[a]"]),
        ({"minItems": 1, "maxItems": 2, "items": {"type": "null"}}, ["[null]"], ["[]", "[null,null,null]"]),
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
def test_a_grammar_accepts_the_values_of_its_schema(
    schema: Schema, taken: list[str], rejected: list[str], matcher: Matcher
) -> None:
    tail = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/list"}]}
    definitions = {"list": {"type": "object", "properties": {"next": tail}, "required": ["next"]}}
    tool = {"type": "object", "properties": {"v": schema}, "required": ["v"], "$defs": definitions}
    rules = grammar_of(tool, "json", "f").rules

    def is_taken(value: str) -> bool:
        written = f'\n{{"name": "f", "arguments": {{"v": {value}}}}}\n[END_TOOL_CALL]'
        return matcher.read(rules, written) == written + "$"

    assert [value for value in taken if not is_taken(value)] == []
    assert [value for value in rejected if is_taken(value)] == []


@pytest.mark.parametrize("format_name", mark(sorted(GRAMMARS), ASKED))
def test_a_grammar_accepts_the_names_that_the_model_is_shown(format_name: str, matcher: Matcher) -> None:
    tools = [Tool("get", server="a"), Tool("get", server="b"), Tool("get_time", server="b")]
    grammar = build_call_grammar(tools, format_name)
    assert grammar

    def is_taken(name: str) -> bool:
        written = FORMATS[format_name].render_call(name, {}).removeprefix(grammar.trigger)
        return matcher.read(grammar.rules, written) == written + "$"

    assert [name for name in ("a__get", "b__get", "get_time", "get", "b__get_time", "gets") if is_taken(name)] == [
        "a__get",
        "b__get",
        "get_time",
    ]


def test_the_grammar_of_a_tool_that_nothing_fits_accepts_anything(matcher: Matcher) -> None:
    rules = grammar_of({"properties": {"a": {"enum": []}, "b": {"const": 1}}, "required": ["a"]}, "json").rules
    written = '{"name": "do_it", "arguments": {"a": 1, "c": 2}}[END_TOOL_CALL]'
    assert matcher.read(rules, written) == written + "$"


def test_white_space_is_bounded(matcher: Matcher) -> None:
    rules = grammar_of({}, "json").rules
    assert len(matcher.read(rules, " " * 100)) == 8
    assert len(matcher.read(rules, '{"name":' + "\n" * 100)) == len('{"name":') + 1
    assert len(matcher.read(rules, '{"name":\n' + " " * 100)) == len('{"name":\n') + 20


def test_an_argument_in_tags_may_hold_any_text(matcher: Matcher) -> None:
    grammar = grammar_of({"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}, "xml")
    text = "if a < b && c:\n\t</arg> <argument> </argumen\n"
    written = f'name="do_it">\n<argument name="code">{text}</argument>\n</tool_call>'
    assert matcher.read(grammar.rules, written) == written + "$"
    assert read_call("xml", grammar.trigger + written).call.arguments == {"code": text.removesuffix("\n")}
    twice = written.replace("</tool_call>", '<argument name="code">x</argument></tool_call>')
    assert not matcher.read(grammar.rules, twice).endswith("$")


PIECES = [
    "<",
    "</",
    "/",
    ">",
    "=",
    "\n",
    " ",
    "x",
    "&lt;",
    "param",
    "parameter",
    "argument",
    "arg_value",
    "<![CDATA[",
    "]]>",
    "</parameter>",
    "</param>",
    "</argument>",
    "</arg_value>",
    "</function>",
    "</tool_call>",
    "</tool>",
    "</call>",
]


@pytest.mark.slow
@pytest.mark.parametrize("format_name", TAGGED_FORMS)
@settings(FEW, max_examples=60)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=9))
def test_a_text_between_tags_that_is_accepted_is_read_back(
    format_name: str, matcher: Matcher, pieces: list[str]
) -> None:
    text = "".join(pieces)
    grammar = grammar_of({"type": "object", "properties": {"code": {"type": "string"}}}, format_name)
    written = FORMATS[format_name].render_call("do_it", {"code": text})
    scanner = Scanner(select_formats(format_name))
    events = scanner.feed(written) + scanner.close()
    is_same = [isinstance(event, CallFound) and event.call.arguments == {"code": text} for event in events] == [True]
    is_taken = matcher.read(grammar.rules, written.removeprefix(grammar.trigger)).endswith("$")
    assert is_taken <= is_same
    assert is_taken or "</" in text


SHORT = {"type": "string", "minLength": 2, "maxLength": 5}
RAW = ["\nab\n", "\na\nb\n", "\n<<x/\n", "\n\n\n\n\n", "\n日本<\n"]


@pytest.mark.parametrize(
    ("format_name", "schema", "taken", "rejected"),
    [
        ("qwen3-coder", SHORT, RAW, ["ab", "\na\n", "\nabcdef\n", "\n<<x/ab\n", "\n\n\n"]),
        ("glm4.5", SHORT, RAW, ["ab", "\na\n", "\nabcdef\n"]),
        ("xml", SHORT, ["ab", "a\nb", "\nab\n", "\n\n\n\n", "&lt;&amp;"], ["a", "abcdef", "\na\n", "<a", "&lt;"]),
        ("qwen3-coder", {**SHORT, "maxLength": 9999}, ["\n<b></b>\n"], ["\n<\n", "\n\n"]),
        ("qwen3-coder", {"enum": ["a", "a b", "\n", 7]}, ["a", "\na b\n", "\n\n\n", "7"], ["b", "\na", "\n\n", "8"]),
        ("glm4.5", {"type": "integer", "maximum": 5}, ["5", "\n-3\n"], ["6", '"5"', "\n5", "five"]),
        ("qwen3-coder", {"type": "boolean"}, ["true", "\nfalse\n"], ["True", "yes", ""]),
        ("qwen3-coder", {"type": "array", "items": SHORT}, ['["ab", "</a>"]', "[]"], ["ab", '["a"]', '["</para"]']),
        ("qwen3-coder", {"type": "array", "items": {"type": "string"}}, ['["</para"]'], ['["</parameter>"]', '["']),
        ("minicpm5", {"type": "string"}, ["<![CDATA[a < b </param>]]>", "<!-- a -->"], ["a<![CDATA[", "<![CDATA[a"]),
    ],
    ids=str,
)
def test_a_grammar_of_tags_accepts_the_values_of_its_schema(
    format_name: str, schema: Schema, taken: list[str], rejected: list[str], matcher: Matcher
) -> None:
    tool = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    grammar = grammar_of(tool, format_name, "f")
    tags = GRAMMARS[format_name].arguments
    assert isinstance(tags, ArgumentTags)
    before, after = FORMATS[format_name].render_call("f", {"v": "VALUE"}).replace("\nVALUE\n", "VALUE").split("VALUE")

    def is_taken(value: str) -> bool:
        written = f"{before}{value}{after}"
        is_accepted = matcher.read(grammar.rules, written.removeprefix(grammar.trigger)).endswith("$")
        if is_accepted:
            Draft202012Validator(tool).validate(
                validate_arguments(read_call(format_name, written).call.arguments, tool).arguments
            )
        return is_accepted

    assert [value for value in taken if not is_taken(value)] == []
    assert [value for value in rejected if is_taken(value)] == []


@pytest.mark.parametrize("format_name", sorted({family.preferred_format for family in FAMILIES.values()}))
def test_the_marker_of_a_form_that_a_family_is_asked_for_begins_its_grammar(format_name: str, matcher: Matcher) -> None:
    grammar = grammar_of(MANY, format_name)
    call = FORMATS[format_name].render_call("do_it", {"unit": "kelvin", "limits": [1, 2]})
    detector = CallDetector(grammar)
    assert detector.feed(f"<think>I write {grammar.trigger}.</think>\n\nSure.\n") == ""
    found = [(detector.feed(char), call[end:]) for end, char in enumerate(call, 1)]
    marker, rest = next((marker, rest) for marker, rest in found if marker)
    assert matcher.read(grammar.rules, rest, grammar.triggers[marker]) == rest + "$"
    wrong = rest.replace("kelvin", "celsium")
    assert not matcher.read(grammar.rules, wrong, grammar.triggers[marker]).endswith("$")


def test_a_call_of_qwen_may_begin_without_its_outer_tag(matcher: Matcher) -> None:
    grammar = grammar_of(MANY, "qwen3-coder")
    call = "do_it>\n<parameter=unit>\nkelvin\n</parameter>\n</function>"
    assert CallDetector(grammar).feed("<function=") == "<function="
    assert matcher.read(grammar.rules, call, "inner") == call + "$"
    (found,) = read_calls("qwen3-coder", f"<function={call}")
    assert found.call.arguments == {"unit": "kelvin"}


def test_several_calls_may_stand_in_one_list(matcher: Matcher) -> None:
    grammar = grammar_of(MANY, "nemotron")
    call = '{"name": "do_it", "arguments": {"unit": "kelvin"}}'
    written = f"[{call}, {call}]</TOOLCALL>"
    assert matcher.read(grammar.rules, written) == written + "$"
    assert len(read_calls("nemotron", grammar.trigger + written)) == 2
    assert not matcher.read(grammar.rules, f"[{call} {call}]</TOOLCALL>").endswith("$")


@pytest.mark.parametrize("prose", ["all\n", " print(1)", "\n", ">>>> branch"])
def test_prose_may_follow_the_marker_of_functionary(matcher: Matcher, prose: str) -> None:
    rules = grammar_of(MANY, "functionary").rules
    assert any(matcher.read(rules, prose[:end]).endswith("$") for end in range(1, len(prose) + 1))
    assert matcher.read(rules, "do_something\n{}") == "do_"


def test_names_that_a_schema_does_not_declare_are_words_in_functiongemma(matcher: Matcher) -> None:
    schema = {**OBJECT, "properties": {"ab": {"type": "null"}}, "additionalProperties": {"const": 1}}
    grammar = grammar_of(schema, "functiongemma", "f")

    def is_taken(members: str) -> bool:
        return matcher.read(grammar.rules, f"call:f{{{members}}}<end_function_call>").endswith("$")

    assert all(map(is_taken, ("ab:null,a:1,abc:1,c_9:1", "x:1", "")))
    assert not any(map(is_taken, ("ab:1", "x:1,ab:null", "true:1", "9:1", '"x":1', "a-b:1")))


@pytest.mark.parametrize("format_name", ["json", "qwen3-coder"])
def test_one_hundred_tools_share_one_cached_grammar(format_name: str, matcher: Matcher) -> None:
    tools = [Tool(f"tool_{number}", schema=MANY, server="s") for number in range(100)]
    grammar = build_call_grammar(tools, format_name)
    assert grammar and build_call_grammar(tools, format_name) is grammar
    written = (
        FORMATS[format_name].render_call("tool_77", {"unit": "kelvin", "limits": [1, 2]}).removeprefix(grammar.trigger)
    )
    assert matcher.read(grammar.rules, written) == written + "$"


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema",
    [wide(), deep(), {"enum": [f"{number}{'x' * 100}" for number in range(10_000)]}, {"const": {1, 2}}],
    ids=["wide", "deep", "large", "no JSON"],
)
def test_a_schema_that_is_too_large_has_no_grammar(schema: Schema) -> None:
    assert build_call_grammar([Tool("f", schema={"type": "object", "properties": {"a": schema}})], "json") is None
    assert build_call_grammar([Tool("f", schema={"type": "object", "allOf": [{"$ref": "#"}] * 9})], "json") is None
    assert build_call_grammar([Tool("f", schema={"type": "object", "properties": {"a": {}}})], "json")


BROKEN: list[Schema] = [
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
]


@pytest.mark.parametrize("format_name", FORMS)
def test_the_grammar_of_a_broken_schema_is_accepted_by_llguidance(format_name: str, matcher: Matcher) -> None:
    for schema in BROKEN:
        assert matcher.start(grammar_of(schema, format_name).rules, "call")
