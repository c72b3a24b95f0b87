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

from .servers import Face, call, cancel_operation, cancel_when, find_port, ours_on, with_box

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
    face = Face(answer=ElicitResult(action="accept", content={"name": "Ada"}))

    async def converse(box: Toolbox) -> dict[str, Any]:
        lists = (box.list_tools, box.list_resources, box.list_templates, box.list_prompts)
        return {
            "era": box.connections["ours"].lifecycle.protocol_version,
            "entries of all pages": [len(await list_all("ours")) for list_all in lists],
            "a new tool": await add_and_call(box, face),
            "a resource that is followed": await follow(box, face),
            "a call as a task": (await call(box, "research")).text,
            "a cancelled call": await cancel(box),
        }

    async def say(box: Toolbox) -> dict[str, Any]:
        for level in ("info", "warning", "error"):
            await call(box, "say", level=level, text=f"This is {level}.")
        await face.until(lambda: len(face.logs) == len(LINES))
        return await converse(box)

    with ours_on(transport) as config:
        trusted = replace(config, trust="trusted")  # a new tool of any other server waits to be accepted
        assert with_box(trusted, tmp_path, face, say) == {
            "era": era,
            "entries of all pages": [12, 2, 2, 2],
            "a new tool": "I am new.",
            "a resource that is followed": [FEATURES],
            "a call as a task": "Known to Ada." if era == "2026-07-28" else "Known to all.",
            "a cancelled call": "a call was cancelled",
        }
    assert face.logs == LINES


async def add_and_call(box: Toolbox, face: Face) -> str:
    await call(box, "add-tool", name="brand-new")
    await face.until(lambda: "brand-new" in [tool.name for tool in box.tools])
    return (await call(box, "brand-new")).text


async def follow(box: Toolbox, face: Face) -> list[str]:
    """The resources that were said to change, after changes of one that is subscribed to and of another."""
    await box.subscribe("ours", FEATURES)
    await call(box, "touch-resource", uri="demo://resource/other")
    await call(box, "touch-resource", uri=FEATURES)
    await face.until(lambda: FEATURES in face.updated)
    return face.updated


async def cancel(box: Toolbox) -> str:
    """What the server says of a call that was cancelled."""
    await cancel_operation(box)
    return (await call(box, "wait-for-cancel")).text


@pytest.mark.slow
def test_a_task_is_cancelled_with_its_call(tmp_path: Path) -> None:
    asked = asyncio.Event()
    face = Face()

    async def never_answer(_server: str, _params: object) -> ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def cancel_task(box: Toolbox) -> str:
        await cancel_when(asked, call(box, "research"))
        return (await call(box, "wait-for-cancel")).text

    face.asks = replace(face.asks, elicit=never_answer)
    with ours_on("stdio") as config:
        assert with_box(config, tmp_path, face, cancel_task) == "a call was cancelled"


@pytest.mark.slow
def test_a_server_of_the_older_protocol_is_pinged_back_and_used_again_after_a_restart(tmp_path: Path) -> None:
    port = find_port()

    async def survive(box: Toolbox) -> tuple[str, str]:
        before = (await call(box, "ping-client")).text
        first.close()
        with ours_on("sse", port):
            return before, (await call(box, "echo", message="here again")).text

    with ExitStack() as first:
        config = first.enter_context(ours_on("sse", port))
        assert with_box(config, tmp_path, Face(), survive) == ("pong", "Echo: here again")
