"""However a server starts or fails to, the user is told in time and in words, and the other servers go on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cpu_time import allow_s
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import ProtocolError
from rkllm_chat.mcp_client.direct.open_server import open_server

from .faults import Trial, act_and_echo, assert_one_line, chaos, tell_failure, try_each, try_mode, try_modes


@pytest.mark.slow
def test_a_server_that_takes_long_to_start_is_waited_for(tmp_path: Path) -> None:
    """As a program that a package runner fetches first: longer than the SDK waits for two messages, 10 s each."""
    server = chaos(tmp_path, "ok", "late")
    arguments = ("-c", 'sleep 21; exec "$0" "$@"', server.command, *server.args)

    async def look(trial: Trial) -> bool:
        return trial.is_connected

    assert try_each(tmp_path, [replace(server, command="sh", args=arguments, connect_s=60.0)], look) == {"late": True}


def test_a_configuration_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """What a command lacks is in test_direct_client.py; that the system cannot start it is found out when it is."""
    (tmp_path / "program").write_text("#!/no/such/interpreter\n", encoding="ascii")
    (tmp_path / "program").chmod(0o755)
    causes = {
        "no-interpreter": (ServerConfig("no-interpreter", command=f"{tmp_path}/program"), "cannot be started: No such"),
        "no-folder": (ServerConfig("no-folder", command=sys.executable, cwd="/no/such/folder"), "there is no folder"),
        "http": (ServerConfig("http", url="http://127.0.0.1:1/mcp"), "cannot be reached: Connection refused"),
        "sse": (
            ServerConfig("sse", url="http://127.0.0.1:1/", transport="sse"),
            "cannot be reached: Connection refused",
        ),
        "websocket": (ServerConfig("websocket", url="ws://127.0.0.1:1/"), "cannot be opened: Connection refused"),
        "cat": (
            ServerConfig("cat", command="cat"),
            'Server "cat" cannot be opened: it sends back what it receives and is no MCP server.',
        ),
        "pigeon": (
            ServerConfig("pigeon", url="http://127.0.0.1:1/", transport="pigeon"),
            "stdio, http, sse, websocket",
        ),
    }

    async def look(trial: Trial) -> str:
        return str(trial.failure)

    told = try_each(tmp_path, [config for config, _ in causes.values()], look)
    for name, (_, cause) in causes.items():
        assert cause in told[name]
        assert_one_line(told[name], name)
    with (
        pytest.raises(ProtocolError, match="it sends back what it receives"),
        open_server(causes["cat"][0]) as opened,
    ):
        opened.list_all_tools()


# Mode -> a part of what the user is told, and how often it was started.
FAILING = {
    "exit-at-start": ("exited with 3", 2),  # it may have died of the newer protocol's first question
    "init-error": ("no licence for this machine", 1),
    "init-null-result": ("", 1),
    "init-bad-version": ("1999-12-31", 1),
    "list-error": ("the list is lost", 1),
    "list-huge": ("too large", 1),
}
SILENT = ("hang-on-init", "slow-start", "init-wrong-id", "list-hang")


async def tell_failure_and_lives(trial: Trial) -> tuple[str, float, int]:
    return *await tell_failure(trial), trial.lives()


@pytest.mark.slow
def test_a_server_that_fails_to_start_says_why(tmp_path: Path) -> None:
    found = try_modes(tmp_path, FAILING, tell_failure_and_lives)
    for mode, (told, seconds, lives) in found.items():
        cause, starts = FAILING[mode]
        assert cause in told and lives == starts, mode
        assert_one_line(told, mode)
        assert seconds <= allow_s(2)
    assert all(f"last word {number}" in found["exit-at-start"][0] for number in (5, 6, 7))
    assert "2025-11-25" in found["init-bad-version"][0], "a version that is known here"


@pytest.mark.slow
def test_a_server_that_does_not_answer_at_its_start_is_given_up_and_ended(tmp_path: Path) -> None:
    async def look(trial: Trial) -> tuple[str, float, int]:
        await trial.see_all_end(4)
        return await tell_failure_and_lives(trial)

    for mode, (told, seconds, lives) in try_modes(tmp_path, SILENT, look, connect_s=0.6, delay_s=30).items():
        assert mode == "init-wrong-id" or "did not start within 0.6 s" in told
        assert_one_line(told, mode)
        assert seconds <= allow_s(1) and lives == 1


# Mode -> how often it was started.
ODD = {
    "slow-start": 1,
    "crash-on-discover": 2,
    "discover-garbage": 1,
    "init-twice": 1,
    "speaks-first": 1,
    "notice-refused": 1,
    "init-long-instructions": 1,
}


@pytest.mark.slow
def test_a_server_that_starts_in_an_unusual_way_is_used(tmp_path: Path) -> None:
    """A start may take longer than a call."""

    async def look(trial: Trial) -> tuple[str, int]:
        assert trial.opened_s <= allow_s(2)
        return await trial.echo(), trial.lives()

    configs = [chaos(tmp_path, mode, mode, delay_s=0.7, timeout_s=0.6) for mode in ODD]
    found = try_each(tmp_path, configs, look)
    assert found == {mode: ("still here", lives) for mode, lives in ODD.items()}


@pytest.mark.slow
def test_a_server_that_is_slow_or_silent_at_the_first_question_is_used(tmp_path: Path) -> None:
    async def look(trial: Trial) -> str:
        assert trial.opened_s <= allow_s(2)
        return await trial.echo()

    configs = [chaos(tmp_path, "slow-start", eras, delay_s=2.2, eras=eras) for eras in ("modern", "handshake")]
    configs.append(chaos(tmp_path, "hang-on-discover", "silent"))
    assert set(try_each(tmp_path, configs, look).values()) == {"still here"}


def test_a_server_that_dies_of_the_newer_protocol_is_not_asked_in_it_again(tmp_path: Path) -> None:
    async def go(trial: Trial) -> int:
        await trial.toolbox.restart("chaos")
        assert await trial.echo() == "still here"
        return len(trial.heard("server/discover"))

    assert try_mode(tmp_path, "crash-on-discover", go) == 1


def test_a_server_that_could_not_start_is_asked_in_the_newer_protocol_when_it_can(tmp_path: Path) -> None:
    async def go(trial: Trial) -> str:
        assert "exited with 3" in trial.failure.message
        await trial.toolbox.restart("chaos")
        return await trial.echo()

    assert try_mode(tmp_path, "exit-at-first-starts", go) == "still here"


def test_a_server_without_tools_is_not_asked_for_any(tmp_path: Path) -> None:
    async def look(trial: Trial) -> tuple[bool, bool, list[str], int]:
        return trial.is_connected, "chaos" in trial.toolbox.failures, trial.names(), len(trial.heard("tools/list"))

    assert try_mode(tmp_path, "no-tools-capability", look) == (True, False, [], 0)


@pytest.mark.slow
def test_a_program_that_is_no_server_fails_alone(tmp_path: Path) -> None:
    configs = [ServerConfig(command, command=command, connect_s=1) for command in ("cat", "yes", "true")]
    for server, (text, _) in try_each(tmp_path, configs, tell_failure).items():
        assert_one_line(text, server)


@pytest.mark.slow
def test_a_list_of_resources_that_never_comes_costs_no_tools(tmp_path: Path) -> None:
    result, echo = try_mode(tmp_path, "mute-resources/list", act_and_echo, connect_s=6)
    assert (result.text, echo) == ("act is done", "still here")
