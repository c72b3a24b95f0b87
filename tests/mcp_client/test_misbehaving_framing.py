"""What surrounds, splits and spoils a server's lines costs at most the call it belongs to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from rkllm_chat.core.messages import ToolResult

from .chaos_framing import MANY_BYTES
from .faults import Trial, act_and_echo, assert_failed, try_mode, try_modes

DONE = "act is done"

# Mode -> the text of the call's result.
READ = {
    "stdout-banner": DONE,
    "garbage-stdout": DONE,
    "not-jsonrpc": DONE,
    "blank-lines": DONE,
    "nul-bytes": DONE,
    "bom": DONE,
    "crlf": "whole",
    "binary-garbage": DONE,
    "invalid-utf8": "caf\ufffd",
    "lone-surrogate": "half: \ufffd",
    "byte-dribble": MANY_BYTES,
    "packed": "packed",
    "duplicate-ids": "FIRST",
    "unknown-id": DONE,
    "wrong-id-type": "whole",
    "null-id-error": DONE,
    "unasked-notices": DONE,
    "pretty-json": "whole",
    "two-on-a-line": "whole",
    "batch": "whole",
    "big-float": "a value",
    "nan-json": "a value",
    "dup-keys": "two",
    "many-values": DONE,
    "many-lines": DONE,
}
# Mode -> a part of why the call fails.
REFUSED = {
    "deep-json": "nested too deep",
    "big-int": "too long",
    "dup-result": "",
    "null-id-only": "Parse error",
    "other-id": "the response has the id 4711, not ",
    "partial-then-die": "exited with 7",
}


@pytest.mark.slow
def test_readable_answers_are_read(tmp_path: Path) -> None:
    logs: list[str] = []

    async def go(trial: Trial) -> tuple[str, str, str]:
        result, echo = await act_and_echo(trial)
        json.dumps(result.structured, allow_nan=False).encode()
        logs.append(trial.logs)
        return result.status, result.text, echo

    told = try_modes(tmp_path, READ, go)
    assert told == {mode: ("completed", text, "still here") for mode, text in READ.items()}
    assert "on port 1234" in logs[-1] and "a line for people" in logs[-1]


@pytest.mark.slow
def test_unreadable_answers_fail_their_call_at_once(tmp_path: Path) -> None:
    for mode, (result, echo) in try_modes(tmp_path, REFUSED, act_and_echo).items():
        assert_failed(result, 0.5)
        assert REFUSED[mode] in result.text
        assert echo == "still here"


def test_a_stray_line_that_quotes_a_call_does_not_fail_it(tmp_path: Path) -> None:
    result, echo = try_mode(tmp_path, "debug-echo", act_and_echo, delay_s=0.5)
    assert (result.status, result.text, echo) == ("completed", DONE, "still here")


def test_half_a_line_waits_for_its_rest_and_blocks_no_other_server(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, bool]:
        waiting = asyncio.create_task(trial.act())
        await trial.echo(server="fine")
        was_waiting = not waiting.done()
        return await waiting, was_waiting

    result, was_waiting = try_mode(tmp_path, "partial-line", go, delay_s=0.4)
    assert (result.status, result.text) == ("completed", "whole")
    assert was_waiting and result.seconds >= 0.4


def test_a_line_without_an_end_times_out(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, str]:
        result = await trial.act()
        await trial.toolbox.restart("chaos")
        return result, await trial.echo()

    result, echo = try_mode(tmp_path, "no-final-newline", go, timeout_s=0.3)
    assert_failed(result, 0.3)
    assert "did not answer" in result.text
    assert echo == "still here"


def test_each_call_gets_its_own_answer(tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[str]:
        results = await asyncio.gather(trial.act(text="one"), trial.act(text="two"))
        return [*(result.text for result in results), await trial.echo("three")]

    told = try_modes(tmp_path, ["out-of-order", "duplicate-ids"], go)
    assert told == {"out-of-order": ["one", "two", "three"], "duplicate-ids": ["FIRST", "FIRST", "three"]}


def test_two_calls_at_once_fail_in_time_where_neither_answer_can_be_assigned(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[list[ToolResult], str]:
        return list(await asyncio.gather(trial.act(), trial.act())), await trial.echo()

    results, echo = try_mode(tmp_path, "deep-json", go, timeout_s=0.5)
    for result in results:
        assert_failed(result, 0.5)
    assert echo == "still here"
