"""Marks and what stands between them are two lists: any marks may hold any body of a known tool."""

from __future__ import annotations

import pytest

from calls.test_damaged_calls import TOOLS
from rkllm_chat.calls.formats import FORMATS, Format
from rkllm_chat.calls.formats.layout import json_call, named_call, python_call
from rkllm_chat.calls.model_families import make_scanner
from rkllm_chat.calls.scanner import Scanner
from rkllm_chat.core.events import CallDescribed, CallFound, CallUnreadable, Text
from rkllm_chat.core.messages import ToolCall

BODIES = {
    "an object": '{"name": "get_weather", "arguments": {"city": "Oslo"}}',
    "an object in a fence": '```json\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n```',
    "a list": '[{"name": "get_weather", "arguments": {"city": "Oslo"}}]',
    "name and object": 'get_weather {"city": "Oslo"}',
    "name and object on lines": 'get_weather\n{"city": "Oslo"}',
    "name, a colon and object": 'get_weather: {"city": "Oslo"}',
    "name and arguments": 'get_weather\narguments: {"city": "Oslo"}',
    "a name with its number": '\nfunctions.get_weather:0 {"city": "Oslo"}',
    "a word before the name": 'call: get_weather {"city": "Oslo"}',
    "keys without quotes": 'call:get_weather{city: "Oslo"}',
    "Python": 'get_weather(city="Oslo")',
    "Python in a list": '[get_weather(city="Oslo")]',
    "an object in parentheses": 'get_weather({"city": "Oslo"})',
    "a colon in parentheses": 'get_weather(city: "Oslo")',
    "tags": "<function=get_weather>\n<parameter=city>Oslo</parameter>\n</function>",
    "tags with attributes": '<invoke name="get_weather">\n<parameter name="city">Oslo</parameter>\n</invoke>',
}
UNREADABLE = {
    "no arguments in a known form": "get_weather Oslo",
    "a positional argument": 'get_weather("Oslo")',
    "tags of nobody": "get_weather\n<city>Oslo</city>",
    "words for braces": "get_weather:\nBEGIN_ARG:\nOslo\nEND_ARG",
}
OPEN = {
    (tuple(body.__qualname__ for body in wrapper.bodies), bool(wrapper.closers)): (
        row.name,
        opener,
        (*wrapper.closers, "")[0],
    )
    for row in FORMATS.values()
    for opener, wrapper in row.openers.items()
    if wrapper.is_open and "```" not in opener
}.values()
"""Marks of each kind: by what they hold, and with or without an end."""
_GROUPS = {row.layout.opener for row in FORMATS.values() if row.layout.before and not row.is_prose}
GROUPS = sorted(_GROUPS - {"", "[", "```tool_code"})


def scan(format_name: str, reply: str) -> list[object]:
    """What is found in a reply, the same in whatever pieces it comes; neighbouring texts are one."""
    found = []
    for size in (1, len(reply)):
        scanner = make_scanner(format_name, (format_name,), TOOLS)
        events: list[object] = []
        pieces = (scanner.feed(reply[at : at + size]) for at in range(0, len(reply), size))
        for event in [event for piece in (*pieces, scanner.close(True)) for event in piece]:
            if isinstance(event, Text) and events and isinstance(events[-1], Text):
                event = Text(events.pop().text + event.text)  # type: ignore[attr-defined]
            events.append(event)
        found.append(events)
    assert found[0] == found[1], reply
    return [event for event in found[0] if not isinstance(event, Text) or event.text.strip()]


@pytest.mark.parametrize(("format_name", "opener", "closer"), OPEN)
def test_marks_hold_any_body(format_name: str, opener: str, closer: str) -> None:
    for what, body in BODIES.items():
        found = scan(format_name, f"{opener}{body}{closer}")
        calls = [(event.call.name, event.call.arguments) for event in found if isinstance(event, CallFound)]
        names = [(name.removeprefix("functions."), dict(arguments)) for name, arguments in calls]
        assert names == [("get_weather", {"city": "Oslo"})] and len(found) == 1, (what, found)


@pytest.mark.parametrize(("format_name", "opener", "closer"), OPEN)
def test_a_body_that_cannot_be_read_is_told_and_not_shown(format_name: str, opener: str, closer: str) -> None:
    for what, body in UNREADABLE.items():
        (found,) = scan(format_name, f"{opener}{body}{closer}")
        assert isinstance(found, CallUnreadable), what


@pytest.mark.parametrize("opener", GROUPS)
def test_the_mark_of_a_group_is_known_to_every_model(opener: str) -> None:
    assert [type(event) for event in scan("hermes", f'{opener}get_weather {{"city": "Oslo"}}')] == [CallFound]
    assert [type(event) for event in scan("hermes", f"{opener}get_weather Oslo")] in ([Text], [CallUnreadable])
    assert [type(event) for event in scan("hermes", f"The mark {opener} begins calls of get_weather.")] == [Text]


