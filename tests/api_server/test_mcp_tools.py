"""`serve openai --mcp`: the model calls tools of the configured MCP servers while it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from api_server.conftest import Connect, StartApi
from api_server.test_chat_completions import TIDE
from stage import Script, call_text

SCRIPT = "replies.json"
QUESTION: Any = [{"role": "user", "content": "What is 12 * 34?"}]


@pytest.mark.slow
@pytest.mark.model
def test_the_model_calls_a_tool_of_the_server_and_answers(start_api: StartApi, connect: Connect) -> None:
    """Without --mcp the model has no tools: the positive control is the result that only the tool knows."""
    client = connect(start_api("--mcp"))
    parts = client.chat.completions.create(model="tiny-tools", messages=QUESTION, temperature=0, stream=True)
    choices = [part.choices[0] for part in parts]
    assert "408" in "".join(choice.delta.content or "" for choice in choices)
    assert not any(choice.delta.tool_calls for choice in choices) and choices[-1].finish_reason == "stop"


@pytest.mark.slow
def test_tools_of_the_client_and_of_the_server_stand_side_by_side(
    start_api: StartApi, connect: Connect, script: Script
) -> None:
    own, theirs = call_text("calculate", expression="12 * 34"), call_text("get_tide", harbour="Husum", days=1)
    served = start_api("--mcp", "--model", script(own, theirs, "It is 42 cm, and 408."))
    client = connect(served)
    messages = list(QUESTION)
    asked = client.chat.completions.create(model=SCRIPT, messages=messages, tools=[TIDE]).choices[0].message
    assert [call.function.name for call in asked.tool_calls or () if call.type == "function"] == ["get_tide"]
    messages.append(asked.model_dump(exclude_none=True))
    messages.append({"role": "tool", "tool_call_id": messages[-1]["tool_calls"][0]["id"], "content": "42 cm"})
    answered = client.chat.completions.create(model=SCRIPT, messages=messages, tools=[TIDE])
    assert answered.choices[0].message.content == "It is 42 cm, and 408."
    assert answered.usage and answered.usage.prompt_tokens > 0


@pytest.mark.slow
def test_a_call_that_needs_approval_is_declined(
    start_api: StartApi, connect: Connect, script: Script, folder: Path
) -> None:
    (folder / "ask.toml").write_text('[policy]\napprove = "none"\n', encoding="utf-8")
    own = call_text("calculate", expression="6 * 7")
    served = start_api("--mcp", "--config", "ask.toml", "--model", script(own, "It was declined."))
    reply = connect(served).chat.completions.create(model=SCRIPT, messages=QUESTION)
    assert reply.choices[0].message.content == "It was declined."
