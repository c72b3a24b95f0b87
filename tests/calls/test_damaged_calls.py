"""One token of a call is damaged: in each kind of format and at every place the right call runs, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from calls.replies import KINDS
from rkllm_chat.calls.arguments import validate_arguments
from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.model_families import make_scanner
from rkllm_chat.calls.tool_names import find_tools
from rkllm_chat.core.errors import ValidationError
from rkllm_chat.core.events import CallFound, Text
from rkllm_chat.core.messages import Tool

TEXT = {"type": "string"}
FILE = {"type": "object", "properties": {"path": TEXT, "content": TEXT}, "required": ["path", "content"]}
WEATHER = {"type": "object", "properties": {"city": TEXT, "days": {"type": "integer"}}, "required": ["city"]}
TOOLS = [Tool("write_file", "", FILE, server="s"), Tool("get_weather", "", WEATHER, server="s")]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "a.txt", "content": "hello"}),
    ("get_weather", {"city": "Oslo", "days": 3}),
]
TOKEN = re.compile(r"\]<\]minimax\[>\[|</?[^<>\s=]*[^<>]*>|✿\w+✿|\[[A-Z_]{3,}\]|\w[\w.]*|\s|[^\w\s]")
WORDS = {"a.txt", "hello", "Oslo", "3", "path", "content", "city", "days", "write_file", "get_weather"}
"""What a call says: nobody can tell that such a word is doubled or missing."""


def damage(text: str) -> Iterator[tuple[str, str, bool]]:
    """What is done to a text, the result, and whether its author ended it."""
    tokens = TOKEN.findall(text)
    assert "".join(tokens) == text
    for at, token in enumerate(tokens):
        before, behind = "".join(tokens[:at]), "".join(tokens[at + 1 :])
        if token.isspace():
            continue
        if token not in WORDS:
            yield f"{token} doubled", before + token + token + behind, True
            yield f"{token} dropped", before + behind, True
        if at + 1 < len(tokens) and not tokens[at + 1].isspace():
            yield f"{token} swapped", before + tokens[at + 1] + token + "".join(tokens[at + 2 :]), True
        yield f"cut before {token}", before, False
        yield f"cut in {token}", before + token[: len(token) // 2], False


def run_calls(format_name: str, reply: str, is_complete: bool) -> list[tuple[str, dict[str, Any]]]:
    """The calls that a chat would run."""
    scanner = make_scanner(format_name, (format_name,), TOOLS)
    calls = [event.call for event in scanner.feed(reply) + scanner.close(is_complete) if isinstance(event, CallFound)]
    run = []
    for call in calls:
        for tool in find_tools(call.name, TOOLS):
            try:
                run.append((tool.name, validate_arguments(call.arguments, tool.schema).arguments))
            except ValidationError:
                continue
    return run


@pytest.mark.parametrize("format_name", KINDS)
def test_a_call_with_one_damaged_token_runs_as_it_was_meant_or_not_at_all(format_name: str) -> None:
    for call in CALLS:
        whole = FORMATS[format_name].render_call(*call)
        assert run_calls(format_name, whole, True) == [call]
        for what, reply, is_complete in damage(whole):
            assert run_calls(format_name, reply, is_complete) in ([], [call]), what


FILE_CALL = ("write_file", {"path": "a.txt", "content": "hello"})


@pytest.mark.parametrize(
    ("format_name", "reply", "wanted"),
    [
        ("glm4.5", "<tool_call>write_file<arg_key>path</arg_key></arg_key><arg_value>a.txt</arg_value>"
                   "<arg_key>content</arg_key><arg_value>hello</arg_value></tool_call>", FILE_CALL),
        ("glm4.5", "<tool_call>write_file<arg_key><arg_key>path</arg_key><arg_value>a.txt</arg_value></arg_value>"
                   "<arg_key>content</arg_key><arg_value><arg_value>hello</arg_value></tool_call>", FILE_CALL),
        ("qwen3-coder", "<tool_call>\n<function=write_file>\n<parameter=path>\n<parameter=path>\na.txt\n</parameter>\n"
                        "<parameter=content>\nhello\n</parameter>\n</parameter>\n</function>\n</tool_call>", FILE_CALL),
        ("minimax-m2", '<minimax:tool_call>\n<invoke name="write_file">\n<parameter name="path">a.txt</parameter>\n'
                       '<parameter name="content">hello</parameter> </parameter>\n</invoke>\n</minimax:tool_call>',
         FILE_CALL),
        ("xml", '<tool_call name="write_file"><argument name="path">a.txt</argument></argument>'
                '<argument name="content"><![CDATA[hello]]></argument></argument></tool_call>', FILE_CALL),
        ("minicpm5", '<function name="write_file"><param name="path">a.txt</param></param>'
                     '<param name="content">hello</param></param></function>', FILE_CALL),
    ],
)  # fmt: skip
def test_a_doubled_tag_is_dropped_with_a_note(format_name: str, reply: str, wanted: tuple[str, dict[str, Any]]) -> None:
    scanner = make_scanner(format_name, (format_name,), TOOLS)
    (call,) = (event.call for event in scanner.feed(reply) + scanner.close(True) if isinstance(event, CallFound))
    assert (call.name, call.arguments, call.repairs) == (*wanted, ("doubled tag",))


@pytest.mark.parametrize(
    ("call", "tail"),
    [
        ('<function name="get_weather"><param name="city">Oslo</param></function>', "<function</x> and more"),
        ('<invoke name="get_weather"><parameter name="city">Oslo</parameter></invoke>', "<invoke</x> and more"),
        ("<function=get_weather><parameter=city>Oslo</parameter></function>", "<function=x> and more"),
    ],
)
def test_calls_behind_a_mark_that_has_no_end_marker_end_where_the_next_is_no_call(call: str, tail: str) -> None:
    scanner = make_scanner("gigachat3", ("gigachat3",), TOOLS)
    events = scanner.feed(f"<|function_call|>{call}{tail}") + scanner.close(True)
    assert [event.call.arguments for event in events if isinstance(event, CallFound)] == [{"city": "Oslo"}]
    assert "".join(event.text for event in events if isinstance(event, Text)) == tail
