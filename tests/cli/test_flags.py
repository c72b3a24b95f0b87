"""The flags behind a tool's name become its arguments by its schema, or an error that says what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.flag_rows import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    POINT,
    REJECTED,
    ROWS,
    TEXT,
    Rejected,
    Row,
    list_of,
    map_of,
    object_of,
    one,
)
from rkllm_chat.cli.json_commands.json_input import parse_arguments
from rkllm_chat.cli.mcp_tool.flags import check_flag_arguments, load_files, merge_arguments, parse_words
from rkllm_chat.cli.mcp_tool.options import make_options
from rkllm_chat.core.errors import ChatError, UsageError, ValidationError


def read(words: list[str], schema: dict[str, Any], whole: str = "{}", **files: str) -> dict[str, Any]:
    flags = parse_words(words, schema, make_options())
    arguments = merge_arguments(load_files(flags, files.__getitem__), schema, parse_arguments(whole, "--json"))
    check_flag_arguments(arguments, schema)
    return arguments


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_flags_and_json_become_the_same_arguments(row: Row) -> None:
    whole = json.dumps(row.arguments)
    assert json.dumps(read(row.words, row.schema)) == whole
    assert json.dumps(read([], row.schema, whole)) == whole


texts = st.text(max_size=20)
integers = st.integers()
numbers = integers | st.floats(allow_nan=False, allow_infinity=False)
by_kind: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    (TEXT, texts),
    (INTEGER, integers),
    (NUMBER, numbers),
    (BOOLEAN, st.booleans()),
    (list_of(TEXT), st.lists(texts, max_size=3)),
    (map_of(NUMBER), st.dictionaries(texts, numbers, max_size=3)),
    (object_of(a=INTEGER, b=TEXT), st.fixed_dictionaries({"a": integers, "b": texts})),
]
kinds_and_values = st.sampled_from(by_kind).flatmap(lambda row: st.tuples(st.just(row[0]), row[1]))


@pytest.mark.slow
@given(st.lists(kinds_and_values, max_size=4), st.booleans(), st.booleans())
def test_any_value_arrives_as_it_is(rows: list[tuple[dict[str, Any], Any]], is_forced: bool, is_one_word: bool) -> None:
    """`is_forced`: every value is written as JSON behind `:=`; `is_one_word`: `--x=VALUE` instead of `--x VALUE`."""
    words: list[str] = []
    for number, (_, value) in enumerate(rows):
        flag, text = f"--x{number}", value if isinstance(value, str) else json.dumps(value)
        if is_forced:
            words.append(f"{flag}:={json.dumps(value)}")
        elif is_one_word or text.startswith("--"):
            words.append(f"{flag}={text}")
        else:
            words += [flag, text]
    properties = {f"x{number}": schema for number, (schema, _) in enumerate(rows)}
    assert read(words, object_of(**properties)) == {f"x{number}": value for number, (_, value) in enumerate(rows)}


@pytest.mark.parametrize("row", REJECTED, ids=lambda row: " ".join(row.words) or "nothing")
def test_what_does_not_fit_is_rejected_with_its_flag(row: Rejected) -> None:
    with pytest.raises((UsageError, ValidationError)) as caught:
        read(row.words, row.schema)
    assert (type(caught.value), caught.value.exit_code) == (row.error, 2)
    assert [text for text in row.named if text not in str(caught.value)] == []


def test_options_of_the_program_are_read_after_a_tool_that_has_no_such_argument() -> None:
    words, options = ["--x", "1", "--json", "{}", "--output=json", "--json-stdin", "-h"], make_options()
    parse_words(words, one("", TEXT, []).schema, options)
    given = {name: value for name, value in vars(options).items() if value}
    assert given == {"json": "{}", "output": "json", "json_stdin": True, "help": True}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--json"], "--json needs a value"),
        (["--json", "--x"], "--json needs a value"),
        (["--config", "f"], "--config must come before"),
        (["--json-stdin=1"], "--json-stdin takes no value"),
        (["--json", "{}", "--json", "{}"], "--json is given more than once"),
    ],
)
def test_an_option_of_the_program_that_is_written_wrongly_is_rejected(words: list[str], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        read(words, one("", TEXT, []).schema)


def test_flags_override_a_copy_of_json() -> None:
    schema, base = one("", POINT, []).schema, {"x": {"x": 1, "y": 2}, "more": None}
    for words, x in (
        (["--x.y", "3"], {"x": 1, "y": 3}),
        (["--x", "y=3"], {"x": 1, "y": 3}),
        (["--x", '{"x": 5}'], {"x": 5}),
    ):
        flags = parse_words(words, schema)
        assert merge_arguments(flags, schema, base) == {"x": x, "more": None}
    assert base == {"x": {"x": 1, "y": 2}, "more": None}


def test_json_is_not_converted_to_the_types_of_the_schema() -> None:
    with pytest.raises(ValidationError, match="whole number"):
        read([], one("", INTEGER, []).schema, '{"x": "5"}')


@pytest.mark.parametrize("schema", [TEXT, POINT, list_of(TEXT)], ids=lambda schema: schema["type"])
def test_a_value_may_be_the_text_of_a_file(schema: dict[str, Any]) -> None:
    text = '{"x": 1}'
    expected = {"string": text, "object": {"x": 1}, "array": [text]}[schema["type"]]
    assert read(["--x@=big.json"], one("", schema, []).schema, **{"big.json": text}) == {"x": expected}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "is empty"),
        ("{x: 1}", "line 1, column 2"),
        ("[1]", "is an array, not a JSON object"),
        ('{"a": 1, "a": 2}', 'the key "a" occurs twice'),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": ' + "[" * 100_000, "nested too deep"),
    ],
)
def test_json_that_is_not_an_object_is_rejected_with_its_position(text: str, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arguments(text, "--json")
    assert str(caught.value).startswith("--json is ") and named in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"x": {"$ref": "#"}}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/none"}}},
        {"type": "object", "properties": {"x": {"$ref": "https://example.org/x"}}},
        {"type": "object", "properties": {"x": {"allOf": 5, "type": "text", "enum": "red"}}},
        {"type": "object", "properties": {"x": {"anyOf": [{"$ref": "#/properties/x"}, {"$ref": "#/properties/x"}]}}},
        {"type": 7, "properties": ["x"], "required": "x"},
    ],
)
def test_an_invalid_schema_causes_no_crash(schema: dict[str, Any]) -> None:
    try:
        arguments = read(["--x", "5"], schema)
    except ChatError as error:
        assert error.exit_code == 2
    else:
        assert arguments == {"x": "5"}
