"""A list of tools that lies, changes, never ends or cannot be read costs at most the tools that are wrong in it."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest

from rkllm_chat.arguments import check
from rkllm_chat.errors import ChatError
from rkllm_chat.messages import Tool, ToolResult
from rkllm_chat.names import find_tools, shown_names
from rkllm_chat.policy import Policy, decide

from .chaos_lists import LINK_VARIABLE
from .faults import SLACK, Trial, assert_one_line, chaos, fault, rows, try_mode, try_servers, wait_for

GOOD = ["echo", "add", "act", "good_1", "good_2", "good_3", "good_4", "good_5"]


async def look(trial: Trial) -> tuple[list[str], float, str]:
    return trial.names(), trial.opened_s, await trial.echo()


@pytest.mark.parametrize(
    ("mode", "least", "most", "within_s"),
    rows(
        ("F68", "many-tools", 508, 508, 1),
        ("F69", "huge-tool-desc", 4, 4, 1),
        ("F70", "list-loop", 3, 3, 1),
        ("F70", "list-endless", 4, 60, 1),
        ("F73", "dup-tools", 3, 3, 1),
        ("F79", "poisoned-desc", 4, 4, 1),
        ("F72", "bare-results", 3, 3, 1),
    ),
)
def test_of_a_strange_list_what_is_good_is_used(
    mode: str, least: int, most: int, within_s: float, tmp_path: Path
) -> None:
    names, seconds, echo = try_mode(tmp_path, mode, look)
    assert least <= len(names) <= most
    assert len(set(names)) == len(names)
    assert seconds <= within_s * SLACK
    assert echo == "still here"


@pytest.mark.parametrize("mode", rows(("F72", "bad-schema"), ("F72", "weird-names")))
@pytest.mark.parametrize("eras", ["modern", "handshake"])
def test_tools_that_are_none_are_left_out_and_the_others_work(mode: str, eras: str, tmp_path: Path) -> None:
    names, seconds, echo = try_mode(tmp_path, mode, look, eras=eras)
    assert set(GOOD) <= set(names)
    assert all(name.isprintable() for name in names)
    assert seconds <= 1 * SLACK
    assert echo == "still here"


@fault("F72", "bad-schema")
def test_a_tool_with_a_schema_that_is_none_can_be_checked_against(mode: str, tmp_path: Path) -> None:
    async def schemas(trial: Trial) -> list[Tool]:
        return list(trial.toolbox.tools)

    for tool in try_mode(tmp_path, mode, schemas):
        assert isinstance(tool.schema, dict)
        try:
            check({"text": "x", "a": 1, "b": 2}, tool.schema)
        except ChatError as error:
            assert error.message


@fault("F72", "hostile-schema")
def test_no_schema_is_fetched_and_none_takes_for_ever(mode: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        link = f"http://127.0.0.1:{trap.getsockname()[1]}/schema.json"

        async def check_all(trial: Trial) -> float:
            begun = time.monotonic()
            for name in ("remote", "circle", "slow"):
                try:
                    check({"text": "a" * 28 + "!"}, trial.tool(name).schema)
                except ChatError as error:
                    assert error.message
                await trial.call(name, text="a" * 28 + "!")
            return time.monotonic() - begun

        seconds = try_mode(tmp_path, mode, check_all, env={LINK_VARIABLE: link})
        with pytest.raises(BlockingIOError):
            trap.accept()
    assert seconds <= 1 * SLACK


@fault("F72", "hostile-output")
def test_no_promise_of_a_result_is_fetched_or_takes_for_ever(mode: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        link = f"http://127.0.0.1:{trap.getsockname()[1]}/schema.json"

        async def go(trial: Trial) -> tuple[ToolResult, str]:
            return await trial.act(), await trial.echo()

        result, echo = try_mode(tmp_path, mode, go, env={LINK_VARIABLE: link})
        with pytest.raises(BlockingIOError):
            trap.accept()
    assert result.seconds <= 1 * SLACK
    assert echo == "still here"


@pytest.mark.parametrize("mode", rows(("F71", "list-null"), ("F71", "list-other-shape")))
def test_a_list_that_is_none_is_empty(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[list[str], bool]:
        return trial.names(), trial.toolbox.is_connected("chaos")

    assert try_mode(tmp_path, mode, go) == ([], True)


@fault("F74", "ok")
def test_two_servers_with_the_same_tools_are_both_reached_and_neither_is_guessed(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[list[str], int, list[str]]:
        tools = trial.toolbox.tools
        meant = [found for name in ("chaos__echo", "chaos.echo", "fine__echo") for found in find_tools(name, tools)]
        texts = [(await trial.toolbox.call(tool, {"text": tool.server}, lambda *_: None)).text for tool in meant]
        return texts, len(find_tools("echo", tools)), [name for name in shown_names(tools) if "echo" in name]

    texts, meant, shown = try_mode(tmp_path, mode, go)
    assert texts == ["chaos", "chaos", "fine"]
    assert meant == 2
    assert shown == ["chaos__echo", "fine__echo"]


def is_not_run(result: ToolResult, trial: Trial) -> bool:
    """A changed tool was not called, and the reason names it and its server (C7)."""
    assert result.status == "failed", result.text
    assert_one_line(result.text)
    assert "add" in result.text
    return not [entry for entry in trial.events("ran") if entry["tool"] == "add"]


@pytest.mark.parametrize("mode", rows(("F75", "tools-changed"), ("F75", "tool-vanishes")))
@pytest.mark.parametrize("eras", ["modern", "handshake"])
def test_a_tool_that_changed_is_not_called_as_the_one_it_was(mode: str, eras: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> bool:
        before = trial.tool("add")
        if eras == "modern":
            await wait_for(lambda: trial.heard("subscriptions/listen"))
        lists = len(trial.heard("tools/list"))
        await trial.act()
        await wait_for(lambda: len(trial.heard("tools/list")) > lists)
        await wait_for(lambda: before not in trial.toolbox.tools)
        return is_not_run(await trial.toolbox.call(before, {"a": 1, "b": 2}, lambda *_: None), trial)

    assert try_mode(tmp_path, mode, go, eras=eras)


@fault("F76", "rug-pull-on-restart")
def test_a_tool_that_is_another_after_a_restart_is_not_called(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[bool, str]:
        before = trial.tool("add")
        await trial.act()
        is_held = is_not_run(await trial.toolbox.call(before, {"a": 1, "b": 2}, lambda *_: None), trial)
        return is_held, await trial.echo()

    assert try_mode(tmp_path, mode, go) == (True, "still here")


@fault("F77", "list-changed-flood", "list-changed-loop")
@pytest.mark.parametrize("eras", ["modern", "handshake"])
def test_a_list_is_not_asked_for_more_often_than_every_two_seconds(mode: str, eras: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, float, int]:
        if eras == "modern":
            await wait_for(lambda: trial.heard("subscriptions/listen"))
        begun = time.monotonic()
        await trial.act()
        await asyncio.wait([asyncio.create_task(asyncio.sleep(1))])  # the time in which nothing is to happen
        return await trial.echo(), time.monotonic() - begun, len(trial.heard("tools/list"))

    echo, seconds, lists = try_mode(tmp_path, mode, go, eras=eras)
    assert echo == "still here"
    assert lists <= 2 + seconds / 2


@fault("F78", "annotation-lie")
def test_a_claim_counts_only_where_the_user_trusts_the_server(mode: str, tmp_path: Path) -> None:
    configs = [chaos(tmp_path, mode), chaos(tmp_path, mode, "friend", trust="trusted")]

    async def decisions(trial: Trial) -> dict[str, list[str]]:
        servers = ("chaos", "friend")
        return {
            name: [decide(trial.tool(name, server), Policy()) for server in servers]
            for name in ("echo", "delete_everything")
        }

    told = try_servers(tmp_path, *configs, then=decisions)
    assert told == {"echo": ["ask", "run"], "delete_everything": ["ask", "ask"]}
