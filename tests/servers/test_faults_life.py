"""However a server hangs, dies or stays, it is told in time and in words, and the other servers go on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.messages import ToolResult
from rkllm_chat.servers.toolbox import Toolbox

from .faults import (
    SLACK,
    Trial,
    assert_one_line,
    assert_told,
    chaos,
    fault,
    is_there,
    left_behind,
    rows,
    try_mode,
    wait_for,
    wait_until_gone,
)


@pytest.mark.parametrize(
    ("mode", "cause"),
    rows(
        ("F32", "crash-mid-call", "exited with 7"),
        ("F32", "segv-mid-call", "SIGSEGV"),
        ("F32", "exit-zero-on-call", "exited with 0"),
        ("F64", "killed-mid-call", "SIGKILL"),
        ("F33", "crash-once", "exited with 7"),
    ),
)
def test_a_server_that_dies_in_a_call_fails_it_at_once_and_is_started_again(
    mode: str, cause: str, tmp_path: Path
) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, int, str, int]:
        result = await trial.act()
        calls = len([message for message in trial.heard("tools/call") if message["params"]["name"] == "act"])
        return result, calls, await trial.echo(), trial.lives()

    result, calls, echo, lives = try_mode(tmp_path, mode, go)
    assert_told(result, 0.3)
    assert cause in result.text
    assert (calls, echo, lives) == (1, "still here", 2)


@fault("F33", "crash-once")
def test_the_next_call_to_a_server_that_died_works(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[str]:
        return [(await trial.act()).status, (await trial.act()).status]

    assert try_mode(tmp_path, mode, go) == ["failed", "completed"]


@fault("F35", "slow-restart")
def test_a_call_that_is_stopped_while_its_server_starts_again_leaves_one_server(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, int]:
        await trial.act()
        waiting = asyncio.create_task(trial.act())
        await wait_for(lambda: trial.lives() == 2)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        return await trial.echo(), trial.lives()

    assert try_mode(tmp_path, mode, go, delay_s=0.5) == ("still here", 2)


@fault("F45", "crash-once")
def test_a_server_that_is_about_to_be_started_again_is_not_when_all_is_closed(mode: str, tmp_path: Path) -> None:
    async def go() -> tuple[str, int]:
        trial = Trial(Toolbox([chaos(tmp_path, mode)], tmp_path / "logs"), tmp_path)
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


@fault("F34", "crash-every", "crash-at-every-restart")
def test_a_server_that_always_dies_is_started_ever_more_slowly(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[list[ToolResult], list[float]]:
        results = [await trial.act() for _ in range(3)]
        return results, [entry["at"] for entry in trial.events("start")]

    results, starts = try_mode(tmp_path, mode, go)
    for result in results:
        assert result.status == "failed"
        assert_one_line(result.text)
    assert starts[-1] - starts[0] >= 0.5 + 1.0
    assert len(starts) <= 4


@fault("F34", "crash-at-every-restart")
def test_calls_that_wait_for_the_same_start_share_its_end(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[list[ToolResult], int]:
        await trial.act()
        return list(await asyncio.gather(*(trial.act() for _ in range(5)))), trial.lives()

    results, lives = try_mode(tmp_path, mode, go)
    for result in results:
        assert_told(result, 1.0)
    assert lives == 2


@fault("F04", "hang-on-init")
def test_several_who_open_a_server_start_it_once(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> int:
        await asyncio.gather(*(trial.toolbox.open() for _ in range(3)))
        return trial.lives()

    assert try_mode(tmp_path, mode, go, connect_s=0.5) == 2


@fault("F35", "die-between-calls")
def test_a_server_that_dies_while_idle_is_missed_at_once_and_started_when_needed(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, float, str, int]:
        status = (await trial.act()).status
        seconds = await wait_for(lambda: not trial.toolbox.is_connected("chaos"))
        return status, seconds, await trial.echo(), trial.lives()

    status, seconds, echo, lives = try_mode(tmp_path, mode, go, delay_s=0.1)
    assert (status, echo, lives) == ("completed", "still here", 2)
    assert seconds <= 0.1 + 1.0


@fault("F35", "die-after-list")
def test_a_server_that_dies_right_after_its_start_is_no_server(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> str:
        await wait_for(lambda: not trial.toolbox.is_connected("chaos"))
        return trial.failure.message

    told = try_mode(tmp_path, mode, go)
    assert "exited with 4" in told and "I am dying" in told
    assert_one_line(told)


@fault("F36", "sigstop-self", "deaf")
def test_a_server_that_is_stuck_times_out_and_is_replaced(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, list[int], str]:
        result = await trial.act()
        pids = [entry["pid"] for entry in trial.events("start")]
        left = await asyncio.to_thread(wait_until_gone, pids, 5)
        return result, left, await trial.echo()

    result, left, echo = try_mode(tmp_path, mode, go, timeout_s=0.7)
    assert_told(result, 0.7)
    assert left == []
    assert echo == "still here"


@fault("F36", "sigstop-self", "deaf")
def test_a_server_that_is_stuck_can_be_restarted(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, str]:
        status = (await trial.act()).status
        await asyncio.wait_for(trial.toolbox.restart("chaos"), 4 * SLACK)
        return status, await trial.echo()

    assert try_mode(tmp_path, mode, go, timeout_s=0.7) == ("failed", "still here")


@fault("F36", "deaf")
def test_a_large_argument_for_a_server_that_does_not_read_times_out(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, ToolResult]:
        await trial.act()
        return await trial.call("echo", text="x" * 2_000_000), await trial.call("echo", text="y" * 2_000_000)

    for result in try_mode(tmp_path, mode, go, timeout_s=0.7):
        assert result.status == "completed" or result.seconds <= 1.2 * SLACK


@fault("F37", "hang-call")
def test_a_call_that_hangs_is_cancelled_at_the_server_which_lives_on(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, list[object], list[object], str, int]:
        result = await trial.act()
        echo = await trial.echo()
        asked = [message["id"] for message in trial.heard("tools/call")][:1]
        cancelled = [message["params"]["requestId"] for message in trial.heard("notifications/cancelled")]
        return result, asked, cancelled, echo, trial.lives()

    result, asked, cancelled, echo, lives = try_mode(tmp_path, mode, go, timeout_s=0.5)
    assert_told(result, 0.5)
    assert "did not answer within 0.5 s" in result.text
    assert cancelled == asked
    assert (echo, lives) == ("still here", 1)


@fault("F37", "progress-forever")
def test_a_call_that_makes_progress_for_ever_ends_some_time(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, str]:
        return await trial.act(), await trial.echo()

    result, echo = try_mode(tmp_path, mode, go, timeout_s=0.15, delay_s=0.05)
    assert_told(result, 20 * 0.15)
    assert result.seconds >= 2 * 0.15
    assert echo == "still here"


@fault("F38", "late-reply-after-cancel")
def test_an_answer_to_a_call_that_was_stopped_is_nobodys(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[float, list[str]]:
        waiting = asyncio.create_task(trial.act())
        await wait_for(lambda: trial.heard("tools/call"))
        waiting.cancel()
        begun = asyncio.get_running_loop().time()
        await asyncio.wait([waiting])
        seconds = asyncio.get_running_loop().time() - begun
        assert waiting.cancelled()
        await wait_for(lambda: trial.heard("notifications/cancelled"))
        return seconds, [await trial.echo("one"), await trial.echo("two")]

    seconds, echoes = try_mode(tmp_path, mode, go)
    assert seconds <= 0.3 * SLACK
    assert echoes == ["one", "two"]


@fault("F39", "late-reply")
def test_a_late_answer_is_not_that_of_the_next_call(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[str]:
        late = await trial.act()
        waiting = asyncio.create_task(trial.act())  # the answer to the first comes while the second waits
        echoes = [await trial.echo("one"), await trial.echo("two")]
        return [late.status, *echoes, (await waiting).status, await trial.echo("three")]

    assert try_mode(tmp_path, mode, go, timeout_s=0.4, delay_s=0.6) == ["failed", "one", "two", "failed", "three"]


@fault("F43", "close-stdout-but-live")
def test_a_server_that_closes_its_output_is_dead(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, list[int], str]:
        result = await trial.act()
        pids = [entry["pid"] for entry in trial.events("start")]
        return result, await asyncio.to_thread(wait_until_gone, pids, 4), await trial.echo()

    result, left, echo = try_mode(tmp_path, mode, go)
    assert_told(result, 1.0)
    assert (left, echo) == ([], "still here")


@fault("F44", "close-stdin-but-live")
def test_a_server_that_closes_its_input_fails_the_next_call_at_once(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, ToolResult, str]:
        first = await trial.act()
        await wait_for(lambda: trial.events("deaf"))
        return first, await trial.act(), await trial.echo()

    first, second, echo = try_mode(tmp_path, mode, go)
    assert first.status == "completed"
    if second.status == "failed":
        assert_told(second, 1.0)
    assert echo == "still here"


@fault("F93", "ok")
def test_a_server_is_given_little_of_this_program(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "secret")
    with (tmp_path / "open").open("w", encoding="utf-8") as file:
        file_number = file.fileno()
        os.set_inheritable(file_number, True)

        async def look(trial: Trial) -> dict[str, Any]:
            return trial.events("start")[0]

        seen = try_mode(tmp_path, mode, look, env={"GIVEN": "yes"})
    assert seen["descriptors"] == [0, 1, 2]
    assert "GIVEN" in seen["environment"] and "PATH" in seen["environment"]
    assert "MY_API_KEY" not in seen["environment"]
    assert seen["is_leader"]
    assert oct(seen["umask"]) == "0o77"


@fault("F24", "ok")
def test_arguments_that_json_cannot_hold_are_sent_mended_or_fail_the_call(mode: str, tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    odd: list[Any] = ["\ud800", float("nan"), 10**400, deep, {1: 2}, {"\udcff": 1}, b"bytes", {1, 2}, "x" * 12_000_000]

    async def go(trial: Trial) -> tuple[list[str], str, int]:
        tool = trial.tool("echo")
        results = [await trial.toolbox.call(tool, {"text": value}, lambda *_: None) for value in odd]
        return [result.status for result in results], await trial.echo(), trial.lives()

    status, echo, lives = try_mode(tmp_path, mode, go)
    assert set(status) <= {"completed", "failed"}
    assert (echo, lives) == ("still here", 1)


@fault("F46", "fork-child", "fork-child-and-stay", "fork-child-setsid")
def test_the_children_of_a_server_end_with_it(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> int:
        return len(trial.events("child"))

    assert try_mode(tmp_path, mode, go) == 1


@fault("F45", "ok")
def test_asking_for_a_restart_many_times_at_once_gives_one_server(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, int]:
        await asyncio.gather(*(trial.toolbox.restart("chaos") for _ in range(3)), trial.echo(), trial.act())
        pids = [entry["pid"] for entry in trial.events("start")]
        return await trial.echo(), sum(map(is_there, pids))

    assert try_mode(tmp_path, mode, go) == ("still here", 1)


@fault("F45", "slow-start")
def test_opening_can_be_given_up_and_closing_done_twice(mode: str, tmp_path: Path) -> None:
    async def go() -> bool:
        trial = Trial(Toolbox([chaos(tmp_path, mode, delay_s=20)], tmp_path / "logs"), tmp_path)
        opening = asyncio.create_task(trial.toolbox.open())
        await wait_for(trial.lives)
        opening.cancel()
        await asyncio.wait([opening])
        await asyncio.wait_for(asyncio.gather(trial.toolbox.aclose(), trial.toolbox.aclose()), 3)
        await trial.toolbox.aclose()
        return trial.toolbox.is_connected("chaos")

    assert asyncio.run(go()) is False
    assert left_behind(tmp_path, "chaos") == []


@fault("F45", "hang-call")
def test_five_stuck_servers_are_closed_within_three_seconds(mode: str, tmp_path: Path) -> None:
    modes = (mode, "ignore-sigterm", "ignore-eof", "ignore-sigterm", "fork-child-and-stay")
    configs = [chaos(tmp_path, mode, f"stuck{number}") for number, mode in enumerate(modes)]

    async def go() -> tuple[float, str]:
        trial = Trial(Toolbox(configs, tmp_path / "logs"), tmp_path)
        await trial.toolbox.open()
        for config in configs:
            assert await trial.echo(server=config.name) == "still here"
        waiting = asyncio.create_task(trial.call("act", "stuck0"))
        await wait_for(lambda: len(trial.heard("tools/call", "stuck0")) == 2)
        begun = asyncio.get_running_loop().time()
        await trial.toolbox.aclose()
        seconds = asyncio.get_running_loop().time() - begun
        return seconds, (await waiting).status

    seconds, status = asyncio.run(go())
    assert [pid for config in configs for pid in left_behind(tmp_path, config.name)] == []
    assert (seconds <= 3, status) == (True, "failed")


@fault("F32", "crash-speechless")
def test_what_we_wrote_into_its_log_is_not_taken_for_its_last_words(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, str]:
        return (await trial.act()).text, trial.logs

    text, logs = try_mode(tmp_path, mode, go)
    assert "[rkllm-chat] Passed over" in logs
    assert text == 'Server "chaos" has gone away (it exited with 7).'


@fault("F32", "crash-mid-call")
def test_its_last_words_are_told(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> str:
        return (await trial.act()).text

    assert try_mode(tmp_path, mode, go).endswith("(it exited with 7). It said: I am dying")
