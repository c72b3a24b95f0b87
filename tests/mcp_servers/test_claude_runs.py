"""How the claude server runs the CLI: one run at a time, ended with its children; and where it finds the CLI."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from mcp_client.faults import wait_for
from mcp_servers.claude_stage import Stage, Talk, assert_failed
from mcp_servers.serving import LIMIT_S, serve
from processes import find_processes, is_there
from rkllm_chat.mcp_client.process.process_tree import read_stat
from rkllm_chat.mcp_client.toolbox import Toolbox
from rkllm_chat.mcp_servers.claude.find_cli import INSTALL_FOLDERS, find_claude


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def read_pids(stage: Stage) -> list[int]:
    """The processes of a run that sleeps, once they exist."""
    await wait_for((stage.home / "pids").exists)
    return [int(pid) for pid in (stage.home / "pids").read_text(encoding="utf-8").split()]


@pytest.mark.slow  # the shortest timeout is a second
def test_a_run_that_times_out_is_ended_with_its_children(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        late = await call("execute_claude", prompt="sleep well", timeout=1)
        assert_failed(late, "sleep well", "time limit of 1 seconds")
        assert late["execution_time"] >= 1
        pids = await read_pids(stage)
        assert len(pids) == 2 and not any(map(is_there, pids))
        assert (await call("execute_claude", prompt="hello"))["success"]

    stage.talk(play)


@pytest.mark.slow
@pytest.mark.proc
def test_a_cancelled_run_is_ended_with_its_children_and_recorded(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        running = asyncio.create_task(call("execute_claude", prompt="sleep well"))
        pids = await read_pids(stage)
        assert all(map(is_there, pids))
        running.cancel()
        await wait_for(lambda: not any(map(is_there, pids)))
        assert (await call("execute_claude", prompt="hello"))["success"]
        cancelled, hello = (await call("get_execution_history"))["history"]
        assert (cancelled["prompt"], cancelled["success"]) == ("sleep well", False)
        assert "cancelled" in cancelled["error"] and hello["success"]

    stage.talk(play)


@pytest.mark.slow
@pytest.mark.proc
def test_a_killed_stdio_server_ends_its_run(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        running = asyncio.create_task(call.call("execute_claude", prompt="sleep well"))
        pids = await read_pids(stage)
        os.kill(int(read_stat(pids[0])[1]), signal.SIGKILL)
        await wait_for(lambda: not any(map(is_there, pids)))
        assert (await running).status == "failed"

    stage.talk(play, over_stdio=True)


@pytest.mark.slow
@pytest.mark.proc
def test_a_terminated_http_server_ends_its_run(stage: Stage) -> None:
    async def go() -> None:
        server = served.entry("claude")
        async with Toolbox([server], stage.place / "logs") as toolbox:
            running = asyncio.create_task(Talk(toolbox, server).call("execute_claude", prompt="sleep well"))
            pids = await read_pids(stage)
            served.process.terminate()
            await wait_for(lambda: not any(map(is_there, pids)))
            assert (await running).status == "failed"

    with serve("claude", env=stage.environment, cwd=stage.work) as served:
        asyncio.run(asyncio.wait_for(go(), LIMIT_S))


def test_processes_that_a_run_leaves_behind_are_ended_and_not_waited_for(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        assert (await call("execute_claude", prompt="leave it"))["response"] == "done"
        assert not any(map(is_there, await read_pids(stage)))

    stage.talk(play)


@pytest.mark.slow
def test_runs_are_queued_in_order_and_a_cancelled_one_leaves_the_queue(stage: Stage) -> None:
    os.mkfifo(stage.home / "go")

    async def play(call: Talk) -> None:
        first = asyncio.create_task(call("execute_claude", prompt="wait for it"))
        await wait_for(lambda: stage.calls)
        waiting = []
        for number in (1, 2, 3):
            waiting.append(asyncio.create_task(call("execute_claude", prompt=f"request {number}")))
            await call.wait_for_progress(f"waits for {number} before it")
        waiting[1].cancel()
        assert len(stage.calls) == 1
        await asyncio.to_thread((stage.home / "go").write_text, "gone")
        answers = await asyncio.gather(first, waiting[0], waiting[2])
        assert [answer["response"] for answer in answers] == ["gone", "You said: request 1", "You said: request 3"]

    stage.talk(play)
    assert [call["arguments"][3:] for call in stage.calls] == [
        ["-p"],
        ["--resume", "session-1", "-p"],
        ["--resume", "session-2", "-p"],
    ]


def test_a_reset_holds_also_for_the_run_under_way(stage: Stage) -> None:
    os.mkfifo(stage.home / "go")

    async def play(call: Talk) -> None:
        assert (await call("execute_claude", prompt="hello"))["success"]
        running = asyncio.create_task(call("execute_claude", prompt="wait for it"))
        await wait_for(lambda: len(stage.calls) == 2)
        assert (await call("reset_session"))["old_session_id"] == "session-1"
        await asyncio.to_thread((stage.home / "go").write_text, "gone")
        assert (await running)["success"]
        assert (await call("get_current_session"))["has_session"] is False

    stage.talk(play)


@pytest.mark.slow
@pytest.mark.proc
def test_a_prompt_is_in_no_process_list(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        running = asyncio.create_task(call.call("execute_claude", prompt="sleep on the secret of Husum"))
        pids = await read_pids(stage)
        assert pids[0] in find_processes("--dangerously-skip-permissions")
        assert find_processes("secret of Husum") == []
        running.cancel()

    stage.talk(play)


@pytest.mark.parametrize("place", INSTALL_FOLDERS)
def test_claude_is_found_where_installers_put_it(place: str, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    environment = {"HOME": str(stage.home), "PATH": str(tmp_path / "empty"), "CLAUDE_PATH": str(stage.bin)}
    named = str(stage.bin / "claude")
    folder = place.replace("~", str(stage.home)).replace("*", "v20.1.0").removeprefix("/")
    program = stage.install(tmp_path / folder if place.startswith("/") else Path("/") / folder)
    assert find_claude(environment, tmp_path) == str(program)
    program.chmod(0o644)  # not executable
    assert find_claude(environment, tmp_path) == named
    assert find_claude({**environment, "PATH": str(stage.bin)}, tmp_path) == named


def test_the_path_has_precedence_and_of_several_nodes_the_newest(stage: Stage, tmp_path: Path) -> None:
    bare = {"HOME": str(stage.home), "PATH": ""}
    for version in ("v9.11.2", "v22.3.0", "v22.11.0"):
        stage.install(stage.home / f".nvm/versions/node/{version}/bin")
    newest = stage.home / ".nvm/versions/node/v22.11.0/bin/claude"
    assert find_claude(bare, tmp_path) == str(newest)
    assert find_claude({**bare, "PATH": str(stage.bin)}, tmp_path) == str(stage.bin / "claude")


@pytest.mark.parametrize("named", ["bin", "bin/claude"])
def test_claude_path_names_the_program_or_its_folder(named: str, stage: Stage, tmp_path: Path) -> None:
    environment = {"HOME": str(stage.home), "PATH": "", "CLAUDE_PATH": str(tmp_path / named)}
    assert find_claude(environment, tmp_path) == str(stage.bin / "claude")
