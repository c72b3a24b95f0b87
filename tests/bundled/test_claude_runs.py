"""How the claude server runs the CLI: one at a time, told of, ended with its children; and which files go along."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from claude_stage import LIMIT_S, Stage, Talk, run_shape, timeless
from rkllm_chat.bundled.claude.search import find_claude
from rkllm_chat.config import ServerConfig
from rkllm_chat.errors import StartError
from rkllm_chat.servers.processes import list_processes, read_stat
from rkllm_chat.servers.toolbox import Toolbox
from stage import PROGRAM

END_S = 5.0
Found = TypeVar("Found")
WSL = """#!/bin/sh
# stands for wsl: notes how it is called; a `bash -lc` it runs in a shell where `which` and `whoami` are of the test
printf '%s\\n' "$*" >>"$HOME/wsl.log"
shift
[ "$1 $2" = "bash -lc" ] || exit 9
shift 2
case "$1" in
    "which claude") cat "$HOME/which" 2>/dev/null ;;
    "whoami") echo mara ;;
    "ls -1d /home/mara/.nvm/versions/node/*/bin/claude") cat "$HOME/listed" 2>/dev/null ;;
    *) line=$1; shift; exec bash -c "$line" "$@" ;;
esac
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def read_command_lines() -> dict[int, bytes]:
    """Of all processes, as `ps` shows them."""
    lines: dict[int, bytes] = {}
    for pid in list_processes():
        with suppress(OSError):  # it has gone meanwhile
            lines[pid] = Path(f"/proc/{pid}/cmdline").read_bytes()
    return lines


def is_running(pid: int) -> bool:
    try:
        return read_stat(pid)[0] != "Z"
    except OSError:
        return False


async def read_pids(stage: Stage) -> list[int]:
    """The processes of a run that sleeps, once they are there."""
    return await until(lambda: [int(pid) for pid in (stage.home / "pids").read_text().split()])


async def until(look: Callable[[], Found]) -> Found:
    """What `look` gives as soon as it gives something; what it raises for want of a file is waited out."""
    end = asyncio.get_running_loop().time() + END_S
    while True:
        try:
            if found := look():
                return found
        except OSError:
            pass
        assert asyncio.get_running_loop().time() < end, "nothing came"
        await asyncio.sleep(0.02)


