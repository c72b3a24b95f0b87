"""What counts as an answer, for the toolbox and the direct client alike, and that an odd one costs its call at most.

The servers are in this process: what is about processes is in test_misbehaving_lifecycle.py and test_stdio.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rkllm_chat.config.transports import TRANSPORTS, TransportRow
from rkllm_chat.core.errors import ChatError, ProtocolError
from rkllm_chat.core.messages import ToolResult
from rkllm_chat.mcp_client.direct.client import DirectClient
from rkllm_chat.mcp_client.direct.open_server import OpenServer

from .chaos_framing import MANY_BYTES
from .chaos_results import RESULTS
from .chaos_server import MODES
from .faults import Trial, act_and_echo, assert_failed, try_each, wait_for
from .memory import MEMORY, OPENED, MemoryChannel, in_memory

T = TypeVar("T")
DONE = "act is done"
SOON_S = 0.5
ERAS = pytest.mark.parametrize("eras", ["handshake", "modern"])

# Mode -> the text of the call's result; behind "✗" a part of why the call fails.
OUTCOMES: dict[str, str] = {
    **dict.fromkeys(("garbage-stdout", "not-jsonrpc", "blank-lines", "nul-bytes", "binary-garbage"), DONE),
    **dict.fromkeys(("many-values", "many-lines", "stdout-banner", "bom", "debug-echo", "speaks-first"), DONE),
    **dict.fromkeys(("unknown-id", "null-id-error", "unasked-notices", "batch-of-questions", "list-loop"), DONE),
    **dict.fromkeys(("crlf", "pretty-json", "two-on-a-line", "batch", "wrong-id-type", "no-jsonrpc-first"), "whole"),
    **dict.fromkeys(("null-error", "pretty-batch", "odd-error-first"), "whole"),
    **dict.fromkeys(("big-float", "nan-json", "deepest-json"), "a value"),
    **dict.fromkeys(("result-list", "result-null", "result-text"), "✗its result is not an object"),
    **dict.fromkeys(("rpc-error", "rpc-error-closed", "rpc-error-timeout"), "✗no such file"),
    **dict.fromkeys(("rpc-error-weird", "rpc-error-no-code"), "✗its error is invalid: it went wrong"),
    **dict.fromkeys(("cut-short", "cut-pretty"), "✗incomplete"),
    **dict.fromkeys(("broken", "no-id"), "✗not JSON"),
    **dict.fromkeys(("deep-json", "too-deep-json"), "✗nested too deep"),
    "invalid-utf8": "caf\ufffd",
    "lone-surrogate": "half: \ufffd",
    "surrogate-pair": "🌍",
    "byte-dribble": MANY_BYTES,
    "packed": "packed",
    "duplicate-ids": "FIRST",
    "dup-keys": "two",
    "structured-right": "seven",
    "big-int": "✗too long",
    "too-many-on-a-line": "✗it has too many values",
    "dup-result": "✗it has a result and an error",
    "float-id": "whole",
    "php-result": "known",
    "odd-schemas": DONE,
    "other-id": "✗the response has the id 4711, not ",
    "null-id-only": "✗Parse error",
    "rpc-error-odd-code": "✗its error is invalid",
    "rpc-error-null": "✗its result is not an object",
    "neither": "✗it is not a JSON-RPC message",
    "unknown-type": "✗prophecy",
    "structured-mismatch": "✗must be a number",
    "structured-missing": "seven",
}
# What the toolbox alone makes of a result: a text for a model.
TEXTS: dict[str, str] = {
    **{name: RESULTS[name]["content"][0]["text"] for name in ("ansi-escape", "injection", "markdown-exfil")},
    **{name: RESULTS[name]["content"][0]["text"] for name in ("unicode-trick", "redos", "markers")},
    **dict.fromkeys(("result-empty", "result-no-content", "result-null-content"), "(no content)"),
    "structured-only": '{"value": 7}',
    "resource-link": "[resource x://y, y]",
    "is-error-text": "✗",
}


@pytest.fixture(autouse=True)
def _over_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRANSPORTS, MEMORY, TransportRow("mcp_client.memory:MemoryTransport"))
    OPENED.clear()


def try_all(
    folder: Path, modes: Any, then: Callable[[Trial], Awaitable[T]], eras: str = "", **options: Any
) -> dict[str, T]:
    configs = [in_memory(mode, eras if MODES[mode].eras == "both" else "", **options) for mode in modes]
    return try_each(folder, configs, then)


def try_one(folder: Path, mode: str, then: Callable[[Trial], Awaitable[T]], **options: Any) -> T:
    return try_all(folder, [mode], then, **options)[mode]


@ERAS
def test_the_toolbox_reads_what_can_be_read_and_an_odd_answer_fails_its_call_alone(eras: str, tmp_path: Path) -> None:
    logs: list[str] = []

    async def go(trial: Trial) -> tuple[ToolResult, str]:
        result, echo = await act_and_echo(trial)
        json.dumps(result.structured, allow_nan=False).encode()
        logs.append(trial.logs)
        return result, echo

    expected = OUTCOMES | TEXTS
    told = try_all(tmp_path, expected, go, eras)
    for mode, (result, echo) in told.items():
        assert (mode, echo, OPENED[mode]) == (mode, "still here", 1)
        if expected[mode].startswith("✗"):
            assert_failed(result, 10)  # so many that run at once wait for each other
            assert expected[mode][1:] in result.text and result.structured is None, mode
        else:
            assert (mode, result.status, result.text) == (mode, "completed", expected[mode])
    assert "on port 1234" in logs[-1] and "a line for people" in logs[-1]


def call_directly(mode: str, eras: str = "", **arguments: Any) -> str:
    """List the tools and call `act` through the direct client: its text, or "✗" and the error."""
    config = in_memory(mode, eras if MODES[mode].eras == "both" else "")
    session = OpenServer(config, DirectClient(config, MemoryChannel(config)))
    try:
        session.list_tools()
        return "".join(block["text"] for block in session.call_tool("act", arguments)["content"])
    except ChatError as error:
        assert isinstance(error, ProtocolError) and error.message.isprintable()
        return f"✗{error.message}"


@ERAS
@pytest.mark.parametrize("mode", OUTCOMES)
def test_the_direct_client_makes_the_same_of_it(mode: str, eras: str) -> None:
    said, expected = call_directly(mode, eras), OUTCOMES[mode]
    assert said.startswith("✗") and expected[1:] in said if expected.startswith("✗") else said == expected


def test_known_blocks_are_shown_beside_unknown_ones(tmp_path: Path) -> None:
    modes = ("result-unknown-block", "result-bad-image", "result-nonstring")
    for result, echo in try_all(tmp_path, modes, act_and_echo).values():
        assert result.status == "completed" and "known" in result.text.splitlines()
        assert echo == "still here"


def test_an_error_of_the_tool_is_a_failed_call(tmp_path: Path) -> None:
    told = try_all(tmp_path, ["is-error", "is-error-empty"], act_and_echo)
    assert {result.status for result, *_ in told.values()} == {"failed"}
    assert told["is-error"][0].text == "the disk is full"
    assert told["is-error-empty"][0].text
    assert try_one(tmp_path, "structured-odd", act_and_echo, eras="handshake")[0].status == "completed"


def test_an_answer_is_that_of_the_call_that_it_names_and_an_unusable_one_fails_it_soon(tmp_path: Path) -> None:
    async def go(trial: Trial) -> dict[str, ToolResult]:
        modes = ("cut-short", "broken", "cut-pretty", "id-last", "crlf")
        return dict(zip(modes, await asyncio.gather(*(trial.act(text=mode) for mode in modes)), strict=True))

    results = try_one(tmp_path, "as-asked", go)
    assert results.pop("crlf").text == "whole"
    assert results.pop("id-last").text.startswith("xxx")
    for mode, result in results.items():
        assert_failed(result, 2 * SOON_S)
        assert (OUTCOMES | TEXTS)[mode][1:] in result.text


def test_an_answer_without_a_readable_id_fails_the_only_call_that_is_waited_for(tmp_path: Path) -> None:
    async def go(trial: Trial) -> ToolResult:
        stopped = asyncio.create_task(trial.act())
        await asyncio.sleep(0)
        await trial.echo()  # the call before it has arrived
        stopped.cancel()
        await asyncio.wait([stopped])
        return await trial.act()

    result = try_one(tmp_path, "no-id-later", go)
    assert_failed(result, SOON_S)
    assert "not JSON" in result.text


def test_each_call_gets_its_own_answer(tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[str]:
        results = await asyncio.gather(trial.act(text="one"), trial.act(text="two"))
        return [*(result.text for result in results), await trial.echo("three")]

    told = try_all(tmp_path, ["out-of-order", "duplicate-ids"], go)
    assert told == {"out-of-order": ["one", "two", "three"], "duplicate-ids": ["FIRST", "FIRST", "three"]}


def test_two_calls_at_once_fail_in_time_where_neither_answer_can_be_assigned(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[list[ToolResult], str]:
        return list(await asyncio.gather(trial.act(), trial.act())), await trial.echo()

    results, echo = try_one(tmp_path, "deep-json", go, timeout_s=0.5)
    for result in results:
        assert_failed(result, 0.5)
    assert echo == "still here"


def nest(depth: int) -> list[Any]:
    return [nest(depth - 1)] if depth else []


# What the server gets, or a part of why it is not sent.
SENT: list[tuple[Any, str]] = [
    ("half \ud800 a character", "half \ufffd a character"),
    (float("nan"), "None"),
    ({1: 2}, "{'1': 2}"),
    (10**5000, "✗cannot be sent"),
    ("x" * (5 << 20), "✗message too large (5 MB), limit 4 MB"),
    (nest(150), "✗nested too deep"),
    (nest(900), "✗"),
    (b"bytes", "bytes"),
    ({1, 2}, "[1, 2]"),
]


def test_arguments_that_json_cannot_hold_are_repaired_or_fail_their_call_alone(tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[tuple[str, str]]:
        results = [await trial.act(text=value) for value, _ in SENT]
        names = [await trial.act(**{name: 1}) for name in ("a\ud800", "\udfff")]
        for result, name in zip(names, ("a\\ud800", "\\udfff"), strict=True):
            assert_failed(result, SOON_S)
            assert f'argument name "{name}"' in result.text
        assert await trial.echo() == "still here"
        return [(result.status, result.text) for result in results]

    for (status, text), (_, expected) in zip(try_one(tmp_path, "ok", go), SENT, strict=True):
        if expected.startswith("✗"):
            assert status == "failed" and expected[1:] in text
        else:
            assert (status, text) == ("completed", expected)


def test_of_many_questions_at_once_few_are_answered_and_the_others_refused() -> None:
    config = in_memory("server-request-flood")
    channel = MemoryChannel(config)
    assert DirectClient(config, channel).request("tools/call", {"name": "act"}, "call", 5)["content"][0]["text"] == DONE
    refusals = [message["error"]["message"] for message in channel.server.heard if "error" in message]
    assert refusals.count("Too many requests at once.") == 20_000 - 10
    assert len(refusals) == 20_000


def test_a_request_is_waited_for_in_vain_and_a_late_answer_is_not_that_of_the_next(tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[str]:
        late = await trial.act()
        waiting = asyncio.create_task(trial.act())  # the answer to the first comes while the second waits
        echoes = [await trial.echo("one"), await trial.echo("two")]
        await wait_for(waiting.done)
        return [late.status, *echoes, waiting.result().status]

    assert try_one(tmp_path, "late-reply", go, timeout_s=0.07) == ["failed", "one", "two", "failed"]
