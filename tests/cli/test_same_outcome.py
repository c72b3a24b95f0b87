"""A server that answers oddly gives the same outcome through `-p`, `call-tool`, `mcp-tool` and the library."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from cli.mcp_tool.stage import COMMAND
from fork_server import run as run_forked
from mcp_client.chaos_http import open_site
from mcp_client.chaos_lists import LAST_PAGE
from mcp_client.chaos_sse import open_event_site
from mcp_client.chaos_websocket import open_exchange
from rkllm_chat import MCPClient, MCPException, SyncMCPClient
from shell import Shell
from stage import PROGRAM, Run, Script, call_text

ALONE = ("--server", "chaos", "--output-format", "json")
"""Options of a turn without the bundled server, whose start takes a second."""
# Mode -> what the call gives, or a part of why it fails, after "!".
PROCESSES = {
    "ok": "act is done",
    "wrong-id-type": "whole",
    "other-id": "!the response has the id 4711",
    "unknown-id": "act is done",
    "structured-right": "seven",
    "structured-mismatch": "!does not match the output schema",
    "dangling-output": "act is done",
    "structured-missing": "seven",
    "php-result": "known",
    "odd-schemas": "act is done",
    "result-bad-image": "known",
    "bad-base64": "known",
    "deep-schema": "act is done",
    "list-null": '!"tools" is null',
    "list-other-shape": '!"tools" is an object, not a list',
}
SITES = {
    "ok": "act is done",
    "call-cr": "act is done",
    "call-other-event": "act is done",
    "call-primed": "act is done",
    "call-resumed": "act is done",
    "call-resumed-bare": "act is done",
    "call-resumed-twice": "act is done",
    "call-unresumed": "!",
    "call-other-id": "!the response has the id 4711",
    "call-other-id-events": "!the response has the id 4711",
    "session-gone": "act is done",
    "session-gone-410": "act is done",
    "session-gone-400": "act is done",
    "session-gone-error": "act is done",
    "session-gone-invalid": "act is done",
    "no-GET": "act is done",
    "call-as-text": "act is done",
    "call-null-id": "!the disk is full",
    "call-told-500": "!the disk is full",
    "call-500": "!500",
}


def run_turn(program: Run, script: Script) -> dict[str, Any]:
    """A turn with `-p` that calls `act`."""
    asked = ("-p", "act", "--model", script(call_text("act"), "Done."), "--allow", "act", *ALONE)
    turn: dict[str, Any] = json.loads(program(*asked).stdout)
    return turn


def call_by_library(client: SyncMCPClient, times: int) -> list[tuple[bool, str]]:
    """Call `act` of the server `chaos` as a program does; return each time whether it worked, and what was said."""
    outcomes = []
    for _ in range(times):
        try:
            content = client.execute_tool("chaos", "act")
            outcomes.append((True, f"{content.text} {content.structured_content}"))
        except MCPException as error:
            outcomes.append((False, str(error)))
    return outcomes


def call_by_each_command(shell: Shell, program: Run, script: Script) -> dict[str, tuple[bool, str]]:
    """Call `act` of the server `chaos`; return whether it worked, and what was said, by command."""
    printed = run_forked(
        [*COMMAND, "chaos__act"],
        env=shell.environment,
        cwd=shell.folder,
        timeout=30,
        encoding="utf-8",
    )
    document = shell.run("call-tool", "chaos.act")
    with MCPClient.sync(shell.folder / "mcp.json", shell.folder / "logs") as client:
        (library,) = call_by_library(client, 1)
    turn = run_turn(program, script)
    (call,) = turn["result"]["calls"] or [{"status": "failed", "text": ""}]
    notices = " ".join(turn["result"]["notices"])
    return {
        "mcp-tool": (printed.returncode == 0, printed.stdout + printed.stderr),
        "call-tool": (document["ok"], json.dumps(document, ensure_ascii=False).replace("\\", "")),
        "library": library,
        "-p": (call["status"] == "completed", f"{call['text']} {notices}"),
    }


def assert_outcome(outcomes: dict[str, tuple[bool, str]], expected: str) -> None:
    for command, (is_ok, text) in outcomes.items():
        assert is_ok == (not expected.startswith("!")), (command, text)
        assert expected.removeprefix("!") in text, (command, text)


@pytest.mark.slow
@pytest.mark.parametrize("mode", PROCESSES)
def test_a_process_that_answers_oddly_gives_the_same_through_every_command(
    mode: str, shell: Shell, program: Run, script: Script
) -> None:
    shell.add_chaos(mode)
    assert_outcome(call_by_each_command(shell, program, script), PROCESSES[mode])


@pytest.mark.slow
@pytest.mark.parametrize("mode", SITES)
def test_a_site_that_answers_oddly_gives_the_same_through_every_command(
    mode: str, shell: Shell, program: Run, script: Script
) -> None:
    with open_site(mode, eras="handshake") as site:
        shell.add("chaos", url=site.url, transport="http", timeout_s=5)
        assert_outcome(call_by_each_command(shell, program, script), SITES[mode])


# Mode -> what comes of four calls, where the first session always fails.
SICK = {"call-500-in-first-session": [False, False, True, True], "call-500": [False, False, False, False]}


@pytest.mark.slow
@pytest.mark.parametrize("mode", SICK)
def test_after_two_failures_in_a_row_another_session_is_tried_once(
    mode: str, shell: Shell, program: Run, script: Script
) -> None:
    with open_site(mode, eras="handshake") as site:
        shell.add("chaos", url=site.url, transport="http", timeout_s=5)
        with MCPClient.sync(shell.folder / "mcp.json", shell.folder / "logs") as client:
            assert [is_ok for is_ok, _ in call_by_library(client, 4)] == SICK[mode]
        assert [request.message.get("method") for request in site.requests].count("initialize") == 2
    with open_site(mode, eras="handshake") as site:
        shell.add("chaos", url=site.url, transport="http", timeout_s=5)
        replies = [call_text("act", text=str(number)) for number in range(4)]
        asked = ("-p", "act", "--model", script(*replies, "Done."), "--allow", "act", *ALONE)
        calls = json.loads(program(*asked).stdout)["result"]["calls"]
        assert [call["status"] == "completed" for call in calls] == SICK[mode]
        assert [request.message.get("method") for request in site.requests].count("initialize") == 2


def test_tools_that_cannot_be_used_are_named_and_the_others_work(shell: Shell, program: Run, script: Script) -> None:
    shell.add_chaos("deep-schema")
    listing = [*PROGRAM, "list-tools", "--server", "chaos"]
    document = json.loads(run_forked(listing, env=shell.environment, cwd=shell.folder, timeout=30).stdout)
    assert [tool["name"] for tool in document["result"]] == ["echo", "add", "act"]
    reasons = {"deep": "its schema is nested too deeply", "bare": "its input schema is not an object"}
    assert document["notices"] == [
        f'The tool "{name}" of server "chaos" cannot be used: {reason}.' for name, reason in reasons.items()
    ]
    command = [*COMMAND, "--help"]
    page = run_forked(command, env=shell.environment, cwd=shell.folder, timeout=30, encoding="utf-8").stdout
    assert "chaos__act" in page and "  (deep is left out: its schema is nested too deeply)" in page.splitlines()
    assert reasons["deep"] in shell.error("call-tool", "chaos.deep")["message"]
    turn = json.loads(program("-p", "hi", "--model", script("Hello."), *ALONE).stdout)
    notices = " ".join(turn["result"]["notices"])
    assert all(f"'{name}' of server 'chaos'" in notices and reason in notices for name, reason in reasons.items())


def test_a_fault_of_an_output_schema_is_said_and_costs_no_result(shell: Shell, program: Run, script: Script) -> None:
    shell.add_chaos("dangling-output")
    listing = [*PROGRAM, "list-tools", "--server", "chaos"]
    document = json.loads(run_forked(listing, env=shell.environment, cwd=shell.folder, timeout=30).stdout)
    fault = 'it refers to "#/$defs/none", which it does not contain'
    notice = f'The output schema of the tool "act" of server "chaos" is not checked in full: {fault}.'
    assert document["notices"] == [notice]
    arguments = ("--model", script(call_text("act"), "Done."), "--allow", "act", *ALONE)
    turn = json.loads(program("-p", "act", *arguments).stdout)["result"]
    assert [(call["status"], call["text"]) for call in turn["calls"]] == [("completed", "act is done")]
    assert turn["notices"] == [
        f"[MCP: The output schema of the tool 'act' of server 'chaos' is not checked in full: {fault}]"
    ]
    assert shell.result("call-tool", "chaos.act")["structuredContent"] == {"value": "seven", "count": 7}


@pytest.mark.slow
def test_more_than_a_thousand_tools_are_said(shell: Shell, program: Run, script: Script) -> None:
    shell.add_chaos("huge-crowd")
    assert len(shell.result("list-tools", "--server", "chaos")) == 1503
    turn = json.loads(program("-p", "hi", "--model", script("Hello."), *ALONE).stdout)
    assert turn["result"]["notices"] == ["[MCP: Server 'chaos' lists 1503 tools; only the first 1000 are used]"]


def test_every_page_of_a_list_is_read_and_pinned_by_every_command(shell: Shell, program: Run, script: Script) -> None:
    shell.add_chaos("list-pages")
    last = f"page_{LAST_PAGE}"
    listed = [tool["name"] for tool in shell.result("list-tools", "--server", "chaos")]
    assert listed == ["echo", "add", "act", *(f"page_{page}" for page in range(LAST_PAGE + 1))]
    arguments = ("--model", script(call_text(last), "Done."), "--allow", last, *ALONE)
    (call,) = json.loads(program("-p", "act", *arguments).stdout)["result"]["calls"]
    assert (call["status"], call["text"]) == ("completed", f"{last} is done")  # and all tools are pinned now
    assert shell.result("call-tool", f"chaos.{last}")["content"][0]["text"] == f"{last} is done"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["list-crowd", "list-endless"])
def test_a_list_that_is_cut_is_said_and_its_other_tools_can_be_called(
    mode: str, shell: Shell, program: Run, script: Script
) -> None:
    shell.add_chaos(mode)
    listing = [*PROGRAM, "list-tools", "--server", "chaos"]
    document = json.loads(run_forked(listing, env=shell.environment, cwd=shell.folder, timeout=30).stdout)
    read = {"list-crowd": 10_000, "list-endless": 503}[mode]
    assert len(document["result"]) == read
    cut = f'Server "chaos" lists more tools than are read; only the first {read} are used.'
    assert document["notices"] == [cut]
    arguments = ("--model", script(call_text("act"), "Done."), "--allow", "act", *ALONE)
    turn = json.loads(program("-p", "act", *arguments).stdout)
    crowd = "[MCP: Server 'chaos' lists 50003 tools; only the first 1000 are used]"
    assert turn["result"]["notices"] == [
        {
            "list-crowd": crowd,
            "list-endless": f"[MCP: Server 'chaos' lists more tools than are read; only the first {read} are used]",
        }[mode]
    ]
    assert shell.result("call-tool", "chaos.t49999")["content"][0]["text"] == "t49999 is done"


# Transport -> a server that answers with 7 MB.
BIG: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "http": lambda: open_site("call-big-image"),
    "sse": lambda: open_event_site("call-big-image"),
    "websocket": lambda: open_exchange("call-big-image"),
}


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", *BIG])
def test_a_large_picture_reaches_the_output_folder_up_to_the_limit_and_is_named_beyond(
    transport: str, shell: Shell, program: Run, script: Script
) -> None:
    with BIG.get(transport, nullcontext)() as site:
        if site:
            shell.add("chaos", url=site.url, transport=transport)
        else:
            shell.add_chaos("big-image")
        result = shell.result("call-tool", "chaos.act", "--output-dir", "pictures")
        assert Path(result["content"][0]["path"]).stat().st_size == (7 << 20) * 3 // 4
        tool = [*COMMAND, "--output-dir", "pictures"]
        for words in (["chaos__act"], ["--max-result", "4", "chaos__act"]):
            done = run_forked([*tool, *words], env=shell.environment, cwd=shell.folder, timeout=30, encoding="utf-8")
            assert done.returncode == 0, done.stderr
        cut = ["[image: cut, not shown]", "[The result was cut: it has 7 MB, the limit is 4 MB.]"]
        assert all(text in done.stdout for text in cut) and "was cut: it has 7 MB" in done.stderr
        result = shell.result("call-tool", "chaos.act", "--max-result", "4")
        assert [block["text"] for block in result["content"]] == cut and result["_meta"]["rkllm-chat/cut"] > 7 << 20
        turn = run_turn(program, script)
        (call,) = turn["result"]["calls"]
        assert (call["status"], call["text"]) == ("completed", "\n".join(cut))
        assert "was cut: its size is 7 MB" in " ".join(turn["result"]["notices"])
        assert shell.error("call-tool", "chaos.act", "--max-result", "0")["type"] == "UsageError"
    assert len(list((shell.folder / "pictures").iterdir())) == 2


# How a text comes -> a server that answers with more than the limit.
LONG: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "body": lambda: open_site("call-long-text"),
    "event": lambda: open_site("call-large-event"),
    "frame": lambda: open_exchange("call-long-text"),
}


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["line", *LONG])
def test_a_text_over_the_limit_is_cut_and_said_by_every_command(
    carrier: str, shell: Shell, program: Run, script: Script
) -> None:
    with LONG.get(carrier, nullcontext)() as site:
        if site:
            shell.add("chaos", url=site.url)
        else:
            shell.add_chaos("huge-result")
        result = shell.result("call-tool", "chaos.act", "--max-result", "4")
        turn = run_turn(program, script)
    (call,) = turn["result"]["calls"]
    text, note = (block["text"] for block in result["content"])
    assert note.startswith("[The result was cut: it has ") and note.endswith(", the limit is 4 MB.]")
    # how much of the 4 MB is the text differs by the protocol that a command begins with
    assert all(
        set(one) == {"x"} and len(one) > (4 << 20) - 1000 for one in (text, call["text"].removesuffix(f"\n{note}"))
    )
