"""Every row of FORMATS: what it shows, the scanner reads back as the same call."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.calls.formats import FORMATS, select_formats
from rkllm_chat.calls.scanner import Scanner
from rkllm_chat.core.events import CallFound
from rkllm_chat.core.messages import ToolCall

light = settings(max_examples=examples(12))

keys = st.text(min_size=1, max_size=20).filter(lambda key: key == key.strip())
texts = st.text() | st.sampled_from(
    ["[END_TOOL_CALL]", "</argument></tool_call>", "]]>", "<![CDATA[x]]>", "&lt;", '"}}']
)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8)
arguments_of_calls = st.dictionaries(keys, values, max_size=4)


def as_text(value: Any) -> str:
    """What becomes of a value in a form that knows only texts."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


RAW = {"qwen3-coder", "glm4.5", "hy3", "seed-oss", "minimax-m2", "minimax-m3", "dots", "muse", "step3"}
"""Formats whose values are texts that are not escaped."""
IN_TEXT = {"xml", "minicpm5", *RAW}
"""Formats whose values are texts."""
NAMED_IN_TAGS = {"qwen3-coder", "glm4.5", "hy3", "seed-oss", "minimax-m3"}
"""Formats in which the name of a value is not quoted."""


def can_be_shown(format_name: str, value: Any) -> bool:
    """Whether a form can hold a value: raw text cannot hold the tags around it."""
    if format_name == "minimax-m3":
        return not isinstance(value, dict | list) and "]<]minimax[>[" not in as_text(value)
    return format_name not in RAW or ("<" not in as_text(value) and not as_text(value).startswith("\r"))


@light
@given(name=st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,40}", fullmatch=True), arguments=arguments_of_calls)
@example(name="f", arguments={"null": None, "True": 1, "a": "\n", "b": "\nline", "c": "line\n", "d": "\n\nline\n\n"})
def test_a_call_that_any_form_shows_is_read_back_without_a_repair(name: str, arguments: dict[str, Any]) -> None:
    for format_name, row in FORMATS.items():
        written = {key: value for key, value in arguments.items() if can_be_shown(format_name, value)}
        if format_name in NAMED_IN_TAGS:
            written = {key: value for key, value in written.items() if not set(key) & set("<>\"'\n") and key[0] != "/"}
        wanted = {key: as_text(value) for key, value in written.items()} if format_name in IN_TEXT else written
        scanner = Scanner(select_formats(format_name), is_known=name.__eq__)
        events = scanner.feed(row.render_call(name, written)) + scanner.close()
        assert events == [CallFound(ToolCall(name, wanted))], format_name


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_marker_inside_a_value_does_not_end_the_call(format_name: str) -> None:
    row = FORMATS[format_name]
    for marker in (*row.openers, *row.closers, *row.control_tokens, *row.result_openers):
        value = f"\"}}]) {marker} '{{["
        if can_be_shown(format_name, value):
            scanner = Scanner(select_formats(format_name), is_known="f".__eq__)
            events = scanner.feed(row.render_call("f", {"a": value})) + scanner.close()
            assert events == [CallFound(ToolCall("f", {"a": value}))], marker


def test_a_format_has_its_own_name_and_opens_what_it_shows() -> None:
    for format_name, row in FORMATS.items():
        marks = (*row.openers, *row.control_tokens)
        assert row.name == format_name
        assert row.unmarked_readers or (
            row.render_call("f", {"x": 1}).startswith(marks) and row.example.startswith(marks)
        ), format_name


def test_every_format_lists_a_tool_with_its_parameters_their_types_and_which_are_optional() -> None:
    for format_name, row in FORMATS.items():
        listed = row.render_tool("get_weather", {"city": "string", "days?": "integer"})
        assert re.search("get_weather.*city.*string.*days.*integer", listed, re.DOTALL), format_name
        assert re.findall(r'(\w+)"?\?|(\w+) \(optional\)', listed) in ([("days", "")], [("", "integer")]), format_name


def test_calls_and_sketches_are_written_in_the_taught_forms_and_in_gemmas() -> None:
    arguments, types = {"city": "東京", "days": 3}, {"city": "string", "days?": "integer"}
    assert FORMATS["json"].render_call("f", arguments) == (
        '[TOOL_CALL]\n{"name": "f", "arguments": {"city": "東京", "days": 3}}\n[END_TOOL_CALL]'
    )
    assert FORMATS["xml"].render_call("f", arguments) == (
        '<tool_call name="f">\n<argument name="city">東京</argument>\n<argument name="days">3</argument>\n</tool_call>'
    )
    assert FORMATS["functiongemma"].render_call("f", arguments) == (
        "<start_function_call>call:f{city:<escape>東京<escape>,days:3}<end_function_call>"
    )
    assert FORMATS["gemma4"].render_call("f", arguments) == '<|tool_call>call:f{city:<|"|>東京<|"|>,days:3}<tool_call|>'
    assert FORMATS["json"].render_tool("f", types) == '{"name": "f", "arguments": {"city": string, "days"?: integer}}'
    assert FORMATS["xml"].render_tool("f", types) == (
        '<tool_call name="f"><argument name="city">string</argument>'
        '<argument name="days">integer (optional)</argument></tool_call>'
    )
