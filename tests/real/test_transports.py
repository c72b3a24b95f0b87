"""One conversation gives the same over every transport and in both eras of the protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult, PromptReference, ResourceTemplateReference

from rkllm_chat.mcp_client.toolbox import Toolbox

from .servers import RecordingFrontend, Row, call, cancel_operation, everything_on, ours_on, read_data, with_toolbox

TEXT, BLOB = "demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/blob/{resourceId}"


@pytest.mark.parametrize(
    ("open_row", "transport", "era"),
    [
        pytest.param(everything_on, "stdio", "2025-11-25", marks=pytest.mark.real, id="everything, stdio"),
        pytest.param(everything_on, "sse", "2025-11-25", marks=pytest.mark.real, id="everything, SSE"),
        pytest.param(everything_on, "http", "2025-11-25", marks=pytest.mark.real, id="everything, streamable HTTP"),
        pytest.param(ours_on, "stdio", "2026-07-28", id="ours, stdio"),
        pytest.param(ours_on, "sse", "2025-11-25", marks=pytest.mark.slow, id="ours, SSE"),
        pytest.param(ours_on, "http", "2026-07-28", marks=pytest.mark.slow, id="ours, streamable HTTP"),
        pytest.param(ours_on, "websocket", "2026-07-28", id="ours, WebSocket"),
        pytest.param(ours_on, "unix", "2026-07-28", id="ours, Unix socket"),
    ],
)
def test_one_conversation_runs_over_every_transport(open_row: Row, transport: str, era: str, tmp_path: Path) -> None:
    frontend = RecordingFrontend("I am fine.", ElicitResult(action="accept", content={"name": "Ada"}), (tmp_path,))
    reports: list[tuple[float, float | None, str]] = []

    async def converse(toolbox: Toolbox) -> dict[str, Any]:
        (server,) = toolbox.connections
        titles = {tool.name: tool.read_only for tool in await toolbox.list_tools(server)}
        weather = await call(toolbox, "get-structured-content", location="Chicago")
        people = PromptReference(name="completable-prompt")
        prompt = await toolbox.get_prompt(server, "args-prompt", {"city": "Husum", "state": "SH"})
        return {
            "era": toolbox.connections[server].lifecycle.protocol_version,
            "listed": [titles["echo"], titles["trigger-sampling-request"]],
            "echo": (await call(toolbox, "echo", message="hello, 東京")).text,
            "structured": weather.structured,
            "progress": (
                await call(toolbox, "trigger-long-running-operation", reports.append, duration=0.3, steps=3)
            ).text,
            "reports": reports[:1] + reports[-1:],
            "elicited": "Name: Ada" in (await call(toolbox, "trigger-elicitation-request")).text,
            "sampled": "I am fine." in (await call(toolbox, "trigger-sampling-request", prompt="How are you?")).text,
            "roots": tmp_path.as_uri() in (await call(toolbox, "get-roots-list")).text,
            "templates": [template.uri_template for _, template in await toolbox.list_templates()],
            "document": "features.md" in [resource.name for _, resource in await toolbox.list_resources()],
            "text": (await read_data(toolbox, TEXT.format(resourceId=7)))[:44],
            "blob": (await read_data(toolbox, BLOB.format(resourceId=7)))[:34],
            "prompt": [getattr(message.content, "text", "") for message in prompt.messages],
            "departments": (await toolbox.complete(server, people, "department", "S")).completion.values,
            "names": (await toolbox.complete(server, people, "name", "", {"department": "Sales"})).completion.values,
            "numbers": (
                await toolbox.complete(server, ResourceTemplateReference(uri=TEXT), "resourceId", "7")
            ).completion.values,
            "after a cancelled call": await cancel_and_echo(toolbox),
        }

    with open_row(transport) as config:
        said = with_toolbox(config, tmp_path, frontend, converse)
    assert said == {
        "era": era,
        "listed": [True, False],
        "echo": "Echo: hello, 東京",
        "structured": {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82},
        "progress": "Long running operation completed. Duration: 0.3 seconds, Steps: 3.",
        "reports": [(1, 3, ""), (3, 3, "")],
        "elicited": True,
        "sampled": True,
        "roots": True,
        "templates": [TEXT, BLOB],
        "document": True,
        "text": b"Resource 7: This is a plaintext resource cre",
        "blob": b"Resource 7: This is a base64 blob ",
        "prompt": ["What's weather in Husum, SH?"],
        "departments": ["Sales", "Support"],
        "names": ["David", "Eve", "Frank"],
        "numbers": ["7"],
        "after a cancelled call": "Echo: still here",
    }
    assert [params.message for params in frontend.elicited] == ["Please provide inputs for the following fields:"]
    assert [params.system_prompt for params in frontend.sampled] == ["You are a helpful test server."]


async def cancel_and_echo(toolbox: Toolbox) -> str:
    await cancel_operation(toolbox)
    return (await call(toolbox, "echo", message="still here")).text
