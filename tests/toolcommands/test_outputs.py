"""A result as text, JSON, YAML and a table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rkllm_chat.toolcommands.outputs import OUTPUTS, to_yaml


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("plain text", "plain text"),
        ("two words and-more/a.b", "two words and-more/a.b"),
        ("", '""'),
        ("no", '"no"'),
        ("Null", '"Null"'),
        ("1", '"1"'),
        ("1e3", '"1e3"'),
        ("2026-01-31", '"2026-01-31"'),
        ("a: b", '"a: b"'),
        ("a #b", '"a #b"'),
        ("- a", '"- a"'),
        ("a\nb", '"a\\nb"'),
        (" a", '" a"'),
        ("東京", '"東京"'),
        ("\u2028\x85\ufeff", '"\\u2028\\u0085\\ufeff"'),
        (None, "null"),
        (True, "true"),
        (0, "0"),
        (12345678901234567890123, "12345678901234567890123"),
        (1.5, "1.5"),
        (1e-7, "1.0e-07"),
        (1e30, "1.0e+30"),
        ([], "[]"),
        ({}, "{}"),
        ([1, []], "- 1\n- []"),
        ([[1, 2], [3]], "- - 1\n  - 2\n- - 3"),
        ({"a": 1, "b": {"c": [None]}}, "a: 1\nb:\n  c:\n    - null"),
        ([{"a": 1, "b": 2}], "- a: 1\n  b: 2"),
        ({"no": 1, "a b": 2, "": 3, "1": 4}, '"no": 1\na b: 2\n"": 3\n"1": 4'),
        ({"k" * 1001: [1]}, f'? "{"k" * 1001}"\n:\n  - 1'),
    ],
)
def test_yaml_is_written_so_that_every_reader_reads_the_same(value: Any, wanted: str) -> None:
    assert to_yaml(value) == wanted


def test_yaml_that_lies_deep_goes_on_as_json() -> None:
    value: Any = "leaf"
    for _ in range(40):
        value = {"a": value}
    lines = to_yaml(value).splitlines()
    assert len(lines) == 33
    assert json.loads(lines[-1].partition(": ")[2])["a"]


def content(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        (content("a", "b"), "a\nb"),
        (content("a", structuredContent={"x": 1}), "a"),
        ({"structuredContent": {"x": "東"}}, '{\n  "x": "東"\n}'),
        ({"content": []}, ""),
        ({"content": "broken"}, ""),
        ({"content": [5, {"type": "resource", "resource": {"text": "r"}}, {"type": "new"}]}, "r\n[new: not shown]"),
        ({"content": [{"type": "resource", "resource": 5}]}, "[resource: not shown]"),
    ],
)
def test_text_is_the_texts_and_the_structured_content_where_there_is_nothing_else(
    result: dict[str, Any], wanted: str
) -> None:
    assert OUTPUTS["text"](result) == wanted


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ([{"a": 1, "b": None}, {"b": [1], "c": "x"}], ["a  b     c", "1  null", "   [1]   x"]),
        ({"a": 1, "b": {"c": 2}}, ["name  value", "a     1", 'b     {"c": 2}']),
        ({"rows": [{"a": "東京"}, {"a": "x"}]}, ["a", "東京", "x"]),
        ([1, "two"], ["value", "1", "two"]),
        ([{"a": "x\n\x1b[31m"}], ["a", "x \\x1b[31m"]),
        ([{"東京": 1, "b": 2}, {"東京": "x", "b": 3}], ["東京  b", "1     2", "x     3"]),
    ],
)
def test_a_table_is_made_of_structured_content_and_of_text_that_is_json(data: Any, wanted: list[str]) -> None:
    assert OUTPUTS["table"]({"structuredContent": data}).splitlines() == wanted
    assert OUTPUTS["table"](content(json.dumps(data))).splitlines() == wanted


@pytest.mark.parametrize("result", [content("a"), content("[]"), content("a", "b"), content("5")])
def test_what_has_no_rows_is_text(result: dict[str, Any]) -> None:
    assert OUTPUTS["table"](result) == OUTPUTS["text"](result)
