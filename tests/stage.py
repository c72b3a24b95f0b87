"""Helpers of tests: scripted conversations, plain tools, and the real program on a pseudo terminal."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import ANY

import pyte
import pytest

from fork_server import start
from rkllm_chat.backends.base import Backend
from rkllm_chat.backends.scripted import ScriptedBackend, ScriptedReply
from rkllm_chat.calls.scanner import InventedResult
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.event_stream import stream_events
from rkllm_chat.chat.turn import Turn
from rkllm_chat.cli.main import main
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core import i18n
from rkllm_chat.core.events import Event, Reading, Text, Thought, WritingCall
from rkllm_chat.core.messages import Message, Tool, ToolResult
from rkllm_chat.core.protocols import ApprovalCallback, ProgressCallback, decline_all
from rkllm_chat.prompt.profiles import PROFILES

AnyEvent = TypeVar("AnyEvent")
Run = Callable[..., "subprocess.CompletedProcess[str]"]
"""Of the fixture `program`."""
Script = Callable[..., str]
OpenScreen = Callable[..., "Screen"]
OpenChat = Callable[..., "Screen"]

GREEDY = Generation(temperature=0, max_tokens=200)
DIM = 2
AFTER_ENTER_S = 0.1
PROGRAM = [sys.executable, "-m", "rkllm_chat"]
NO_BOARD = '[[servers]]\nname = "board"\ncommand = "x"\nenabled = false\n'
"""An entry that switches off the bundled server, whose start takes a second."""


@contextmanager
def live_as(environment: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Give this process the variables of a user and a current folder, and take back what the program sets in it."""
    root = logging.getLogger()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "excepthook", sys.excepthook)
        patch.setattr(root, "handlers", [])
        patch.setattr(root, "level", root.level)
        for name, value in environment.items():
            patch.setenv(name, value)
        yield


def run_here(*arguments: str) -> int:
    """Run `rkllm-chat` in this process and return its exit code."""
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


def write_files(root: Path, files: Mapping[str, str]) -> Path:
    """Write files, with the folders of their names, below a folder; return it."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def call_text(name: str, /, **arguments: Any) -> str:
    """Return a tool call as a model writes it."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"[TOOL_CALL]\n{body}\n[END_TOOL_CALL]"


