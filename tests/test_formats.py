"""Every row of FORMATS: what it shows, the scanner reads back as the same call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.events import CallFound
from rkllm_chat.formats import FORMATS, formats_for
from rkllm_chat.messages import ToolCall
from rkllm_chat.scanner import Scanner

light = settings(max_examples=examples(60))

names = st.from_regex(r"[A-Za-z0-9_./-]{1,64}", fullmatch=True)
keys = st.text(min_size=1, max_size=20).filter(lambda key: key == key.strip())
texts = st.text() | st.sampled_from(
    ["[END_TOOL_CALL]", "</argument></tool_call>", "]]>", "<![CDATA[x]]>", "&lt;", '"}}']
)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8)
arguments_of_calls = st.dictionaries(keys, values, max_size=4)


def read_back(form: str, name: str, arguments: dict[str, Any]) -> Any:
    scanner = Scanner(formats_for(form), is_known=name.__eq__)
    events = scanner.feed(FORMATS[form].show(name, arguments)) + scanner.close()
    assert len(events) == 1, events
    return events[0]


def as_text(value: Any) -> str:
    """What becomes of a value in a form that knows only texts."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


IN_TEXT = {"xml", "minicpm5", "qwen3-coder", "glm4.5"}
"""Forms whose values are texts; those of the last two are not escaped."""


def can_be_shown(form: str, value: Any) -> bool:
    """Whether a form can hold a value: raw text cannot hold the tags around it."""
    return form not in ("qwen3-coder", "glm4.5") or ("<" not in as_text(value) and not as_text(value).startswith("\r"))


@pytest.mark.parametrize("form", FORMATS)
@light
@given(name=st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,40}", fullmatch=True), arguments=arguments_of_calls)
@example(name="f", arguments={"null": None, "True": 1})
def test_a_call_that_a_form_shows_is_read_back_without_a_repair(
    form: str, name: str, arguments: dict[str, Any]
) -> None:
    written = {key: value for key, value in arguments.items() if can_be_shown(form, value)}
    if form in ("qwen3-coder", "glm4.5"):
        written = {key: value for key, value in written.items() if not set(key) & set("<>\"'\n")}
    wanted = {key: as_text(value) for key, value in written.items()} if form in IN_TEXT else written
    assert read_back(form, name, written) == CallFound(ToolCall(name, wanted))


@pytest.mark.parametrize("value", ["\n", "\nline", "line\n", "\n\nline\n\n"], ids=repr)
@pytest.mark.parametrize("form", FORMATS)
def test_newlines_around_a_value_are_part_of_it(form: str, value: str) -> None:
    assert read_back(form, "write_file", {"text": value}) == CallFound(ToolCall("write_file", {"text": value}))


@pytest.mark.parametrize("form", FORMATS)
def test_a_row_has_its_own_name_and_opens_what_it_shows_and_teaches(form: str) -> None:
    row = FORMATS[form]
    assert row.name == form
    marks = (*row.openers, *row.controls)
    assert row.bare or (row.show("f", {"x": 1}).startswith(marks) and row.example.startswith(marks))


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("json", '[TOOL_CALL]\n{"name": "f", "arguments": {"city": "東京", "days": 3}}\n[END_TOOL_CALL]'),
        (
            "xml",
            '<tool_call name="f">\n<argument name="city">東京</argument>\n'
            '<argument name="days">3</argument>\n</tool_call>',
        ),
    ],
)
def test_a_call_is_shown_as_the_design_writes_it(form: str, shown: str) -> None:
    assert FORMATS[form].show("f", {"city": "東京", "days": 3}) == shown


@pytest.mark.parametrize(
    ("form", "sketch"),
    [
        ("json", '{"name": "f", "arguments": {"city": string, "days"?: integer}}'),
        (
            "xml",
            '<tool_call name="f"><argument name="city">string</argument>'
            '<argument name="days">integer (optional)</argument></tool_call>',
        ),
    ],
)
def test_a_sketch_has_the_form_of_the_call(form: str, sketch: str) -> None:
    assert FORMATS[form].sketch("f", {"city": "string", "days?": "integer"}) == sketch
