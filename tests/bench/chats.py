"""Conversations to measure: the small model with the board server over stdio, or written replies with many tools."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rkllm_chat.backends.base import Backend, ModelStream, StoppableStream, StreamItem
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.shared.model_files import find_shipped_model
from rkllm_chat.calls.grammar import CallGrammar, NoCalls
from rkllm_chat.calls.model_families import UNKNOWN
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.servers import BOARD_SERVER
from rkllm_chat.config.settings import Generation, ServerConfig, Settings
from rkllm_chat.core import i18n as language
from rkllm_chat.core.events import Text, TurnEnded, Usage
from rkllm_chat.core.messages import MediaKind, Message, Tool, ToolResult
from rkllm_chat.core.protocols import CallableTools, ProgressCallback
from rkllm_chat.mcp_client.toolbox import Toolbox
from stage import call_text, write_files

PIECE = 4
QUESTIONS = (
    "What time is it in Oslo?",
    "What is 12 * 34?",
    "Calculate 7 + 15",
    "What is 6 * 7?",
    "What is 8 * 8?",
    "Calculate 2 + 2",
    "What is 9 * 9?",
    "Calculate 9 + 1",
    "What is 5 * 5?",
    "Calculate 3 + 4",
)
"""Each is answered with one call; together they fit the context, so nothing is trimmed."""


@dataclass(frozen=True)
class TurnCost:
    """The usage of a turn's replies, and the seconds until its first text."""

    usage: tuple[Usage, ...]
    first_s: float


class BoardChats:
    """The small model and the board server; one conversation at a time."""

    def __init__(self, folder: Path) -> None:
        (folder / "notes.txt").write_text("buy milk\ncall Ken\nsleep\n", encoding="utf-8")
        memory = "MemTotal: 7812500 kB\nMemAvailable: 4882812 kB\n"
        files = {"meminfo": memory, "loadavg": "1.25 0.98 0.64 1/300 4242\n", "uptime": "356460.00 1.0\n"}
        root = write_files(folder / "root/proc", files).parent
        code = (
            "from pathlib import Path; from rkllm_chat.mcp_servers.board.server import build_server; "
            f"build_server(Path({str(folder)!r}), Path({str(root)!r})).run('stdio')"
        )
        server = ServerConfig(**{**vars(BOARD_SERVER), "command": sys.executable, "args": ("-c", code)})
        self.loop = asyncio.new_event_loop()
        self.backend = LlamaBackend(find_shipped_model(), 0)
        self.servers = Toolbox([server], folder / "logs")
        self.loop.run_until_complete(self.servers.open())

    def __enter__(self) -> BoardChats:
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.run_until_complete(self.servers.aclose())
        self.loop.run_until_complete(self.backend.aclose())
        self.loop.close()

    def new_chat(self) -> Conversation:
        chat = new_chat(self.backend, self.servers)
        chat.settings = replace(chat.settings, generation=Generation(temperature=0, max_tokens=60))  # all of it fits
        return chat

    def clear(self) -> None:
        """Evaluate another prompt, so that the cache contains nothing of a conversation."""

        async def read() -> None:
            other = [Message("system", "Other."), Message("user", "Go.")]
            async with aclosing(self.backend.stream(other, Generation(temperature=0, max_tokens=1))) as pieces:
                async for _ in pieces:
                    pass

        self.loop.run_until_complete(read())

    def run_turn(self, chat: Conversation, line: str) -> TurnCost:
        return self.loop.run_until_complete(run_turn(chat, line))


def new_chat(backend: Backend, toolbox: CallableTools) -> Conversation:
    settings = Settings(policy=Policy(approve="all"), generation=Generation(temperature=0, max_tokens=200))
    return Conversation(backend, toolbox, settings, language.load())


async def run_turn(chat: Conversation, line: str) -> TurnCost:
    started, first = time.perf_counter(), 0.0
    async with aclosing(Turn(chat).run(line)) as turn:
        async for event in turn:
            if isinstance(event, Text):
                first = first or time.perf_counter() - started
            if isinstance(event, TurnEnded):
                return TurnCost(event.usage, first)
    raise AssertionError("a turn without an end")


class ScriptedEngine:
    """A backend without cost: it streams written replies and counts characters instead of tokens."""

    name, template, profile = "scripted", "", ""
    native_tools, supports_grammar = False, True
    media_kinds = frozenset[MediaKind]()
    family = UNKNOWN

    def __init__(self, replies: Sequence[str], context_tokens: int) -> None:
        self.context_tokens = context_tokens
        self._replies = [[text[at : at + PIECE] for at in range(0, len(text), PIECE)] for text in replies]
        self._played = 0

    def stream(
        self,
        _prompt: Sequence[Message],
        _generation: Generation,
        _tools: Sequence[Tool] = (),
        _grammar: CallGrammar | NoCalls | None = None,
    ) -> ModelStream:
        return StoppableStream(self._play_next(), lambda: None)

    async def _play_next(self) -> AsyncGenerator[StreamItem, None]:
        pieces = self._replies[self._played % len(self._replies)]
        self._played += 1
        for piece in pieces:
            yield piece
        yield Usage(1, 0, 1, len(pieces))

    async def prefill(self, _prompt: Sequence[Message], _tools: Sequence[Tool] = ()) -> int:
        return 0

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        return sum(len(message.text) for message in prompt) // PIECE

    def count_cached_tokens(self, _prompt: Sequence[Message]) -> int | None:
        return None

    async def aclose(self) -> None:
        return


class ManyTools:
    """A toolbox of `number` tools of the usual size; each returns `lines` lines."""

    def __init__(self, number: int, lines: int = 1) -> None:
        self._result = "\n".join([RESULT] * lines)
        schema = {
            "type": "object",
            "properties": {
                "place": {"type": "string"},
                "unit": {"enum": ["m", "ft"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "required": ["place"],
        }
        about = "Height of the tide at gauge number {} of a harbour."
        self.tools = [
            Tool(f"get_tide_{gauge}", about.format(gauge), schema, "harbour", read_only=True, trusted=True)
            for gauge in range(number)
        ]

    async def call(self, tool: Tool, arguments: Mapping[str, Any], _on_progress: ProgressCallback) -> ToolResult:
        return ToolResult("harbour", tool.name, arguments, "completed", str(self._result.encode(), "utf-8"))


RESULT = "The tide at Husum is 2.4 metres and rising; high water is at 17:40 with 3.1 metres."
REPLIES = (call_text("get_tide_3", place="Husum"), "At Husum it is 2.4 metres and rising, until 17:40. " * 2)
LINE = "How high is the tide at Husum now, and when is high water?"


def make_chat(tools: int, turns: int = 0, context_tokens: int = 1_000_000, lines: int = 1) -> Conversation:
    """Make a conversation with a scripted engine, `tools` tools and `turns` turns of history."""
    chat = new_chat(ScriptedEngine(REPLIES, context_tokens), ManyTools(tools, lines))
    for _ in range(turns):
        asyncio.run(run_turn(chat, LINE))
    return chat
