"""A saved session played again: the same events come out of it, without its model and its servers."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat import language
from rkllm_chat.backends.scripted import Reply, Scripted, replies_of
from rkllm_chat.chat import Chat, Onward
from rkllm_chat.errors import GenerationError
from rkllm_chat.events import Event, Notice, ToolFinished, ToolProgress
from rkllm_chat.journal import Shelf
from rkllm_chat.messages import Tool, ToolResult
from rkllm_chat.policy import Consent
from rkllm_chat.records import Entry, Setup
from rkllm_chat.replay import Replay
from rkllm_chat.rounds import OnProgress
from rkllm_chat.sessions import Sessions
from stage import Box, Screen, call_text, make_chat, take_turn

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Script = Callable[..., str]
OpenScreen = Callable[..., Screen]


def turns(chat: Chat, *lines: str) -> list[Event]:
    """The events of turns, but for what a replay cannot know; a turn whose engine fails ends with the error's text."""
    events: list[Event] = []
    for line in lines:
        try:
            events += [event for event in take_turn(chat, line) if not isinstance(event, ToolProgress)]
        except GenerationError as error:
            events.append(Notice(str(error)))
    return events


async def depth(at: str = "Husum", **_: Any) -> str:
    if at == "Kiel":
        raise ValueError("no such harbour")
    return f"2 m at {at} " * 40


def play(entries: list[Entry], lines: tuple[str, ...]) -> list[Event]:
    """The events of the same lines, from the session alone."""
    replay = Replay(entries)
    settings = replay.settings_of(make_chat([]).settings)
    backend = Scripted(replies_of(entries), replay.setup.context_tokens)
    words = language.load(settings.language)
    chat = Chat(backend, replay, settings, words, replay.approve, at_limit=replay.at_limit, starts_early=False)
    chat.make_room = replay.make_room
    return turns(chat, *lines)


async def yes(*_: Any) -> Consent:
    return "once"


def test_a_session_played_again_gives_the_same_events(shelf: Shelf) -> None:
    both = call_text("depth", at="Husum") + call_text("depth", at="Kiel") + call_text("nosuch")
    garbled = "[TOOL_CALL]{broken[END_TOOL_CALL]"
    replies: list[str | Reply] = [
        "<think>Hm.</think>" + both, "Two.", garbled, "Sorry.", call_text("depth", at=7), "…and so on",
        Reply("It breaks", error="The engine is gone."), "x" * 500, "Last.",
    ]  # fmt: skip
    schema = {"depth": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}
    chat = make_chat(replies, Box({"depth": depth}, read_only=False, schemas=schema), yes, context=600, max_steps=2)
    sessions = Sessions(shelf, chat, print)
    lines = ("How deep?", "Again?", "Seven?", "More", "And more", "Bye " * 100)
    events = turns(chat, *lines)
    sessions.close()
    name = shelf.ids()[0]
    assert any(isinstance(event, Notice) and "older turns" in event.text for event in events)
    assert play(list(shelf.read(name).entries), lines) == events


@pytest.mark.parametrize("few", [True, False])
def test_a_session_played_again_tells_of_as_many_tools(few: bool, shelf: Shelf) -> None:
    box = Box({"read_depth": depth, "write_depth": depth})
    chat = make_chat(["Deep."], box, tools_share=0.0, few_tools=few)
    sessions = Sessions(shelf, chat, print)
    turns(chat, "Read the depth.")
    sessions.close()
    assert len(chat.history[0].tools) == (1 if few else 2)
    replay = Replay(list(shelf.read(sessions.name).entries))
    assert replay.settings_of(make_chat([]).settings).few_tools == few


def test_a_session_in_which_the_model_paged_gives_the_same_events(shelf: Shelf) -> None:
    async def log() -> str:
        return "".join(f"{number:04} calm\n" for number in range(4000))

    page = call_text("more", handle="r1", search="2345")
    chat = make_chat([call_text("log"), page, "Calm."], Box({"log": log}))
    sessions = Sessions(shelf, chat, print)
    events = turns(chat, "How was it?")
    sessions.close()
    entries = list(shelf.read(sessions.name).entries)
    results = [event.result for event in events if isinstance(event, ToolFinished)]
    assert [result.tool for result in results] == ["log", "more"] and "2345 calm" in results[1].text
    assert play(entries, ("How was it?",)) == events
    cut_less = [
        replace(one, record=replace(one.record, context_tokens=99_999)) if isinstance(one.record, Setup) else one
        for one in entries
    ]
    assert play(cut_less, ("How was it?",)) == events


