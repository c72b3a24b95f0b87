"""The form in which a model is asked for its calls: that of its family, unless another is set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.backends.scripted import ScriptedBackend
from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.model_families import Family
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.sessions import SessionManager
from rkllm_chat.config.settings import Settings
from rkllm_chat.core import i18n as language
from rkllm_chat.storage.session_files import SessionDirectory
from rkllm_chat.storage.session_records import Setup
from stage import FakeToolbox, OpenScreen, Run, take_turn

IN_XML = Family("in-xml", preferred_format="xml", accepted_formats=("xml",))
IN_JSON = Family("in-json")
XML_CALL = '<tool_call name="depth">\n<argument name="at">Husum</argument>\n</tool_call>'
GARBLED = "[TOOL_CALL]\n{broken\n[END_TOOL_CALL]"


async def depth(at: str = "Husum") -> str:
    return f"2 m at {at}"


def chat_of(family: Family, replies: Sequence[str], **settings: Any) -> Conversation:
    return Conversation(
        ScriptedBackend(replies, family=family), FakeToolbox({"depth": depth}), Settings(**settings), language.load()
    )


def asked_in(chat: Conversation) -> str:
    """The form that the system text of the newest prompt shows."""
    assert isinstance(chat.backend, ScriptedBackend)
    (format_name,) = [name for name, row in FORMATS.items() if f"\n{row.example}\n" in chat.backend.prompts[-1][0].text]
    return format_name


@pytest.mark.parametrize(
    ("family", "set_to", "format_name"), [(IN_XML, "auto", "xml"), (IN_XML, "json", "json"), (IN_JSON, "xml", "xml")]
)
def test_a_model_is_asked_in_the_form_of_its_family_or_as_set(family: Family, set_to: str, format_name: str) -> None:
    chat = chat_of(family, ["Hello."], tool_format=set_to)
    take_turn(chat, "hi")
    assert (chat.call_format, asked_in(chat)) == (format_name, format_name)


def test_another_model_in_the_same_chat_is_asked_in_its_own_form() -> None:
    chat = chat_of(IN_JSON, ["Hello."])
    take_turn(chat, "hi")
    first = asked_in(chat)
    chat.backend = ScriptedBackend(["Hello again."], family=IN_XML)
    take_turn(chat, "again")
    assert (first, asked_in(chat)) == ("json", "xml")


def test_a_session_records_the_form_and_is_continued_in_that_of_the_next_model(shelf: SessionDirectory) -> None:
    chat = chat_of(IN_XML, ["Hello."])
    sessions = SessionManager(shelf, chat, print)
    take_turn(chat, "hi")
    sessions.close()
    again = chat_of(IN_JSON, ["Hello again."])
    others = SessionManager(shelf, again, print)
    others.open("newest")
    take_turn(again, "again")
    others.close()
    setups = [entry.record for entry in shelf.read(shelf.list_ids()[0]).entries if isinstance(entry.record, Setup)]
    assert [(setup.family, setup.asks, setup.accepts, setup.settings["tool_format"]) for setup in setups] == [
        ("in-xml", "xml", ("xml",), "auto"),
        ("in-json", "json", (), "auto"),
    ]
    assert asked_in(again) == "json"


def test_the_command_line_outweighs_a_file_and_an_unknown_form_is_rejected(program: Run, folder: Path) -> None:
    (folder / "own.toml").write_text('[chat]\ntool_format = "xml"\n', encoding="utf-8")
    replies = json.dumps({"model": "tiny-tools.gguf", "replies": [GARBLED, "Sorry."]})
    (folder / "replies.json").write_text(replies, encoding="utf-8")
    asking = ("-p", "hi", "--continue", "--model", "replies.json", "--config", "own.toml", "--no-servers")
    program(*asking)
    program(*asking, "--tool-format", "auto")
    sessions = folder.parent / "home/.local/state/rkllm-chat/sessions"
    (session,) = [SessionDirectory(sessions).read(name) for name in SessionDirectory(sessions).list_ids()]
    assert [entry.record.asks for entry in session.entries if isinstance(entry.record, Setup)] == ["xml", "json"]
    rejected = program(*asking, "--tool-format", "hermit", "--output-format", "json", code=2)
    error = json.loads(rejected.stdout)["error"]
    details = error["details"]
    assert (error["type"], details["got"], details["closest"]) == ("UsageError", "hermit", ["hermes"])
    assert details["available"][:3] == ["auto", "json", "xml"]


def test_the_model_command_shows_the_family_and_its_forms(open_screen: OpenScreen, folder: Path) -> None:
    script = json.dumps({"model": "Llama-3.2-3B-Instruct-f16.gguf", "replies": ["Hello."]})
    (folder / "replies.json").write_text(script, encoding="utf-8")
    screen = open_screen("--model", "replies.json", "--no-servers", size=(200, 30))
    screen.wait_for("for commands, Ctrl+D to exit")
    screen.wait_for_prompt()
    screen.type("/model\r")
    screen.wait_for("Family: llama3. Prompt profile: default. Tool call format: json")
