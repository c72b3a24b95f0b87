"""The stage that tests play on: written replies, plain tools, and the real program on a real pseudo terminal."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyte

from rkllm_chat import language
from rkllm_chat.backends.scripted import Reply, Scripted
from rkllm_chat.chat import Approve, Backend, Chat, decline_all
from rkllm_chat.config import Generation, Settings
from rkllm_chat.events import Event, Text, Thought
from rkllm_chat.messages import Message, Tool, ToolResult
from rkllm_chat.rounds import OnProgress

GREEDY = Generation(temperature=0, max_tokens=200)
DIM = 2
PROGRAM = [sys.executable, "-m", "rkllm_chat"]


def call_text(name: str, /, **arguments: Any) -> str:
    """A call as a model writes it."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"[TOOL_CALL]\n{body}\n[END_TOOL_CALL]"


@dataclass
class Box:
    """A toolbox of plain coroutines: name -> function of the arguments that gives a text or raises."""

    functions: Mapping[str, Callable[..., Awaitable[str]]]
    read_only: bool = True
    called: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    schemas: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tools(self) -> Sequence[Tool]:
        return [
            Tool(name, f"Does {name}.", self.schemas.get(name, {}), "box", read_only=self.read_only, trusted=True)
            for name in self.functions
        ]

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: OnProgress) -> ToolResult:
        self.called.append((tool.name, dict(arguments)))
        on_progress(1, 2, "half")
        try:
            text = await self.functions[tool.name](**arguments)
        except ValueError as error:
            return ToolResult("box", tool.name, arguments, "failed", str(error))
        return ToolResult("box", tool.name, arguments, "completed", text)


def make_chat(
    replies: Sequence[str | Reply], box: Box | None = None, approve: Approve = decline_all, **settings: Any
) -> Chat:
    """A chat with written replies and plain tools."""
    backend = Scripted(replies, settings.pop("context", 4096))
    return Chat(backend, box or Box({}), Settings(**settings), language.load(), approve)


def take_turn(chat: Chat, line: str) -> list[Event]:
    """One whole turn of a chat, as a list of events."""
    return asyncio.run(collect(chat.send(line)))


async def collect(stream: AsyncGenerator[Event, None]) -> list[Event]:
    """All events of a stream, neighbouring texts joined."""
    events: list[Event] = []
    async with aclosing(stream) as running:
        async for event in running:
            last = events[-1] if events else None
            if isinstance(event, Text) and isinstance(last, Text):
                events[-1] = Text(last.text + event.text)
            elif isinstance(event, Thought) and isinstance(last, Thought):
                events[-1] = Thought(last.text + event.text)
            else:
                events.append(event)
    return events


async def end_after(backend: Backend, prompt: Sequence[Message], pieces: int) -> list[Any]:
    """Listens to so many pieces of a reply, asks the engine to end it, and gives all that came, also behind that."""
    heard: list[Any] = []
    async with aclosing(backend.stream(prompt, GREEDY)) as stream:
        while sum(isinstance(item, str) for item in heard) < pieces:
            heard.append(await anext(stream))
        heard.append(await stream.asend(True))
        heard += [item async for item in stream]
    return heard


class Emulator(pyte.Screen):  # type: ignore[misc]
    """A terminal in memory. It shows what is dim as grey, which pyte itself does not know."""

    def select_graphic_rendition(self, *attributes: int, **more: Any) -> None:
        super().select_graphic_rendition(*(90 if one == DIM else one for one in attributes), **more)


class Screen:
    """The program on a pseudo terminal, with an emulator that says what a person would see."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        size: tuple[int, int] = (100, 30),
        command: Sequence[str] = PROGRAM,
    ) -> None:
        columns, rows = size
        self.emulator = Emulator(columns or 80, rows or 24)
        self.stream = pyte.ByteStream(self.emulator)
        self.bytes = b""
        ours, theirs = pty.openpty()
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.terminal = ours
        self.process = subprocess.Popen(
            [*command, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=dict(environment),
            cwd=folder,
            preexec_fn=lambda: make_controlling(theirs),
        )
        os.close(theirs)
        self.emulator.write_process_input = self.type  # a terminal answers where its cursor is

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def wait_until_hushed(self, seconds: float = 15) -> None:
        """Waits until the program keeps the terminal from showing what is typed."""
        limit = time.monotonic() + seconds
        while termios.tcgetattr(self.terminal)[3] & termios.ECHO:
            assert time.monotonic() < limit
            os.sched_yield()

    def resize(self, columns: int, rows: int) -> None:
        self.emulator.resize(rows, columns)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.emulator.display if line.strip()]

    def wait_for(self, text: str, seconds: float = 15) -> list[str]:
        """Reads until the screen shows the text; gives its lines."""
        return self.wait_until(lambda: any(text in line for line in self.emulator.display), repr(text), seconds)

    def wait_for_end_of_line(self, text: str, seconds: float = 15) -> list[str]:
        """Reads until a line of the screen ends in the text; gives its lines."""
        return self.wait_until(lambda: any(line.endswith(text) for line in self.lines()), f"...{text!r}", seconds)

    def wait_for_prompt(self, seconds: float = 15) -> list[str]:
        """Reads until the program waits for a line and runs nothing; gives the screen's lines."""
        return self.wait_until(lambda: ">" in self.lines()[-2:], "an empty prompt", seconds)

    def wait_until(self, happened: Callable[[], bool], what: str, seconds: float = 15) -> list[str]:
        limit = time.monotonic() + seconds
        while not happened():
            assert self.read_some(limit), f"{what} did not appear on:\n" + "\n".join(self.lines())
        return self.lines()

    def wait_for_end(self, seconds: float = 10) -> int:
        """Reads until the program has gone; gives its exit code."""
        limit = time.monotonic() + seconds
        while self.read_some(limit):
            pass
        return self.process.wait(timeout=5)

    def wait_for_rest(self, seconds: float, most: float = 10) -> None:
        """Reads until the screen has looked the same for so long."""
        limit, before, since = time.monotonic() + most, list[str](), time.monotonic()
        while time.monotonic() < min(limit, since + seconds):
            self.read_some(min(limit, since + seconds))
            if before != self.emulator.display:
                before, since = self.emulator.display, time.monotonic()

    def read_some(self, limit: float) -> bool:
        """Reads what comes next; False where nothing has come until `limit`, a time of the monotonic clock."""
        ready, _, _ = select.select([self.terminal], [], [], max(0.0, limit - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            return False
        self.bytes += data
        self.stream.feed(data)
        return bool(data)

    def close(self) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.terminal)


def make_controlling(terminal: int) -> None:
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
