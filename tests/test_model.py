"""The small model that ships: real llama.cpp, real MCP servers over stdio, the real chat loop, greedy."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from altered import with_text
from rkllm_chat import language
from rkllm_chat.backends.llama import Llama
from rkllm_chat.chat import Chat, decline_all
from rkllm_chat.choosing import catalogue_of
from rkllm_chat.config import Generation, ServerConfig, Settings, read_toml
from rkllm_chat.discover import BOARD
from rkllm_chat.events import CallFound, CallsDetected, Event, Reading, Text, ToolFinished, ToolStarted, TurnEnded
from rkllm_chat.formats import FORMATS
from rkllm_chat.messages import Message, ToolCall, ToolResult
from rkllm_chat.names import shown_names
from rkllm_chat.policy import Policy
from rkllm_chat.prefix import find_loss
from rkllm_chat.servers.toolbox import Toolbox
from rkllm_chat.sessions import describe
from rkllm_chat.sketch import list_tool
from rkllm_chat.window import prompt_of
from stage import collect

pytestmark = pytest.mark.model
Run = Callable[..., "subprocess.CompletedProcess[str]"]


class Sitting:
    """The model with one server, on a loop of its own; a new chat for every question."""

    def __init__(self, model: Path, server: ServerConfig, logs: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.backend = Llama(model, 0)
        self.servers = Toolbox([server], logs)
        self.loop.run_until_complete(self.servers.open())

    def new_chat(self) -> Chat:
        settings = Settings(policy=Policy(approve="all"))
        return Chat(self.backend, self.servers, settings, language.load(), decline_all)

    def ask(self, line: str, chat: Chat | None = None) -> list[Event]:
        return self.loop.run_until_complete(collect((chat or self.new_chat()).send(line)))

    def close(self) -> None:
        self.loop.run_until_complete(self.servers.aclose())
        self.loop.run_until_complete(self.backend.aclose())
        self.loop.close()


@pytest.fixture(scope="module")
def board(shipped_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sitting]:
    folder = tmp_path_factory.mktemp("folder")
    (folder / "notes.txt").write_text("buy milk\ncall Ken\nsleep\n", encoding="utf-8")
    gauges = {
        "proc/meminfo": "MemTotal: 7812500 kB\nMemAvailable: 4882812 kB\n",
        "proc/loadavg": "1.25 0.98 0.64 1/300 4242\n",
        "proc/uptime": "356460.00 1.0\n",
    }
    for name, text in gauges.items():
        (folder / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "root" / name).write_text(text, encoding="utf-8")
    # the gauges of a still machine: what the model copies is the same in every run
    code = (
        "from pathlib import Path; from rkllm_chat.bundled.board.server import build_server; "
        f"build_server(Path({str(folder)!r}), Path({str(folder / 'root')!r})).run('stdio')"
    )
    config = ServerConfig(**{**vars(BOARD), "command": sys.executable, "args": ("-c", code)})
    sitting = Sitting(shipped_model, config, tmp_path_factory.mktemp("logs"))
    yield sitting
    sitting.close()


def results(events: list[Event]) -> list[ToolResult]:
    return [event.result for event in events if isinstance(event, ToolFinished)]


def answer(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def test_the_time_in_tokyo_is_these_events(board: Sitting) -> None:
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
    "What time is it in Berlin?": ("get_time", {"place": "Berlin"}),
    "what's the time in America/New_York": ("get_time", {"place": "America/New_York"}),
    "東京は今何時ですか？": ("get_time", {"place": "東京"}),
    "How hot is the CPU?": ("get_temperature", {}),
    "How much memory is free?": ("get_memory", {}),
    "How much disk space is left?": ("get_disk", {}),
    "Is the machine busy? Show me the load.": ("get_load", {}),
    "How busy is the NPU?": ("get_npu", {}),
    "What is 12 * 34?": ("calculate", {"expression": "12 * 34"}),
    "Calculate 7 + 15": ("calculate", {"expression": "7 + 15"}),
    "Which files are here?": ("list_files", {}),
    "Read notes.txt": ("read_file", {"path": "notes.txt"}),
    "Show me the first 2 lines of notes.txt": ("read_file", {"path": "notes.txt", "lines": 2}),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_becomes_this_call_and_an_answer_with_its_result(question: str, board: Sitting) -> None:
    events = board.ask(question)
    calls = [(result.tool, dict(result.arguments)) for result in results(events)]
    assert calls == [QUESTIONS[question]]
    assert results(events)[0].text in answer(events)


@pytest.mark.parametrize("line", ["Hello!", "Who are you?", "What can you do?", "Thank you!", "こんにちは"])
def test_small_talk_calls_nothing(line: str, board: Sitting) -> None:
    events = board.ask(line)
    assert results(events) == [] and answer(events).strip()


@pytest.mark.parametrize("line", ["Book a flight to Paris", "Play some music", "Send an email to Anna"])
def test_what_no_tool_can_do_is_said_and_not_called(line: str, board: Sitting) -> None:
    events = board.ask(line)
    assert results(events) == []
    assert "no tool" in answer(events)


def test_a_talk_of_several_turns_prefills_only_what_is_new(board: Sitting) -> None:
    chat = board.new_chat()
    lines = ["What is 12 * 34?", "Hello!", "Read notes.txt", "How much memory is free?"]
    ends = [board.ask(line, chat)[-1] for line in lines]
    usage = [one for end in ends if isinstance(end, TurnEnded) for one in end.usage]
    assert len(usage) >= 6
    held = 0
    for one in usage[1:]:
        assert one.reused_tokens >= held
        held = one.prompt_tokens
    assert sum(one.prefilled_tokens for one in usage[1:]) < usage[-1].prompt_tokens


def test_in_a_talk_of_six_turns_nothing_that_was_read_or_said_is_read_again(board: Sitting) -> None:
    chat = board.new_chat()
    lines = ["What is 12 * 34?", "Hello!", "Read notes.txt", "How hot is the CPU?", "Thank you!", "Calculate 7 + 15"]
    ends = [board.ask(line, chat)[-1] for line in lines]
    usage = [one for end in ends if isinstance(end, TurnEnded) for one in end.usage]
    assert sum(message.role == "tool" for message in chat.history) == 4 and len(usage) == 10
    for before, after in pairwise(usage):
        assert after.reused_tokens == before.prompt_tokens + before.generated_tokens
        assert after.prefilled_tokens == after.prompt_tokens - after.reused_tokens < before.prompt_tokens
    assert [find_loss(chat.prefix.reads, index) for index in range(10)] == [("first",)] + [()] * 9


TEN_LINES = (
    *("What time is it in Rome?", "What is 12 * 34?", "Calculate 7 + 15", "What is 6 * 7?", "What is 8 * 8?"),
    *("Calculate 2 + 2", "What is 9 * 9?", "Calculate 9 + 1", "What is 5 * 5?", "Calculate 3 + 4"),
)


def test_ten_turns_with_tools_prefill_what_is_new_and_no_more(board: Sitting) -> None:
    chat = board.new_chat()
    chat.settings = replace(
        chat.settings, generation=Generation(temperature=0, max_tokens=60)
    )  # so that all of it fits
    ends = [board.ask(line, chat)[-1] for line in TEN_LINES]
    usage = [one for end in ends if isinstance(end, TurnEnded) for one in end.usage]
    assert sum(message.result is not None for message in chat.history) == 10 and len(usage) == 20
    new, held = 0, usage[0].reused_tokens
    for one in usage:
        new += one.prompt_tokens - held
        held = one.prompt_tokens + one.generated_tokens
    assert new <= sum(one.prefilled_tokens for one in usage) <= 1.05 * new
    assert sum(one.prompt_tokens for one in usage) > 10 * new


def test_a_reply_in_tokens_that_its_text_would_not_have_is_not_read_again(board: Sitting) -> None:
    chat = board.new_chat()
    hot = Generation(temperature=3.0, top_k=0, top_p=1.0, min_p=0.0, seed=1, max_tokens=40)
    chat.settings = replace(chat.settings, generation=hot)
    ends = [board.ask(line, chat)[-1] for line in ("Hello!", "Thank you!", "Who are you?")]
    usage = [one for end in ends if isinstance(end, TurnEnded) for one in end.usage]
    for before, after in pairwise(usage):
        said = before.generated_tokens - before.hit_limit  # nothing was asked of the last one before a limit
        assert after.reused_tokens == before.prompt_tokens + said
    assert len(usage) >= 3


def test_an_engine_that_was_asked_something_else_is_named(board: Sitting) -> None:
    chat = board.new_chat()
    for line in ("Hello!", "Thank you!", "Who are you?"):
        board.ask(line, chat)
    assert [find_loss(chat.prefix.reads, index) for index in range(3)] == [("first",), (), ()]
    other = [Message("system", "Other."), Message("user", "Hello!")]
    board.loop.run_until_complete(drain(board.backend.stream(other, chat.settings.generation)))
    board.ask("What can you do?", chat)
    assert find_loss(chat.prefix.reads, 3) == ("engine",)


async def drain(pieces: AsyncGenerator[object, None]) -> None:
    async for _ in pieces:
        pass


def test_a_server_of_ones_own_is_called_with_a_tool_never_seen(shipped_model: Path, tmp_path: Path) -> None:
    (tmp_path / "harbour.py").write_text(HARBOUR, encoding="utf-8")
    config = ServerConfig("harbour", command=sys.executable, args=(str(tmp_path / "harbour.py"),))
    sitting = Sitting(shipped_model, config, tmp_path / "logs")
    try:
        result = results(sitting.ask("get_tide harbour=Husum"))
    finally:
        sitting.close()
    assert [(one.tool, one.arguments, one.text) for one in result] == [
        ("get_tide", {"harbour": "Husum"}, "The tide at Husum is 2.4 metres and rising.")
    ]


HARBOUR = '''
from mcp.server.mcpserver import MCPServer

server = MCPServer("harbour")


@server.tool()
def get_tide(harbour: str) -> str:
    """Tide height at a harbour."""
    return f"The tide at {harbour} is 2.4 metres and rising."


server.run("stdio")
'''


@pytest.mark.parametrize(
    ("asked", "written", "share"),
    [
        ("0", "", 0),
        ("0", "[chat]\ntools_share = 0.9", 0.9),
        ("1", "", 1),
        ("-0.1", "", 0.25),
        ("nan", "", 0.25),
        ("none", "", 0.25),
    ],
)
def test_a_file_says_how_its_model_is_told_of_tools_unless_a_configuration_does(
    asked: str, written: str, share: float, shipped_model: Path, board: Sitting, tmp_path: Path
) -> None:
    gguf = with_text(shipped_model.read_bytes(), "rkllm_chat.tools_share", asked)
    chat = ask_one_that_wishes(gguf, written, "What time is it in Tokyo?", board, tmp_path)
    assert describe(chat).settings["tools_share"] == share
    assert catalogue_of(chat).level == ("full" if share else "servers")
    assert bool(chat.history[0].tools) == (not share), "how tools are called that may help stands with the question"


@pytest.mark.parametrize(
    ("asked", "written", "told"),
    [("true", "", True), ("false", "", False), ("true", "[chat]\nfew_tools = false", False)],
)
def test_a_file_says_whether_a_question_brings_few_tools_unless_a_configuration_does(
    asked: str, written: str, told: bool, shipped_model: Path, board: Sitting, tmp_path: Path
) -> None:
    gguf = with_text(shipped_model.read_bytes(), "rkllm_chat.few_tools", asked)
    chat = ask_one_that_wishes(gguf, written, "How hot is the processor?", board, tmp_path)
    assert describe(chat).settings["few_tools"] == told
    assert (len(chat.history[0].tools) == 1) == told, chat.history[0].tools


def ask_one_that_wishes(gguf: bytes, written: str, question: str, board: Sitting, folder: Path) -> Chat:
    """A turn with a model's file and a configuration."""
    path = folder / "asking.gguf"
    path.write_bytes(gguf)
    backend = Llama(path, 0)
    chat = Chat(backend, board.servers, read_toml(written, "a test", {}), language.load(), decline_all)
    events = board.ask(question, chat)
    board.loop.run_until_complete(backend.aclose())
    assert isinstance(events[-1], TurnEnded)
    return chat


def test_the_model_was_trained_with_the_prompt_of_today(board: Sitting) -> None:
    tools, chat = list(board.servers.tools), board.new_chat()
    lines = tuple(list_tool(name, tool, FORMATS[chat.form]) for name, tool in shown_names(tools).items())
    prompt = "\n".join(message.text for message in prompt_of(chat, [Message("user", "", tools=lines)]))
    trained = board.backend.metadata["tiny_tools.prompt_sha256"]
    assert trained == hashlib.sha256(prompt.encode()).hexdigest(), "the prompt or the board changed: train it again"


def test_a_fresh_user_gets_the_model_and_the_board_from_an_empty_folder(program: Run) -> None:
    done = program("-p", "What time is it in Tokyo?", "--output-format", "json")
    result = json.loads(done.stdout)["result"]
    assert [(call["tool"], call["arguments"], call["status"]) for call in result["calls"]] == [
        ("get_time", {"place": "Tokyo"}, "completed")
    ]
    assert result["calls"][0]["text"] in result["text"]
    assert done.stderr == ""