def test_at_its_timeout_a_run_is_ended_with_its_children_and_the_next_one_goes(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        late = await call("execute_claude", prompt="sleep well", timeout=1)
        error = "The time limit of 1 seconds ran out; claude was ended."
        assert timeless(late) == run_shape("sleep well", None, error)
        assert late["execution_time"] >= 1
        pids = await read_pids(stage)
        assert len(pids) == 2 and not any(map(is_running, pids))
        assert (await call("execute_claude", prompt="hello"))["success"]

    stage.talk(play)


def test_a_request_that_is_cancelled_ends_the_run_with_its_children_and_is_remembered(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        running = asyncio.create_task(call("execute_claude", prompt="sleep well"))
        pids = await read_pids(stage)
        assert all(map(is_running, pids))
        running.cancel()
        await until(lambda: not any(map(is_running, pids)))
        assert (await call("execute_claude", prompt="hello"))["success"]
        cancelled, hello = (await call("get_execution_history"))["history"]
        assert (cancelled["prompt"], cancelled["error"]) == ("sleep well", "The run was cancelled.")
        assert hello["success"]

    stage.talk(play)


def test_a_server_that_is_killed_takes_the_run_with_it(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        running = asyncio.create_task(call.result("execute_claude", prompt="sleep well"))
        pids = await read_pids(stage)
        server = int(read_stat(pids[0])[1])
        os.kill(server, signal.SIGKILL)
        await until(lambda: not any(map(is_running, pids)))
        assert (await running).status == "failed"

    stage.talk(play)


def test_a_server_over_http_that_is_ended_takes_the_run_with_it(stage: Stage) -> None:
    command = [*PROGRAM, "serve", "claude", "--folder", str(stage.work), "--http", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8", env=stage.environment)

    async def go() -> None:
        assert process.stderr
        url = process.stderr.readline().split()[-1]
        async with Toolbox([ServerConfig("claude", url=url, transport="http")], stage.place / "logs") as box:
            call = Talk(box)
            assert (await call("execute_claude", prompt="hello"))["response"] == "You said: hello"
            running = asyncio.create_task(call.result("execute_claude", prompt="sleep well"))
            pids = await read_pids(stage)
            process.terminate()
            await until(lambda: not any(map(is_running, pids)))
            assert (await running).status == "failed"

    try:
        asyncio.run(asyncio.wait_for(go(), LIMIT_S))
    finally:
        process.kill()
        process.communicate()


def test_what_a_run_leaves_behind_neither_holds_it_up_nor_stays(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        assert (await call("execute_claude", prompt="leave it"))["response"] == "done"
        assert not any(map(is_running, await read_pids(stage)))

    stage.talk(play)


def test_runs_go_one_at_a_time_in_the_order_they_came_and_are_told_of(stage: Stage) -> None:
    os.mkfifo(stage.home / "go")

    async def play(call: Talk) -> None:
        first = asyncio.create_task(call("execute_claude", prompt="wait for it"))
        await call.wait_for("claude runs")
        second = asyncio.create_task(call("execute_claude", prompt="second"))
        await call.wait_for("waits for 1 before it")
        third = asyncio.create_task(call("execute_claude", prompt="third"))
        await call.wait_for("waits for 2 before it")
        await call.wait_for("claude runs")  # the first is told of again and again
        assert len(stage.calls) == 1
        await asyncio.to_thread((stage.home / "go").write_text, "gone")
        answers = await asyncio.gather(first, second, third)
        assert [one["response"] for one in answers] == ["gone", "You said: second", "You said: third"]

    stage.talk(play)
    assert [one["prompt"] for one in stage.calls] == ["wait for it", "second", "third"]
    assert [one["arguments"][3:] for one in stage.calls] == [
        ["-p"],
        ["--resume", "session-1", "-p"],
        ["--resume", "session-2", "-p"],
    ]


def test_a_waiting_request_that_is_cancelled_leaves_the_queue(stage: Stage) -> None:
    os.mkfifo(stage.home / "go")

    async def play(call: Talk) -> None:
        first = asyncio.create_task(call("execute_claude", prompt="wait for it"))
        await call.wait_for("claude runs")
        second = asyncio.create_task(call("execute_claude", prompt="second"))
        await call.wait_for("waits for 1 before it")
        second.cancel()
        third = asyncio.create_task(call("execute_claude", prompt="third"))
        await call.wait_for("waits for 1 before it")
        await asyncio.to_thread((stage.home / "go").write_text, "gone")
        assert (await first)["success"] and (await third)["success"]

    stage.talk(play)
    assert [one["prompt"] for one in stage.calls] == ["wait for it", "third"]


def test_a_reset_while_a_run_is_under_way_holds(stage: Stage) -> None:
    os.mkfifo(stage.home / "go")

    async def play(call: Talk) -> None:
        assert (await call("execute_claude", prompt="hello"))["success"]
        running = asyncio.create_task(call("execute_claude", prompt="wait for it"))
        await call.wait_for("claude runs")
        assert (await call("reset_session"))["old_session_id"] == "session-1"
        await asyncio.to_thread((stage.home / "go").write_text, "gone")
        assert (await running)["success"]
        assert (await call("get_current_session"))["has_session"] is False

    stage.talk(play)


def test_a_prompt_is_in_no_process_list(stage: Stage) -> None:
    async def play(call: Talk) -> None:
        running = asyncio.create_task(call.result("execute_claude", prompt="sleep on the secret of Husum"))
        pids = await read_pids(stage)
        lines = read_command_lines()
        assert b"--dangerously-skip-permissions" in lines[pids[0]]
        assert not any(b"secret of Husum" in line for line in lines.values())
        running.cancel()

    stage.talk(play)


def test_only_files_of_the_given_folders_go_along(stage: Stage, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "far.txt").write_text("far", encoding="utf-8")
    stage.options = ("--folder", str(other))
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (stage.work / "out.txt").symlink_to(tmp_path / "secret.txt")
    (stage.work / "round.txt").symlink_to(other / "far.txt")
    (stage.work / "loop.txt").symlink_to("loop.txt")
    (stage.work / "picture.png").write_bytes(b"\x89PNG\0\xff")
    (stage.work / "latin.txt").write_bytes(b"caf\xe9")
    (stage.work / "most.txt").write_text("x" * 512 * 1024, encoding="utf-8")
    (stage.work / "more.txt").write_text("x" * (512 * 1024 + 1), encoding="utf-8")
    os.mkfifo(stage.work / "pipe")
    outside = f"is outside the folders {stage.work}, {other}."
    refused = {
        "no.txt": "There is no file 'no.txt'.",
        "../secret.txt": f"'../secret.txt' {outside}",
        str(tmp_path / "secret.txt"): f"'{tmp_path}/secret.txt' {outside}",
        "out.txt": f"'out.txt' {outside}",
        "loop.txt": "'loop.txt' is not a path that can be followed.",
        "a\0b": "'a\0b' is not a path that can be followed.",
        "x" * 5000: f"'{'x' * 100}' is not a path that can be followed.",
        ".": "'.' is not a file.",
        "pipe": "'pipe' is not a file.",
        "picture.png": "'picture.png' is not a text file in UTF-8.",
        "latin.txt": "'latin.txt' is not a text file in UTF-8.",
        "more.txt": "'more.txt' is too large: at most 512 KB are read.",
    }

    async def play(call: Talk) -> None:
        for path, error in refused.items():
            answer = timeless(await call("execute_claude_with_context", prompt="Read.", file_path=path))
            assert answer == run_shape("Read.", None, error, context_file=path)
        for path in ("most.txt", "round.txt", str(other / "far.txt")):
            assert (await call("execute_claude_with_context", prompt="Read.", file_path=path))["success"]
        assert (await call("get_execution_history"))["total_entries"] == 3

    stage.talk(play)
    assert "far" in stage.calls[-1]["prompt"]


def test_a_file_that_cannot_be_read_is_told(stage: Stage) -> None:
    stage.options = ("--folder", "/proc/self")

    async def play(call: Talk) -> None:
        answer = await call("execute_claude_with_context", prompt="Read.", file_path="/proc/self/mem")
        assert answer["error"] == "'/proc/self/mem' cannot be read: Input/output error."

    stage.talk(play)


@pytest.mark.parametrize(
    "place",
    [
        "usr/local/bin",
        "usr/bin",
        "home/.npm-global/bin",
        "home/.yarn/bin",
        "home/.volta/bin",
        "home/.nvm/versions/node/v20.1.0/bin",
        "home/.asdf/installs/nodejs/20.1.0/bin",
        "home/.local/bin",
        "home/.claude/local",
    ],
)
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_claude_is_found_where_installers_put_it_on_linux_macos_and_wsl(
    place: str, platform: str, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    environment = {"HOME": str(stage.home), "PATH": str(tmp_path / "empty"), "CLAUDE_PATH": str(stage.bin)}
    program = stage.install(tmp_path / place)
    assert find_claude(environment, platform, tmp_path) == (str(program),)
    program.chmod(0o644)  # what cannot be started is none
    assert find_claude(environment, platform, tmp_path) == (str(stage.bin / "claude"),)
    assert find_claude({**environment, "PATH": str(stage.bin)}, platform, tmp_path) == (str(stage.bin / "claude"),)


def test_the_path_comes_first_and_of_several_nodes_the_newest(stage: Stage, tmp_path: Path) -> None:
    bare = {"HOME": str(stage.home), "PATH": ""}
    for version in ("v9.11.2", "v22.3.0", "v22.11.0"):
        stage.install(stage.home / f".nvm/versions/node/{version}/bin")
    newest = stage.home / ".nvm/versions/node/v22.11.0/bin/claude"
    assert find_claude(bare, "linux", tmp_path) == (str(newest),)
    assert find_claude({**bare, "PATH": str(stage.bin)}, "linux", tmp_path) == (str(stage.bin / "claude"),)


@pytest.mark.parametrize("named", ["bin", "bin/claude"])
def test_claude_path_may_name_the_program_or_its_folder(named: str, stage: Stage, tmp_path: Path) -> None:
    environment = {"HOME": str(stage.home), "PATH": "", "CLAUDE_PATH": str(tmp_path / named)}
    assert find_claude(environment, "linux", tmp_path) == (str(stage.bin / "claude"),)


def test_on_windows_claude_is_looked_for_inside_wsl(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"HOME": str(stage.home), "PATH": f"{stage.bin}:/usr/bin:/bin"}
    monkeypatch.setenv("PATH", environment["PATH"])
    with pytest.raises(StartError, match="WSL cannot be asked"):
        find_claude(environment, "win32")
    (stage.bin / "wsl").write_text(WSL, encoding="utf-8")
    (stage.bin / "wsl").chmod(0o755)
    with pytest.raises(StartError, match="was not found in WSL"):
        find_claude(environment, "win32")
    folder = "/home/mara/.nvm/versions/node"
    (stage.home / "listed").write_text(f"{folder}/v9.0.0/bin/claude\n{folder}/v20.0.0/bin/claude\n", encoding="utf-8")
    assert find_claude(environment, "win32")[-1] == f"{folder}/v20.0.0/bin/claude"
    (stage.home / "which").write_text("/opt/claude\n", encoding="utf-8")
    assert find_claude(environment, "win32") == ("wsl", "-e", "bash", "-lc", 'exec "$0" "$@"', "/opt/claude")
    asked = (stage.home / "wsl.log").read_text(encoding="utf-8").splitlines()
    assert asked[0] == "-- bash -lc which claude"
