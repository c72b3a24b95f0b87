"""A replayed session gives the same events, without its model and its servers."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.backends.scripted import ScriptedBackend, ScriptedReply, extract_replies
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.replay import Replay
from rkllm_chat.chat.sessions import SessionManager
from rkllm_chat.config.settings import Settings
from rkllm_chat.core.errors import GenerationError
from rkllm_chat.core.events import Event, Notice, ToolFinished, ToolProgress
from rkllm_chat.core.i18n import load
from rkllm_chat.core.messages import Tool, ToolResult
from rkllm_chat.core.protocols import Consent, Continuation, Decline, ProgressCallback
from rkllm_chat.storage.session_files import SessionDirectory
from rkllm_chat.storage.session_records import LogEntry, Setup
from stage import Box, Screen, call_text, make_chat, take_turn

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def take_turns(chat: Conversation, lines: Sequence[str]) -> list[Event]:
    """The events of turns except progress; a turn whose engine fails ends with the error's text."""
    events: list[Event] = []
    for line in lines:
        try:
            events += [event for event in take_turn(chat, line) if not isinstance(event, ToolProgress)]
        except GenerationError as error:
            events.append(Notice(str(error)))
    return events


def record(shelf: SessionDirectory, chat: Conversation, *lines: str) -> tuple[list[Event], list[LogEntry]]:
    """Run turns; return their events and what the session recorded."""
    sessions = SessionManager(shelf, chat, print)
    events = take_turns(chat, lines)
    sessions.close()
    return events, list(shelf.read(sessions.name).entries)


async def depth(at: str = "Husum", **_: Any) -> str:
    if at == "Kiel":
        raise ValueError("no such harbour")
    return f"2 m at {at} " * 40


def play(entries: list[LogEntry], *lines: str) -> list[Event]:
    """The events of the same lines, from the session alone."""
    replay = Replay(entries)
    settings = replay.apply_settings(Settings())
    backend = ScriptedBackend(extract_replies(entries), replay.setup.context_tokens)
    chat = Conversation(backend, replay, settings, load(settings.language), replay.approve, starts_calls_early=False)
    chat.ask_to_continue, chat.choose_trim = replay.ask_to_continue, replay.choose_trim
    return take_turns(chat, lines)


def test_a_session_played_again_gives_the_same_events(shelf: SessionDirectory) -> None:
    async def yes(*_: Any) -> Consent:
        return "once"

    calls = call_text("depth", at="Husum") + call_text("depth", at="Kiel") + call_text("nosuch")
    replies: list[str | ScriptedReply] = [
        *("<think>Hm.</think>" + calls, "Two.", "[TOOL_CALL]{broken[END_TOOL_CALL]", "Sorry."),
        *(call_text("depth", at=7), "…and so on"),
        *(ScriptedReply("It breaks", error="The engine is gone."), "x" * 500, "Last."),
    ]
    schema = {"depth": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}
    chat = make_chat(replies, Box({"depth": depth}, read_only=False, schemas=schema), yes, context=600, max_steps=2)
    lines = ("How deep?", "Again?", "Seven?", "More", "And more", "Bye " * 100)
    events, entries = record(shelf, chat, *lines)
    assert any(isinstance(event, Notice) and "older turns" in event.text for event in events)
    assert play(entries, *lines) == events


@pytest.mark.parametrize("few", [True, False])
def test_a_session_played_again_shows_as_many_tools(few: bool, shelf: SessionDirectory) -> None:
    box = Box({"read_depth": depth, "write_depth": depth})
    chat = make_chat(["Deep."], box, tools_share=0.0, few_tools=few)
    _, entries = record(shelf, chat, "Read the depth.")
    assert len(chat.history[0].tools) == (1 if few else 2)
    assert Replay(entries).apply_settings(Settings()).few_tools == few


def test_a_session_in_which_the_model_paged_gives_the_same_events(shelf: SessionDirectory) -> None:
    async def log() -> str:
        return "".join(f"{number:04} calm\n" for number in range(4000))

    page = call_text("more", handle="r1", search="2345")
    events, entries = record(shelf, make_chat([call_text("log"), page, "Calm."], Box({"log": log})), "How was it?")
    results = [event.result for event in events if isinstance(event, ToolFinished)]
    assert [result.tool for result in results] == ["log", "more"] and "2345 calm" in results[1].text
    assert play(entries, "How was it?") == events
    setup = entries[0].record
    assert isinstance(setup, Setup)
    entries[0] = replace(entries[0], record=replace(setup, context_tokens=99_999))  # nothing would be cut there
    assert play(entries, "How was it?") == events