class Timed(Box):
    """A box whose results say how long they took."""

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: OnProgress) -> ToolResult:
        result = await super().call(tool, arguments, on_progress)
        return replace(result, seconds=2.0 if tool.name == "slow" else 0.5)


def test_of_calls_side_by_side_the_quicker_one_ends_first_again(shelf: Shelf) -> None:
    quick_is_over = asyncio.Event()

    async def slow() -> str:
        await quick_is_over.wait()
        return "slow"

    async def quick() -> str:
        quick_is_over.set()
        return "quick"

    chat = make_chat([call_text("slow") + call_text("quick"), "Done."], Timed({"slow": slow, "quick": quick}))
    sessions = Sessions(shelf, chat, print)
    events = turns(chat, "Both?")
    sessions.close()
    assert [event.result.tool for event in events if isinstance(event, ToolFinished)] == ["quick", "slow"]
    assert play(list(shelf.read(shelf.ids()[0]).entries), ("Both?",)) == events


@pytest.mark.parametrize(
    "answers",
    [["stop", "stop"], ["answer"], [1, "stop"], [1, "answer"], [2, "stop"], [3]],
    ids=lambda answers: str(answers),
)
@pytest.mark.parametrize("code", language.languages())
def test_a_turn_that_came_to_its_limit_goes_on_as_it_did(shelf: Shelf, answers: list[Onward], code: str) -> None:
    calls = [call_text("depth", at=place) for place in ("Husum", "Emden", "Leer", "Weener")]
    chat = make_chat([*calls, "Deep.", "Bye."], Box({"depth": depth}), max_steps=2)
    chat.words.speak(code)
    asked = list(answers)

    async def at_limit(_rounds: int) -> Onward:
        return asked.pop(0)

    chat.at_limit = at_limit
    sessions = Sessions(shelf, chat, print)
    events = turns(chat, "How deep?", "Thanks")
    sessions.close()
    assert asked == []
    assert play(list(shelf.read(shelf.ids()[0]).entries), ("How deep?", "Thanks")) == events


@pytest.mark.parametrize("consent", ["once", "always", "no", "stop"])
def test_what_a_person_said_about_a_call_is_said_again(shelf: Shelf, consent: Consent) -> None:
    async def approve(*_: Any) -> Consent:
        return consent

    call = call_text("depth", at="Husum")
    chat = make_chat([call + call, call, "Deep."], Box({"depth": depth}, read_only=False), approve)
    sessions = Sessions(shelf, chat, print)
    events = turns(chat, "How deep?", "And now?") if consent == "stop" else turns(chat, "How deep?")
    sessions.close()
    lines = ("How deep?", "And now?") if consent == "stop" else ("How deep?",)
    assert play(list(shelf.read(shelf.ids()[0]).entries), lines) == events


def test_the_program_plays_a_session_without_model_and_servers(
    open_screen: OpenScreen, program: Run, script: Script, shelf: Shelf, folder: Path
) -> None:
    model = script(call_text("calculate", expression="6 * 7"), "It is 42.", "Bye.")
    first = program("-p", "6 * 7?", "--continue", "--model", model, "--output-format", "stream-json")
    (name,) = shelf.ids()
    (folder / "talk.jsonl").write_bytes((shelf.path / f"{name}.jsonl").read_bytes())
    again = program("-p", "6 * 7?", "--model", "talk.jsonl", "--output-format", "stream-json")
    events = [json.loads(line) for line in first.stdout.splitlines()]
    assert [json.loads(line) for line in again.stdout.splitlines()] == [e for e in events if e["type"] != "notice"]
    screen = open_screen("--backend", "scripted", "--model", "talk.jsonl")
    screen.wait_for_prompt()
    screen.type("/replay all\r")
    screen.wait_for("The session is played to its end.")
    shown = "\n".join(screen.lines())
    wanted = ("> 6 * 7?", "[MCP: Detected 1 tool call]", "[MCP: Calling tool 'calculate']", "◆ It is 42.")
    assert [shown.count(line) for line in wanted] == [1] * 4
    assert shelf.ids() == [name]


@pytest.mark.parametrize("text", ["", "{}", "not json", '{"kind":"message"}'])
def test_a_file_that_holds_no_session_is_not_played(text: str, program: Run, folder: Path) -> None:
    (folder / "talk.jsonl").write_text(text, encoding="utf-8")
    done = program("-p", "x", "--model", "talk.jsonl", code=5)
    assert "talk.jsonl holds no session." in done.stderr
