"""What surrounds, splits and spoils a server's lines costs at most the call it belongs to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from rkllm_chat.messages import ToolResult

from .chaos_framing import MANY_BYTES
from .faults import SLACK, Trial, assert_one_line, assert_told, fault, rows, try_mode

DONE = "act is done"


async def act_and_echo(trial: Trial) -> tuple[ToolResult, str]:
    return await trial.act(), await trial.echo()


@pytest.mark.parametrize(
    ("mode", "text"),
    rows(
        ("F12", "stdout-banner", DONE),
        ("F12", "garbage-stdout", DONE),
        ("F12", "not-jsonrpc", DONE),
        ("F12", "blank-lines", DONE),
        ("F12", "nul-bytes", DONE),
        ("F13", "bom", DONE),
        ("F13", "crlf", "whole"),
        ("F14", "binary-garbage", DONE),
        ("F15", "invalid-utf8", "caf\ufffd"),
        ("F16", "lone-surrogate", "half: \ufffd"),
        ("F20", "byte-dribble", MANY_BYTES),
        ("F21", "packed", "packed"),
        ("F40", "duplicate-ids", "FIRST"),
        ("F41", "unknown-id", DONE),
        ("F41", "null-id-error", DONE),
        ("F41", "unasked-notices", DONE),
    ),
)
@pytest.mark.parametrize("eras", ["modern", "handshake"])
def test_what_can_be_read_is_read(mode: str, text: str, eras: str, tmp_path: Path) -> None:
    result, echo = try_mode(tmp_path, mode, act_and_echo, eras=eras)
    assert (result.status, result.text, echo) == ("completed", text, "still here")


@pytest.mark.parametrize(
    ("mode", "text"),
    rows(
        ("F22", "pretty-json", "whole"),
        ("F22", "two-on-a-line", "whole"),
        ("F22", "batch", "whole"),
        ("F23", "deep-json", "a value"),
        ("F24", "big-int", "a value"),
        ("F24", "big-float", "a value"),
        ("F24", "nan-json", "a value"),
        ("F24", "dup-keys", "two"),
        ("F24", "dup-result", "whole"),
        ("F41", "wrong-id-type", "whole"),
        ("F41", "null-id-only", ""),
    ),
)
def test_what_can_hardly_be_read_is_read_or_refused_at_once(mode: str, text: str, tmp_path: Path) -> None:
    result, echo = try_mode(tmp_path, mode, act_and_echo)
    if result.status == "completed":
        assert text and result.text == text
        json.dumps(result.structured, allow_nan=False).encode()
    else:
        assert_told(result, 0.5)
    assert echo == "still here"


@fault("F12", "stdout-banner", "garbage-stdout")
def test_the_first_stray_line_is_in_the_log(mode: str, tmp_path: Path) -> None:
    async def look(trial: Trial) -> str:
        await trial.act()
        return trial.logs

    logs = try_mode(tmp_path, mode, look)
    assert {"stdout-banner": "on port 1234", "garbage-stdout": "a line for people"}[mode] in logs


@fault("F12", "debug-echo")
def test_a_line_for_people_that_quotes_a_call_does_not_fail_it(mode: str, tmp_path: Path) -> None:
    result, echo = try_mode(tmp_path, mode, act_and_echo, delay_s=0.8)
    assert (result.status, result.text, echo) == ("completed", DONE, "still here")


@fault("F17", "partial-line")
def test_half_a_line_waits_for_its_rest_and_holds_up_nobody(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, bool]:
        waiting = asyncio.create_task(trial.act())
        await trial.echo(server="fine")
        was_waiting = not waiting.done()
        return await waiting, was_waiting

    result, was_waiting = try_mode(tmp_path, mode, go, delay_s=0.5)
    assert (result.status, result.text) == ("completed", "whole")
    assert was_waiting and result.seconds >= 0.5


@fault("F18", "partial-then-die")
def test_a_server_that_dies_in_the_middle_of_a_line_fails_the_call_at_once(mode: str, tmp_path: Path) -> None:
    result, echo = try_mode(tmp_path, mode, act_and_echo)
    assert_told(result, 0.3)
    assert "7" in result.text
    assert echo == "still here"


@fault("F19", "no-final-newline")
def test_a_line_that_never_ends_costs_its_call_its_time(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, str]:
        result = await trial.act()
        await trial.toolbox.restart("chaos")
        return result, await trial.echo()

    result, echo = try_mode(tmp_path, mode, go, timeout_s=0.5)
    assert_told(result, 0.5)
    assert "did not answer" in result.text
    assert echo == "still here"


@fault("F40", "duplicate-ids")
def test_the_second_answer_to_a_call_is_nobodys(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[str]:
        return [(await trial.act()).text, await trial.echo("one"), (await trial.act()).text, await trial.echo("two")]

    assert try_mode(tmp_path, mode, go) == ["FIRST", "one", "FIRST", "two"]


@fault("F42", "out-of-order")
def test_each_of_two_calls_gets_its_own_answer(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[str]:
        return [result.text for result in await asyncio.gather(trial.act(text="one"), trial.act(text="two"))]

    assert try_mode(tmp_path, mode, go) == ["one", "two"]


@fault("F22", "pretty-json")
def test_of_two_calls_neither_waits_longer_than_its_time_for_what_cannot_be_read(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[list[ToolResult], str]:
        return list(await asyncio.gather(trial.act(), trial.act())), await trial.echo()

    results, echo = try_mode(tmp_path, mode, go, timeout_s=1)
    for result in results:
        assert result.seconds <= 1 * SLACK
        if result.status == "failed":
            assert_one_line(result.text)
    assert echo == "still here"
