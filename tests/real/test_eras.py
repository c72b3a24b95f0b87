"""What the eras of the protocol do differently on the wire is the same for the toolbox, over every transport.

The server is ours: no server of others that speaks 2026-07-28 changes its lists yet.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

from rkllm_chat.mcp_client.toolbox import Toolbox

from .servers import RecordingFrontend, call, cancel_operation, cancel_when, find_port, ours_on, with_toolbox

FEATURES = "demo://resource/static/document/features.md"
LINES = [("ours", "warning", "This is warning."), ("ours", "error", "This is error.")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transport", "era"),
    [("stdio", "2026-07-28"), ("sse", "2025-11-25"), ("http", "2026-07-28"), ("websocket", "2026-07-28")],
)
def test_changes_logs_cancellation_and_tasks_are_the_same_in_both_eras(
    transport: str, era: str, tmp_path: Path
) -> None:
    frontend = RecordingFrontend(answer=ElicitResult(action="accept", content={"name": "Ada"}))

    async def converse(toolbox: Toolbox) -> dict[str, Any]:
        lists = (toolbox.list_tools, toolbox.list_resources, toolbox.list_templates, toolbox.list_prompts)
        return {
            "era": toolbox.connections["ours"].lifecycle.protocol_version,
            "entries of all pages": [len(await list_all("ours")) for list_all in lists],
            "a new tool": await add_and_call(toolbox, frontend),
            "a resource that is followed": await follow(toolbox, frontend),
            "a call as a task": (await call(toolbox, "research")).text,
            "a cancelled call": await cancel(toolbox),
        }

    async def say(toolbox: Toolbox) -> dict[str, Any]:
        for level in ("info", "warning", "error"):
            await call(toolbox, "say", level=level, text=f"This is {level}.")
        await frontend.until(lambda: len(frontend.logs) == len(LINES))
        return await converse(toolbox)

    with ours_on(transport) as config:
        trusted = replace(config, trust="trusted")  # a new tool of any other server waits to be accepted
        assert with_toolbox(trusted, tmp_path, frontend, say) == {
            "era": era,
            "entries of all pages": [12, 2, 2, 2],
            "a new tool": "I am new.",
            "a resource that is followed": [FEATURES],
            "a call as a task": "Known to Ada." if era == "2026-07-28" else "Known to all.",
            "a cancelled call": "a call was cancelled",
        }
    assert frontend.logs == LINES


async def add_and_call(toolbox: Toolbox, frontend: RecordingFrontend) -> str:
    await call(toolbox, "add-tool", name="brand-new")
    await frontend.until(lambda: "brand-new" in [tool.name for tool in toolbox.tools])
    return (await call(toolbox, "brand-new")).text


async def follow(toolbox: Toolbox, frontend: RecordingFrontend) -> list[str]:
    """The resources that were said to change, after changes of one that is subscribed to and of another."""
    await toolbox.subscribe("ours", FEATURES)
    await call(toolbox, "touch-resource", uri="demo://resource/other")
    await call(toolbox, "touch-resource", uri=FEATURES)
    await frontend.until(lambda: FEATURES in frontend.updated)
    return frontend.updated


async def cancel(toolbox: Toolbox) -> str:
    """What the server says of a call that was cancelled."""
    await cancel_operation(toolbox)
    return (await call(toolbox, "wait-for-cancel")).text


@pytest.mark.slow
def test_a_task_is_cancelled_with_its_call(tmp_path: Path) -> None:
    asked = asyncio.Event()
    frontend = RecordingFrontend()

    async def never_answer(_server: str, _params: object) -> ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def cancel_task(toolbox: Toolbox) -> str:
        await cancel_when(asked, call(toolbox, "research"))
        return (await call(toolbox, "wait-for-cancel")).text

    frontend.asks = replace(frontend.asks, elicit=never_answer)
    with ours_on("stdio") as config:
        assert with_toolbox(config, tmp_path, frontend, cancel_task) == "a call was cancelled"


@pytest.mark.slow
def test_a_server_of_the_older_protocol_is_pinged_back_and_used_again_after_a_restart(tmp_path: Path) -> None:
    port = find_port()

    async def survive(toolbox: Toolbox) -> tuple[str, str]:
        before = (await call(toolbox, "ping-client")).text
        first.close()
        with ours_on("sse", port):
            return before, (await call(toolbox, "echo", message="here again")).text

    with ExitStack() as first:
        config = first.enter_context(ours_on("sse", port))
        assert with_toolbox(config, tmp_path, RecordingFrontend(), survive) == ("pong", "Echo: here again")
