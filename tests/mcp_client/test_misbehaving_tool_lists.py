"""A list of tools that lies, changes, never ends or cannot be read costs at most the tools that are wrong in it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cpu_time import allow_s
from rkllm_chat.calls.arguments import validate_arguments
from rkllm_chat.calls.tool_names import find_tools, shown_names
from rkllm_chat.config.policy import Policy, decide_call
from rkllm_chat.core.errors import ChatError
from rkllm_chat.core.messages import Tool

from .chaos_lists import LINK_VARIABLE
from .faults import Trial, act_and_echo, assert_one_line, chaos, try_each, try_mode, try_modes, try_servers, wait_for

# Mode -> the least and the most tools that are used.
USED = {
    "many-tools": (508, 508),
    "huge-tool-desc": (4, 4),
    "list-loop": (3, 3),
    "list-endless": (503, 503),
    "dup-tools": (3, 3),
    "poisoned-desc": (4, 4),
    "bare-results": (3, 3),
    "bad-schema": (11, 12),
    "weird-names": (12, 12),
    "list-null": (0, 0),
    "list-other-shape": (0, 0),
}
GOOD = {"echo", "add", "act", "good_1", "good_2", "good_3", "good_4", "good_5"}


@pytest.mark.slow
def test_the_valid_tools_of_an_invalid_list_are_used(tmp_path: Path) -> None:
    async def look(trial: Trial) -> tuple[list[str], bool]:
        assert trial.opened_s <= allow_s(1)
        for tool in trial.toolbox.tools:
            if tool.server == "bad-schema":
                check_arguments({"text": "x", "a": 1, "b": 2}, tool)
        names = trial.names()
        return names, trial.is_connected and (not names or await trial.echo() == "still here")

    for mode, (names, is_usable) in try_modes(tmp_path, USED, look).items():
        least, most = USED[mode]
        assert least <= len(names) <= most, mode
        assert len(set(names)) == len(names) and all(name.isprintable() for name in names)
        assert is_usable, mode
        if mode in ("bad-schema", "weird-names"):
            assert set(names) >= GOOD


def check_arguments(arguments: dict[str, Any], tool: Tool) -> None:
    """Validate arguments against a schema that may be none: any error is one of ours."""
    try:
        validate_arguments(arguments, tool.schema)
    except ChatError as error:
        assert error.message


@contextmanager
def unused_link() -> Iterator[str]:
    """The URL of a schema that nothing may fetch."""
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        yield f"http://127.0.0.1:{trap.getsockname()[1]}/schema.json"
        with pytest.raises(BlockingIOError):
            trap.accept()


def test_no_schema_of_arguments_is_fetched_and_none_takes_long(tmp_path: Path) -> None:
    async def check_all(trial: Trial) -> float:
        begun = time.monotonic()
        for name in ("remote", "circle", "slow"):
            check_arguments({"text": "a" * 28 + "!"}, trial.tool(name))
            await trial.call(name, text="a" * 28 + "!")
        return time.monotonic() - begun

    with unused_link() as link:
        assert try_mode(tmp_path, "hostile-schema", check_all, env={LINK_VARIABLE: link}) <= allow_s(1)


def test_no_schema_of_results_is_fetched_and_none_takes_long(tmp_path: Path) -> None:
    with unused_link() as link:
        result, echo = try_mode(tmp_path, "hostile-output", act_and_echo, env={LINK_VARIABLE: link})
    assert result.seconds <= allow_s(1)
    assert echo == "still here"


def test_servers_with_equal_tool_names_are_both_reached_and_an_ambiguous_name_is_not_guessed(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[list[str], int, list[str]]:
        tools = trial.toolbox.tools
        meant = [found for name in ("chaos__echo", "chaos.echo", "fine__echo") for found in find_tools(name, tools)]
        texts = [(await trial.toolbox.call(tool, {"text": tool.server}, lambda *_: None)).text for tool in meant]
        return texts, len(find_tools("echo", tools)), [name for name in shown_names(tools) if "echo" in name]

    texts, meant, shown = try_mode(tmp_path, "ok", go)
    assert texts == ["chaos", "chaos", "fine"]
    assert meant == 2
    assert shown == ["chaos__echo", "fine__echo"]


async def assert_refused(trial: Trial, before: Tool) -> None:
    """The tool `add` as it was listed before is not called, and the reason names it and its server."""
    result = await trial.toolbox.call(before, {"a": 1, "b": 2}, lambda *_: None)
    assert result.status == "failed", result.text
    assert_one_line(result.text, trial.server)
    assert "add" in result.text
    assert not [entry for entry in trial.events("ran") if entry["tool"] == "add"]


@pytest.mark.slow
def test_a_tool_that_changed_or_vanished_is_not_called_as_listed(tmp_path: Path) -> None:
    async def go(trial: Trial) -> str:
        before = trial.tool("add")
        if "handshake" not in trial.server:
            await wait_for(lambda: trial.heard("subscriptions/listen"))
        lists = len(trial.heard("tools/list"))
        await trial.act()
        await wait_for(lambda: len(trial.heard("tools/list")) > lists)
        await wait_for(lambda: before not in trial.toolbox.tools)
        await assert_refused(trial, before)
        return await trial.echo()

    configs = [
        chaos(tmp_path, "tools-changed", "changed", eras="modern"),
        chaos(tmp_path, "tools-changed", "changed-handshake", eras="handshake"),
        chaos(tmp_path, "tool-vanishes", "vanished", eras="modern"),
    ]
    assert set(try_each(tmp_path, configs, go).values()) == {"still here"}


@pytest.mark.slow
def test_tools_are_listed_again_at_most_every_two_seconds(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, float, int]:
        if trial.server == "loop":
            await wait_for(lambda: trial.heard("subscriptions/listen"))
        lists, begun = len(trial.heard("tools/list")), time.monotonic()
        await trial.act()
        await wait_for(lambda: len(trial.heard("tools/list")) > lists)
        return await trial.echo(), time.monotonic() - begun, len(trial.heard("tools/list"))

    configs = [
        chaos(tmp_path, "list-changed-loop", "loop", eras="modern"),
        chaos(tmp_path, "list-changed-flood", "flood", eras="handshake"),
    ]
    for echo, seconds, lists in try_each(tmp_path, configs, go).values():
        assert echo == "still here"
        assert lists <= 2 + seconds / 2


def test_a_read_only_hint_counts_only_where_the_user_trusts_the_server(tmp_path: Path) -> None:
    configs = [chaos(tmp_path, "annotation-lie"), chaos(tmp_path, "annotation-lie", "friend", trust="trusted")]

    async def decisions(trial: Trial) -> dict[str, list[str]]:
        servers = ("chaos", "friend")
        return {
            name: [decide_call(trial.tool(name, server), Policy()) for server in servers]
            for name in ("echo", "delete_everything")
        }

    told = try_servers(tmp_path, *configs, then=decisions)
    assert told == {"echo": ["ask", "run"], "delete_everything": ["ask", "ask"]}
