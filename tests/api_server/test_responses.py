"""OpenAI's Responses API through the official `openai` package."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from api_server import test_chat_completions as chat
from api_server.conftest import Connect, OpenScripted
from mcp_servers.serving import Served
from stage import call_text

MODEL, SCRIPT = "tiny-tools.gguf", "replies.json"
CALCULATE: Any = {"type": "function", "strict": False, **chat.CALCULATE["function"]}


@pytest.mark.slow
@pytest.mark.model
def test_a_tool_task_is_completed_whole_and_streamed(shared_api: Served, connect: Connect) -> None:
    client = connect(shared_api)
    items: list[Any] = [{"role": "user", "content": "What is 12 * 34?"}]
    asked = client.responses.create(model=MODEL, input=items, tools=[CALCULATE], temperature=0)
    (call,) = asked.output
    assert call.type == "function_call" and (call.name, asked.status) == ("calculate", "completed")
    assert json.loads(call.arguments) == {"expression": "12 * 34"}
    items += [call.to_dict(), {"type": "function_call_output", "call_id": call.call_id, "output": "12 * 34 = 408"}]
    answered = client.responses.create(model=MODEL, input=items, tools=[CALCULATE], temperature=0)
    assert "408" in answered.output_text
    assert asked.usage and answered.usage
    assert answered.usage.input_tokens_details.cached_tokens >= asked.usage.total_tokens - 1
    with client.responses.stream(model=MODEL, input=items, tools=[CALCULATE], temperature=0) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert "".join(deltas) == stream.get_final_response().output_text == answered.output_text


@pytest.mark.slow
def test_thoughts_text_and_calls_are_items_of_a_stream(open_scripted: OpenScripted) -> None:
    reply = "<think>A sum.</think>I ask.\n" + call_text("calculate", expression="1 + 1")
    client = open_scripted(reply, "one two three four")
    with client.responses.stream(model=SCRIPT, input="Sum?", instructions="Be short.", tools=[CALCULATE]) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call"]
    assert [item.to_dict()["status"] for item in final.output] == ["completed"] * 3
    assert final.output_text == "I ask."
    cut = client.responses.create(model=SCRIPT, input="Count.", max_output_tokens=2)
    assert (cut.status, cut.output_text) == ("incomplete", "one two")
    assert cut.incomplete_details and cut.incomplete_details.reason == "max_output_tokens"


def test_what_is_not_stored_or_supported_is_refused(open_scripted: OpenScripted) -> None:
    client = open_scripted()
    image: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"previous_response_id": "resp_1", "input": "x"}, "previous_response_id"),
        ({"input": image}, "input.0.content"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0"),
        ({"input": "x", "tool_choice": "required"}, "tool_choice"),
    ]
    for fields, param in wrong:
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model=SCRIPT, **fields)
        assert caught.value.param == param, caught.value.message