@pytest.mark.parametrize(
    ("format_name", "reply", "kind"),
    [
        ("llama3", '<function=get_weather{"city": "Oslo"}</function>', CallFound),
        ("llama3", '<|python_tag|>get_weather.call(city="Oslo")', CallFound),
        ("qwen3-coder", '<tool_call>\n<function=get_weather(city="Oslo")></function>\n</tool_call>', CallUnreadable),
        ("qwen3-coder", '<function=get_weather>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</function>',
         CallFound),
        ("minicpm5", '<function=get_weather><param name="city">Oslo</param></function>', CallUnreadable),
        ("mistral-args", '[TOOL_CALLS]get_weather[ARGS]city="Oslo"', CallUnreadable),
        ("harmony", '<|channel|>commentary to=functions.get_weather<|message|>get_weather("Oslo")', CallUnreadable),
        ("hermes", FORMATS["deepseek"].render_call("get_weather", {"city": "Oslo"}), CallFound),
    ],
)  # fmt: skip
def test_a_damaged_head_of_a_call_is_read_or_told_and_leaves_no_text(format_name: str, reply: str, kind: type) -> None:
    (found,) = scan(format_name, reply)
    assert isinstance(found, kind)
    if isinstance(found, CallFound):
        assert (found.call.name, found.call.arguments) == ("get_weather", {"city": "Oslo"})


def test_a_block_without_a_tool_is_told_only_if_nothing_else_is_in_the_reply() -> None:
    block = "<tool_call>the weather</tool_call>"
    assert [type(event) for event in scan("hermes", block)] == [CallUnreadable]
    assert [type(event) for event in scan("hermes", f"So it is written:\n{block}")] == [Text]
    assert [type(event) for event in scan("hermes", f"{block} is how it is written.")] == [Text]


def test_a_mark_of_two_formats_holds_the_bodies_of_both_with_any_tool() -> None:
    rows = ("mistral", "mistral-args")
    for body in ('[{"name": "other", "arguments": {"x": 1}}]', 'other[ARGS]{"x": 1}'):
        for accepted in (rows, rows[::-1]):
            scanner = make_scanner("json", accepted, TOOLS)
            (found,) = scanner.feed(f"[TOOL_CALLS]{body}") + scanner.close(True)
            assert isinstance(found, CallFound) and found.call == ToolCall("other", {"x": 1})


@pytest.mark.parametrize(("end", "kind"), [("", CallFound), ("</think>", CallUnreadable)])
def test_only_a_call_in_a_thought_that_is_never_closed_is_meant(end: str, kind: type) -> None:
    call = "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>"
    scanner = make_scanner("qwen3-coder", ("qwen3-coder",), TOOLS)
    *_thought, found = scanner.feed(f"<think>I look.\n{call}{end}") + scanner.close(True)
    assert isinstance(found, kind)


DEFINITION = '{"name": "get_weather", "description": "The weather", "parameters": {"type": "object", "properties": {}}}'


@pytest.mark.parametrize(
    "reply",
    [
        f"<tool_call>\n{DEFINITION}\n</tool_call>",
        "The tag <tool_call>get_weather Oslo</tool_call> would not work.",
        "`<tool_call>get_weather Oslo</tool_call>`",
        "```\n<tool_call>get_weather Oslo</tool_call>\n```\nThat is a call.",
        "<tool_call> get_weather is how a call of this tool begins.",
        '"<tool_call>get_weather(city="Oslo")</tool_call>" is how Qwen writes it.',
        "> <tool_call>get_weather Oslo</tool_call>",
    ],
)
def test_what_is_quoted_explained_or_defined_is_text(reply: str) -> None:
    assert [type(event) for event in scan("hermes", reply) if not isinstance(event, CallDescribed)] == [Text]


def test_marks_may_be_words_if_they_are_no_words_of_ordinary_text() -> None:
    row = Format("at-call", named_call("@@call NAME ARGUMENTS @@"))
    scanner = Scanner([row], is_known="f".__eq__)
    reply = '@@call f {"x": "@@"} @@\n@@call f {"x": 2} @@ @@call f {"x": 3}\n@@call f {"x": 4} @@'
    events = [event for at in range(len(reply)) for event in scanner.feed(reply[at])] + scanner.close(True)
    calls = [event.call for event in events if isinstance(event, CallFound)]
    assert calls == [
        ToolCall("f", {"x": "@@"}),
        ToolCall("f", {"x": 2}),
        ToolCall("f", {"x": 3}, ("missing end marker",)),
        ToolCall("f", {"x": 4}),
    ]
    assert row.render_call("f", {"x": 1}) == '@@call f {"x": 1} @@'


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda: named_call("call NAME with ARGUMENTS"), "'call' cannot be told from a word"),
        (lambda: named_call("@@call NAME ARGUMENTS end"), "'end' cannot be told from a word"),
        (lambda: json_call("begin\n", "\nend"), "'begin' cannot be told from a word"),
        (lambda: python_call("<call>", "</call>", "NAME()"), "must contain NAME and ARGUMENTS"),
    ],
)
def test_a_layout_whose_marks_cannot_be_found_is_rejected_when_it_is_defined(write: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        write()  # type: ignore[operator]
