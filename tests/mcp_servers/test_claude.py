"""The claude server through our own client, with a stand-in for the Claude CLI: answers, failures, history, files."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from mcp import Client

from mcp_servers.claude_stage import Shape, Stage, Talk, assert_failed, run_shape, without_time
from processes import HAS_PROC
from rkllm_chat.mcp_servers.claude.find_cli import find_claude
from rkllm_chat.mcp_servers.claude.history import HistoryState, RunHistory
from rkllm_chat.mcp_servers.claude.server import build_server
from rkllm_chat.mcp_servers.claude.session import ClaudeSession
from rkllm_chat.mcp_servers.text_files import MAX_FILE_BYTES, FileError, read_text

DANGEROUS = ["--dangerously-skip-permissions", "--output-format", "json"]

# prompt -> words of the error
FAILURES = {
    "fail": ("exited with 3", "the moon is full"),
    "fail-in-json": ("exited with 1", "Credit balance"),
    "forgotten": ("exited with 1", "session-1", "reset_session"),
    "error": ("API Error: overloaded",),
    "limit": ("error_max_turns",),
    "garbage": ("not JSON", f"Welcome to Claude! {'x' * 281}."),
    "list": ("no answer", "[1, 2]"),
    "nothing": ("wrote nothing",),
    "flood": ("16 MB",),
}
NOT_SENT = {"": ("empty",), " \n": ("empty",), "a\0b": ("NUL",), "x" * ((1 << 20) + 1): ("1048577", "1048576")}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.mark.slow
def test_all_tools_answer_and_the_conversation_continues(stage: Stage) -> None:
    (stage.work / "notes.txt").write_text("tide 2.4\n", encoding="utf-8")

    async def play(call: Talk) -> None:
        tools = sorted(tool.name for tool in call.toolbox.tools if tool.server)
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
        assert without_time(first) == run_shape("héllo; rm -rf ~", "You said: héllo; rm -rf ~")
        second = await call("execute_claude_with_context", prompt="How high?", file_path="notes.txt")
        sent = "How high?\n\nThe file notes.txt:\n\n```\ntide 2.4\n```\n"
        assert without_time(second) == run_shape("How high?", f"You said: {sent}", context_file="notes.txt")
        assert await call("get_current_session") == {"success": True, "session_id": "session-2", "has_session": True}
        runs = [{**first, "session_id": "session-1"}, {**second, "session_id": "session-2"}]
        assert await call("get_execution_history", limit=1) == {
            "success": True,
            "history": runs[1:],
            "total_entries": 2,
            "current_session_id": "session-2",
        }
        assert (await call("get_execution_history"))["history"] == runs
        reset = await call("reset_session")
        assert reset.pop("message") and reset == {"success": True, "old_session_id": "session-2"}
        cleared = await call("clear_execution_history")
        assert cleared.pop("message") and cleared == {"success": True, "cleared_count": 2}
        assert await call("get_execution_history") == {
            "success": True,
            "history": [],
            "total_entries": 0,
            "current_session_id": None,
        }
        assert await call("execute_claude", prompt="again")
        assert await call("execute_claude", prompt="and on")

    stage.talk(play, over_stdio=True)
    assert [call["arguments"] for call in stage.calls] == [
        [*DANGEROUS, "-p"],
        [*DANGEROUS, "--resume", "session-1", "-p"],
        [*DANGEROUS, "-p"],
        [*DANGEROUS, "--resume", "session-3", "-p"],
    ]
    assert {call["folder"] for call in stage.calls} == {str(stage.work)}


def test_permission_mode_replaces_the_dangerous_flag(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        assert (await call("execute_claude", prompt="hello"))["success"]

    stage.talk(play, "--permission-mode", "acceptEdits")
    (only,) = stage.calls
    assert only["arguments"] == ["--permission-mode", "acceptEdits", "--output-format", "json", "-p"]


@pytest.mark.slow
def test_in_an_empty_folder_no_settings_of_a_project_are_read(stage: Stage) -> None:
    """Nor what an earlier run has left there; the files of --folder can still be added to a prompt."""
    empty = stage.state.parent / "empty"
    (empty / ".claude").mkdir(parents=True)
    (empty / ".claude/settings.json").write_text("{}", encoding="utf-8")
    (stage.work / "notes.txt").write_text("Low tide at noon.", encoding="utf-8")

    async def play(call: Talk) -> None:
        await call("execute_claude_with_context", prompt="hello", file_path="notes.txt")

    stage.talk(play, "--empty-folder")
    [run] = stage.calls
    assert (run["folder"], [*empty.iterdir()]) == (str(empty), [])
    assert "Low tide at noon." in run["prompt"]
    stage.talk(play)
    assert stage.calls[-1]["folder"] == str(stage.work)


def test_a_failed_run_names_its_cause(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        for prompt, words in (FAILURES | NOT_SENT).items():
            assert_failed(await call("execute_claude", prompt=prompt), prompt, *words)
        for timeout in (0, -1, 24 * 3600 + 1):
            assert_failed(await call("execute_claude", prompt="hello", timeout=timeout), "hello", "timeout", "86400")
        assert (await call("execute_claude", prompt="hello"))["success"]

    stage.talk(play)
    assert stage.calls[-1]["arguments"] == [*DANGEROUS, "-p"]  # the session of a failed run is not resumed
    assert [call["prompt"] for call in stage.calls] == [*FAILURES, "hello"]


def test_session_of_a_verbose_answer_is_used_and_never_read_as_an_option(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        assert (await call("execute_claude", prompt="option"))["success"]
        assert (await call("get_current_session"))["session_id"] is None
        assert (await call("execute_claude", prompt="verbose"))["success"]
        assert (await call("get_current_session"))["session_id"] == "session-of-a-list"

    stage.talk(play)


PROMPTS = {
    "like an option": "--version",
    "a command for a shell": "$(touch owned); `touch owned` | touch owned",
    "quotes and newlines": "\"one\"\n'two'\r\n\tthree \\ four",
    "200 kB": "word " * 40_000,
    "other scripts": "東京 🗼 \u200f שלום",
}


@pytest.mark.slow
def test_a_prompt_reaches_the_cli_unchanged(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        for prompt in PROMPTS.values():
            assert (await call("execute_claude", prompt=prompt))["response"] == f"You said: {prompt}"

    stage.talk(play)
    assert [call["prompt"] for call in stage.calls] == list(PROMPTS.values())
    assert not any(prompt in call["arguments"] for call in stage.calls for prompt in PROMPTS.values())
    assert not list(stage.work.iterdir())


def test_a_missing_cli_is_searched_for_again_by_each_run(stage: Stage) -> None:
    program = stage.bin / "claude"
    # in this process, with places of its own, so that no real claude runs
    find = partial(find_claude, stage.environment, stage.place)
    session = ClaudeSession(find, [stage.work], RunHistory(stage.state), environment=stage.environment)

    async def ask(client: Client, prompt: str) -> Shape:
        result = await client.call_tool("execute_claude", {"prompt": prompt})
        shape: Shape = result.structured_content or {}
        assert result.is_error is not shape["success"]
        return shape

    async def go() -> None:
        async with Client(build_server(session), read_timeout_seconds=20) as client:
            program.unlink()
            assert_failed(await ask(client, "hello"), "hello", "not found", "/usr/local/bin", "npm", "CLAUDE_PATH")
            stage.install(stage.bin)
            assert (await ask(client, "one"))["success"]
            program.unlink()
            stage.install(stage.home / ".nvm/versions/node/v20.1.0/bin")
            assert (await ask(client, "two"))["success"]
            history = await client.call_tool("get_execution_history", {})
            assert [run["prompt"] for run in history.structured_content["history"]] == ["one", "two"]

    asyncio.run(asyncio.wait_for(go(), 40))


@pytest.mark.slow
def test_history_and_session_are_kept_on_disk_with_owner_only_modes(stage: Stage) -> None:
    async def first(call: Talk) -> None:
        await call("execute_claude", prompt="one")
        await call("execute_claude", prompt="fail")

    async def second(call: Talk) -> None:
        kept = await call("get_execution_history")
        assert [(run["prompt"], run["session_id"]) for run in kept["history"]] == [("one", "session-1"), ("fail", None)]
        assert kept["current_session_id"] == "session-1"
        await call("execute_claude", prompt="three")
        text = (await call.toolbox.read_attachment("claude://statistics")).text
        totals = json.loads(text)
        assert totals.pop("seconds") > 0
        assert totals == {"runs": 3, "failed": 1, "cost_usd": 0.5, "input_tokens": 32, "output_tokens": 14}

    stage.talk(first)
    stage.talk(second)
    assert stage.calls[-1]["arguments"] == [*DANGEROUS, "--resume", "session-1", "-p"]
    assert stat.S_IMODE(stage.state.stat().st_mode) == 0o600
    assert stat.S_IMODE(stage.state.parent.stat().st_mode) == 0o700


@pytest.mark.slow
def test_history_keeps_the_newest_hundred_runs_and_truncates_long_texts(stage: Stage) -> None:
    async def first(call: Talk) -> None:
        await call("execute_claude", prompt="word " * 4000)

    async def second(call: Talk) -> None:
        await call("execute_claude", prompt="new")
        kept = await call("get_execution_history", limit=500)
        assert [run["prompt"] for run in kept["history"]] == [*(f"run {i}" for i in range(50, 149)), "new"]
        assert kept["total_entries"] == 100

    stage.talk(first)
    state = json.loads(stage.state.read_text(encoding="utf-8"))
    (run,) = state["runs"]
    assert run["prompt"].endswith("word word \n[10000 characters left out]")
    state["runs"] = [{**run, "prompt": f"run {i}"} for i in range(149)]
    stage.state.write_text(json.dumps(state), encoding="utf-8")
    stage.talk(second)


def test_a_damaged_history_is_put_aside_unchanged(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    damaged = {'{"runs": [', "[]", '{"runs": [{"prompt": 1}]}', '{"runs": [], "session_id": "--x"}', "[" * 100_000}
    stage.state.parent.mkdir(parents=True)
    for text in damaged:
        stage.state.write_text(text, encoding="utf-8")
        assert RunHistory(stage.state).read() == HistoryState()
    asides = list(stage.state.parent.glob("history.json.damaged-*"))
    assert {aside.read_text(encoding="utf-8") for aside in asides} == damaged
    assert all(aside.name in caplog.text for aside in asides)

    async def play(call: Talk) -> None:
        assert (await call("execute_claude", prompt="hello"))["success"]
        assert (await call("get_execution_history"))["total_entries"] == 1

    stage.talk(play)


def test_a_history_that_is_a_pipe_or_a_link_is_not_read(stage: Stage, tmp_path: Path) -> None:
    stage.state.parent.mkdir(parents=True)
    os.mkfifo(stage.state)
    assert RunHistory(stage.state).read() == HistoryState()
    stage.state.unlink()
    (tmp_path / "theirs").write_text("{}", encoding="utf-8")
    stage.state.symlink_to(tmp_path / "theirs")
    assert RunHistory(stage.state).read() == HistoryState()
    assert list(stage.state.parent.iterdir()) == [stage.state], "it is not put aside as damaged"


def test_a_history_that_cannot_be_written_stays_in_memory(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.state.mkdir(parents=True)
    history = RunHistory(stage.state)
    for number in range(2):
        history.update(lambda kept, number=number: replace(kept, runs=(*kept.runs, {"prompt": number})))  # type: ignore[misc]
    assert [run["prompt"] for run in history.read().runs] == [0, 1]
    assert caplog.text.count("cannot be written") == 1

    async def play(call: Talk) -> None:
        for prompt in ("one", "two"):
            assert (await call("execute_claude", prompt=prompt))["success"]
        kept = await call("get_execution_history")
        assert [run["prompt"] for run in kept["history"]] == ["one", "two"]

    stage.talk(play)
    assert stage.calls[-1]["arguments"] == [*DANGEROUS, "--resume", "session-1", "-p"]


@pytest.mark.slow
def test_only_files_of_the_given_folders_are_sent(stage: Stage, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "far.txt").write_text("far", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (stage.home / "secret.txt").write_text("secret", encoding="utf-8")
    work = stage.work
    for name, target in {
        "out": "../secret.txt",
        "zeros": "/dev/zero",
        "round": "../other/far.txt",
        "loop": "loop",
    }.items():
        (work / name).symlink_to(target)
    (work / ".ssh").mkdir()
    (work / ".ssh/id_ed25519").write_text("secret", encoding="utf-8")
    (work / "picture.png").write_bytes(b"\x89PNG\0\xff")
    (work / "latin.txt").write_bytes(b"caf\xe9")
    (work / "most.txt").write_text("x" * MAX_FILE_BYTES, encoding="utf-8")
    (work / "more.txt").write_text("x" * (MAX_FILE_BYTES + 1), encoding="utf-8")
    with (work / "huge.txt").open("wb") as file:
        file.truncate(1 << 30)
    os.mkfifo(work / "pipe")
    outside = ["../secret.txt", str(tmp_path / "secret.txt"), "~/secret.txt", "out", "/etc/passwd", "zeros"]
    if HAS_PROC:
        outside.append("/proc/self/environ")
    refused = {
        **dict.fromkeys(outside, (f"outside the folders {work}, {other}",)),
        "no.txt": ("no file",),
        ".ssh/id_ed25519": ("secrets",),
        "loop": ("followed",),
        "a\0b": ("followed",),
        "x" * 5000: (f"'{'x' * 100}'", "followed"),
        ".": ("not a file",),
        "pipe": ("not a file",),
        "picture.png": ("not a text file",),
        "latin.txt": ("not a text file",),
        "more.txt": ("too large", "512 KB"),
        "huge.txt": ("too large",),
    }

    async def play(call: Talk) -> None:
        for path, words in refused.items():
            answer = await call("execute_claude_with_context", prompt="Read.", file_path=path)
            assert_failed(answer, "Read.", path[:100], *words, context_file=path)
            assert answer["execution_time"] < 5
        for path in ("most.txt", "round", str(other / "far.txt")):
            assert (await call("execute_claude_with_context", prompt="Read.", file_path=path))["success"]
        assert (await call("get_execution_history"))["total_entries"] == 3

    stage.talk(play, "--folder", str(other))
    assert "far" in stage.calls[-1]["prompt"]


@pytest.mark.proc
def test_a_file_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(FileError, match="cannot be read"):
        read_text([Path("/proc/self")], "/proc/self/mem")
