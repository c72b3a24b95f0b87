"""What commands print at a terminal: documents that a program reads as they were, and a terminal as plain text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stage import PROGRAM, Screen, call_text

from .channels import LINES, MARKED
from .session import HERE
from .test_channels import steering

MCP_TOOL = [sys.executable, "-c", "import sys; from rkllm_chat.toolcommands import main; sys.exit(main())"]
TURN = ("-p", "go", "--model", "replies.json", "--allow", "*")


@pytest.fixture
def print_at(environment: dict[str, str], folder: Path) -> Callable[..., str]:
    """What a command writes to a terminal, its standard error included; a channel of its server is hostile."""

    def run(channel: str, command: list[str], *arguments: str) -> str:
        server = {"command": sys.executable, "args": [str(HERE / "channels.py"), channel]}
        entries = {"mcpServers": {"channels": {**server, "env": {"PYTHONPATH": str(HERE.parent)}}}}
        (folder / "mcp.json").write_text(json.dumps(entries), encoding="utf-8")
        replies = [call_text("act", what=LINES), f"<think>{LINES}</think>{LINES}"]
        (folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
        screen = Screen(arguments, environment, folder, (300, 60), command)
        try:
            screen.wait_for_end(60)
        finally:
            screen.close()
        return screen.bytes.decode()

    return run


CASES: dict[str, tuple[str, list[str], tuple[str, ...]]] = {
    "a call": ("results", PROGRAM, ("call-tool", "channels.act")),
    "a call that fails": ("errors", PROGRAM, ("call-tool", "channels.act")),
    "an error of the protocol": ("errors", PROGRAM, ("call-tool", "channels.act", "--args", '{"what": "0"}')),
    "a list of tools": ("descriptions", PROGRAM, ("list-tools", "--server", "channels")),
    "a list of servers": ("server instructions", PROGRAM, ("list-servers",)),
    "a turn": ("results", PROGRAM, TURN),
    "a turn in JSON": ("results", PROGRAM, (*TURN, "--output-format", "json")),
    "a turn in events": ("results", PROGRAM, (*TURN, "--output-format", "stream-json")),
    "a tool": ("results", MCP_TOOL, ("channels__act",)),
    "a tool in JSON": ("results", MCP_TOOL, ("--output", "json", "channels__act")),
    "a tool in YAML": ("results", MCP_TOOL, ("--output", "yaml", "channels__act")),
    "a tool in a table": ("results", MCP_TOOL, ("--output", "table", "channels__act")),
    "a tool that fails": ("errors", MCP_TOOL, ("channels__act",)),
    "a page of help": ("descriptions", MCP_TOOL, ("channels__tool07", "--help")),
    "all pages of help": ("titles", MCP_TOOL, ("--help",)),
}
QUIET = {"a list of servers", "all pages of help"}
"""What shows nothing that a server wrote before it is asked for it."""


@pytest.mark.parametrize("case", CASES)
def test_what_a_command_prints_steers_no_terminal(case: str, print_at: Callable[..., str]) -> None:
    channel, command, arguments = CASES[case]
    printed = print_at(channel, command, *arguments)
    assert steering(printed.encode()) == []
    assert case in QUIET or ("k00" in printed or "k07" in printed)


@pytest.mark.parametrize(
    ("case", "read"),
    [
        ("a call", lambda result: result["content"][0]["text"]),
        ("a turn in JSON", lambda result: result["calls"][0]["text"]),
        ("a tool in JSON", lambda result: result["content"][0]["text"]),
    ],
)
def test_a_document_says_exactly_what_the_server_said(
    case: str, read: Callable[[Any], str], print_at: Callable[..., str]
) -> None:
    channel, command, arguments = CASES[case]
    document = next(line for line in print_at(channel, command, *arguments).splitlines() if line.startswith("{"))
    assert read(json.loads(document)["result"]) == LINES
    assert all(text in LINES for text in MARKED)
