"""A call that becomes a task is a call like others: it ends, says why it failed, reports, asks, and is cancelled."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

from rkllm_chat.core.messages import ToolResult
from rkllm_chat.mcp_client.handlers import ClientHandlers
from rkllm_chat.mcp_client.toolbox import Toolbox

from .faults import Trial, assert_failed, chaos, try_mode, try_modes, wait_for

NAME = ElicitResult(action="accept", content={"name": "Ada"})


async def act(trial: Trial) -> ToolResult:
    return await trial.act()


@pytest.mark.slow
def test_a_task_gives_its_result_in_the_end_and_is_not_cancelled(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, str, int, int]:
        result = await trial.act()
        await trial.echo()
        return result.status, result.text.splitlines()[-1], len(trial.heard("tasks/cancel")), trial.lives()

    texts = {"task": "act is done", "task-at-once": "act is done", "old-task": "act is done", "task-odd": "known"}
    expected = {mode: ("completed", text, 0, 1) for mode, text in texts.items()}
    expected["task-outlives"] = ("completed", "act is done", 0, 2)  # the process of its server
    assert try_modes(tmp_path, expected, go) == expected


# Mode -> a part of why the call fails.
FAILING = {
    "task-is-error": "the disk is full",
    "task-fails": "no wind",
    "task-fails-silently": "becalmed",
    "task-gives-up": "storm",
    "task-mismatch": "must be a number",
    "task-nonsense": "status",
    "task-forgotten": "Task not found",
    "task-asks": "does not support elicitation/create",
}


@pytest.mark.slow
def test_a_task_that_ends_badly_is_a_failed_call_with_the_cause(tmp_path: Path) -> None:
    for mode, result in try_modes(tmp_path, FAILING, act).items():
        assert result.status == "failed"
        assert FAILING[mode] in result.text


def test_the_status_of_a_task_is_reported_as_progress(tmp_path: Path) -> None:
    told: list[Any] = []

    async def go(trial: Trial) -> ToolResult:
        return await trial.toolbox.call(trial.tool("act"), {}, lambda *report: told.append(report))

    try_modes(tmp_path, ["task"], go)
    assert [message for _, _, message in told] == ["weighing anchor", "setting sail"]
    try_modes(tmp_path, ["old-task"], go)
    assert (1, 2, "halfway") in told


@pytest.mark.slow
def test_a_task_that_moves_may_take_longer_than_a_call(tmp_path: Path) -> None:
    result = try_mode(tmp_path, "task-moves", act, timeout_s=0.5)
    assert (result.status, result.text) == ("completed", "act is done")
    assert result.seconds > 0.5


def test_a_task_that_does_not_move_ends_at_the_limit_and_is_cancelled(tmp_path: Path) -> None:
    async def go(trial: Trial) -> ToolResult:
        result = await trial.act()
        await wait_for(lambda: trial.heard("tasks/cancel"))
        return result

    for result in try_modes(tmp_path, ["task-hangs", "old-task-hangs"], go, timeout_s=0.4).values():
        assert_failed(result, 0.4)


def test_a_task_is_cancelled_at_the_server_with_its_call(tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[Any]:
        running = asyncio.create_task(trial.act())
        await wait_for(lambda: trial.heard("tasks/get"))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await wait_for(lambda: trial.heard("tasks/cancel"))
        assert await trial.echo() == "still here"
        return [message["params"]["taskId"] for message in trial.heard("tasks/cancel")]

    told = try_modes(tmp_path, ["task-hangs", "old-task-hangs"], go)
    assert told == {"task-hangs": ["t-1"], "old-task-hangs": ["t-1"]}


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
        async with Toolbox([config], folder / "logs", ClientHandlers(elicit=elicit)) as box:
            trial = Trial(box, folder)
            return await trial.act(), asked, trial

    return asyncio.run(go())


def test_a_question_of_a_task_is_asked_once_and_its_answer_sent(tmp_path: Path) -> None:
    result, asked, trial = with_person("task-asks", tmp_path)
    assert (result.text, asked) == ("act is done", ["chaos: Who?"])
    (update,) = trial.heard("tasks/update")
    assert update["params"]["taskId"] == "t-1"
    assert update["params"]["inputResponses"] == {"who": {"action": "accept", "content": {"name": "Ada"}}}


def test_an_older_task_asks_while_its_result_is_awaited(tmp_path: Path) -> None:
    result, asked, _ = with_person("old-task-asks", tmp_path)
    assert (result.text, asked) == ("hello, Ada", ["chaos: Who?"])


@pytest.mark.parametrize("mode", ["task-asks", pytest.param("old-task-asks", marks=pytest.mark.slow)])
def test_the_user_may_think_longer_than_a_call_may_take(mode: str, tmp_path: Path) -> None:
    result, _, _ = with_person(mode, tmp_path, thinks_s=0.6, timeout_s=0.3)
    assert result.status == "completed", result.text


@pytest.mark.slow
def test_the_questions_of_a_task_are_limited(tmp_path: Path) -> None:
    result, asked, _ = with_person("task-asks-for-ever", tmp_path)
    assert result.status == "failed"
    assert "32 questions" in result.text
    assert len(asked) == 32


def test_how_a_tool_supports_tasks_decides_how_it_is_called(tmp_path: Path) -> None:
    async def look(trial: Trial) -> tuple[list[str], dict[str, str]]:
        if trial.server == "old-task-optional":
            assert (await trial.act()).text == "plainly"
        return trial.names(), dict(trial.toolbox.connections[trial.server].advertised.hidden)

    everything: tuple[list[str], dict[str, str]] = (["echo", "add", "act"], {})
    hidden = (["echo", "add"], {"act": "task"})
    wanted = {"old-task-optional": everything, "old-task": everything, "old-task-no-tasks": hidden}
    assert try_modes(tmp_path, wanted, look) == wanted
