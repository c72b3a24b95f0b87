"""A turn in each kind of format: a model known by its name writes as its family does, and a real server answers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from calls.replies import ANSWER, KINDS, REPLIES, Row
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.scripted import ScriptedBackend
from rkllm_chat.backends.shared.stop_sequences import Ending, StopDetector
from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.model_families import find_family
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.sessions import SessionManager
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.settings import ServerConfig, Settings
from rkllm_chat.core import i18n as language
from rkllm_chat.core.events import CallFound, CallUnreadable, Event, Text, Thought, ToolFinished, TurnEnded
from rkllm_chat.core.messages import Message, Tool
from rkllm_chat.mcp_client.toolbox import Toolbox
from rkllm_chat.prompt.chat_templates import choose_template
from rkllm_chat.storage.export.turns import ExportedCall, build_conversation
from rkllm_chat.storage.session_files import SessionDirectory, SessionLog
from rkllm_chat.storage.session_records import LogEntry, Setup
from stage import Run, collect, make_chat

HARBOUR = """
import json, sys

SCHEMA = {"type": "object", "properties": {"harbour": {"type": "string"}, "days": {"type": "integer"}}}
TOOL = {"name": "get_tide", "description": "Tide height at a harbour.", "inputSchema": SCHEMA}
for message in map(json.loads, sys.stdin):
    params = message.get("params", {})
    version = params.get("protocolVersion")
    results = {
        "initialize": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "harbour"}},
        "tools/list": {"tools": [TOOL]},
    }
    results["initialize"]["serverInfo"]["version"] = "1"
    if message["method"] == "tools/call":
        given = params["arguments"]
        text = f"{given['harbour']!r}, {given['days']!r}: 2.4 metres"
        results["tools/call"] = {"content": [{"type": "text", "text": text}]}
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})}
        print(json.dumps(answer), flush=True)
"""


class Harbour:
    """One server process and a loop for all chats."""

    def __init__(self, logs: Path) -> None:
        self.loop = asyncio.new_event_loop()
        server = ServerConfig("harbour", command=sys.executable, args=("-c", HARBOUR))
        self.servers = Toolbox([server], logs)
        self.loop.run_until_complete(self.servers.open())

    def ask(self, chat: Conversation) -> list[Event]:
        return self.loop.run_until_complete(collect(Turn(chat).run("How is the tide?")))

    def close(self) -> None:
        self.loop.run_until_complete(self.servers.aclose())
        self.loop.close()


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harbour]:
    harbour = Harbour(tmp_path_factory.mktemp("logs"))
    yield harbour
    harbour.close()


def write_script(path: Path, row: Row) -> str:
    path.write_text(json.dumps({"model": row.model, "replies": [row.first, row.last]}), encoding="utf-8")
    return str(path)


def texts(events: list[Event], kind: type[Text] | type[Thought]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind)).strip()


def answer_of(arguments: dict[str, object]) -> str:
    return f"{arguments['harbour']!r}, {arguments['days']!r}: 2.4 metres"


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_of_each_kind_runs_its_tools_and_ends_in_a_plain_answer(
    kind: str, harbour: Harbour, tmp_path: Path
) -> None:
    row = REPLIES[kind]
    backend = open_backend(Settings(model=write_script(tmp_path / "script.json", row), backend="scripted"))
    assert isinstance(backend, ScriptedBackend)
    settings = Settings(policy=Policy(approve="all"))
    assert settings.tool_format == "auto"
    chat = Conversation(backend, harbour.servers, settings, language.load())
    events = harbour.ask(chat)

    assert [event for event in events if isinstance(event, CallUnreadable)] == []
    done = [event.result for event in events if isinstance(event, ToolFinished)]
    done.sort(key=lambda one: row.calls.index(dict(one.arguments)))  # they run side by side
    assert [(result.tool, result.arguments, result.status, result.text) for result in done] == [
        ("get_tide", arguments, "completed", answer_of(arguments)) for arguments in row.calls
    ]
    calls = [place for place, event in enumerate(events) if isinstance(event, CallFound | ToolFinished)]
    before, behind = events[: calls[-1]], events[calls[-1] :]
    assert (texts(before, Text), texts(before, Thought)) == (row.prose, row.thought)
    assert texts(behind, Text) == ANSWER
    end = events[-1]
    assert isinstance(end, TurnEnded) and end.reason == "answered"

    asked, answered = backend.prompts
    assert FORMATS[find_family([row.model]).preferred_format].example in asked[0].text
    assert all(answer_of(arguments) in answered[-1].text for arguments in row.calls)


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_is_exported_and_continued_in_the_format_that_it_was_written_in(
    kind: str, shelf: SessionDirectory
) -> None:
    row = REPLIES[kind]
    family = find_family([row.model])
    tool = Tool("get_tide", server="harbour")
    asks, accepts = family.preferred_format, family.accepted_formats
    setup = Setup(model=row.model, family=family.name, asks=asks, accepts=accepts, tools=(tool,))
    records = (setup, Message("user", "How is the tide?"), Message("assistant", row.first))
    conversation = build_conversation("x", [LogEntry(0.0, record) for record in records])
    called = [part for part in conversation.turns[0].parts if isinstance(part, ExportedCall)]
    assert [part.arguments["harbour"] for part in called] == [arguments["harbour"] for arguments in row.calls]

    log = SessionLog(shelf, print)
    for record in records:
        log.append(record)
    log.close()
    chat = make_chat([])  # of a model that is of no family
    sessions = SessionManager(shelf, chat, print)
    sessions.open(shelf.list_ids()[0])
    sessions.close()
    assert [message.role for message in chat.history] == ["user", "assistant", *["tool"] * len(row.calls)]


def test_the_model_of_a_format_is_of_a_family_that_accepts_it() -> None:
    for name, row in REPLIES.items():
        family = find_family([row.model])
        assert name in (*family.accepted_formats, "json", "xml"), name


@pytest.mark.slow
def test_the_program_asks_by_the_name_of_the_model_and_runs_what_it_writes(program: Run, folder: Path) -> None:
    (folder / "harbour.py").write_text(HARBOUR, encoding="utf-8")
    command = json.dumps(sys.executable)
    own = f'[[servers]]\nname = "harbour"\ncommand = {command}\nargs = ["harbour.py"]\n'
    (folder / "own.toml").write_text(own, encoding="utf-8")
    script = write_script(folder / "script.json", REPLIES["hermes"])
    asking = ("--config", "own.toml", "--backend", "scripted", "--model", script, "--allow", "get_tide")
    done = program("-p", "How is the tide?", "--output-format", "json", "--tool-format", "auto", *asking)
    result = json.loads(done.stdout)["result"]
    assert [(call["arguments"], call["text"]) for call in result["calls"]] == [
        (arguments, answer_of(arguments)) for arguments in REPLIES["hermes"].calls
    ]
    assert result["text"] == ANSWER


def test_functiongemma_is_stopped_before_it_invents_a_result() -> None:
    row = REPLIES["functiongemma"]
    template = choose_template("auto", row.model)
    assert template is not None
    stops = StopDetector(template.stop_sequences)
    shown = stops.feed(f"{row.first}response:get_tide{{value:<escape>9 metres<escape>}}<end_function_response>")
    assert (shown, stops.ending) == (row.first.removesuffix("<start_function_response>"), Ending.STOP_SEQUENCE)
