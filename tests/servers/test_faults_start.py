"""However a server starts or fails to, it is told in time and in words, and the other servers go on."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from rkllm_chat.config import ServerConfig

from .faults import (
    SLACK,
    Trial,
    assert_one_line,
    fault,
    rows,
    try_mode,
    try_servers,
    wait_until_gone,
)


def odd_program(folder: Path, kind: str) -> str:
    """A command that cannot be started, of a kind."""
    path = folder / "odd"
    match kind:
        case "missing":
            return "no-such-command-anywhere"
        case "folder":
            path.mkdir()
        case "not executable":
            path.write_text("#!/bin/sh\n", encoding="ascii")
        case "other architecture":
            path.write_bytes(b"\x7fELF\x02\x01\x01\0" + bytes(56))
            path.chmod(0o755)
        case "no interpreter":
            path.write_text("#!/no/such/interpreter\n", encoding="ascii")
            path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("kind", "cause"),
    rows(
        ("F01", "missing", "cannot be found"),
        ("F02", "folder", "is a folder"),
        ("F02", "not executable", "is not executable"),
        ("F02", "other architecture", "Exec format error"),
        ("F02", "no interpreter", "cannot be started"),
    ),
)
def test_a_command_that_cannot_be_started_says_why(kind: str, cause: str, tmp_path: Path) -> None:
    command = odd_program(tmp_path, kind)

    async def look(trial: Trial) -> tuple[str, float]:
        return str(trial.failure), trial.opened_s

    told, seconds = try_servers(tmp_path, ServerConfig("chaos", command=command), then=look)
    assert cause in told and command in told
    assert ("PATH" in told) == (kind in ("missing", "folder", "not executable"))
    assert_one_line(told)
    assert seconds <= 0.5 * SLACK


async def tell_failure(trial: Trial) -> tuple[str, float, int]:
    return trial.failure.message, trial.opened_s, trial.lives()


@pytest.mark.parametrize(
    ("mode", "cause", "within_s"),
    rows(
        ("F03", "exit-at-start", "exited with 3", 0.5),
        ("F04", "hang-on-init", "did not start within 1 s", 1.0),
        ("F05", "slow-start", "did not start within 1 s", 1.0),
        ("F06", "init-error", "no licence for this machine", 0.5),
        ("F07", "init-wrong-id", "", 1.0),
        ("F07", "init-null-result", "", 1.0),
        ("F08", "init-bad-version", "1999-12-31", 0.5),
        ("F71", "list-hang", "did not start within 1 s", 1.0),
        ("F71", "list-error", "the list is lost", 0.5),
        ("F71", "list-huge", "too large", 2.0),
    ),
)
def test_a_server_that_does_not_come_up_says_why_and_is_tried_once(
    mode: str, cause: str, within_s: float, tmp_path: Path
) -> None:
    told, seconds, lives = try_mode(tmp_path, mode, tell_failure, connect_s=1 if within_s == 1 else 20, delay_s=30)
    assert cause in told
    assert_one_line(told)
    assert seconds <= within_s * SLACK
    assert lives == (2 if mode == "exit-at-start" else 1)  # it may have died of the newer protocol's first question


@fault("F03", "exit-at-start")
def test_the_last_words_of_a_server_are_told(mode: str, tmp_path: Path) -> None:
    told, *_ = try_mode(tmp_path, mode, tell_failure)
    for number in (5, 6, 7):
        assert f"last word {number}" in told


@fault("F08", "init-bad-version")
def test_both_versions_are_named_when_there_is_no_common_one(mode: str, tmp_path: Path) -> None:
    told, *_ = try_mode(tmp_path, mode, tell_failure)
    assert "1999-12-31" in told and "2025-11-25" in told


@fault("F04", "hang-on-init")
def test_a_server_that_hung_at_its_start_is_gone_while_the_chat_goes_on(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[int]:
        pids = [entry["pid"] for entry in trial.events("start")]
        return await asyncio.to_thread(wait_until_gone, pids, 4)

    assert try_mode(tmp_path, mode, go, connect_s=0.5) == []


@pytest.mark.parametrize(
    ("mode", "lives", "within_s"),
    rows(
        ("F05", "slow-start", 1, 1.0),
        ("F09", "hang-on-discover", 1, 2.0),
        ("F10", "crash-on-discover", 2, 1.0),
        ("F09", "discover-garbage", 1, 1.0),
        ("F07", "init-twice", 1, 1.0),
        ("F07", "speaks-first", 1, 1.0),
        ("F41", "notice-refused", 1, 1.0),
        ("F07", "init-long-instructions", 1, 1.0),
    ),
)
def test_an_odd_start_is_a_start(mode: str, lives: int, within_s: float, tmp_path: Path) -> None:
    async def look(trial: Trial) -> tuple[str, float, int]:
        return await trial.echo(), trial.opened_s, trial.lives()

    echo, seconds, found = try_mode(tmp_path, mode, look, delay_s=0.5)
    assert (echo, found) == ("still here", lives)
    assert seconds <= within_s * (SLACK if within_s == 1 else 1.5)


@fault("F05", "slow-start")
def test_a_start_may_take_longer_than_a_call(mode: str, tmp_path: Path) -> None:
    async def look(trial: Trial) -> tuple[str, int]:
        return await trial.echo(), trial.lives()

    assert try_mode(tmp_path, mode, look, delay_s=0.8, timeout_s=0.3) == ("still here", 1)


@fault("F05", "slow-start")
@pytest.mark.parametrize("eras", ["modern", "handshake"])
def test_a_server_that_is_slower_than_the_first_question_is_used(mode: str, eras: str, tmp_path: Path) -> None:
    async def look(trial: Trial) -> str:
        return await trial.echo()

    assert try_mode(tmp_path, mode, look, delay_s=2.5, eras=eras) == "still here"


@fault("F10", "crash-on-discover")
def test_a_server_that_dies_of_a_question_is_not_asked_it_again(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[str]:
        await trial.toolbox.restart("chaos")
        assert await trial.echo() == "still here"
        return [message["method"] for message in (entry["message"] for entry in trial.events("in"))]

    assert try_mode(tmp_path, mode, go).count("server/discover") == 1


@fault("F10", "exit-at-first-starts")
def test_a_server_that_could_not_start_is_asked_anew_when_it_can(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> str:
        assert "exited with 3" in trial.failure.message
        await trial.toolbox.restart("chaos")
        return await trial.echo()

    assert try_mode(tmp_path, mode, go) == "still here"


@fault("F11", "no-tools-capability")
def test_a_server_without_tools_is_not_asked_for_any(mode: str, tmp_path: Path) -> None:
    async def look(trial: Trial) -> tuple[bool, bool, list[str], int]:
        is_failed = "chaos" in trial.toolbox.failures
        return trial.toolbox.is_connected("chaos"), is_failed, trial.names(), len(trial.heard("tools/list"))

    assert try_mode(tmp_path, mode, look) == (True, False, [], 0)


def test_a_program_that_is_no_server_fails_as_one(tmp_path: Path) -> None:
    configs = [
        ServerConfig("cat", command="cat", connect_s=1),
        ServerConfig("yes", command="yes", connect_s=1),
        ServerConfig("true", command="true", connect_s=1),
        ServerConfig("help", command=sys.executable, args=("--help",), connect_s=1),
    ]

    async def look(trial: Trial) -> dict[str, str]:
        return {server: error.message for server, error in trial.toolbox.failures.items()}

    told = try_servers(tmp_path, *configs, then=look)
    assert list(told) == ["cat", "yes", "true", "help"]
    for server, text in told.items():
        assert_one_line(text, server)
