"""What a server logs: from which level on, into its own file, and what of it is shown to the user."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rkllm_chat.mcp_client.handlers import ClientHandlers
from rkllm_chat.mcp_client.toolbox import Toolbox

from .faults import Trial, chaos, try_each, try_mode

LEVEL_KEY = "io.modelcontextprotocol/logLevel"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


async def list_levels(trial: Trial) -> list[str]:
    """The levels that the server was asked for: once when it was opened, or with each call of `act`."""
    await trial.act()
    if trial.server == "handshake":
        return [message["params"]["level"] for message in trial.heard("logging/setLevel")]
    calls = [message["params"] for message in trial.heard("tools/call") if message["params"]["name"] == "act"]
    return [call["_meta"][LEVEL_KEY] for call in calls]


def test_the_log_level_is_sent_and_holds_for_later_starts(tmp_path: Path) -> None:
    async def go(trial: Trial) -> list[str]:
        await list_levels(trial)
        await trial.toolbox.restart(trial.server)
        return await list_levels(trial)

    configs = [
        chaos(tmp_path, "logs", "handshake", eras="handshake", log_level="error"),
        chaos(tmp_path, "logs", "modern", eras="modern"),
        chaos(tmp_path, "logs", "debug", eras="modern", log_level="debug"),
    ]
    levels = {"handshake": "error", "modern": "warning", "debug": "debug"}
    assert try_each(tmp_path, configs, go) == {name: [level] * 2 for name, level in levels.items()}


@pytest.mark.parametrize("mode", ["ok", "logs-refused"])
def test_a_server_without_a_log_and_one_that_refuses_the_level_are_used(mode: str, tmp_path: Path) -> None:
    async def go(trial: Trial) -> tuple[str, int]:
        return await trial.echo(), len(trial.heard("logging/setLevel"))

    assert try_mode(tmp_path, mode, go, eras="handshake") == ("still here", 1 if mode == "logs-refused" else 0)


def test_all_lines_are_written_and_warnings_are_shown(tmp_path: Path) -> None:
    shown: list[tuple[str, str, str]] = []

    async def go() -> str:
        asks = ClientHandlers(on_log=lambda *line: shown.append(line))
        async with Toolbox([chaos(tmp_path, "logs")], tmp_path / "logs", asks) as toolbox:
            return (await Trial(toolbox, tmp_path).act()).text

    assert asyncio.run(go()) == "act is done"
    log = (tmp_path / "logs/chaos.log").read_text(encoding="utf-8")
    assert "\x1b" not in log
    assert [line.partition("]")[0][1:] for line in log.splitlines()] == LEVELS
    assert [(server, level) for server, level, _ in shown] == [("chaos", level) for level in LEVELS[3:]]
    assert all(f"a line of {level}" in text and text.isprintable() for _, level, text in shown)
