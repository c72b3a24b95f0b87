"""Figures and counts of tool calls: stored from one start to the next, counts also deleted on request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from chat.test_elicitation import Person
from rkllm_chat.chat.app import App, open_app
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.settings import Settings
from rkllm_chat.core import i18n as language
from rkllm_chat.core.events import Notice
from rkllm_chat.core.messages import Tool
from rkllm_chat.core.protocols import CallPosition, Consent, Continuation
from rkllm_chat.storage.local_statistics import MAX_FIGURES, MAX_TOOLS, Measurements, ToolUsage
from rkllm_chat.tui import slash_commands as commands
from stage import GREEDY, FakeToolbox, call_text, collect, collect_emitted


def test_a_figure_is_read_again(tmp_path: Path) -> None:
    Measurements(tmp_path / "measured.json").record_figure("load", "模型.gguf", 12.3456)
    assert Measurements(tmp_path / "measured.json").get_figure("load", "模型.gguf") == 12.346
    assert Measurements(tmp_path / "measured.json").get_figure("load", "other.gguf") == 0
    assert (tmp_path / "measured.json").stat().st_mode & 0o777 == 0o600


def test_the_oldest_figures_are_dropped(tmp_path: Path) -> None:
    measured = Measurements(tmp_path / "measured.json")
    for number in range(MAX_FIGURES + 1):
        measured.record_figure("load", str(number), number + 1)
    assert (measured.get_figure("load", "0"), measured.get_figure("load", "1")) == (0, 2)


def test_counts_are_stored_in_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "served.json"
    served = ToolUsage(path)
    for name in ("sea__get_tide", "家__点灯", "sea__get_tide"):
        served.record_call(name)
    assert ToolUsage(path).counts == {"sea__get_tide": 2, "家__点灯": 1}
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_path_nothing_is_counted() -> None:
    served = ToolUsage()
    served.record_call("sea__get_tide")
    assert (served.counts, served.clear()) == ({}, 0)


def test_the_oldest_counts_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "served.json"
    path.write_text(json.dumps({f"box__t{number}": 1 for number in range(MAX_TOOLS)}), encoding="utf-8")
    served = ToolUsage(path)
    served.record_call("box__t0")
    served.record_call("box__new")
    assert len(served.counts) == MAX_TOOLS
    assert "box__t1" not in served.counts and served.counts["box__t0"] == 2


DAMAGED = (
    "",
    "[1]",
    '{"a": "x", "b": -1, "c": true, "d": 1.5, "load x": -1, "load y": "soon"}',
    "[" * 100_000,
    "\udcff",
)


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_is_ignored(text: str, tmp_path: Path) -> None:
    path = tmp_path / "served.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    measured = Measurements(path)
    assert (measured.get_figure("load", "x"), measured.get_figure("load", "y")) == (0, 0)
    usage = ToolUsage(path)
    assert usage.counts == {}
    usage.record_call("sea__get_tide")
    assert ToolUsage(path).counts == {"sea__get_tide": 1}


def test_a_missing_folder_is_ignored_and_no_link_is_followed(tmp_path: Path) -> None:
    ToolUsage(tmp_path / "gone" / "served.json").record_call("sea__get_tide")
    Measurements(tmp_path / "gone" / "measured.json").record_figure("load", "x", 2)
    target = tmp_path / "target"
    target.write_text("precious", encoding="utf-8")
    (tmp_path / "served.json").symlink_to(target)
    ToolUsage(tmp_path / "served.json").record_call("sea__get_tide")
    assert target.read_text(encoding="utf-8") == "precious"


class Sailor(Person):
    """A user who approves every call."""

    async def approve(self, _tool: Tool, _arguments: Mapping[str, Any], _position: CallPosition) -> Consent:
        return "once"

    async def ask_to_continue(self, _rounds: int) -> Continuation:
        return "stop"

    def notify(self, text: str, _level: str = "info") -> None:
        self.shown.append(text)


async def tide(**_: object) -> str:
    return "two metres"


async def storm(**_: object) -> str:
    raise ValueError("no wind")


def at_desk(folder: Path, person: Sailor | None, do: Callable[[App], Awaitable[None]]) -> None:
    """A chat in which each turn calls a tool that works and one that fails."""
    script = folder / "replies.json"
    turn = [call_text("tide") + call_text("storm"), "Two metres."]
    script.write_text(json.dumps(turn * 2), encoding="utf-8")
    settings = Settings(model=str(script), backend="scripted", policy=Policy("all"), generation=GREEDY)

    async def sit() -> None:
        async with open_app(settings, folder, person, words=language.load()) as app:
            app.toolbox.toolbox = FakeToolbox({"tide": tide, "storm": storm})
            await collect(Turn(app.chat).run("how high?"))
            await do(app)

    asyncio.run(sit())


def test_an_interactive_chat_counts_until_the_counts_are_deleted(tmp_path: Path) -> None:
    async def look(app: App) -> None:
        assert app.chat.tool_usage.counts == {"box__tide": 1}
        assert json.loads((tmp_path / "served.json").read_text(encoding="utf-8")) == {"box__tide": 1}
        (notice,) = await collect_emitted(commands.run, app, "/tools forget")
        assert notice == Notice("Usage counts cleared for 1 tool.")
        assert app.chat.tool_usage.counts == {}
        assert not (tmp_path / "served.json").exists()

    at_desk(tmp_path, Sailor(), look)


def test_a_script_neither_counts_nor_reads_counts(tmp_path: Path) -> None:
    async def look(app: App) -> None:
        assert app.chat.tool_usage.counts == {}

    (tmp_path / "served.json").write_text('{"box__tide": 5}', encoding="utf-8")
    at_desk(tmp_path, None, look)
    assert (tmp_path / "served.json").read_text(encoding="utf-8") == '{"box__tide": 5}'
