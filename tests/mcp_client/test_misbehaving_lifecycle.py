"""Servers that hang, die, stop, or stay: the call ends, the processes do too, and the next call works."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from cpu_time import allow_s
from processes import is_there
from rkllm_chat.core.messages import ToolResult
from rkllm_chat.mcp_client.process.network_variables import NETWORK_VARIABLES
from rkllm_chat.mcp_client.process.start import MARK_VARIABLE
from rkllm_chat.mcp_client.toolbox import Toolbox

from .faults import (
    Trial,
    act_and_echo,
    assert_failed,
    assert_one_line,
    chaos,
    left_behind,
    try_each,
    try_mode,
    try_modes,
    wait_for,
)

# Mode -> how the server ends in a call.
DYING = {
    "crash-mid-call": "I am dying",
    "segv-mid-call": "SIGSEGV",
    "exit-zero-on-call": "exited with 0",
    "killed-mid-call": "SIGKILL",
    "crash-once": "exited with 7",
    "partial-then-die": "exited with 7",
    "crash-with-child": "exited with 4",  # the child has its pipes
}


@pytest.mark.slow
def test_a_server_that_dies_in_a_call_fails_it_at_once_and_is_started_again(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, int, str, int, str]:
        result = await trial.act()
        calls = len(trial.heard("tools/call"))
        echo, lives = await trial.echo(), trial.lives()
        return result, calls, echo, lives, (await trial.act()).status

    for mode, (result, calls, echo, lives, again) in try_modes(tmp_path, DYING, go).items():
        assert_failed(result, 0.3)
        assert DYING[mode] in result.text
        assert (calls, echo, lives) == (1, "still here", 2)
        assert again == ("completed" if mode == "crash-once" else "failed")


@pytest.mark.slow
def test_a_call_that_is_cancelled_while_its_server_restarts_leaves_one_server(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, int]:
        await trial.act()
        waiting = asyncio.create_task(trial.act())
        await wait_for(lambda: trial.lives() == 2)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        return await trial.echo(), trial.lives()

    assert try_mode(tmp_path, "slow-restart", go, delay_s=0.3) == ("still here", 2)


def test_closing_cancels_a_restart_that_has_not_begun(tmp_path: Path) -> None:
    async def go() -> tuple[str, int]:
        trial = Trial(Toolbox([chaos(tmp_path, "crash-once")], tmp_path / "logs"), tmp_path)
        await trial.toolbox.open()
        await trial.act()
        echo = trial.tool("echo")
        waiting = asyncio.create_task(trial.toolbox.call(echo, {}, lambda *_: None))
        await asyncio.sleep(0)  # it waits for the server to be started again now
        await trial.toolbox.aclose()
        return (await waiting).status, trial.lives()

    status, lives = asyncio.run(go())
    assert left_behind(tmp_path, "chaos") == []
    assert (status, lives) == ("failed", 1)


@pytest.mark.slow
def test_restarts_of_a_server_that_always_dies_are_delayed_ever_longer(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[list[ToolResult], list[float]]:
        results = [await trial.act() for _ in range(3)]
        return results, [entry["at"] for entry in trial.events("start")]

    configs = [chaos(tmp_path, mode, mode) for mode in ("crash-every", "crash-at-every-restart")]
    for results, starts in try_each(tmp_path, configs, go).values():
        for result in results:
            assert result.status == "failed"
            assert_one_line(result.text, result.server)
        assert starts[-1] - starts[0] >= 0.5 + 1.0
        assert len(starts) <= 4


def test_calls_that_wait_for_the_same_restart_share_its_outcome(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[list[ToolResult], int]:
        await trial.act()
        return list(await asyncio.gather(*(trial.act() for _ in range(5)))), trial.lives()

    results, lives = try_mode(tmp_path, "crash-at-every-restart", go)
    for result in results:
        assert_failed(result, 1.0)
    assert lives == 2


@pytest.mark.slow
def test_opening_a_server_several_times_at_once_starts_it_once(tmp_path: Path) -> None:
    async def go(trial: Trial) -> int:
        await asyncio.gather(*(trial.toolbox.open() for _ in range(3)))
        return trial.lives()

    assert try_mode(tmp_path, "hang-on-init", go, connect_s=0.5) == 2


def test_opening_a_server_that_is_open_starts_nothing(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, int]:
        await trial.toolbox.open()
        return (await trial.act()).status, trial.lives()

    assert try_mode(tmp_path, "ok", go) == ("completed", 1)


def test_a_server_that_dies_while_idle_is_noticed_and_started_when_needed(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, float, str, int]:
        status = (await trial.act()).status
        seconds = await wait_for(lambda: not trial.is_connected)
        return status, seconds, await trial.echo(), trial.lives()

    status, seconds, echo, lives = try_mode(tmp_path, "die-between-calls", go)
    assert (status, echo, lives) == ("completed", "still here", 2)
    assert seconds <= 0.1 + 1.0


def test_a_server_that_dies_right_after_its_start_is_told_as_failed(tmp_path: Path) -> None:
    async def go(trial: Trial) -> str:
        await wait_for(lambda: not trial.is_connected)
        return trial.failure.message

    told = try_mode(tmp_path, "die-after-list", go)
    assert "exited with 4" in told and "I am dying" in told
    assert_one_line(told)


@pytest.mark.slow
def test_a_server_that_stopped_or_does_not_read_times_out_and_is_replaced(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, str]:
        result = await trial.act()
        if trial.server == "restarted":
            await asyncio.wait_for(trial.toolbox.restart(trial.server), allow_s(4))
        else:
            await trial.see_all_end()
        return result, await trial.echo()

    modes = {"stopped": "sigstop-self", "deaf": "deaf", "restarted": "sigstop-self"}
    configs = [chaos(tmp_path, mode, name, timeout_s=0.4) for name, mode in modes.items()]
    for result, echo in try_each(tmp_path, configs, go).values():
        assert_failed(result, 0.4)
        assert echo == "still here"


def test_a_call_that_hangs_is_cancelled_at_the_server_which_lives_on(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, list[object], list[object], str, int]:
        result = await trial.act()
        echo = await trial.echo()
        asked = [message["id"] for message in trial.heard("tools/call")][:1]
        cancelled = [message["params"]["requestId"] for message in trial.heard("notifications/cancelled")]
        return result, asked, cancelled, echo, trial.lives()

    result, asked, cancelled, echo, lives = try_mode(tmp_path, "hang-call", go, timeout_s=0.4)
    assert_failed(result, 0.4)
    assert "did not answer within 0.4 s" in result.text
    assert cancelled == asked
    assert (echo, lives) == ("still here", 1)


@pytest.mark.slow
def test_progress_extends_a_call_only_to_its_longest_time(tmp_path: Path) -> None:
    result, echo = try_mode(tmp_path, "progress-forever", act_and_echo, timeout_s=0.05, delay_s=0.01)
    assert_failed(result, 20 * 0.05)
    assert result.seconds >= 2 * 0.05
    assert echo == "still here"


def test_an_answer_to_a_cancelled_call_is_dropped(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[float, list[str]]:
        waiting = asyncio.create_task(trial.act())
        await wait_for(lambda: trial.heard("tools/call"))
        waiting.cancel()
        seconds = await wait_for(waiting.cancelled)
        await wait_for(lambda: trial.heard("notifications/cancelled"))
        return seconds, [await trial.echo("one"), await trial.echo("two")]

    seconds, echoes = try_mode(tmp_path, "late-reply-after-cancel", go)
    assert seconds <= allow_s(0.3)
    assert echoes == ["one", "two"]


@pytest.mark.slow
def test_a_server_that_closes_its_output_is_ended_and_replaced(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, str]:
        result = await trial.act()
        await trial.see_all_end(4)
        return result, await trial.echo()

    result, echo = try_mode(tmp_path, "close-stdout-but-live", go)
    assert_failed(result, 1.0)
    assert "closed its standard output" in result.text
    assert echo == "still here"


def test_a_server_inherits_little_of_this_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"SECRET_KEY": "1", "LC_TIME": "C", "LANG": "C.UTF-8", "HOME": "/home/me", "TMPDIR": "/tmp"}
    for name, value in {**ours, "SHELL": "() { :; }; echo a function"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "there").mkdir()
    own = {"OWN": "2", "HOME": "/elsewhere"}
    with (tmp_path / "open").open("w", encoding="utf-8") as file:
        os.set_inheritable(file.fileno(), True)

        async def look(trial: Trial) -> dict[str, Any]:
            return trial.events("start")[0]

        seen = try_mode(tmp_path, "ok", look, env=own, cwd=f"{tmp_path}/there")
    names = ("LOGNAME", "PATH", "TERM", "TZ", "USER", *NETWORK_VARIABLES)
    kept = {name for name in os.environ if name in names or name.startswith("LC_")}
    assert set(seen["environment"]) == {*kept, "LANG", "HOME", "TMPDIR", "OWN", "PYTHONPATH", MARK_VARIABLE}
    assert {"LC_TIME": "C", **own}.items() <= seen["environment"].items()
    assert (seen["descriptors"], seen["folder"], seen["is_leader"]) == ([0, 1, 2], f"{tmp_path}/there", True)
    assert oct(seen["umask"]) == "0o77"


@pytest.mark.slow
@pytest.mark.parametrize(
    "modes",
    [
        ("fork-child", "fork-child-and-stay", "crash-with-child"),
        pytest.param(("fork-child-setsid", "crash-with-setsid"), marks=pytest.mark.proc),
    ],
    ids=["own group", "other group"],
)
def test_the_children_of_a_server_end_with_it(modes: tuple[str, ...], tmp_path: Path) -> None:
    async def go(trial: Trial) -> int:
        await trial.act()
        return len(trial.events("child"))

    assert try_modes(tmp_path, modes, go) == dict.fromkeys(modes, 1)


def test_several_restarts_at_once_give_one_server(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, int]:
        await asyncio.gather(*(trial.toolbox.restart("chaos") for _ in range(3)), trial.echo(), trial.act())
        pids = [entry["pid"] for entry in trial.events("start")]
        return await trial.echo(), sum(map(is_there, pids))

    assert try_mode(tmp_path, "ok", go) == ("still here", 1)


@pytest.mark.slow
def test_opening_can_be_cancelled_and_closing_done_twice(tmp_path: Path) -> None:
    async def go() -> bool:
        trial = Trial(Toolbox([chaos(tmp_path, "slow-start", delay_s=20)], tmp_path / "logs"), tmp_path)
        opening = asyncio.create_task(trial.toolbox.open())
        await wait_for(trial.lives)
        opening.cancel()
        await asyncio.wait([opening])
        await asyncio.wait_for(asyncio.gather(trial.toolbox.aclose(), trial.toolbox.aclose()), 3)
        await trial.toolbox.aclose()
        return trial.is_connected

    assert asyncio.run(go()) is False
    assert left_behind(tmp_path, "chaos") == []


def test_our_own_lines_in_its_log_are_not_quoted_as_its_last_words(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, str]:
        return (await trial.act()).text, trial.logs

    text, logs = try_mode(tmp_path, "crash-speechless", go)
    assert "[rkllm-chat]" in logs
    assert text.endswith("(it exited with 7).")


def test_half_a_line_waits_for_its_rest_and_blocks_no_other_server(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, bool]:
        waiting = asyncio.create_task(trial.act())
        await trial.echo(server="fine")
        was_waiting = not waiting.done()
        return await waiting, was_waiting

    result, was_waiting = try_mode(tmp_path, "partial-line", go, delay_s=0.4)
    assert (result.status, result.text) == ("completed", "whole")
    assert was_waiting and result.seconds >= 0.4