class Timed(Box):
    """A box whose results say how long they took."""

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> ToolResult:
        result = await super().call(tool, arguments, on_progress)
        return replace(result, seconds=2.0 if tool.name == "slow" else 0.5)


def test_of_concurrent_calls_the_quicker_one_ends_first_again(shelf: SessionDirectory) -> None:
    quick_has_ended = asyncio.Event()

    async def slow() -> str:
        await quick_has_ended.wait()
        return "slow"

    async def quick() -> str:
        quick_has_ended.set()
        return "quick"

    chat = make_chat([call_text("slow") + call_text("quick"), "Done."], Timed({"slow": slow, "quick": quick}))
    events, entries = record(shelf, chat, "Both?")
    assert [event.result.tool for event in events if isinstance(event, ToolFinished)] == ["quick", "slow"]
    assert play(entries, "Both?") == events


@pytest.mark.parametrize(
    ("answers", "code"),
    [(["stop", "stop"], "en"), (["answer"], "ja"), ([1, "stop"], "zh"), ([1, "answer"], "en"), ([3], "ja")],
    ids=str,
)
def test_a_turn_at_its_limit_continues_as_it_did(
    shelf: SessionDirectory, answers: list[Continuation], code: str
) -> None:
    calls = [call_text("depth", at=place) for place in ("Husum", "Emden", "Leer", "Weener")]
    chat = make_chat([*calls, "Deep.", "Bye."], Box({"depth": depth}), max_steps=2)
    chat.words.set_language(code)
    remaining = list(answers)

    async def ask_to_continue(_rounds: int) -> Continuation:
        return remaining.pop(0)

    chat.ask_to_continue = ask_to_continue
    events, entries = record(shelf, chat, "How deep?", "Thanks")
    assert remaining == []
    assert play(entries, "How deep?", "Thanks") == events


@pytest.mark.parametrize("consent", ["once", "always", "no", "stop", Decline("It is Sunday.")], ids=str)
def test_the_users_answer_about_a_call_is_given_again(shelf: SessionDirectory, consent: Consent | Decline) -> None:
    async def approve(*_: Any) -> Consent | Decline:
        return consent

    call = call_text("depth", at="Husum")
    chat = make_chat([call + call, call, "Deep."], Box({"depth": depth}, read_only=False), approve)
    lines = ("How deep?", "And now?") if consent == "stop" else ("How deep?",)
    events, entries = record(shelf, chat, *lines)
    assert play(entries, *lines) == events


@pytest.mark.usefixtures("harbour")
def test_the_program_plays_a_session_without_model_and_servers(
    open_chat: Callable[..., Screen], program: Run, script: Callable[..., str], shelf: SessionDirectory, folder: Path
) -> None:
    model = script(call_text("get_tide", harbour="Husum"), "It is 2.4.", "Bye.")
    asked = ("-p", "How high?", "--output-format", "stream-json")
    first = program(*asked, "--continue", "--model", model, "--config", "harbour.toml", "--allow", "get_tide")
    (name,) = shelf.list_ids()
    (folder / "talk.jsonl").write_bytes((shelf.path / f"{name}.jsonl").read_bytes())
    again = program(*asked, "--model", "talk.jsonl")
    events = [json.loads(line) for line in first.stdout.splitlines()]
    assert [json.loads(line) for line in again.stdout.splitlines()] == [e for e in events if e["type"] != "notice"]
    screen = open_chat("--backend scripted --model talk.jsonl")
    shown = "\n".join(screen.enter("/replay all", "Replay finished."))
    wanted = ("> How high?", "[MCP: Tool 'get_tide' completed]", "  The tide at Husum is 2.4", "◆ It is 2.4.")
    assert [shown.count(line) for line in wanted] == [1] * 4
    assert shelf.list_ids() == [name]


@pytest.mark.parametrize("text", ["", '{"kind":"message"}'])
def test_a_file_that_holds_no_session_is_not_played(text: str, program: Run, folder: Path) -> None:
    (folder / "talk.jsonl").write_text(text, encoding="utf-8")
    done = program("-p", "x", "--model", "talk.jsonl", code=5)
    assert "talk.jsonl contains no session." in done.stderr