@dataclass
class FakeToolbox:
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

    async def call(self, tool: Tool, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> ToolResult:
        self.called.append((tool.name, dict(arguments)))
        on_progress(1, 2, "half")
        try:
            text = await self.functions[tool.name](**arguments)
        except ValueError as error:
            return ToolResult("box", tool.name, arguments, "failed", str(error))
        return ToolResult("box", tool.name, arguments, "completed", text)


def make_chat(
    replies: Sequence[str | ScriptedReply],
    toolbox: FakeToolbox | None = None,
    approve: ApprovalCallback = decline_all,
    **settings: Any,
) -> Conversation:
    """Make a conversation with scripted replies and plain tools."""
    backend = ScriptedBackend(replies, settings.pop("context", 4096))
    return Conversation(backend, toolbox or FakeToolbox({}), Settings(**settings), i18n.load(), approve)


def add_profile(**changes: Any) -> str:
    """Add a row to PROFILES, the default with these changes, and return its name."""
    profile = replace(PROFILES["default"], name=f"test {changes}", **changes)
    PROFILES[profile.name] = profile
    return profile.name


def take_turn(chat: Conversation, line: str) -> list[Event]:
    """Run one turn and return its events."""
    return asyncio.run(collect(Turn(chat).run(line)))


async def collect(stream: AsyncGenerator[Event, None]) -> list[Event]:
    """Return all events of a stream without those about its progress, with adjacent texts joined."""
    async with aclosing(stream) as running:
        return join_texts([event async for event in running if not is_progress(event)])


def is_progress(event: Event) -> bool:
    """Whether an event says only that a prompt is read or that something is written."""
    return (isinstance(event, Reading) and event.done == 0) or event == WritingCall("", ANY)


async def collect_emitted(work: Callable[..., Awaitable[None]], *arguments: object) -> list[Event]:
    """What a coroutine function emits; `emit` is its last argument."""
    return await collect(stream_events(partial(work, *arguments)))


def join_texts(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """Return the events with adjacent texts, and other adjacent events of a kind that are texts, as one."""
    joined: list[AnyEvent] = []
    for event in events:
        last = joined[-1] if joined else None
        is_report = isinstance(last, Text) and last.is_report
        if isinstance(event, Text | Thought | InventedResult) and isinstance(last, type(event)) and not is_report:
            joined[-1] = replace(event, text=last.text + event.text)
        else:
            joined.append(event)
    return joined


async def end_after(
    backend: Backend, prompt: Sequence[Message], pieces: int, generation: Generation = GREEDY
) -> list[Any]:
    """Stop a reply after `pieces` chunks and return all items, including those after the stop."""
    items: list[Any] = []
    async with aclosing(backend.stream(prompt, generation)) as stream:
        while sum(isinstance(item, str) for item in items) < pieces:
            items.append(await anext(stream))
        stream.stop()
        items += [item async for item in stream]
    return items


class Emulator(pyte.Screen):  # type: ignore[misc]
    """A terminal in memory. It shows dim text as grey, because pyte does not support dim.

    A line is rendered again only when it has changed: tests look at the screen after every read.

    Attributes:
        saved: The lines that tmux would move into its scrollback, because they were erased from the first cell on.
    """

    def __init__(self, columns: int, lines: int) -> None:
        self._rendered: dict[int, str] = {}
        self.saved: list[str] = []
        super().__init__(columns, lines)

    @property
    def display(self) -> list[str]:
        for row in self.dirty:
            line = self.buffer[row]
            self._rendered[row] = "".join(line[at].data if at in line else " " for at in range(self.columns))
        self.dirty.clear()
        return [self._rendered[row] for row in range(self.lines)]

    def erase_in_display(self, how: int = 0, *arguments: Any, **options: Any) -> None:
        if how == 0 and not (self.cursor.x or self.cursor.y):
            self.saved += filter(str.strip, self.display)
        super().erase_in_display(how, *arguments, **options)

    def narrow(self, columns: int) -> None:
        """Become narrower as most terminals do, but not this emulator: wrap the lines, keep the cursor at its place."""
        rows: list[dict[int, Any]] = []
        for y in range(self.lines):
            line = self.buffer[y]
            if y == self.cursor.y:
                at = len(rows) + self.cursor.x // columns, self.cursor.x % columns
            end = max((x for x, cell in line.items() if cell.data != " "), default=0) + 1
            for left in range(0, end, columns):
                rows.append({x - left: line[x] for x in range(left, left + columns) if x in line})
        while len(rows) > self.lines and not rows[-1]:
            rows.pop()
        scrolled = max(0, len(rows) - self.lines)
        self.resize(self.lines, columns)
        for y, row in enumerate(rows[scrolled:]):
            self.buffer[y].clear()
            self.buffer[y].update(row)
        self.cursor.y, self.cursor.x = max(0, at[0] - scrolled), at[1]
        self.dirty.update(range(self.lines))

    def select_graphic_rendition(self, *attributes: int, **more: Any) -> None:
        super().select_graphic_rendition(*(90 if attribute == DIM else attribute for attribute in attributes), **more)


class Screen:
    """The program on a pseudo terminal, with an emulator that shows what a user sees."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        size: tuple[int, int] = (100, 30),
        command: Sequence[str] = PROGRAM,
        forks: bool = True,
    ) -> None:
        columns, rows = size
        self.emulator = Emulator(columns or 80, rows or 24)
        self.stream = pyte.ByteStream(self.emulator)
        self.bytes = b""
        self._entered_at = 0.0
        terminal, program_end = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.terminal = terminal
        self.process = start(
            [*command, *arguments],
            forks=forks,
            owns_terminal=True,
            stdin=program_end,
            stdout=program_end,
            stderr=program_end,
            env=dict(environment),
            cwd=folder,
        )
        os.close(program_end)
        self.emulator.write_process_input = self.type  # a terminal answers where its cursor is

    def type(self, keys: str) -> None:
        """Type keys. Text does not follow an Enter of the call before at once: that would be a paste."""
        while keys[:1].isprintable() and time.monotonic() < self._entered_at + AFTER_ENTER_S:
            self.read_some(self._entered_at + AFTER_ENTER_S)
        os.write(self.terminal, keys.encode())
        if keys.endswith("\r"):
            self._entered_at = time.monotonic()

    def say(self, keys: str, *texts: str) -> list[str]:
        """Type, and wait for one text after another; give the lines of the screen."""
        self.type(keys)
        for text in texts:
            self.wait_for(text)
        return self.lines()

    def enter(self, line: str, *texts: str) -> list[str]:
        """Type a line, wait for texts (for the line, where none are given) and the next prompt; give the screen."""
        self.say(f"{line}\r", *(texts or (f"> {line}",)))
        return self.wait_for_prompt()

    def leave(self) -> None:
        """Leave the chat with Ctrl+D at its prompt."""
        self.type("\x04")
        assert self.wait_for_end() == 0

    def wait_until_hushed(self, seconds: float = 15) -> None:
        """Waits until the program keeps the terminal from showing what is typed."""
        limit = time.monotonic() + seconds
        while termios.tcgetattr(self.terminal)[3] & termios.ECHO:
            assert time.monotonic() < limit
            os.sched_yield()

    def resize(self, columns: int, rows: int) -> None:
        self.emulator.resize(rows, columns)
        self._announce_size(columns, rows)

    def narrow(self, columns: int) -> None:
        """Make the terminal narrower; it wraps the lines on its screen."""
        self.emulator.narrow(columns)
        self._announce_size(columns, self.emulator.lines)

    def _announce_size(self, columns: int, rows: int) -> None:
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
        return self.wait_until(self._is_at_empty_prompt, "an empty prompt", seconds)

    def _is_at_empty_prompt(self) -> bool:
        """Whether the cursor is behind the mark of an empty prompt; below it is a status line at most.

        An example may stand in it, in grey.
        """
        row = self.emulator.cursor.y
        display, cells = self.emulator.display, self.emulator.buffer[row]
        below = sum(bool(line.strip()) for line in display[row + 1 :])
        typed = "".join(cells[x].data for x in sorted(cells) if cells[x].fg != "brightblack").rstrip()
        return typed == ">" and self.emulator.cursor.x > 1 and below < 2

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
