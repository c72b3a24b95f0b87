"""What a server logs: from which level on, into its own file, and what of it is shown to whoever sits there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.errors import UsageError
from rkllm_chat.servers.asks import Asks
from rkllm_chat.servers.toolbox import Toolbox

from .faults import Trial, chaos, try_mode

LEVEL_KEY = "io.modelcontextprotocol/logLevel"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


async def asked_for(trial: Trial, eras: str) -> list[str]:
    """The levels that the server was asked for: once when it was opened, or with each call of `act`."""
    await trial.act()
    if eras == "handshake":
        return [message["params"]["level"] for message in trial.heard("logging/setLevel")]
    calls = [message["params"] for message in trial.heard("tools/call") if message["params"]["name"] == "act"]
    return [call["_meta"][LEVEL_KEY] for call in calls]


@pytest.mark.parametrize("eras", ["handshake", "modern"])
@pytest.mark.parametrize(("options", "level"), [({}, "warning"), ({"log_level": "debug"}, "debug")])
def test_a_server_is_told_from_which_level_on_to_log(
    options: dict[str, Any], level: str, eras: str, tmp_path: Path
) -> None:
    assert try_mode(tmp_path, "logs", lambda trial: asked_for(trial, eras), eras=eras, **options) == [level]


@pytest.mark.parametrize("eras", ["handshake", "modern"])
def test_the_level_can_be_changed_and_holds_for_later_starts(eras: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[str]:
        await asked_for(trial, eras)
        await trial.toolbox.connections["chaos"].set_log_level("error")
        await asked_for(trial, eras)
        await trial.toolbox.restart("chaos")
        return await asked_for(trial, eras)

    assert try_mode(tmp_path, "logs", go, eras=eras) == ["warning", "error", "error"]


def test_a_level_that_there_is_not_is_refused(tmp_path: Path) -> None:
    async def go(trial: Trial) -> str:
        with pytest.raises(UsageError) as error:
            await trial.toolbox.connections["chaos"].set_log_level("loud")
        return str(error.value)

    said = try_mode(tmp_path, "logs", go)
    assert said.startswith('There is no log level "loud". Known are debug, info,')


@pytest.mark.parametrize("mode", ["ok", "logs-refused"])
def test_a_server_without_a_log_and_one_that_takes_no_level_are_used_as_they_are(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, int]:
        return await trial.echo(), len(trial.heard("logging/setLevel"))

    assert try_mode(tmp_path, mode, go, eras="handshake") == ("still here", 1 if mode == "logs-refused" else 0)


def test_all_is_written_down_and_warnings_are_shown(tmp_path: Path) -> None:
    shown: list[tuple[str, str, str]] = []

    async def go() -> str:
        asks = Asks(on_log=lambda *line: shown.append(line))
        async with Toolbox([chaos(tmp_path, "logs")], tmp_path / "logs", asks) as box:
            return (await Trial(box, tmp_path).act()).text

    assert asyncio.run(go()) == "act is done"
    log = (tmp_path / "logs/chaos.log").read_text(encoding="utf-8")
    assert "\x1b" not in log
    assert [line.partition("]")[0][1:] for line in log.splitlines()] == LEVELS
    assert [(server, level) for server, level, _ in shown] == [("chaos", level) for level in LEVELS[3:]]
    assert all(f"a line of {level}" in text and text.isprintable() for _, level, text in shown)
