"""How often a tool has served: counted where a person sits, kept on this machine, forgotten when he says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat import commands, language
from rkllm_chat.chat import Onward
from rkllm_chat.config import Settings
from rkllm_chat.desk import Desk, open_desk
from rkllm_chat.events import Notice
from rkllm_chat.messages import Tool
from rkllm_chat.policy import Consent, Policy
from rkllm_chat.served import MOST, Served
from stage import GREEDY, Box, call_text, collect
from test_elicitation import Person


def test_counts_are_there_the_next_time_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "served.json"
    served = Served(path)
    for name in ("sea__get_tide", "家__点灯", "sea__get_tide"):
        served.note(name)
    assert Served(path).counts == {"sea__get_tide": 2, "家__点灯": 1}
    assert [(one.name, one.stat().st_mode & 0o777) for one in tmp_path.iterdir()] == [("served.json", 0o600)]


def test_without_a_path_nothing_is_counted() -> None:
    served = Served()
    served.note("sea__get_tide")
    assert (served.counts, served.forget()) == ({}, 0)


def test_the_tools_that_served_longest_ago_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "served.json"
    path.write_text(json.dumps({f"box__t{number}": 1 for number in range(MOST)}), encoding="utf-8")
    served = Served(path)
    served.note("box__t0")
    served.note("box__new")
    assert len(served.counts) == MOST
    assert "box__t1" not in served.counts and served.counts["box__t0"] == 2


@pytest.mark.parametrize("text", ["", "[1]", '{"a": "x", "b": -1, "c": true, "d": 1.5}', "[" * 100_000, "\udcff"])
def test_a_damaged_file_is_as_good_as_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "served.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    served = Served(path)
    assert served.counts == {}
    served.note("sea__get_tide")
    assert Served(path).counts == {"sea__get_tide": 1}


def test_a_folder_that_is_not_there_is_no_trouble_and_no_link_is_followed(tmp_path: Path) -> None:
    Served(tmp_path / "gone" / "served.json").note("sea__get_tide")
    target = tmp_path / "target"
    target.write_text("precious", encoding="utf-8")
    (tmp_path / "served.json").symlink_to(target)
    Served(tmp_path / "served.json").note("sea__get_tide")
    assert target.read_text(encoding="utf-8") == "precious"


class Sailor(Person):
    """Somebody who sits there and lets everything run."""

    async def approve(self, _tool: Tool, _arguments: Mapping[str, Any]) -> Consent:
        return "once"

    async def at_limit(self, _rounds: int) -> Onward:
        return "stop"

    def news(self, text: str) -> None:
        self.heard.append(text)


async def tide(**_: object) -> str:
    return "two metres"


async def storm(**_: object) -> str:
    raise ValueError("no wind")


def at_desk(folder: Path, person: Sailor | None, do: Callable[[Desk], Awaitable[None]]) -> None:
    """A sitting in which each turn calls a tool that serves and one that fails."""
    script = folder / "replies.json"
    turn = [call_text("tide") + call_text("storm"), "Two metres."]
    script.write_text(json.dumps(turn * 2), encoding="utf-8")
    settings = Settings(model=str(script), backend="scripted", policy=Policy("all"), generation=GREEDY)

    async def sit() -> None:
        async with open_desk(settings, folder, person, words=language.load()) as desk:
            desk.toolbox.box = Box({"tide": tide, "storm": storm})
            await collect(desk.chat.send("how high?"))
            await do(desk)

    asyncio.run(sit())


def test_what_has_served_a_person_is_counted_until_he_has_it_forgotten(tmp_path: Path) -> None:
    async def look(desk: Desk) -> None:
        assert desk.chat.served.counts == {"box__tide": 1}
        assert json.loads((tmp_path / "served.json").read_text(encoding="utf-8")) == {"box__tide": 1}
        (notice,) = await collect(commands.run(desk, "/tools forget"))
        assert notice == Notice("Forgotten how often 1 tools have served.")
        assert desk.chat.served.counts == {}
        assert not (tmp_path / "served.json").exists()

    at_desk(tmp_path, Sailor(), look)


def test_a_script_neither_counts_nor_weighs_what_has_served(tmp_path: Path) -> None:
    async def look(desk: Desk) -> None:
        assert desk.chat.served.counts == {}

    (tmp_path / "served.json").write_text('{"box__tide": 5}', encoding="utf-8")
    at_desk(tmp_path, None, look)
    assert (tmp_path / "served.json").read_text(encoding="utf-8") == '{"box__tide": 5}'
