"""A server that nobody uses is asked whether it lives, and may rest until it is needed again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rkllm_chat.servers.asks import Asks
from rkllm_chat.servers.toolbox import Toolbox

from .faults import Trial, chaos, rows, try_mode, try_servers, wait_for

PING_S = 0.5
PINGS = {"handshake": "ping", "modern": "server/discover"}
BOTH_ERAS = pytest.mark.parametrize("eras", PINGS)


def count_pings(trial: Trial, eras: str, server: str = "chaos") -> int:
    """Those after the first question of all, which is always there."""
    return len(trial.heard(PINGS[eras], server)) - (eras == "modern")


@BOTH_ERAS
def test_an_idle_server_is_asked_whether_it_lives_and_lives_on(eras: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[int, str]:
        await wait_for(lambda: count_pings(trial, eras) >= 3)
        assert trial.toolbox.is_connected("chaos")
        return trial.lives(), await trial.echo()

    assert try_mode(tmp_path, "ok", go, eras=eras, ping_s=PING_S) == (1, "still here")


@BOTH_ERAS
def test_an_idle_server_that_answers_no_more_is_taken_as_dead_and_replaced(eras: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, str, int]:
        assert (await trial.act()).text == "act is done"
        await wait_for(lambda: "chaos" in trial.toolbox.failures, 10)
        return trial.failure.message, await trial.echo(), trial.lives()

    told = try_mode(tmp_path, "stops-when-idle", go, eras=eras, ping_s=PING_S)
    assert told == ('Server "chaos" does not answer any more.', "still here", 2)


@pytest.mark.parametrize("mode", rows(("", "ping-error"), ("", "ping-sometimes")))
def test_an_error_is_an_answer_and_one_miss_is_forgiven(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[bool, int]:
        await wait_for(lambda: count_pings(trial, "handshake") >= 5, 10)
        return trial.toolbox.is_connected("chaos"), trial.lives()

    assert try_mode(tmp_path, mode, go, ping_s=PING_S) == (True, 1)


def test_a_server_in_use_is_not_asked_nor_one_that_is_not_to_be(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[int, int]:
        await trial.act()
        asked_in_use = count_pings(trial, "modern")
        await wait_for(lambda: count_pings(trial, "modern") >= 2)
        return asked_in_use, count_pings(trial, "modern", "unasked")

    busy = chaos(tmp_path, "late-reply", delay_s=4 * PING_S, ping_s=PING_S)
    unasked = chaos(tmp_path, "ok", "unasked", ping_s=0)
    asked_in_use, asked_never = try_servers(tmp_path, busy, unasked, then=go)
    assert asked_in_use <= 1  # one may fall between its start and the call
    assert asked_never == 0


def test_a_server_rests_when_nobody_needs_it_and_is_there_when_somebody_does(tmp_path: Path) -> None:
    changes: list[tuple[str, str]] = []

    async def go() -> list[str]:
        asks = Asks(on_change=lambda *change: changes.append(change))
        async with Toolbox([chaos(tmp_path, "ok", idle_s=0.1)], tmp_path / "logs", asks) as box:
            trial, chaos_state = Trial(box, tmp_path), box.connections["chaos"]
            echoes = []
            for number in range(7):  # more often than a server that dies may be started again
                await wait_for(lambda: chaos_state.state == "idle")
                assert trial.names() == ["echo", "add", "act"] and not box.failures
                echoes.append(await trial.echo(f"echo {number}"))
            return echoes

    assert asyncio.run(go()) == [f"echo {number}" for number in range(7)]
    assert changes == [("chaos", "open")]


def test_a_call_that_comes_as_its_server_goes_to_rest_is_answered(tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[str]:
        connection, echoes = trial.toolbox.connections["chaos"], []
        for number in range(5):
            await wait_for(lambda: connection.state == "idle")
            echoes += await asyncio.gather(*(trial.echo(f"echo {number}") for _ in range(3)))
        return echoes

    echoes = try_mode(tmp_path, "ok", go, idle_s=0.05)
    assert echoes == [f"echo {number}" for number in range(5) for _ in range(3)]


def test_a_server_in_use_does_not_rest_nor_one_whose_news_is_wanted(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, list[str]]:
        await trial.toolbox.subscribe("followed", "x://y")
        text = (await trial.act()).text
        lives = trial.lives()
        assert lives <= 2  # it may have rested before the call
        await wait_for(lambda: trial.toolbox.connections["chaos"].state == "idle")
        return text, [one.state for one in trial.toolbox.connections.values()]

    busy = chaos(tmp_path, "late-reply", delay_s=0.6, idle_s=0.2)
    followed = chaos(tmp_path, "ok", "followed", idle_s=0.2)
    text, states = try_servers(tmp_path, busy, followed, then=go)
    assert text == "LATE-RESULT"
    assert states == ["idle", "open", "open"]
