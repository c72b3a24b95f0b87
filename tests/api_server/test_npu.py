"""The API on the NPU: the stand-in for its runtime in every layout of its structures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api_server.conftest import Connect, StartNpuApi
from api_server.test_chat_completions import CALCULATE


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("layout", "CDEFG")
def test_a_tool_task_is_completed_in_every_layout(
    layout: str, npu_model: Path, start_npu_api: StartNpuApi, connect: Connect
) -> None:
    client = connect(start_npu_api(layout))
    options: Any = {"model": npu_model.name, "tools": [CALCULATE], "temperature": 0}
    messages: list[Any] = [{"role": "user", "content": "What is 12 * 34?"}]
    reply = client.chat.completions.create(messages=messages, **options)
    assert reply.choices[0].message.tool_calls
    (call,) = reply.choices[0].message.tool_calls
    assert call.type == "function" and reply.choices[0].finish_reason == "tool_calls"
    assert (call.function.name, json.loads(call.function.arguments)) == ("calculate", {"expression": "12 * 34"})
    messages += [
        reply.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "12 * 34 = 408"},
    ]
    parts = client.chat.completions.create(messages=messages, stream=True, **options)
    assert "408" in "".join(part.choices[0].delta.content or "" for part in parts if part.choices)


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("states_mb", ["256", "0"])
def test_clients_that_alternate_find_their_system_text_in_files(
    states_mb: str, npu_model: Path, environment: dict[str, str], start_npu_api: StartNpuApi, connect: Connect
) -> None:
    client = connect(start_npu_api("G", "--states-mb", states_mb))
    systems = [f"You are the assistant of the {room}. " * 20 for room in ("kitchen", "garage")]
    talks: list[list[Any]] = [[{"role": "system", "content": system}] for system in systems]
    cached: list[int] = []
    for number in range(8):
        if number % 2:  # a title, as Open WebUI asks for one, with a text that never returns
            title: Any = [{"role": "user", "content": f"Write a title for conversation {number}."}]
            client.chat.completions.create(model=npu_model.name, messages=title, max_tokens=4)
        talk = talks[number % 2]
        talk.append({"role": "user", "content": "Hello"})
        reply = client.chat.completions.create(model=npu_model.name, messages=talk, max_tokens=16, temperature=0)
        talk.append({"role": "assistant", "content": reply.choices[0].message.content})
        assert reply.usage and reply.usage.prompt_tokens_details
        cached.append(reply.usage.prompt_tokens_details.cached_tokens or 0)
    files = list((Path(environment["HOME"]) / ".local/state/rkllm-chat/prompt-caches").glob("*"))
    if states_mb == "0":
        assert max(cached[2:]) < 100 and not files
    else:
        assert min(cached[4:]) > 100 and len(files) == 2, "of each beginning that returned"
