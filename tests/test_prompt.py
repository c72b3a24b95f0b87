"""What the model is given: the tools in the form of their calls, and a history that only grows."""

from __future__ import annotations

from typing import Any

import pytest

from rkllm_chat.formats import FORMATS
from rkllm_chat.messages import Message, Tool, ToolResult
from rkllm_chat.prompt import compose
from rkllm_chat.shapes import Shapes
from rkllm_chat.sketch import LONGEST_DESCRIPTION
from rkllm_chat.slim import slim

TIDE = Tool(
    "get_tide",
    "Tide height at a harbour.\nIn metres above chart datum.",
    {"properties": {"harbour": {"type": "string"}, "day": {"type": "integer"}}, "required": ["harbour"]},
    server="sea",
)
SEARCH_A = Tool("search", "", {}, server="alpha")
SEARCH_B = Tool("search", "", {}, server="beta")

HEAD = """You are a helpful assistant.

You can use these tools:
- Tide height at a harbour: {"name": "get_tide", "arguments": {"harbour": string, "day"?: integer}}

To use a tool, write:
[TOOL_CALL]
{"name": "...", "arguments": {...}}
[END_TOOL_CALL]"""

RESULT = ToolResult("sea", "get_tide", {"harbour": "Husum"}, "completed", "2.1 m")
FAILURE = ToolResult("sea", "get_tide", {"harbour": "Oz"}, "failed", "No such harbour.")
HISTORY = [
    Message("user", "Tides in Husum and Oz?"),
    Message("assistant", "[two calls]"),
    Message("tool", "2.1 m", RESULT),
    Message("tool", "No such harbour.", FAILURE),
    Message("assistant", "2.1 m in Husum."),
    Message("user", "Thanks"),
]


def test_the_system_text_lists_a_tool_as_the_call_to_be_written() -> None:
    assert compose([], [TIDE]) == [Message("system", HEAD)]


def test_without_tools_no_word_is_lost_on_them() -> None:
    assert compose([], [], system="Be brief.") == [Message("system", "Be brief.")]
    assert compose([], []) == [Message("system", "You are a helpful assistant.")]


def test_the_results_of_one_reply_come_as_one_user_message() -> None:
    assert compose(HISTORY, [TIDE]) == [
        Message("system", HEAD),
        HISTORY[0],
        HISTORY[1],
        Message(
            "user",
            "Result of get_tide:\n2.1 m\nget_tide failed:\nNo such harbour.\n"
            "Answer the question from this result, or use another tool.",
        ),
        HISTORY[4],
        HISTORY[5],
    ]


def test_a_remark_on_a_garbled_call_stands_alone() -> None:
    remark = Message("tool", "The tool call was not run.")
    assert compose([remark], [])[1:] == [Message("user", "The tool call was not run.")]


@pytest.mark.parametrize("length", [0, 1, 2, 4, 5, 6])
def test_the_prompt_of_a_longer_history_begins_with_that_of_a_shorter_one(length: int) -> None:
    shorter = compose(HISTORY[:length], [TIDE, SEARCH_A])
    assert compose(HISTORY, [SEARCH_A, TIDE])[: len(shorter)] == shorter


def test_tools_are_listed_in_one_order_whatever_order_they_come_in() -> None:
    tools = [TIDE, SEARCH_A, SEARCH_B]
    assert compose([], tools) == compose([], tools[::-1])


def test_a_name_that_two_servers_have_is_listed_with_its_server() -> None:
    listed = compose([], [SEARCH_B, SEARCH_A])[0].text
    assert listed.splitlines()[3:5] == [
        '- {"name": "alpha__search", "arguments": {}}',
        '- {"name": "beta__search", "arguments": {}}',
    ]


def test_the_xml_form_lists_and_shows_xml() -> None:
    listed = compose([], [TIDE], tool_format="xml")[0].text
    call = (
        '<tool_call name="get_tide"><argument name="harbour">string</argument>'
        '<argument name="day">integer (optional)</argument></tool_call>'
    )
    assert f"- Tide height at a harbour: {call}\n" in listed
    assert listed.endswith(FORMATS["xml"].example)


def test_of_a_long_description_the_sentences_that_fit_are_listed() -> None:
    def about(description: str) -> str:
        listed = compose([], [Tool("f", description, {})])[0].text.splitlines()[3]
        return listed.removeprefix("- ").removesuffix(': {"name": "f", "arguments": {}}')

    assert about("a" * LONGEST_DESCRIPTION + "\nmore") == "a" * LONGEST_DESCRIPTION
    assert about("a" * (LONGEST_DESCRIPTION + 1) + "\nmore") == "a" * (LONGEST_DESCRIPTION - 1) + "…"
    assert about(f"Reads it, e.g. A. Says it. {'B' * LONGEST_DESCRIPTION}") == "Reads it, e.g. A. Says it"


@pytest.mark.parametrize(
    ("child", "sketch"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["integer", "null"]}, "integer | null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer | null"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "integer | string"),
        ({"anyOf": [{"type": "null"}]}, "null"),
        ({"enum": ["low", "高"]}, '"low" | "高"'),
        ({"const": 3}, "3"),
        ({"type": "array", "items": {"type": "number"}}, "[number]"),
        ({"type": "array"}, "[any]"),
        ({"type": "object"}, "object"),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
            '{"a": string, "b"?: any}',
        ),
        ({"$ref": "#/$defs/level"}, '"low" | "high"'),
        ({"$ref": "https://example.org/x.json"}, "any"),
        ({}, "any"),
        (True, "any"),
    ],
)
def test_a_type_is_sketched_in_a_word_or_two(child: Any, sketch: str) -> None:
    schema = {"properties": {"x": child}, "required": ["x"], "$defs": {"level": {"enum": ["low", "high"]}}}
    assert Shapes(slim(schema)).parameters() == {"x": sketch}


def test_a_schema_that_holds_itself_is_sketched_to_a_depth() -> None:
    node = {"$ref": "#/$defs/node"}
    schema = {"properties": {"x": node}, "$defs": {"node": {"type": "array", "items": node}}}
    assert Shapes(slim(schema)).parameters() == {"x?": "[[[[[any]]]]]"}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": "x"},
        {"properties": {"x": 5}},
        {"properties": {"x": {"anyOf": 5}}},
        {"properties": {"x": {"enum": 5}}},
        {"properties": {"x": {"type": "object", "properties": 5}}},
        {"properties": {"x": {}}, "required": True},
        {"properties": {"x": {}}, "required": None},
        {"properties": {"x": {}}, "required": [{}]},
    ],
    ids=str,
)
def test_a_broken_schema_does_not_stop_the_talk(schema: dict[str, Any]) -> None:
    listed = compose([], [Tool("f", "", schema), TIDE])[0].text
    assert '"name": "f"' in listed
    assert '"name": "get_tide"' in listed
