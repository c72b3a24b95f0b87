"""A result as text, JSON, YAML and a table."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from rkllm_chat.cli.mcp_tool.output_formats import FORMATTERS, to_yaml


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain text-with/a.b", "plain text-with/a.b"),
        ("", '""'),
        ("no", "'no'"),
        ("1e3", '"1e3"'),
        ("a\nb", '"a\\nb"'),
        ("東京", '"東京"'),
        ("\u2028\x85\ufeff", '"\\L\\N\\uFEFF"'),
        ("\u202e\U000e0041\x1b", '"\\U0000202e\\U000E0041\\e"'),
        (None, "null"),
        ("x" * 100, "x" * 100),
        ("x, " * 100, f'"{"x, " * 100}"'),
        (12345678901234567890123, "12345678901234567890123"),
        (1e-7, "1.0e-07"),
        ([], "[]"),
        ([1, []], "- 1\n- []"),
        ({"a": 1, "b": {"c": [None]}}, "a: 1\nb:\n  c:\n  - null"),
        ({"no": 1, "a b": 2, "": 3, "1": 4}, '\'no\': 1\na b: 2\n? ""\n: 3\n"1": 4'),
        ({"k" * 1001: [1]}, f"? {'k' * 1001}\n: - 1"),
    ],
)
def test_yaml_is_written_so_that_every_reader_reads_the_same(value: Any, expected: str) -> None:
    assert to_yaml(value) == expected


def test_yaml_holds_each_value_as_often_as_json_does_and_as_deep() -> None:
    value: Any = ["leaf"]
    for _ in range(100):  # as deep as a message of a server may be
        value = {"a": value}
    assert yaml.safe_load(to_yaml([value, value])) == [value, value]
    assert "&" not in to_yaml([value, value])


def content(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (content("a", "b"), "a\nb"),
        (content("a", structuredContent={"x": 1}), "a"),
        ({"structuredContent": {"x": "東"}}, '{\n  "x": "東"\n}'),
        ({"content": "broken"}, ""),
        ({"content": [5, {"type": "resource", "resource": {"text": "r"}}, {"type": "new"}]}, "r\n[new: not shown]"),
        ({"content": [{"type": "resource", "resource": 5}]}, "[resource: not shown]"),
    ],
)
def test_text_is_the_texts_and_the_structured_content_where_there_is_nothing_else(
    result: dict[str, Any], expected: str
) -> None:
    assert FORMATTERS["text"](result) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([{"a": 1, "b": None}, {"b": [1], "c": "x"}], ["a  b     c", "1  null", "   [1]   x"]),
        ({"a": 1, "b": {"c": 2}}, ["name  value", "a     1", 'b     {"c": 2}']),
        ({"rows": [{"a": "東京"}, {"a": "x"}]}, ["a", "東京", "x"]),
        ([1, "two"], ["value", "1", "two"]),
        ([{"a": "x\n\x1b[31m"}], ["a", "x \\x1b[31m"]),
        ([{"東京": 1, "b": 2}, {"東京": "x", "b": 3}], ["東京  b", "1     2", "x     3"]),
    ],
)
def test_a_table_is_made_of_structured_content_and_of_text_that_is_json(data: Any, expected: list[str]) -> None:
    assert FORMATTERS["table"]({"structuredContent": data}).splitlines() == expected
    assert FORMATTERS["table"](content(json.dumps(data))).splitlines() == expected


def test_a_result_without_rows_is_text() -> None:
    for result in (content("a"), content("[]"), content("a", "b"), content("5")):
        assert FORMATTERS["table"](result) == FORMATTERS["text"](result)
