"""The prompt of the model: tools in the form of their calls, and a history that only grows."""

from __future__ import annotations

from typing import Any

from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.schema.signature import SignatureWriter
from rkllm_chat.calls.schema.simplify import simplify_schema
from rkllm_chat.core.messages import Message, Tool, ToolResult
from rkllm_chat.prompt.compose import compose_prompt
from rkllm_chat.prompt.tool_listing import MAX_DESCRIPTION_LENGTH

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
    assert compose_prompt([], [TIDE]) == [Message("system", HEAD)]


def test_without_tools_none_are_mentioned() -> None:
    assert compose_prompt([], [], system="Be brief.") == [Message("system", "Be brief.")]
    assert compose_prompt([], []) == [Message("system", "You are a helpful assistant.")]


def test_the_results_of_one_reply_come_as_one_user_message() -> None:
    assert compose_prompt(HISTORY, [TIDE]) == [
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


def test_a_message_about_a_garbled_call_stands_alone() -> None:
    remark = Message("tool", "The tool call was not run.")
    assert compose_prompt([remark], [])[1:] == [Message("user", "The tool call was not run.")]


def test_the_prompt_of_a_longer_history_begins_with_that_of_a_shorter_one() -> None:
    for length in (0, 1, 2, 4, 5, 6):
        shorter = compose_prompt(HISTORY[:length], [TIDE, SEARCH_A, SEARCH_B])
        assert compose_prompt(HISTORY, [SEARCH_B, SEARCH_A, TIDE])[: len(shorter)] == shorter


def test_a_name_that_two_servers_have_is_listed_with_its_server() -> None:
    listed = compose_prompt([], [SEARCH_B, SEARCH_A])[0].text
    assert listed.splitlines()[3:5] == [
        '- {"name": "alpha__search", "arguments": {}}',
        '- {"name": "beta__search", "arguments": {}}',
    ]


def test_the_xml_form_lists_and_shows_xml() -> None:
    listed = compose_prompt([], [TIDE], tool_format="xml")[0].text
    call = (
        '<tool_call name="get_tide"><argument name="harbour">string</argument>'
        '<argument name="day">integer (optional)</argument></tool_call>'
    )
    assert f"- Tide height at a harbour: {call}\n" in listed
    assert listed.endswith(FORMATS["xml"].example)


def test_a_long_description_is_cut_behind_a_sentence() -> None:
    def about(description: str) -> str:
        listed = compose_prompt([], [Tool("f", description, {})])[0].text.splitlines()[3]
        return listed.removeprefix("- ").removesuffix(': {"name": "f", "arguments": {}}')

    assert about("a" * MAX_DESCRIPTION_LENGTH + "\nmore") == "a" * MAX_DESCRIPTION_LENGTH
    assert about("a" * (MAX_DESCRIPTION_LENGTH + 1) + "\nmore") == "a" * (MAX_DESCRIPTION_LENGTH - 1) + "…"
    assert about(f"Reads it, e.g. A. Says it. {'B' * MAX_DESCRIPTION_LENGTH}") == "Reads it, e.g. A. Says it"


def test_a_schema_that_holds_itself_is_sketched_to_a_depth() -> None:
    node = {"$ref": "#/$defs/node"}
    schema = {"properties": {"x": node}, "$defs": {"node": {"type": "array", "items": node}}}
    assert SignatureWriter(simplify_schema(schema)).parameters() == {"x?": "[[[[[any]]]]]"}


def test_a_type_is_sketched_in_a_word_or_two() -> None:
    level = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}
    sketches: list[tuple[Any, str]] = [
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer | null"),
        ({"anyOf": [{"type": "null"}]}, "null"),
        ({"enum": ["low", "高"]}, '"low" | "高"'),
        ({"type": "array", "items": {"type": "number"}}, "[number]"),
        ({"type": "array"}, "[any]"),
        ({"type": "object"}, "object"),
        ({"$ref": "#/$defs/level"}, '{"a": string, "b"?: any}'),
        ({"$ref": "https://example.org/x.json"}, "any"),
        (True, "any"),
    ]
    for child, sketch in sketches:
        schema = {"properties": {"x": child}, "required": ["x"], "$defs": {"level": level}}
        assert SignatureWriter(simplify_schema(schema)).parameters() == {"x": sketch}


def test_a_tool_with_a_broken_schema_is_listed() -> None:
    schemas: list[dict[str, Any]] = [
        {"properties": "x"},
        {"properties": {"x": 5}},
        {"properties": {"x": {"anyOf": 5}}},
        {"properties": {"x": {"enum": 5}}},
        {"properties": {"x": {"type": "object", "properties": 5}}},
        {"properties": {"x": {}}, "required": True},
        {"properties": {"x": {}}, "required": [{}]},
    ]
    for schema in schemas:
        listed = compose_prompt([], [Tool("f", "", schema), TIDE])[0].text
        assert '"name": "f"' in listed and '"name": "get_tide"' in listed, schema
