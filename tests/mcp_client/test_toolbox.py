"""Which tools a toolbox offers, and how it is closed; servers of the SDK are in tests/real/test_transports.py."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from processes import is_there
from rkllm_chat.config.servers import BOARD_SERVER
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.mcp_client.toolbox import Toolbox

from .faults import Trial, chaos, read_events, try_mode, try_servers, wait_for


@pytest.mark.slow
def test_a_server_that_ships_is_trusted_and_calculates(tmp_path: Path) -> None:
    async def go(trial: Trial) -> None:
        product = await trial.call("calculate", "board", expression="6 * 7")
        assert (product.status, product.text, product.server) == ("completed", "6 * 7 = 42", "board")
        assert product.structured == {"expression": "6 * 7", "value": "42"}
        hints = [trial.tool(*names) for names in (("get_time", "board"), ("echo",))]
        assert [(tool.read_only, tool.trusted) for tool in hints] == [(True, True), (True, False)]

    try_servers(tmp_path, chaos(tmp_path, "ok"), BOARD_SERVER, then=go)


def test_a_tool_is_listed_as_its_server_describes_it(tmp_path: Path) -> None:
    server = MCPServer("sea")

    def look() -> None: ...

    destroy = ToolAnnotations(title="Sink it", destructive_hint=True, open_world_hint=False, read_only_hint=False)
    add_only = ToolAnnotations(destructive_hint=False)
    reading = ToolAnnotations(read_only_hint=True, destructive_hint=True)
    server.add_tool(look, "plain", structured_output=False)
    server.add_tool(look, "titled", "Look out", annotations=destroy, structured_output=False)
    server.add_tool(look, "destroy", annotations=destroy, structured_output=False)
    server.add_tool(look, "add", annotations=add_only, structured_output=False)
    server.add_tool(look, "read", annotations=reading, structured_output=False)

    async def go() -> dict[str, tuple[str, bool, bool, bool]]:
        async with Toolbox.from_servers({"sea": server}) as toolbox:
            return {tool.name: (tool.title, tool.destructive, tool.open_world, tool.writes) for tool in toolbox.tools}

    assert asyncio.run(go()) == {
        "plain": ("", True, True, False),  # the protocol's defaults
        "titled": ("Look out", True, False, True),
        "destroy": ("Sink it", True, False, True),
        "add": ("", False, True, False),
        "read": ("", True, True, True),  # of two contradicting claims the worse
    }

    async def schemas(trial: Trial) -> dict[str, Any]:
        return {tool.name: tool.output_schema for tool in trial.toolbox.tools if tool.server == "chaos"}

    promised = {"type": "object", "properties": {"value": {"type": "number"}}, "required": ["value"]}
    assert try_mode(tmp_path, "structured-mismatch", schemas) == {"echo": None, "add": None, "act": promised}


def test_servers_and_tools_that_are_off_are_not_offered(tmp_path: Path) -> None:
    configs = [
        chaos(tmp_path, "ok", "off", trust="off"),
        chaos(tmp_path, "ok", "disabled", enabled=False),
        chaos(tmp_path, "ok", "chosen", tools_allow=("e*o", "add"), tools_deny=("[a]dd",)),
    ]

    async def look(trial: Trial) -> list[str]:
        return [tool.full_name for tool in trial.toolbox.tools if tool.server != "fine"]

    assert try_servers(tmp_path, *configs, then=look) == ["chosen__echo"]
    assert not [file for file in tmp_path.glob("*.jsonl") if file.stem in ("off", "disabled")]


SILENT = ServerConfig("silent", command="sleep", args=("60",), connect_s=50)


@pytest.mark.slow
def test_closing_does_not_wait_for_a_server_that_is_still_starting(tmp_path: Path) -> None:
    async def go() -> bool:
        servers = Toolbox([SILENT], tmp_path / "logs")
        opening = asyncio.create_task(servers.open())
        while not (tmp_path / "logs/silent.log").exists():  # noqa: ASYNC110 - the server's start says so
            await asyncio.sleep(0)
        await asyncio.wait_for(servers.aclose(), 10)
        await asyncio.wait_for(opening, 10)
        return servers.tools == []

    assert asyncio.run(go())


def test_closing_at_once_does_not_wait_for_a_start_that_has_not_begun(tmp_path: Path) -> None:
    async def go(steps: int) -> None:
        servers = Toolbox([SILENT], tmp_path / "logs")
        opening = asyncio.create_task(servers.open())
        for _ in range(steps):
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(servers.aclose(), opening), 10)

    for steps in range(6):
        asyncio.run(go(steps))


def list_starts(folder: Path, server: str) -> list[int]:
    return [event["pid"] for event in read_events(folder, server) if event["event"] == "start"]


def test_a_start_ends_with_the_caller_that_is_cancelled(tmp_path: Path) -> None:
    async def go() -> int:
        async with Toolbox([chaos(tmp_path, "slow-restart", delay_s=0.5)], tmp_path / "logs") as servers:
            restarting = asyncio.create_task(servers.restart("chaos"))
            await wait_for(lambda: len(list_starts(tmp_path, "chaos")) == 2)
            restarting.cancel()
            await asyncio.wait([restarting])
            await servers.execute_tool("chaos", "echo", {"text": "x"})
            return len([pid for pid in list_starts(tmp_path, "chaos") if is_there(pid)])

    assert asyncio.run(go()) == 1


def test_configurations_that_are_applied_at_the_same_time_start_a_server_once(tmp_path: Path) -> None:
    former, one, two = (chaos(tmp_path, "ok", name) for name in ("former", "one", "two"))

    async def go() -> list[str]:
        async with Toolbox([former], tmp_path / "logs") as servers:
            await asyncio.gather(servers.apply_config([one]), servers.apply_config([one, two]))
            return sorted(name for name in ("one", "two") if servers.is_connected(name))

    assert asyncio.run(go()) == ["one", "two"]
    assert [len(list_starts(tmp_path, name)) for name in ("one", "two")] == [1, 1]


def test_a_connection_that_is_cancelled_again_while_it_ends_leaves_no_task() -> None:
    server = MCPServer("sea")

    async def go() -> set[str]:
        async with Toolbox.from_servers({"sea": server}) as toolbox:
            toolbox.connections["sea"].lifecycle.refresh_lists()
            (owner,) = (task for task in asyncio.all_tasks() if task.get_name() == "server sea")
            while not owner.done():  # as a cancelled scope of the SDK does
                owner.cancel()
                await asyncio.sleep(0)
            for _ in range(3):
                await asyncio.sleep(0)
            return {str(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()}

    assert asyncio.run(go()) == set()
