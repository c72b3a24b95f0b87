"""The small model that ships: real llama.cpp, real MCP servers over stdio, the real chat loop, greedy."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from altered import with_field
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.calls.tool_names import shown_names
from rkllm_chat.chat.context import build_prompt
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.sessions import describe_setup
from rkllm_chat.chat.tool_selection import select_catalogue
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.servers import BOARD_SERVER
from rkllm_chat.config.settings import Generation, ServerConfig, Settings, read_toml
from rkllm_chat.core.events import (
    CallFound,
    CallsDetected,
    Event,
    Reading,
    Text,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Usage,
)
from rkllm_chat.core.i18n import load
from rkllm_chat.core.messages import Message, ToolCall, ToolResult
from rkllm_chat.mcp_client.toolbox import Toolbox
from rkllm_chat.prompt.tool_listing import render_tool
from stage import collect

pytestmark = pytest.mark.model
SERVER = Path(__file__).parents[1] / "tui" / "harbour.py"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


class Bench:
    """The model with one server, on a loop of its own; a new chat for every question."""

    def __init__(self, model: Path, server: ServerConfig, logs: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.backend = LlamaBackend(model, 0)
        self.servers = Toolbox([server], logs)
        self.loop.run_until_complete(self.servers.open())

    def new_chat(self, **settings: Any) -> Conversation:
        chosen = Settings(policy=Policy(approve="all"), **settings)
        return Conversation(self.backend, self.servers, chosen, load())

    def ask(self, line: str, chat: Conversation | None = None) -> list[Event]:
        return self.loop.run_until_complete(collect(Turn(chat or self.new_chat()).run(line)))

    def ask_all(self, chat: Conversation, *lines: str) -> list[Usage]:
        for line in lines:
            self.ask(line, chat)
        return chat.usages

    def close(self) -> None:
        self.loop.run_until_complete(self.servers.aclose())
        self.loop.run_until_complete(self.backend.aclose())
        self.loop.close()


@pytest.fixture(scope="module")
def board(shipped_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("folder")
    # the files of a still machine: what the model copies is the same in every run
    files = {
        "notes.txt": "buy milk\ncall Ken\nsleep\n",
        "root/proc/meminfo": "MemTotal: 7812500 kB\nMemAvailable: 4882812 kB\n",
        "root/proc/loadavg": "1.25 0.98 0.64 1/300 4242\n",
        "root/proc/uptime": "356460.00 1.0\n",
        "root/proc/rknpu/load": "NPU load:  Core0:  0%,\n",  # the model was trained with the tool that reads it
    }
    (folder / "root/proc/rknpu").mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    code = (
        "from pathlib import Path; from rkllm_chat.mcp_servers.board.server import build_server; "
        f"build_server(Path({str(folder)!r}), Path({str(folder / 'root')!r})).run('stdio')"
    )
    config = ServerConfig(**{**vars(BOARD_SERVER), "command": sys.executable, "args": ("-c", code)})
    with closing(Bench(shipped_model, config, tmp_path_factory.mktemp("logs"))) as bench:
        yield bench


def results(events: list[Event]) -> list[ToolResult]:
    return [event.result for event in events if isinstance(event, ToolFinished)]


def answer(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def test_the_time_in_tokyo_is_these_events(board: Bench) -> None:
    chat = board.new_chat()
    events = board.ask("What time is it in Tokyo?", chat)
    result = results(events)[0]
    call = ToolCall("get_time", {"place": "Tokyo"})
    assert [event for event in events[:-1] if not isinstance(event, Reading)] == [
        CallFound(call),
        CallsDetected(1),
        ToolStarted("board", "get_time", call),
        ToolFinished(result),
        Text(answer(events)),
    ]
    assert (result.status, result.arguments) == ("completed", {"place": "Tokyo"})
    assert "Asia/Tokyo" in result.text and result.text in answer(events)
    end = events[-1]
    assert isinstance(end, TurnEnded) and end.reason == "answered"
    first, second = end.usage
    assert second.reused_tokens == first.prompt_tokens + first.generated_tokens
    assert [message.role for message in chat.history] == ["user", "assistant", "tool", "assistant"]


QUESTIONS = {
    "what's the time in America/New_York": ("get_time", {"place": "America/New_York"}),
    "東京は今何時ですか？": ("get_time", {"place": "東京"}),
    "How hot is the CPU?": ("get_temperature", {}),
    "What is 12 * 34?": ("calculate", {"expression": "12 * 34"}),
    "Which files are here?": ("list_files", {}),
    "Show me the first 2 lines of notes.txt": ("read_file", {"path": "notes.txt", "lines": 2}),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_becomes_this_call_and_an_answer_with_its_result(question: str, board: Bench) -> None:
    events = board.ask(question)
    calls = [(result.tool, dict(result.arguments)) for result in results(events)]
    assert calls == [QUESTIONS[question]]
    assert results(events)[0].text in answer(events)


@pytest.mark.parametrize(
    ("line", "text"), [("What can you do?", ""), ("こんにちは", ""), ("Book a flight to Paris", "no tool")]
)
def test_what_needs_no_tool_or_has_none_calls_nothing(line: str, text: str, board: Bench) -> None:
    events = board.ask(line)
    assert results(events) == [] and answer(events).strip() and text in answer(events)


@pytest.mark.slow
def test_in_six_turns_no_token_is_prefilled_twice(board: Bench) -> None:
    chat = board.new_chat()
    lines = ("What is 12 * 34?", "Hello!", "Read notes.txt", "How hot is the CPU?", "Thank you!", "Calculate 7 + 15")
    usages = board.ask_all(chat, *lines)
    assert sum(message.role == "tool" for message in chat.history) == 4 and len(usages) == 10
    for before, after in pairwise(usages):
        assert after.reused_tokens == before.prompt_tokens + before.generated_tokens
        assert after.prefilled_tokens == after.prompt_tokens - after.reused_tokens < before.prompt_tokens


def test_a_reply_in_unusual_tokens_is_not_prefilled_again(board: Bench) -> None:
    hot = Generation(temperature=3.0, top_k=0, top_p=1.0, min_p=0.0, seed=1, max_tokens=40)
    usages = board.ask_all(board.new_chat(generation=hot), "Hello!", "Thank you!", "Who are you?")
    for before, after in pairwise(usages):
        evaluated = before.generated_tokens - before.hit_limit  # the last token before a limit is not evaluated
        assert after.reused_tokens == before.prompt_tokens + evaluated
    assert len(usages) >= 3


def test_a_tool_that_the_model_has_never_seen_is_called(
    shipped_model: Path, harbour: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(harbour)
    config = ServerConfig("harbour", command=sys.executable, args=(str(SERVER),))
    with closing(Bench(shipped_model, config, harbour)) as bench:
        (result,) = results(bench.ask("get_tide harbour=Husum"))
    assert (result.tool, result.arguments) == ("get_tide", {"harbour": "Husum"})
    assert result.text == "The tide at Husum is 2.4 metres and rising."


@pytest.mark.parametrize(
    ("written", "config", "level", "profile"),
    [
        ("tiny-tools", "", "servers", "tiny-tools"),
        ("another version's", "", "servers", "tiny-tools"),  # by the name of the model
        ("tiny-tools", '[chat]\nprompt_profile = "default"\n[generation]\nmax_tokens = 8', "full", "default"),
    ],
)
def test_a_model_file_names_its_profile_unless_a_configuration_does(
    written: str, config: str, level: str, profile: str, shipped_model: Path, board: Bench, tmp_path: Path
) -> None:
    path = tmp_path / "tiny-tools.gguf"
    path.write_bytes(with_field(shipped_model.read_bytes(), "rkllm_chat.profile", written))
    backend = LlamaBackend(path, 0)
    chat = Conversation(backend, board.servers, read_toml(config, "a test", {}), load())
    *_, end = board.ask("How hot is the processor?", chat)
    board.loop.run_until_complete(backend.aclose())
    assert isinstance(end, TurnEnded)
    assert describe_setup(chat).settings["prompt_profile"] == profile
    assert select_catalogue(chat).level == level


def test_the_model_was_trained_with_the_prompt_of_today(board: Bench) -> None:
    tools, chat = list(board.servers.tools), board.new_chat()
    lines = tuple(render_tool(name, tool, chat.list_format) for name, tool in shown_names(tools).items())
    prompt = "\n".join(message.text for message in build_prompt(chat, [Message("user", "", tool_lines=lines)]))
    trained = board.backend.header.get_text("tiny_tools.prompt_sha256")
    assert trained == hashlib.sha256(prompt.encode()).hexdigest(), "the prompt or the board changed: train it again"


def test_a_fresh_user_gets_the_model_and_the_board_from_an_empty_folder(
    program: Run, environment: dict[str, str]
) -> None:
    shutil.rmtree(Path(environment["HOME"]) / ".local")
    done = program("-p", "What time is it in Tokyo?", "--output-format", "json")
    result = json.loads(done.stdout)["result"]
    assert [(call["tool"], call["arguments"], call["status"]) for call in result["calls"]] == [
        ("get_time", {"place": "Tokyo"}, "completed")
    ]
    assert result["calls"][0]["text"] in result["text"]
    assert done.stderr == ""
