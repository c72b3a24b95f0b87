"""A client's agent ends: a call that the conversation already has, with its result, is answered and not made again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from api_server.conftest import Connect, ConnectOllama, OpenScripted, StartApi
from stage import Script, call_text

SCRIPT = "replies.json"
SCHEMA = {"type": "object", "properties": {"harbour": {"type": "string"}}, "required": ["harbour"]}
TOOLS: Any = [{"type": "function", "function": {"name": "get_tide", "parameters": SCHEMA}}]
HUSUM, AMRUM = (call_text("get_tide", harbour=harbour) for harbour in ("Husum", "Amrum"))
FENCED = '```json\n{"name": "get_tide", "arguments": {"harbour": "Husum"}}\n```'


def talk(*harbours: str) -> list[Any]:
    """A question and calls of it, each with its result."""
    messages: list[Any] = [{"role": "user", "content": "How high is the tide?"}]
    for number, harbour in enumerate(harbours):
        function = {"name": "get_tide", "arguments": json.dumps({"harbour": harbour})}
        messages.append(
            {"role": "assistant", "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]}
        )
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"{harbour}: {number + 3} m"})
    return messages


def read_stream(stream: Any) -> tuple[str, list[str], str]:
    """Text, arguments of the calls, and the reason of the end."""
    choices = [chunk.choices[0] for chunk in stream if chunk.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    calls = [call.function.arguments for choice in choices for call in choice.delta.tool_calls or ()]
    return text, calls, next(choice.finish_reason for choice in choices if choice.finish_reason)


# Harbours asked for before, the replies of the model, the text and the arguments of the calls that the client receives.
CASES: dict[str, tuple[Sequence[str], Sequence[str], str, list[str]]] = {
    "the same call": (["Husum"], [HUSUM, "3 metres."], "3 metres.", []),
    "the same call in a fence": (["Husum"], [FENCED, "3 metres."], "3 metres.", []),
    "the same call behind prose": (["Husum"], [f"I look again.\n{HUSUM}", "3 metres."], "3 metres.", []),
    "again in answer mode": (["Husum"], [HUSUM, HUSUM, "3 metres."], "3 metres.", []),
    "always": (["Husum"], [HUSUM] * 3, "Husum: 3 m", []),
    "the call before, and nothing else since": (["Amrum", "Husum"], [HUSUM, "3 and 4 metres."], "3 and 4 metres.", []),
    "another call": (["Husum"], [AMRUM], "", ['{"harbour":"Amrum"}']),
    "an earlier call, and another one since": (["Husum", "Amrum"], [HUSUM], "", ['{"harbour":"Husum"}']),
    "a first call": ([], [HUSUM], "", ['{"harbour":"Husum"}']),
}


def test_a_call_that_was_answered_is_answered_again_and_not_passed_on(open_scripted: OpenScripted) -> None:
    """One server for all: each case uses up its own replies."""
    client = open_scripted(*(reply for case in CASES.values() for reply in [*case[1], *case[1]]))
    for case, (before, _replies, text, calls) in CASES.items():
        for is_streamed in (False, True):
            made: Any = client.chat.completions.create(
                model=SCRIPT, messages=talk(*before), tools=TOOLS, stream=is_streamed
            )
            if is_streamed:
                received = read_stream(made)
            else:
                message = made.choices[0].message
                arguments = [call.function.arguments for call in message.tool_calls or ()]
                received = (message.content or "", arguments, made.choices[0].finish_reason)
            assert [json.loads(call) for call in received[1]] == [json.loads(call) for call in calls], case
            assert received[2] == ("tool_calls" if calls else "stop"), case
            assert received[0].endswith(text) and bool(received[0]) == bool(text), case
            assert not any(word in received[0] for word in ("TOOL_CALL", "arguments", "I look again")), case


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_client_gets_the_answer_in_place_of_a_refusal_that_tools_bring_about(
    is_streamed: bool, open_scripted: OpenScripted
) -> None:
    story, other = "Once upon a time there was a fox.", "I'm sorry to hear that you are tired, my friend."
    replies = ("I'm sorry, but I can't assist with that.", story, other)
    client = open_scripted(*replies, options=("--set", "prompt_profile=qwen2.5"))
    for expected in (story, other):
        asked: Any = [{"role": "user", "content": "Write a story."}]
        made: Any = client.chat.completions.create(model=SCRIPT, messages=asked, tools=TOOLS, stream=is_streamed)
        assert (read_stream(made)[0] if is_streamed else made.choices[0].message.content) == expected


def test_the_conversation_goes_on_without_the_call_that_was_discarded(open_scripted: OpenScripted) -> None:
    client = open_scripted(HUSUM, "3 metres.", AMRUM)
    first: Any = client.chat.completions.create(model=SCRIPT, messages=talk("Husum"), tools=TOOLS)
    said: list[Any] = [
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "And Amrum?"},
    ]
    second: Any = client.chat.completions.create(model=SCRIPT, messages=[*talk("Husum"), *said], tools=TOOLS)
    (call,) = second.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"harbour": "Amrum"}


def test_other_doors_do_the_same(
    start_api: StartApi, connect: Connect, connect_ollama: ConnectOllama, script: Script
) -> None:
    served = start_api("--model", script(HUSUM, "3 metres.", HUSUM, "Three metres."))
    call = {"function": {"name": "get_tide", "arguments": {"harbour": "Husum"}}}
    messages: list[Any] = [
        {"role": "user", "content": "Tide?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "3 m", "tool_name": "get_tide"},
    ]
    reply = connect_ollama(served).chat(model=SCRIPT, messages=messages, tools=TOOLS)
    assert (reply.message.content, reply.message.tool_calls) == ("3 metres.", None)
    items: Any = [
        {"role": "user", "content": "Tide?"},
        {"type": "function_call", "call_id": "c", "name": "get_tide", "arguments": '{"harbour": "Husum"}'},
        {"type": "function_call_output", "call_id": "c", "output": "3 m"},
    ]
    tools: Any = [{"type": "function", "name": "get_tide", "parameters": SCHEMA, "strict": False}]
    made = connect(served).responses.create(model=SCRIPT, input=items, tools=tools, store=False)
    assert made.output_text == "Three metres." and [item.type for item in made.output] == ["message"]
