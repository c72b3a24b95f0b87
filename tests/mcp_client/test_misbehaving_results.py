"""Whatever a result holds, the model gets a text, the chat goes on, and nothing else of the answer is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from rkllm_chat.core.messages import ToolResult

from .chaos_results import RESULTS
from .faults import Trial, act_and_echo, assert_failed, try_mode, try_modes

TEXTS = ("ansi-escape", "injection", "markdown-exfil", "unicode-trick", "redos", "markers")
# Mode -> the text of the call's result.
READ = {
    **{mode: RESULTS[mode]["content"][0]["text"] for mode in TEXTS},
    "result-empty": "(no content)",
    "result-no-content": "(no content)",
    "result-null-content": "(no content)",
    "structured-only": '{"value": 7}',
    "resource-link": "[resource x://y, y]",
}
# Mode -> a part of why the call fails.
REFUSED = {
    **dict.fromkeys(("rpc-error", "rpc-error-closed", "rpc-error-timeout"), "no such file"),
    **dict.fromkeys(("rpc-error-weird", "rpc-error-no-code", "rpc-error-null", "rpc-error-odd-code", "neither"), ""),
    **dict.fromkeys(("result-null", "result-list", "result-text", "is-error-text", "unknown-type"), ""),
    "structured-mismatch": "must be a number",
    "structured-missing": "did not return structured content",
}


@pytest.mark.slow
def test_a_result_becomes_a_text(tmp_path: Path) -> None:
    told = try_modes(tmp_path, READ, act_and_echo)
    texts = {mode: (result.status, result.text, echo) for mode, (result, echo) in told.items()}
    assert texts == {mode: ("completed", text, "still here") for mode, text in READ.items()}


def test_known_blocks_are_shown_beside_unknown_ones(tmp_path: Path) -> None:
    modes = ("result-unknown-block", "result-bad-image", "result-nonstring")
    for result, echo in try_modes(tmp_path, modes, act_and_echo).values():
        assert result.status == "completed"
        assert "known" in result.text.splitlines()
        assert echo == "still here"


def test_an_error_of_the_tool_is_a_failed_call(tmp_path: Path) -> None:
    told = try_modes(tmp_path, ["is-error", "is-error-empty"], act_and_echo)
    assert {result.status for result, *_ in told.values()} == {"failed"}
    assert told["is-error"][0].text == "the disk is full"
    assert told["is-error-empty"][0].text


@pytest.mark.slow
def test_an_error_or_an_invalid_answer_fails_the_call_at_once_and_says_why(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, str, int]:
        return *await act_and_echo(trial), trial.lives()

    for mode, (result, echo, lives) in try_modes(tmp_path, REFUSED, go).items():
        assert_failed(result, 0.5)
        assert REFUSED[mode] in result.text
        assert (result.structured, echo, lives) == (None, "still here", 1)
    result, echo = try_mode(tmp_path, "structured-odd", act_and_echo, eras="handshake")
    assert_failed(result, 0.5)
    assert echo == "still here"


def test_an_argument_name_with_a_lone_surrogate_is_not_sent(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[list[ToolResult], int, str]:
        results = [await trial.act(**arguments) for arguments in ({"a\ud800": 1}, {"a": [{"b": {"\udfffc": 1}}]})]
        return results, len(trial.heard("tools/call")), await trial.echo("half \ud800 a character")

    results, sent, echo = try_mode(tmp_path, "ok", go)
    for result, name in zip(results, ("a\\ud800", "\\udfffc"), strict=True):
        assert_failed(result, 1)
        assert f'argument name "{name}"' in result.text
    assert (sent, echo) == (0, "half \ufffd a character")
