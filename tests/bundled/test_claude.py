"""The claude server through our own client, as a process over stdio, with a pretend `claude` on the PATH."""

from __future__ import annotations

import asyncio
import json
import stat
from functools import partial
from pathlib import Path

import pytest
from mcp import Client

from claude_stage import Shape, Stage, Talk, run_shape, timeless
from rkllm_chat.bundled.claude.history import History
from rkllm_chat.bundled.claude.search import find_claude
from rkllm_chat.bundled.claude.server import build_server
from rkllm_chat.bundled.claude.session import ClaudeSession

DANGEROUS = ["--dangerously-skip-permissions", "--output-format", "json"]

FAILURES = {
    "fail": "claude ended with exit code 3: boom: the moon is full",
    "fail-in-json": "claude ended with exit code 1: Credit balance is too low",
    "error": "claude reports an error: API Error: overloaded",
    "limit": "claude reports an error: error_max_turns",
    "garbage": f"what claude wrote is not JSON; it begins: Welcome to Claude! {'x' * 281}.",
    "list": "what claude wrote is JSON, but no answer; it begins: [1, 2].",
    "nothing": "claude wrote nothing.",
    "flood": "claude wrote more than 16 MB.",
    "   ": "The prompt is empty.",
    "x" * ((1 << 20) + 1): "The prompt is 1048577 characters long; at most 1048576 are sent.",
}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_the_six_tools_answer_in_their_shapes_and_the_conversation_goes_on(stage: Stage) -> None:
    (stage.work / "notes.txt").write_text("tide 2.4\n", encoding="utf-8")

    async def play(call: Talk) -> None:
        tools = sorted(tool.name for tool in call.box.tools if tool.server)
        assert tools == [
            "clear_execution_history",
            "execute_claude",
            "execute_claude_with_context",
            "get_current_session",
            "get_execution_history",
            "reset_session",
        ]
        assert await call("get_current_session") == {"success": True, "session_id": None, "has_session": False}
        first = await call("execute_claude", prompt="héllo; rm -rf ~")
        assert list(first) == ["success", "prompt", "response", "execution_time", "timestamp", "error"]
        assert timeless(first) == run_shape("héllo; rm -rf ~", "You said: héllo; rm -rf ~")
        second = await call("execute_claude_with_context", prompt="How high?", file_path="notes.txt")
        sent = "How high?\n\nThe file notes.txt:\n\n```\ntide 2.4\n```\n"
        assert timeless(second) == run_shape("How high?", f"You said: {sent}", context_file="notes.txt")
        assert await call("get_current_session") == {"success": True, "session_id": "session-2", "has_session": True}
        assert await call("get_execution_history", limit=1) == {
            "success": True,
            "history": [{**second, "session_id": "session-2"}],
            "total_entries": 2,
            "current_session_id": "session-2",
        }
        assert (await call("get_execution_history"))["history"] == [
            {**first, "session_id": "session-1"},
            {**second, "session_id": "session-2"},
        ]
        assert await call("reset_session") == {
            "success": True,
            "message": "The next run begins a new conversation.",
            "old_session_id": "session-2",
        }
        assert await call("clear_execution_history") == {
            "success": True,
            "message": "Cleared 2 history entries.",
            "cleared_count": 2,
        }
        assert await call("get_execution_history") == {
            "success": True,
            "history": [],
            "total_entries": 0,
            "current_session_id": None,
        }
        assert await call("execute_claude", prompt="again")
        assert await call("execute_claude", prompt="and on")

    stage.talk(play)
    assert [one["arguments"] for one in stage.calls] == [
        [*DANGEROUS, "-p"],
        [*DANGEROUS, "--resume", "session-1", "-p"],
        [*DANGEROUS, "-p"],
        [*DANGEROUS, "--resume", "session-3", "-p"],
    ]
    assert {one["folder"] for one in stage.calls} == {str(stage.work)}


def test_a_permission_mode_takes_the_place_of_the_dangerous_flag(stage: Stage) -> None:
    stage.options = ("--permission-mode", "acceptEdits")

    async def play(call: Talk) -> None:
        assert (await call("execute_claude", prompt="hello"))["success"]

    stage.talk(play)
    (only,) = stage.calls
    assert only["arguments"] == ["--permission-mode", "acceptEdits", "--output-format", "json", "-p"]


