"""A server that nobody uses is pinged, and may be closed until it is needed again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rkllm_chat.mcp_client.handlers import ChangeKind, ClientHandlers, ServerChange
from rkllm_chat.mcp_client.toolbox import Toolbox

from .faults import Trial, chaos, try_each, try_mode, try_servers, wait_for

PING_S = 0.3


def count_pings(trial: Trial, server: str = "") -> int:
    """Those after the first question of the newer protocol, which is always there."""
    return len(trial.heard("ping", server)) + max(0, len(trial.heard("server/discover", server)) - 1)


@pytest.mark.slow
def test_an_idle_server_is_pinged_and_stays_open(tmp_path: Path) -> None:
    """An error is an answer, and one miss is forgiven."""

    async def go(trial: Trial) -> tuple[bool, int, str]:
        await wait_for(lambda: count_pings(trial) >= 4, 10)
        return trial.is_connected, trial.lives(), await trial.echo()

    configs = [chaos(tmp_path, mode, mode, ping_s=PING_S) for mode in ("ok", "ping-error", "ping-sometimes")]
    assert set(try_each(tmp_path, configs, go).values()) == {(True, 1, "still here")}


@pytest.mark.slow
def test_an_idle_server_that_answers_no_more_is_replaced(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, int]:
        assert (await trial.act()).text == "act is done"
        await wait_for(lambda: trial.server in trial.toolbox.failures, 10)
        assert "does not answer" in trial.failure.message
        return await trial.echo(), trial.lives()

    configs = [chaos(tmp_path, "stops-when-idle", eras, eras=eras, ping_s=PING_S) for eras in ("handshake", "modern")]
    assert set(try_each(tmp_path, configs, go).values()) == {("still here", 2)}


@pytest.mark.slow
def test_a_server_in_use_or_without_pings_is_not_pinged(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[int, int]:
        await trial.act()
        asked_in_use = count_pings(trial)
        await wait_for(lambda: count_pings(trial) >= 2)
        return asked_in_use, count_pings(trial, "unasked")

    busy = chaos(tmp_path, "late-reply", delay_s=4 * PING_S, ping_s=PING_S)
    unasked = chaos(tmp_path, "ok", "unasked", ping_s=0)
    asked_in_use, asked_never = try_servers(tmp_path, busy, unasked, then=go)
    assert asked_in_use <= 1  # one may fall between its start and the call
    assert asked_never == 0


@pytest.mark.slow
def test_an_idle_server_is_closed_and_started_when_it_is_needed(tmp_path: Path) -> None:
    changes: list[ServerChange] = []

    async def go() -> list[str]:
        asks = ClientHandlers(on_change=changes.append)
        async with Toolbox([chaos(tmp_path, "ok", idle_s=0.1)], tmp_path / "logs", asks) as toolbox:
            trial, chaos_state = Trial(toolbox, tmp_path), toolbox.connections["chaos"]
            echoes = []
            for number in range(7):  # more often than a server that dies may be started again
                await wait_for(lambda: chaos_state.lifecycle.state == "idle")
                assert trial.names() == ["echo", "add", "act"] and not toolbox.failures
                echoes.append(await trial.echo(f"echo {number}"))
            return echoes

    assert asyncio.run(go()) == [f"echo {number}" for number in range(7)]
    assert changes == [ServerChange("chaos", ChangeKind.OPENED)]


def test_calls_that_come_as_their_idle_server_is_closed_are_answered(tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[str]:
        connection, echoes = trial.toolbox.connections["chaos"], []
        for number in range(3):
            await wait_for(lambda: connection.lifecycle.state == "idle")
            echoes += await asyncio.gather(*(trial.echo(f"echo {number}") for _ in range(3)))
        return echoes

    echoes = try_mode(tmp_path, "ok", go, idle_s=0.05)
    assert echoes == [f"echo {number}" for number in range(3) for _ in range(3)]


@pytest.mark.slow
def test_a_server_in_use_or_with_a_subscription_is_not_closed(tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, list[str]]:
        await trial.toolbox.subscribe("followed", "x://y")
        text = (await trial.act()).text
        lives = trial.lives()
        assert lives <= 2  # it may have rested before the call
        await wait_for(lambda: trial.toolbox.connections["chaos"].lifecycle.state == "idle")
        return text, [connection.lifecycle.state for connection in trial.toolbox.connections.values()]

    busy = chaos(tmp_path, "late-reply", delay_s=0.6, idle_s=0.2)
    followed = chaos(tmp_path, "ok", "followed", idle_s=0.2)
    text, states = try_servers(tmp_path, busy, followed, then=go)
    assert text == "LATE-RESULT"
    assert states == ["idle", "open", "open"]
