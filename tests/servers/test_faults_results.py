"""Whatever a result holds, the model gets a text, the chat goes on, and nothing else of the answer is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rkllm_chat.messages import ToolResult

from .chaos_results import RESULTS
from .faults import Trial, assert_told, rows, try_mode


async def act_and_echo(trial: Trial) -> tuple[ToolResult, str]:
    return await trial.act(), await trial.echo()


def text_of(mode: str) -> str:
    """The only text of a mode's result."""
    (block,) = RESULTS[mode][1]["content"]
    return str(block["text"])


@pytest.mark.parametrize(
    ("mode", "text"),
    rows(
        *(("58", mode, text_of(mode)) for mode in ("ansi-escape", "injection", "markdown-exfil", "unicode-trick")),
        *(("62", mode, text_of(mode)) for mode in ("secret", "redos", "approval-claim", "open-fence", "markers")),
        ("69", "result-empty", "(no content)"),
        ("69", "result-no-content", "(no content)"),
        ("69", "result-null-content", "(no content)"),
        ("72", "structured-only", '{"value": 7}'),
        ("72", "resource-link", "[resource x://y, y]"),
    ),
)
@pytest.mark.parametrize("eras", ["modern", "handshake"])
def test_a_result_is_a_text(mode: str, text: str, eras: str, tmp_path: Path) -> None:
    result, echo = try_mode(tmp_path, mode, act_and_echo, eras=eras)
    assert (result.status, result.text, echo) == ("completed", text, "still here")


@pytest.mark.parametrize(
    "mode", rows(("70", "result-unknown-block"), ("71", "result-bad-image"), ("72", "result-nonstring"))
)
def test_blocks_that_are_known_are_shown_beside_those_that_are_not(mode: str, tmp_path: Path) -> None:
    result, echo = try_mode(tmp_path, mode, act_and_echo)
    assert result.status == "completed"
    assert "known" in result.text.splitlines()
    assert echo == "still here"


@pytest.mark.parametrize(
    ("mode", "cause"),
    rows(
        ("63", "is-error", "the disk is full"),
        ("63", "is-error-empty", ""),
        ("64", "rpc-error", "no such file"),
        ("64", "rpc-error-closed", "no such file"),
        ("64", "rpc-error-timeout", "no such file"),
        ("65", "rpc-error-weird", ""),
        ("65", "rpc-error-no-code", ""),
        ("65", "rpc-error-null", ""),
        ("65", "rpc-error-odd-code", ""),
        ("66", "neither", ""),
        ("67", "result-null", ""),
        ("67", "result-list", ""),
        ("67", "result-text", ""),
        ("73", "structured-mismatch", ""),
        ("73", "is-error-text", ""),
    ),
)
@pytest.mark.parametrize("eras", ["modern", "handshake"])
def test_an_answer_that_is_an_error_or_none_fails_the_call_at_once(
    mode: str, cause: str, eras: str, tmp_path: Path
) -> None:
    async def go(trial: Trial) -> tuple[ToolResult, str, int]:
        return *await act_and_echo(trial), trial.lives()

    result, echo, lives = try_mode(tmp_path, mode, go, eras=eras)
    if mode.startswith("is-error"):
        assert result.status == "failed"
    else:
        assert_told(result, 0.5)
    assert cause in result.text and result.text
    json.dumps(result.structured, allow_nan=False).encode()
    assert (echo, lives) == ("still here", 1)


@pytest.mark.parametrize(
    ("mode", "eras"), rows(("73", "structured-odd", "handshake"), ("73", "unknown-type", "modern"))
)
def test_what_an_era_does_not_know_fails_the_call(mode: str, eras: str, tmp_path: Path) -> None:
    result, echo = try_mode(tmp_path, mode, act_and_echo, eras=eras)
    assert_told(result, 0.5)
    assert echo == "still here"


@pytest.mark.parametrize("eras", ["modern", "handshake"])
@pytest.mark.parametrize(
    ("mode", "cause"),
    rows(
        ("72", "structured-mismatch", "returned by tool act: 'seven' is not of type 'number'"),
        ("72", "structured-missing", "Tool act has an output schema but did not return structured content"),
        ("72", "schema-odd", "Invalid schema for tool act"),
    ),
)
def test_a_result_that_does_not_fit_its_schema_is_a_failed_call_that_says_so(
    mode: str, cause: str, eras: str, tmp_path: Path
) -> None:
    result, echo = try_mode(tmp_path, mode, act_and_echo, eras=eras)
    assert_told(result, 1)
    assert 'Server "chaos" gave a result that does not fit what it promised: ' in result.text
    assert cause in result.text
    assert (result.structured, echo) == (None, "still here")


def test_an_argument_name_that_is_no_text_is_our_fault_and_not_sent(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[list[ToolResult], int, str]:
        results = [await trial.act(**arguments) for arguments in ({"a\ud800": 1}, {"a": [{"b": {"\udfffc": 1}}]})]
        return results, len(trial.heard("tools/call")), await trial.echo("half \ud800 a character")

    results, sent, echo = try_mode(tmp_path, "ok", go)
    for result, name in zip(results, ("a\\ud800", "\\udfffc"), strict=True):
        assert_told(result, 1)
        assert result.text == f'The tool "act" of server "chaos" was not called: the argument name "{name}" is no text.'
    assert (sent, echo) == (0, "half \ufffd a character")