def test_a_run_that_fails_says_why_in_its_own_shape(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        for prompt, error in FAILURES.items():
            assert timeless(await call("execute_claude", prompt=prompt)) == run_shape(prompt, None, error)
        for timeout in (0, -1, 24 * 3600 + 1):
            refused = timeless(await call("execute_claude", prompt="hello", timeout=timeout))
            assert refused == run_shape("hello", None, "The timeout must be from 1 to 86400 seconds.")
        assert (await call("execute_claude", prompt="hello"))["success"]

    stage.talk(play)
    assert stage.calls[-1]["arguments"] == [*DANGEROUS, "-p"]  # a failed run's session is not gone on with
    assert len(stage.calls) == len(FAILURES) - 2 + 1  # the last two prompts were never sent


def test_a_conversation_that_the_cli_has_lost_is_told_with_what_to_do(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        lost = await call("execute_claude", prompt="forgotten")
        assert lost["error"] == (
            "claude ended with exit code 1: No conversation found with session ID: session-1"
            " (reset_session begins a new one.)"
        )

    stage.talk(play)


def test_a_session_is_taken_from_a_verbose_answer_and_never_read_as_an_option(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        assert (await call("execute_claude", prompt="option"))["success"]
        assert (await call("get_current_session"))["session_id"] is None
        assert (await call("execute_claude", prompt="verbose"))["success"]
        assert (await call("get_current_session"))["session_id"] == "session-of-a-list"

    stage.talk(play)


def test_where_there_is_no_claude_it_is_said_what_to_do_and_found_once_it_is_there(stage: Stage) -> None:
    program = stage.bin / "claude"
    # in this process, with places of its own, lest a real claude be run
    find = partial(find_claude, stage.environment, "linux", stage.place)
    session = ClaudeSession(find, [stage.work], History(stage.state), environment=stage.environment)

    async def ask(client: Client, prompt: str) -> Shape:
        result = await client.call_tool("execute_claude", {"prompt": prompt})
        shape: Shape = result.structured_content or {}
        assert result.is_error is not shape["success"]
        return shape

    async def go() -> None:
        async with Client(build_server(session), read_timeout_seconds=20) as client:
            program.unlink()
            missing = await ask(client, "hello")
            assert timeless(missing) == run_shape("hello", None, missing["error"])
            assert missing["error"].startswith("The Claude CLI was not found. Looked at: the PATH, /usr/local/bin, ")
            assert "Install it (npm install -g @anthropic-ai/claude-code), or set CLAUDE_PATH" in missing["error"]
            stage.install(stage.bin)
            assert (await ask(client, "one"))["success"]
            program.unlink()
            stage.install(stage.home / ".nvm/versions/node/v20.1.0/bin")
            assert (await ask(client, "two"))["success"]
            history = await client.call_tool("get_execution_history", {})
            assert [run["prompt"] for run in history.structured_content["history"]] == ["one", "two"]

    asyncio.run(asyncio.wait_for(go(), 40))


def test_the_history_and_the_conversation_outlive_the_server_for_this_user_alone(stage: Stage) -> None:
    async def first(call: Talk) -> None:
        await call("execute_claude", prompt="one")
        await call("execute_claude", prompt="fail")

    async def second(call: Talk) -> None:
        kept = await call("get_execution_history")
        assert [(run["prompt"], run["session_id"]) for run in kept["history"]] == [("one", "session-1"), ("fail", None)]
        assert kept["current_session_id"] == "session-1"
        await call("execute_claude", prompt="three")
        _, text = await call.box.read_text("claude://statistics")
        totals = json.loads(text)
        assert totals.pop("seconds") > 0
        assert totals == {"runs": 3, "failed": 1, "cost_usd": 0.5, "input_tokens": 32, "output_tokens": 14}

    stage.talk(first)
    stage.talk(second)
    assert stage.calls[-1]["arguments"] == [*DANGEROUS, "--resume", "session-1", "-p"]
    assert stat.S_IMODE(stage.state.stat().st_mode) == 0o600
    assert stat.S_IMODE(stage.state.parent.stat().st_mode) == 0o700


def test_the_newest_hundred_runs_are_kept_and_long_texts_are_cut(stage: Stage) -> None:
    async def first(call: Talk) -> None:
        await call("execute_claude", prompt="word " * 4000)

    async def second(call: Talk) -> None:
        kept = await call("get_execution_history", limit=500)
        assert [run["prompt"] for run in kept["history"]] == [*(f"run {i}" for i in range(50, 149)), "new"]
        assert kept["total_entries"] == 100

    stage.talk(first)
    state = json.loads(stage.state.read_text(encoding="utf-8"))
    (run,) = state["runs"]
    assert run["prompt"].endswith("word word \n[10000 characters left out]")
    state["runs"] = [{**run, "prompt": f"run {i}"} for i in range(149)]
    stage.state.write_text(json.dumps(state), encoding="utf-8")

    async def again(call: Talk) -> None:
        await call("execute_claude", prompt="new")
        await second(call)

    stage.talk(again)


def test_a_damaged_history_is_put_aside_and_nothing_is_lost_of_it(stage: Stage) -> None:
    damaged = {'{"runs": [', "[]", '{"runs": [{"prompt": 1}]}', '{"runs": [], "session_id": "--x"}', "[" * 100_000}

    async def play(call: Talk) -> None:
        for text in damaged:
            stage.state.parent.mkdir(parents=True, exist_ok=True)
            stage.state.write_text(text, encoding="utf-8")
            assert (await call("get_execution_history"))["total_entries"] == 0
        assert (await call("execute_claude", prompt="hello"))["success"]
        assert (await call("get_execution_history"))["total_entries"] == 1

    stage.talk(play)
    asides = list(stage.state.parent.glob("history.json.damaged-*"))
    assert {aside.read_text(encoding="utf-8") for aside in asides} == damaged
    told = "".join(stage.log.split())  # the log's lines are folded
    assert all(aside.name in told for aside in asides)


def test_a_history_that_cannot_be_written_is_remembered_until_the_end(stage: Stage) -> None:
    stage.state.mkdir(parents=True)

    async def play(call: Talk) -> None:
        assert (await call("execute_claude", prompt="one"))["success"]
        assert (await call("execute_claude", prompt="two"))["success"]
        kept = await call("get_execution_history")
        assert [run["prompt"] for run in kept["history"]] == ["one", "two"]

    stage.talk(play)
    assert stage.log.count("cannot be written") == 1
    assert stage.calls[-1]["arguments"] == [*DANGEROUS, "--resume", "session-1", "-p"]
