"""A client of the library changes to another configuration, and ranks what its servers have."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from rkllm_chat import MCPClient, MCPException

from .faults import chaos, left_behind, read_events
from .test_library import make_assistant, make_weather, use


def test_a_configuration_that_was_edited_is_loaded_and_what_is_as_before_keeps_running(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"

    def write(*names: str) -> None:
        configs = [chaos(tmp_path, "ok", name) for name in names]
        entries = {
            config.name: {"command": config.command, "args": config.args, "env": {**config.env}} for config in configs
        }
        file.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")

    async def run() -> None:
        write("kept", "old")
        async with MCPClient(file) as client:
            write("kept", "new")
            assert await client.reload(file) == ["new", "old"]
            assert (client.servers, client.is_connected()) == (["kept", "new"], True)
            file.write_text("{", encoding="utf-8")
            with pytest.raises(MCPException):
                await client.reload(file)
            assert (await client.call_tool("new_echo", {"text": "x"})).text == "x"
            assert await client.reload({"weather": make_weather()}) == ["kept", "new", "weather"]
            assert client.servers == ["weather"] and client.is_connected()

    asyncio.run(asyncio.wait_for(run(), 30))
    starts = [event for event in read_events(tmp_path, "kept") if event["event"] == "start"]
    assert len(starts) == 1
    assert left_behind(tmp_path, "kept") == []


def test_tools_are_found_by_a_question() -> None:
    async def work(client: MCPClient) -> list[str]:
        return [tool.full_name for tool in await client.find_tools("What is the forecast for the city of Oslo?")]

    assert use({"weather": make_weather(), "assistant": make_assistant()}, work)[0] == "weather__get_forecast"
