"""The API on the NPU: the stand-in for its runtime in every layout of its structures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api_server.conftest import Connect
from api_server.test_chat_completions import CALCULATE
from mcp_servers.serving import Served


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("layout", "CDEFG")
def test_a_tool_task_is_completed_in_every_layout(
    layout: str,
    compiled: Callable[[str], Path],
    npu_model: Path,
    folder: Path,
    start_api: Callable[..., Served],
    connect: Connect,
) -> None:
    (folder / "npu.toml").write_text(f"[rkllm]\nlibrary = {json.dumps(str(compiled(layout)))}\n", encoding="utf-8")
    client = connect(start_api("--config", "npu.toml", "--model", str(npu_model)))
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
