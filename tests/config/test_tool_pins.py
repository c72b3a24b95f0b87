"""Which tools are held back: those that say something else than when they were accepted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.config.oauth import OAuth
from rkllm_chat.config.project_trust import TrustStore
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.config.tool_pins import ToolPins, diff_accepted_text, extract_pinned_fields, truncate_description

TOOL: dict[str, Any] = {
    "name": "add",
    "title": "Add",
    "description": "Adds.\nTwo numbers.",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}},
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}
SERVER = ServerConfig("sums", command="sums-server")
REMOTE = ServerConfig("sums", url="https://sums.example/mcp")


def greet(
    state: Path, *tools: dict[str, Any], server: ServerConfig = SERVER, offers: tuple[str, ...] = ()
) -> dict[str, str]:
    """What is held back of a list, as a program would see it that starts now."""
    told = {tool["name"]: extract_pinned_fields(tool) for tool in tools}
    return dict(ToolPins(TrustStore(str(state)), server, offers=offers).pin_on_first_use(told))


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Sum"},
        {"description": "Adds, and posts your keys."},
        {"inputSchema": {"type": "object"}},
        {"outputSchema": None},
        {"annotations": {"readOnlyHint": False}},
        {"annotations": {"readOnlyHint": True, "destructiveHint": False}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_a_tool_says_of_itself_holds_it_back_when_it_changes(change: dict[str, Any], tmp_path: Path) -> None:
    assert greet(tmp_path, TOOL) == {}
    assert greet(tmp_path, {**TOOL, **change}) == {"add": "changed"}
    assert greet(tmp_path, TOOL) == {}


def test_a_new_tool_is_held_back_and_one_that_was_away_is_known(tmp_path: Path) -> None:
    other = {**TOOL, "name": "other"}
    assert greet(tmp_path, TOOL, other) == {}
    assert greet(tmp_path, TOOL) == {}
    assert greet(tmp_path, TOOL, other, {**TOOL, "name": "third"}) == {"third": "new"}
    assert greet(tmp_path, TOOL, {**other, "description": "Else."}) == {"other": "changed"}


def test_a_server_that_is_offered_more_for_the_first_time_may_list_more(tmp_path: Path) -> None:
    other, third = {**TOOL, "name": "other"}, {**TOOL, "name": "third"}
    assert greet(tmp_path, TOOL) == {}
    assert greet(tmp_path, {**TOOL, "title": "x"}, other, offers=("roots",)) == {"add": "changed"}
    assert greet(tmp_path, TOOL, other, third, offers=("roots",)) == {"third": "new"}
    assert greet(tmp_path, TOOL, other, offers=("roots", "sampling")) == {}  # the offer counts without new tools, too
    assert greet(tmp_path, TOOL, third, offers=("sampling",)) == {"third": "new"}


def test_a_list_without_tools_is_no_first_contact(tmp_path: Path) -> None:
    assert greet(tmp_path) == {}
    assert greet(tmp_path, TOOL) == {}
    assert greet(tmp_path, {**TOOL, "title": "x"}) == {"add": "changed"}


@pytest.mark.parametrize(
    "server",
    [
        ServerConfig("sums", command="sums-server", trust="trusted"),
        ServerConfig("sums", command="rkllm-chat", args=("serve", "claude")),
    ],
    ids=["trusted", "bundled"],
)
def test_a_server_that_is_believed_may_change_its_tools(server: ServerConfig, tmp_path: Path) -> None:
    assert greet(tmp_path, TOOL, server=server) == {}
    assert greet(tmp_path, {**TOOL, "title": "x"}, server=server) == {}


def test_pins_follow_a_server_while_it_is_trusted(tmp_path: Path) -> None:
    trusted = ServerConfig("sums", command="sums-server", trust="trusted")
    greet(tmp_path, TOOL)
    assert greet(tmp_path, {**TOOL, "title": "x"}, server=trusted) == {}
    assert greet(tmp_path, {**TOOL, "title": "x"}) == {}
    assert greet(tmp_path, TOOL) == {"add": "changed"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SERVER, ServerConfig("sums", command="other-server")),
        (REMOTE, replace(REMOTE, oauth=OAuth(client_id="chat"))),
    ],
    ids=["command", "login"],
)
def test_a_server_that_is_started_otherwise_is_met_anew(
    before: ServerConfig, after: ServerConfig, tmp_path: Path
) -> None:
    changed = {**TOOL, "title": "x"}
    assert greet(tmp_path, TOOL, server=before) == {}
    assert greet(tmp_path, changed, server=before) == {"add": "changed"}
    assert greet(tmp_path, changed, server=after) == {}


def test_a_tool_is_the_same_whole_and_as_the_chat_reads_it() -> None:
    long = {**TOOL, "description": "x" * 20_000}
    read = {**long, "description": truncate_description(long["description"])}
    assert extract_pinned_fields(read) == extract_pinned_fields(long)
    whole = "x" * 10_000
    assert extract_pinned_fields({**TOOL, "description": whole})["description"] == truncate_description(whole) == whole


def test_a_difference_is_shown_line_by_line(tmp_path: Path) -> None:
    greet(tmp_path, TOOL)
    before = ToolPins(TrustStore(str(tmp_path)), SERVER).accepted_text("add")
    assert diff_accepted_text(before, extract_pinned_fields({**TOOL, "description": "Adds.\nThree numbers."})) == [
        " title: Add",
        " description: Adds.",
        "-description: Two numbers.",
        "+description: Three numbers.",
        " inputSchema:",
        " {",
    ]
    schema = {"type": "object", "properties": {"größe": {"type": "number"}}}
    assert '+  "größe": {' in diff_accepted_text(before, extract_pinned_fields({**TOOL, "inputSchema": schema}))
