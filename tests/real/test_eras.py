"""What the two eras of the protocol do differently on the wire is the same for us, over every transport that has both.

The server is ours: no server of others that speaks 2026-07-28 changes its lists yet.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from mcp_types import ElicitResult

from rkllm_chat.servers.asks import Asks
from rkllm_chat.servers.toolbox import Toolbox

from .servers import Face, call, find_port, ours_on, with_box

FEATURES = "demo://resource/static/document/features.md"

both_eras = pytest.mark.parametrize(
    ("transport", "era"),
    [("sse", "2025-11-25"), ("stdio", "2026-07-28"), ("http", "2026-07-28"), ("websocket", "2026-07-28")],
)


@both_eras
def test_a_tool_that_appears_is_heard_of_and_can_be_called(transport: str, era: str, tmp_path: Path) -> None:
    face = Face()

    async def add_and_call(box: Toolbox) -> tuple[str, str, str]:
        added = (await call(box, "add-tool", name="brand-new")).text
        await face.until(lambda: "brand-new" in [tool.name for tool in box.tools])
        return box.connections["ours"].protocol_version, added, (await call(box, "brand-new")).text

    with ours_on(transport) as config:
        trusted = replace(config, trust="trusted")  # of any other server it would wait to be accepted
        assert with_box(trusted, tmp_path, face, add_and_call) == (era, "added brand-new", "I am new.")


@both_eras
def test_a_resource_that_is_followed_says_when_it_changes_and_no_other_does(
    transport: str, era: str, tmp_path: Path
) -> None:
    face = Face()

    async def follow(box: Toolbox) -> str:
        await box.subscribe("ours", FEATURES)
        await call(box, "touch-resource", uri="demo://resource/other")
        await call(box, "touch-resource", uri=FEATURES)
        await face.until(lambda: ("ours", FEATURES) in face.changes)
        return box.connections["ours"].protocol_version

    with ours_on(transport) as config:
        assert with_box(config, tmp_path, face, follow) == era
    assert [what for _, what in face.changes if what.startswith("demo:")] == [FEATURES]


@both_eras
def test_its_log_is_heard_with_the_level_of_each_line(transport: str, era: str, tmp_path: Path) -> None:
    face = Face()

    async def say(box: Toolbox) -> str:
        for level in ("info", "warning", "error"):
            await call(box, "say", level=level, text=f"This is {level}.")
        await face.until(lambda: len(face.logs) == 2)
        return box.connections["ours"].protocol_version

    with ours_on(transport) as config:
        assert with_box(config, tmp_path, face, say) == era
    assert face.logs == [("ours", "warning", "This is warning."), ("ours", "error", "This is error.")]


@both_eras
def test_all_pages_of_all_lists_are_read(transport: str, era: str, tmp_path: Path) -> None:
    async def list_all(box: Toolbox) -> tuple[str, int, int, int, int]:
        return (
            box.connections["ours"].protocol_version,
            len(await box.list_tools("ours")),
            len(await box.list_resources("ours")),
            len(await box.list_templates("ours")),
            len(await box.list_prompts("ours")),
        )

    with ours_on(transport) as config:
        assert with_box(config, tmp_path, Face(), list_all) == (era, 12, 2, 2, 2)


@both_eras
def test_a_cancelled_call_is_ended_at_the_server_too(transport: str, era: str, tmp_path: Path) -> None:
    async def cancel(box: Toolbox) -> tuple[str, str]:
        begun = asyncio.Event()
        operation = call(box, "trigger-long-running-operation", lambda _: begun.set(), duration=60, steps=600)
        running = asyncio.create_task(operation)
        await asyncio.wait_for(begun.wait(), 5)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return box.connections["ours"].protocol_version, (await call(box, "wait-for-cancel")).text

    with ours_on(transport) as config:
        assert with_box(config, tmp_path, Face(), cancel) == (era, "a call was cancelled")


@both_eras
def test_a_call_may_become_a_task_that_asks(transport: str, era: str, tmp_path: Path) -> None:
    face = Face(answer=ElicitResult(action="accept", content={"name": "Ada"}))

    async def research(box: Toolbox) -> tuple[str, str]:
        return box.connections["ours"].protocol_version, (await call(box, "research")).text

    with ours_on(transport) as config:
        said = with_box(config, tmp_path, face, research)
    assert said == (era, "Known to Ada." if era == "2026-07-28" else "Known to all.")


@pytest.mark.parametrize("transport", ["stdio", "http", "websocket"])
def test_a_task_is_cancelled_with_its_call(transport: str, tmp_path: Path) -> None:
    async def cancel(box: Toolbox) -> str:
        asked = asyncio.Event()

        async def never_answer(_server: str, _params: object) -> ElicitResult:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with Toolbox([config], tmp_path / "more", Asks(elicit=never_answer)) as other:
            running = asyncio.create_task(call(other, "research"))
            await asyncio.wait_for(asked.wait(), 5)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return (await call(box if transport != "stdio" else other, "wait-for-cancel")).text

    with ours_on(transport) as config:
        assert with_box(config, tmp_path, Face(), cancel) == "a call was cancelled"


def test_a_server_of_the_older_protocol_that_pings_is_answered(tmp_path: Path) -> None:
    async def ask(box: Toolbox) -> str:
        return (await call(box, "ping-client")).text

    with ours_on("sse") as config:
        assert with_box(config, tmp_path, Face(), ask) == "pong"


@pytest.mark.parametrize("transport", ["sse", "http", "websocket"])
def test_a_server_that_went_and_came_back_answers_the_next_call(transport: str, tmp_path: Path) -> None:
    port = find_port()

    async def survive(box: Toolbox) -> tuple[str, str]:
        before = (await call(box, "echo", message="here")).text
        first.close()
        with ours_on(transport, port):
            return before, (await call(box, "echo", message="here again")).text

    with ExitStack() as first:
        config = first.enter_context(ours_on(transport, port))
        assert with_box(config, tmp_path, Face(), survive) == ("Echo: here", "Echo: here again")
