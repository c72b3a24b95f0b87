"""Whole talks, form by form: a model known by its name writes as its family does, and a real server answers it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from calls.replies import ANSWER, REPLIES, Row
from rkllm_chat import language
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.scripted import Scripted
from rkllm_chat.backends.stops import Stops
from rkllm_chat.chat import Chat
from rkllm_chat.config import ServerConfig, Settings
from rkllm_chat.events import CallFound, CallGarbled, Event, Text, Thought, ToolFinished, TurnEnded
from rkllm_chat.export.turns import Called, tell
from rkllm_chat.families import FAMILIES, find_family
from rkllm_chat.formats import FORMATS
from rkllm_chat.journal import Journal, Shelf
from rkllm_chat.messages import Message, Tool
from rkllm_chat.policy import Policy
from rkllm_chat.records import Entry, Setup
from rkllm_chat.servers.toolbox import Toolbox
from rkllm_chat.sessions import Sessions
from rkllm_chat.templates import choose_template
from stage import collect, make_chat

Run = Callable[..., "subprocess.CompletedProcess[str]"]
HARBOUR = '''
from mcp.server.mcpserver import MCPServer

server = MCPServer("harbour")


@server.tool()
def get_tide(harbour: str, days: int) -> str:
    """Tide height at a harbour."""
    return f"{harbour!r}, {days!r}: 2.4 metres"


server.run("stdio")
'''


class Sitting:
    """One server process and a loop for all talks; a new chat for each."""

    def __init__(self, logs: Path) -> None:
        self.loop = asyncio.new_event_loop()
        server = ServerConfig("harbour", command=sys.executable, args=("-c", HARBOUR))
        self.servers = Toolbox([server], logs)
        self.loop.run_until_complete(self.servers.open())

    def ask(self, chat: Chat) -> list[Event]:
        return self.loop.run_until_complete(collect(chat.send("How is the tide?")))

    def close(self) -> None:
        self.loop.run_until_complete(self.servers.aclose())
        self.loop.close()


@pytest.fixture(scope="module")
def sitting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sitting]:
    sitting = Sitting(tmp_path_factory.mktemp("logs"))
    yield sitting
    sitting.close()


def write_script(path: Path, row: Row) -> str:
    path.write_text(json.dumps({"model": row.model, "replies": [row.first, row.last]}), encoding="utf-8")
    return str(path)


def texts(events: list[Event], kind: type[Text] | type[Thought]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind)).strip()


def answer_of(arguments: dict[str, object]) -> str:
    return f"{arguments['harbour']!r}, {arguments['days']!r}: 2.4 metres"


def test_every_form_has_a_talk() -> None:
    assert set(REPLIES) == set(FORMATS)


@pytest.mark.parametrize("form", REPLIES)
def test_a_reply_of_the_family_runs_its_tools_and_ends_in_a_clean_answer(
    form: str, sitting: Sitting, tmp_path: Path
) -> None:
    row = REPLIES[form]
    backend = open_backend(Settings(model=write_script(tmp_path / "script.json", row), backend="scripted"))
    assert isinstance(backend, Scripted)
    settings = Settings(policy=Policy(approve="all"))
    assert settings.tool_format == "auto"
    chat = Chat(backend, sitting.servers, settings, language.load())
    events = sitting.ask(chat)

    assert [event for event in events if isinstance(event, CallGarbled)] == []
    done = [event.result for event in events if isinstance(event, ToolFinished)]
    done.sort(key=lambda one: row.calls.index(dict(one.arguments)))  # they run side by side
    assert [(one.tool, one.arguments, one.status, one.text) for one in done] == [
        ("get_tide", arguments, "completed", answer_of(arguments)) for arguments in row.calls
    ]
    calls = [place for place, event in enumerate(events) if isinstance(event, CallFound | ToolFinished)]
    before, behind = events[: calls[-1]], events[calls[-1] :]
    assert (texts(before, Text), texts(before, Thought)) == (row.prose, row.thought)
    assert texts(behind, Text) == ANSWER
    end = events[-1]
    assert isinstance(end, TurnEnded) and end.reason == "answered"

    asked, answered = backend.prompts
    assert asked[0].text.endswith(FORMATS[find_family([row.model]).asks].example)
    assert all(answer_of(arguments) in answered[-1].text for arguments in row.calls)


@pytest.mark.parametrize("form", REPLIES)
def test_a_talk_is_written_out_and_gone_on_with_in_the_form_that_it_was_written_in(form: str, shelf: Shelf) -> None:
    row = REPLIES[form]
    family = find_family([row.model])
    tool = Tool("get_tide", server="harbour")
    setup = Setup(model=row.model, family=family.name, asks=family.asks, accepts=family.accepts, tools=(tool,))
    said = (setup, Message("user", "How is the tide?"), Message("assistant", row.first))
    told = tell("x", [Entry(0.0, record) for record in said])
    called = [part for part in told.turns[0].parts if isinstance(part, Called)]
    assert [part.arguments["harbour"] for part in called] == [arguments["harbour"] for arguments in row.calls]

    journal = Journal(shelf, print)
    for record in said:
        journal.keep(record)
    journal.close()
    chat = make_chat([])  # of a model that is of no family
    sessions = Sessions(shelf, chat, print)
    sessions.open("newest")
    sessions.close()
    assert [message.role for message in chat.history] == ["user", "assistant", *["tool"] * len(row.calls)]


@pytest.mark.parametrize("form", [form for form in REPLIES if form not in ("json", "xml")])
def test_the_talk_of_a_form_is_that_of_a_family_that_accepts_it(form: str) -> None:
    family = find_family([REPLIES[form].model])
    assert family == FAMILIES[family.name]
    assert form in family.accepts


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
    stops = Stops(template.ends)
    shown = stops.feed(f"{row.first}response:get_tide{{value:<escape>9 metres<escape>}}<end_function_response>")
    assert (shown, stops.ending) == (row.first.removesuffix("<start_function_response>"), "said")
