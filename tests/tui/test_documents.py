"""Output of commands at a terminal: escaped text, which parses to the exact text of the server."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stage import PROGRAM, Screen, call_text

from .channels import LINES
from .test_channels import configure, find_steering

MCP_TOOL = [sys.executable, "-m", "rkllm_chat.cli.mcp_tool"]
TURN = ("-p", "go", "--model", "replies.json", "--allow", "*")


@pytest.fixture
def print_at(environment: dict[str, str], folder: Path, script: Callable[..., str]) -> Callable[..., str]:
    """Run a command at a terminal with a server that is hostile in one channel; return all output."""

    def run(channel: str, command: list[str], *arguments: str) -> str:
        configure(folder, channel)
        script(call_text("act", what=LINES), f"<think>{LINES}</think>{LINES}")
        screen = Screen(arguments, environment, folder, (300, 60), command)
        try:
            screen.wait_for_end(60)
        finally:
            screen.close()
        assert find_steering(screen.bytes) == []
        return screen.bytes.decode()

    return run


@pytest.mark.parametrize(
    ("channel", "command", "arguments"),
    [
        pytest.param("errors", PROGRAM, ("call-tool", "channels.act"), id="call that fails"),
        pytest.param("errors", PROGRAM, ("call-tool", "channels.act", "--args", '{"what": "0"}'), id="protocol error"),
        pytest.param("descriptions", PROGRAM, ("list-tools", "--server", "channels"), id="list of tools"),
        pytest.param("results", PROGRAM, TURN, id="turn"),
        pytest.param("results", PROGRAM, (*TURN, "--output-format", "stream-json"), id="turn in events"),
        pytest.param("results", MCP_TOOL, ("channels__act",), id="tool"),
        pytest.param("results", MCP_TOOL, ("--output", "json", "channels__act"), id="tool as a document"),
        pytest.param("errors", MCP_TOOL, ("channels__act",), id="tool that fails"),
        pytest.param("descriptions", MCP_TOOL, ("channels__tool07", "--help"), id="page of help"),
    ],
)
def test_output_of_a_command_cannot_control_the_terminal(
    channel: str, command: list[str], arguments: tuple[str, ...], print_at: Callable[..., str]
) -> None:
    printed = print_at(channel, command, *arguments)
    assert "k00:" in printed or "k07:" in printed


@pytest.mark.parametrize(
    ("command", "arguments", "read"),
    [
        (PROGRAM, ("call-tool", "channels.act"), lambda result: result["content"][0]["text"]),
        (PROGRAM, (*TURN, "--output-format", "json"), lambda result: result["calls"][0]["text"]),
        (MCP_TOOL, ("--output", "json", "channels__act"), lambda result: result["content"][0]["text"]),
    ],
    ids=["call", "turn", "tool"],
)
def test_a_json_document_contains_the_exact_text_of_the_server(
    command: list[str], arguments: tuple[str, ...], read: Callable[[Any], str], print_at: Callable[..., str]
) -> None:
    printed = print_at("results", command, *arguments)
    document = next(line for line in printed.splitlines() if line.startswith("{"))
    assert read(json.loads(document)["result"]) == LINES
