"""A call that becomes a task is a call like others: it ends, if badly with a word; it reports, asks, can be ended."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

from rkllm_chat.messages import ToolResult
from rkllm_chat.servers.asks import Asks
from rkllm_chat.servers.toolbox import Toolbox

from .faults import Trial, assert_told, chaos, try_mode, wait_for

NAME = ElicitResult(action="accept", content={"name": "Ada"})


async def act(trial: Trial) -> ToolResult:
    return await trial.act()


@pytest.mark.parametrize("mode", ["task", "task-at-once", "task-odd", "task-moves", "old-task"])
def test_a_task_gives_its_result_in_the_end(mode: str, tmp_path: Path) -> None:
    result = try_mode(tmp_path, mode, act)
    assert result.status == "completed"
    assert result.text.splitlines()[-1] == ("known" if mode == "task-odd" else "act is done")


@pytest.mark.parametrize(
    ("mode", "cause"),
    [
        ("task-is-error", "the disk is full"),
        ("task-fails", "no wind"),
        ("task-fails-silently", "becalmed"),
        ("task-gives-up", 'has cancelled the task of "act": storm'),
        ("task-mismatch", "does not fit"),
        ("task-nonsense", "status"),
        ("task-forgotten", "Task not found"),
        ("task-asks", "Elicitation not supported"),
    ],
)
def test_a_task_that_ends_badly_is_a_failed_call_with_the_cause(mode: str, cause: str, tmp_path: Path) -> None:
    result = try_mode(tmp_path, mode, act)
    assert result.status == "failed"
    assert cause in result.text


def test_what_a_task_says_of_itself_is_progress(tmp_path: Path) -> None:
    told: list[str] = []

    async def go(trial: Trial) -> ToolResult:
        return await trial.toolbox.call(trial.tool("act"), {}, lambda _done, _total, message: told.append(message))

    try_mode(tmp_path, "task", go)
    assert told == ["weighing anchor", "setting sail"]


def test_progress_of_an_older_task_is_told_too(tmp_path: Path) -> None:
    told: list[Any] = []

    async def go(trial: Trial) -> ToolResult:
        return await trial.toolbox.call(trial.tool("act"), {}, lambda *report: told.append(report))

    try_mode(tmp_path, "old-task", go)
    assert (1, 2, "halfway") in told


def test_a_task_that_moves_may_take_longer_than_a_call(tmp_path: Path) -> None:
    result = try_mode(tmp_path, "task-moves", act, timeout_s=0.5)
    assert (result.status, result.text) == ("completed", "act is done")
    assert result.seconds > 0.5


@pytest.mark.parametrize("mode", ["task-hangs", "old-task-hangs"])
def test_a_task_that_does_not_move_ends_at_the_limit_and_is_cancelled(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> ToolResult:
        result = await trial.act()
        await wait_for(lambda: trial.heard("tasks/cancel"))
        return result

    assert_told(try_mode(tmp_path, mode, go, timeout_s=0.4), 0.4)


@pytest.mark.parametrize("mode", ["task-hangs", "old-task-hangs"])
def test_a_task_is_cancelled_at_the_server_with_its_call(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[Any]:
        running = asyncio.create_task(trial.act())
        await wait_for(lambda: trial.heard("tasks/get"))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await wait_for(lambda: trial.heard("tasks/cancel"))
        assert await trial.echo() == "still here"
        return [message["params"]["taskId"] for message in trial.heard("tasks/cancel")]

    assert try_mode(tmp_path, mode, go) == ["t-1"]


def test_a_task_that_ended_is_not_cancelled(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[int, int]:
        await trial.act()
        await trial.echo()
        return len(trial.heard("tasks/get")), len(trial.heard("tasks/cancel"))

    assert try_mode(tmp_path, "task", go) == (2, 0)


def test_a_task_outlives_the_process_of_its_server(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, int]:
        return (await trial.act()).text, trial.lives()

    assert try_mode(tmp_path, "task-outlives", go) == ("act is done", 2)


def with_person(
    mode: str, folder: Path, thinks_s: float = 0, timeout_s: float = 5
) -> tuple[ToolResult, list[str], Trial]:
    """Has `act` called where somebody answers questions; gives the result and what was asked."""
    asked: list[str] = []

    async def elicit(server: str, params: Any) -> ElicitResult:
        asked.append(f"{server}: {params.message}")
        end = time.monotonic() + thinks_s
        await wait_for(lambda: time.monotonic() >= end)
        return NAME

    async def go() -> tuple[ToolResult, list[str], Trial]:
        config = chaos(folder, mode, timeout_s=timeout_s)
        async with Toolbox([config], folder / "logs", Asks(elicit=elicit)) as box:
            trial = Trial(box, folder)
            return await trial.act(), asked, trial

    return asyncio.run(go())


def test_what_a_task_asks_is_asked_once_and_its_answer_sent(tmp_path: Path) -> None:
    result, asked, trial = with_person("task-asks", tmp_path)
    assert (result.text, asked) == ("act is done", ["chaos: Who?"])
    (update,) = trial.heard("tasks/update")
    assert update["params"]["taskId"] == "t-1"
    assert update["params"]["inputResponses"] == {"who": {"action": "accept", "content": {"name": "Ada"}}}


def test_an_older_task_asks_while_its_result_is_waited_for(tmp_path: Path) -> None:
    result, asked, _ = with_person("old-task-asks", tmp_path)
    assert (result.text, asked) == ("hello, Ada", ["chaos: Who?"])


@pytest.mark.parametrize("mode", ["task-asks", "old-task-asks"])
def test_who_is_asked_may_think_longer_than_a_call_may_take(mode: str, tmp_path: Path) -> None:
    result, _, _ = with_person(mode, tmp_path, thinks_s=1.2, timeout_s=0.6)
    assert result.status == "completed", result.text


def test_a_task_may_not_ask_without_end(tmp_path: Path) -> None:
    result, asked, _ = with_person("task-asks-for-ever", tmp_path)
    assert result.status == "failed"
    assert "asks more than 32 questions" in result.text
    assert len(asked) == 32


def test_a_tool_that_may_run_as_a_task_is_called_plainly(tmp_path: Path) -> None:
    assert try_mode(tmp_path, "old-task-optional", act).text == "plainly"


def test_a_tool_that_needs_tasks_is_hidden_where_the_server_takes_none(tmp_path: Path) -> None:
    async def look(trial: Trial) -> tuple[list[str], dict[str, str]]:
        return trial.names(), dict(trial.toolbox.connections["chaos"].hidden)

    assert try_mode(tmp_path, "old-task-no-tasks", look) == (["echo", "add"], {"act": "task"})
    assert try_mode(tmp_path, "old-task", look) == (["echo", "add", "act"], {})
