"""In which form a model is asked for its calls: that of its family, unless somebody has set another."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat import language
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.scripted import Scripted
from rkllm_chat.chat import Chat
from rkllm_chat.config import Settings
from rkllm_chat.events import CallFound, ToolFinished
from rkllm_chat.families import Family
from rkllm_chat.formats import FORMATS
from rkllm_chat.journal import Shelf
from rkllm_chat.messages import ToolCall
from rkllm_chat.records import Setup
from rkllm_chat.replay import open_replay
from rkllm_chat.sessions import Sessions
from stage import Box, Screen, call_text, take_turn

Run = Callable[..., "subprocess.CompletedProcess[str]"]
OpenScreen = Callable[..., Screen]
IN_XML = Family("in-xml", asks="xml", accepts=("xml",))
IN_JSON = Family("in-json")
XML_CALL = '<tool_call name="depth">\n<argument name="at">Husum</argument>\n</tool_call>'
GARBLED = "[TOOL_CALL]\n{broken\n[END_TOOL_CALL]"


async def depth(at: str = "Husum") -> str:
    return f"2 m at {at}"


def chat_of(family: Family, replies: Sequence[str], **settings: Any) -> Chat:
    return Chat(Scripted(replies, family=family), Box({"depth": depth}), Settings(**settings), language.load())


def asked_in(chat: Chat) -> str:
    """The form that the system text of the newest prompt ends in."""
    assert isinstance(chat.backend, Scripted)
    (form,) = [name for name, row in FORMATS.items() if chat.backend.prompts[-1][0].text.endswith(row.example)]
    return form


@pytest.mark.parametrize(
    ("family", "set_to", "form"),
    [(IN_JSON, "auto", "json"), (IN_XML, "auto", "xml"), (IN_XML, "json", "json"), (IN_JSON, "xml", "xml")],
)
def test_a_model_is_asked_in_the_form_of_its_family_or_as_set(family: Family, set_to: str, form: str) -> None:
    chat = chat_of(family, ["Hello."], tool_format=set_to)
    take_turn(chat, "hi")
    assert (chat.form, asked_in(chat)) == (form, form)


def test_by_default_the_family_chooses() -> None:
    assert Settings().tool_format == "auto"


@pytest.mark.parametrize("family", [IN_JSON, IN_XML], ids=["json", "xml"])
def test_both_seed_forms_are_understood_whatever_was_asked_for(family: Family) -> None:
    chat = chat_of(family, [XML_CALL + call_text("depth", at="Kiel"), "Deep."])
    events = take_turn(chat, "How deep?")
    calls = [ToolCall("depth", {"at": "Husum"}), ToolCall("depth", {"at": "Kiel"})]
    assert [event.call for event in events if isinstance(event, CallFound)] == calls
    assert [event.result.status for event in events if isinstance(event, ToolFinished)] == ["completed"] * 2


def test_a_call_that_cannot_be_read_is_asked_for_again_in_the_form_of_the_family() -> None:
    chat = chat_of(IN_XML, [GARBLED, "Sorry."])
    take_turn(chat, "How deep?")
    assert chat.history[2].text.endswith(FORMATS["xml"].example)


def test_with_another_model_the_same_talk_is_asked_in_the_form_of_that_one() -> None:
    chat = chat_of(IN_JSON, ["Hello."])
    take_turn(chat, "hi")
    first = asked_in(chat)
    chat.backend = Scripted(["Hello again."], family=IN_XML)
    take_turn(chat, "again")
    assert (first, asked_in(chat)) == ("json", "xml")


def test_a_session_keeps_how_its_model_was_asked_and_goes_on_as_the_next_model_wants_it(shelf: Shelf) -> None:
    chat = chat_of(IN_XML, ["Hello."])
    sessions = Sessions(shelf, chat, print)
    take_turn(chat, "hi")
    sessions.close()
    again = chat_of(IN_JSON, ["Hello again."])
    others = Sessions(shelf, again, print)
    others.open("newest")
    take_turn(again, "again")
    others.close()
    setups = [one.record for one in shelf.read(shelf.ids()[0]).entries if isinstance(one.record, Setup)]
    assert [(one.family, one.asks, one.accepts, one.settings["tool_format"]) for one in setups] == [
        ("in-xml", "xml", ("xml",), "auto"),
        ("in-json", "json", (), "auto"),
    ]
    assert asked_in(again) == "json"


def test_a_session_that_is_played_again_is_asked_as_it_was(shelf: Shelf) -> None:
    chat = chat_of(IN_XML, [XML_CALL, "Deep."])
    sessions = Sessions(shelf, chat, print)
    events = take_turn(chat, "How deep?")
    sessions.close()
    path = shelf.path / f"{shelf.ids()[0]}.jsonl"
    replay = open_replay(path)
    settings = replay.settings_of(Settings(model=str(path), backend="scripted"))
    played = Chat(open_backend(settings), replay, settings, language.load(), replay.approve)
    assert [event for event in take_turn(played, "How deep?") if isinstance(event, ToolFinished)] == [
        event for event in events if isinstance(event, ToolFinished)
    ]
    assert asked_in(played) == asked_in(chat) == "xml"


def test_a_session_that_somebody_wrote_by_hand_is_asked_in_the_seed_form(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    line = {"kind": "setup", "at": "2026-11-20T17:30:32.123Z", "format": 1, "asks": "nonsense", "accepts": ["rubbish"]}
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert open_backend(Settings(model=str(path))).family.asks == "json"


def test_the_command_line_wins_over_a_file_and_a_form_that_is_none_is_told(program: Run, folder: Path) -> None:
    (folder / "own.toml").write_text('[chat]\ntool_format = "xml"\n', encoding="utf-8")
    replies = json.dumps({"model": "tiny-tools.gguf", "replies": [GARBLED, "Sorry."]})
    (folder / "replies.json").write_text(replies, encoding="utf-8")
    asking = ("-p", "hi", "--continue", "--model", "replies.json", "--config", "own.toml")
    program(*asking)
    program(*asking, "--tool-format", "auto")
    sessions = folder.parent / "home/.local/state/rkllm-chat/sessions"
    (session,) = [Shelf(sessions).read(name) for name in Shelf(sessions).ids()]
    assert [one.record.asks for one in session.entries if isinstance(one.record, Setup)] == ["xml", "json"]
    refused = program(*asking, "--tool-format", "hermit", code=2)
    assert 'There is no tool format "hermit". Known are auto, json, xml' in refused.stderr


def test_the_chat_tells_the_family_and_its_forms(open_screen: OpenScreen, folder: Path) -> None:
    script = json.dumps({"model": "Llama-3.2-3B-Instruct-f16.gguf", "replies": ["Hello."]})
    (folder / "replies.json").write_text(script, encoding="utf-8")
    screen = open_screen("--model", "replies.json", "--no-servers", size=(200, 30))
    screen.wait_for("lists the commands")
    screen.wait_for_prompt()
    screen.type("/model\r")
    screen.wait_for("Family: llama3. Calls are asked for as json; understood are xml")


def test_tools_cost_what_they_cost_in_the_form_that_is_asked_for(open_screen: OpenScreen, folder: Path) -> None:
    def sum_of(form: str) -> str:
        screen = open_screen("--model", "replies.json", "--tool-format", form, size=(120, 40))
        screen.wait_for("lists the commands")
        screen.wait_for_prompt()
        screen.type("/tools\r")
        return next(line for line in screen.wait_for("they cost") if "they cost" in line)

    (folder / "replies.json").write_text('["Hello."]', encoding="utf-8")
    sums = {form: sum_of(form) for form in ("json", "xml", "auto")}
    assert sums["auto"] == sums["json"] != sums["xml"]
