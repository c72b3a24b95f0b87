"""Words behind a tool's name become exactly the arguments that are meant, or a sentence that says what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flag_rows import INTEGER, POINT, REFUSED, ROWS, TEXT, Refused, Row, one
from rkllm_chat.errors import ChatError, UsageError, ValidationError
from rkllm_chat.flags import check_arguments, join_arguments, load_files, read_whole, read_words

OWN = {"help": False, "json": True, "json-file": True, "json-stdin": False, "output": True, "config": None}


def read(words: list[str], schema: dict[str, Any], whole: str = "{}", **files: str) -> dict[str, Any]:
    given, _ = read_words(words, schema, OWN)
    arguments = join_arguments(load_files(given, files.__getitem__), schema, read_whole(whole, "--json"))
    check_arguments(arguments, schema)
    return arguments


def test_the_table_has_rows_enough_with_names_of_their_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 80


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_flags_become_exactly_the_arguments_that_are_meant(row: Row) -> None:
    assert json.dumps(read(row.words, row.schema)) == json.dumps(row.arguments)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_same_arguments_as_json_arrive_unchanged(row: Row) -> None:
    whole = json.dumps(row.arguments)
    assert json.dumps(read([], row.schema, whole)) == whole


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.sentence)
def test_what_does_not_fit_is_told_in_one_sentence(row: Refused) -> None:
    with pytest.raises((UsageError, ValidationError)) as caught:
        read(row.words, row.schema)
    assert str(caught.value) == row.sentence
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--x", "1", "--json", "{}"], {"json": "{}"}),
        (["--json={}", "--output", "yaml"], {"json": "{}", "output": "yaml"}),
        (["--json-stdin", "--x=1"], {"json-stdin": ""}),
        (["-h"], {"help": ""}),
        (["--help", "--x", "-h"], {"help": ""}),
    ],
)
def test_our_options_are_understood_behind_the_tool_where_it_has_none_of_that_name(
    words: list[str], options: dict[str, str]
) -> None:
    assert read_words(words, one("", TEXT, []).schema, OWN)[1] == options


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--json"], "--json needs a value."),
        (["--config", "f"], "--config comes before the tool's name."),
        (["--json", "--x"], "--json needs a value."),
        (["--json-stdin=1"], "--json-stdin takes no value."),
        (["--json", "{}", "--json", "{}"], "--json is given twice."),
    ],
)
def test_an_option_of_ours_that_is_given_wrongly_is_told(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(words, one("", TEXT, []).schema)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("whole", "words", "arguments"),
    [
        ('{"x": {"x": 1, "y": 2}}', ["--x.y", "3"], {"x": {"x": 1, "y": 3}}),
        ('{"x": {"x": 1, "y": 2}}', ["--x", "y=3"], {"x": {"x": 1, "y": 3}}),
        ('{"x": {"x": 1, "y": 2}}', ["--x", '{"x": 5}'], {"x": {"x": 5}}),
        ('{"x": {"x": 1}, "more": null}', [], {"x": {"x": 1}, "more": None}),
    ],
)
def test_flags_win_over_json(whole: str, words: list[str], arguments: dict[str, Any]) -> None:
    assert read(words, one("", POINT, []).schema, whole) == arguments


def test_json_is_sent_as_it_is_written_and_not_turned_towards_the_schema() -> None:
    with pytest.raises(ValidationError) as caught:
        read([], one("", INTEGER, []).schema, '{"x": "5"}')
    assert str(caught.value) == '--x must be a whole number, not "5".'


def test_arguments_from_elsewhere_are_not_changed() -> None:
    whole = {"x": {"x": 1}}
    schema = one("", POINT, []).schema
    given, _ = read_words(["--x.x", "2"], schema, OWN)
    assert join_arguments(given, schema, whole) == {"x": {"x": 2}}
    assert whole == {"x": {"x": 1}}


@pytest.mark.parametrize("schema", [TEXT, POINT, {"type": "array", "items": TEXT}])
def test_a_value_may_be_the_text_of_a_file(schema: dict[str, Any]) -> None:
    text = '{"x": 1}'
    wanted = {"string": text, "object": {"x": 1}, "array": [text]}[schema["type"]]
    assert read(["--x@=big.json"], one("", schema, []).schema, **{"big.json": text}) == {"x": wanted}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "--json: not valid JSON: Expecting value at line 1, column 1."),
        ("{x: 1}", "--json: not valid JSON: Expecting property name enclosed in double quotes at line 1, column 2."),
        ("[1]", "--json: the arguments must be one JSON object, not [1]."),
        ('{"a": 1, "a": 2}', '--json: not valid JSON: the key "a" stands twice in one object.'),
        ('{"a": NaN}', "--json: not valid JSON: NaN is not JSON."),
        ('{"a": ' + "[" * 100_000, "--json: not valid JSON: nested too deep."),
    ],
)
def test_json_that_is_no_object_is_refused_with_the_place(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_whole(text, "--json")
    assert str(caught.value) == sentence


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
def test_a_broken_schema_breaks_nothing(schema: dict[str, Any]) -> None:
    try:
        arguments = read(["--x", "5"], schema)
    except ChatError as error:
        assert error.exit_code == 2
    else:
        assert arguments == {"x": "5"}
