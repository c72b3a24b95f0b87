"""The public scanner: which calls it finds for a model, and that a new format works everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from calls.case import comparable
from rkllm_chat import ToolCallScanner
from rkllm_chat.calls.formats import FORMATS, Format, select_formats
from rkllm_chat.calls.formats.layout import json_call
from rkllm_chat.calls.scanner import Scanner
from rkllm_chat.core.events import CallFound, CallUnreadable, Text, Thought
from rkllm_chat.core.messages import Tool, ToolCall

MARKED = [
    row
    for row in FORMATS.values()
    if not row.is_prose and row.render_call("f", {}).startswith(tuple(row.openers) or ("\0",))
]
"""The formats that a reply of any model may hold."""
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
OSLO = CallFound(ToolCall("get_weather", {"city": "Oslo"}))


def scan(reply: str, model: str = "", template: str = "") -> list[object]:
    scanner = ToolCallScanner([Tool("get_weather", schema=SCHEMA), Tool("now")], model, template)
    return [*(event for character in reply for event in scanner.feed(character)), *scanner.close()]


def calls_in(events: list[object]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(event.call.name, event.call.arguments) for event in events if isinstance(event, CallFound)]


@pytest.mark.parametrize(
    "tool",
    [
        Tool("get_weather", schema=SCHEMA),
        {"name": "get_weather", "description": "The weather.", "inputSchema": SCHEMA},
        {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}},
    ],
)
def test_tools_are_given_in_any_notation(tool: Tool | dict[str, Any]) -> None:
    scanner = ToolCallScanner([tool], model="Llama-3.2-3B-Instruct")
    events = scanner.feed('{"name": "get_weather", "parameters": {"city": "Oslo"}}') + scanner.close()
    assert events == [OSLO]


def test_a_tool_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="has no name"):
        ToolCallScanner([{"inputSchema": SCHEMA}])


def test_the_name_or_the_template_of_a_model_decides_what_is_a_call() -> None:
    reply = 'get_weather\n{"city": "Oslo"}'
    assert calls_in(scan(reply, "glm-4-9b-chat")) == [("get_weather", {"city": "Oslo"})]
    assert calls_in(scan(reply)) == []
    code = "<code>\nget_weather(city='Oslo')\n</code>"
    assert calls_in(scan(code, "SmolLM3-3B")) == [("get_weather", {"city": "Oslo"})]
    assert calls_in(scan(code, "Qwen3-8B")) == calls_in(scan(code)) == []
    harmony = FORMATS["harmony"].render_call("get_weather", {"city": "Oslo"})
    assert calls_in(scan(harmony, "Qwen3-8B")) == []
    assert calls_in(scan(harmony, "Qwen3-8B", "<|channel|> <|message|>")) == [("get_weather", {"city": "Oslo"})]


@pytest.mark.parametrize("row", MARKED, ids=lambda row: row.name)
def test_an_unknown_model_is_listened_to_in_every_format_with_markers(row: Format) -> None:
    found = calls_in(scan(f"I look.\n{row.render_call('get_weather', {'city': 'Oslo'})}"))
    assert found == [("get_weather", {"city": "Oslo"})]


def test_an_argument_that_swallowed_the_next_one_is_not_a_call() -> None:
    reply = '<tool_call name="get_weather"><argument name="city">Oslo\n<argument name="days">3</argument></tool_call>'
    (event,) = scan(reply)
    assert isinstance(event, CallUnreadable) and "</argument>" in event.detail


THOUGHT = "<think>\nI need the weather.\n"
QWEN = FORMATS["qwen3-coder"].render_call("get_weather", {"city": "Oslo"})


@pytest.mark.parametrize(
    ("reply", "model", "number"),
    [
        (THOUGHT + QWEN, "Qwen3.5-2B", 1),
        (f"{THOUGHT}{QWEN}\n", "Qwen3.5-2B", 1),
        (f"{THOUGHT}{QWEN}\nOr is it better to ask?", "Qwen3.5-2B", 0),
        (f"{THOUGHT}{QWEN}\n</think>\nI do not know.", "Qwen3.5-2B", 0),
        (f"{THOUGHT}{QWEN}\n</think>", "Qwen3.5-2B", 0),
        (THOUGHT + QWEN, "Qwen3-8B", 0),
        (THOUGHT + QWEN, "", 0),
    ],
)
def test_a_call_at_the_end_of_a_thought_that_is_never_closed_counts_for_some_families(
    reply: str, model: str, number: int
) -> None:
    events = scan(reply, model)
    assert len(calls_in(events)) == number
    assert isinstance(events[0], Thought)


NEW = Format("angle", json_call("<<call>>", "<</call>>"))
"""A format that nothing else knows."""


def test_a_new_format_needs_only_its_row() -> None:
    call = NEW.render_call("get_weather", {"city": "Oslo"})
    json_form = FORMATS["json"]
    abandoned = json_form.render_call("now", {"a": 1}).split(": 1")[0]
    replies: dict[str, list[object]] = {
        call: [OSLO],
        f"Look: {call}{call}<</call>> Done.": [Text("Look:"), OSLO, OSLO, Text("Done.")],
        f"```\n{call}\n```": [CallFound(ToolCall("get_weather", {"city": "Oslo"}, ("fence",)))],
        f"Write `{call}` so.": [Text(f"Write `{call}` so.")],
        f"{abandoned}: 1 {call}": [CallUnreadable("bad_json", "", ""), OSLO],
        f"<think>{call}</think>Well.": [Thought(call), Text("Well.")],
        "A << call >> is none, nor is <<call>> alone.": [Text("A << call >> is none, nor is <<call>> alone.")],
    }
    for reply, wanted in replies.items():
        for size in (1, 3, len(reply)):
            scanner = Scanner((NEW, *select_formats()))
            chunks = [reply[at : at + size] for at in range(0, len(reply), size)]
            events = [event for chunk in chunks for event in scanner.feed(chunk)] + scanner.close()
            assert comparable(events) == comparable(wanted), (reply, size)


@pytest.mark.parametrize("row", [row for row in MARKED if row.name != "minimax-m3"], ids=lambda row: row.name)
def test_a_call_after_one_that_was_given_up_is_found(row: Format) -> None:
    """The opener of MiniMax M3 begins with a bracket, which ends a JSON list at once."""
    begun = FORMATS["json"].render_call("now", {"a": 1}).split("}")[0]
    events = scan(f"{begun}\n{row.render_call('get_weather', {'city': 'Oslo'})}")
    assert isinstance(events[0], CallUnreadable)
    assert calls_in(events) == [("get_weather", {"city": "Oslo"})]


def test_importing_the_scanner_imports_no_chat_and_no_engine() -> None:
    """In a process of its own: this one has imported them."""
    code = "import sys, json; from rkllm_chat import ToolCallScanner; print(json.dumps(sorted(sys.modules)))"
    modules = json.loads(
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=20).stdout
    )
    parts = {name.split(".")[1] for name in modules if name.startswith("rkllm_chat.")}
    assert parts == {"calls", "core"}
    assert not {"mcp", "llama_cpp", "prompt_toolkit", "rich", "jinja2", "pydantic"} & set(modules)
