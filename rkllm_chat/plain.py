"""A person at a terminal that cannot move its cursor: lines come, lines go. It opens nothing and runs no turn.

The terminal itself edits the line (cooked mode), so this works on everything that has a keyboard.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from typing_extensions import Self

from .chat import Onward
from .clean import reveal_line
from .events import Event, Notice, Page, Table
from .language import Words
from .messages import Tool
from .policy import Consent
from .questions import CONSENTS, ONWARDS, describe_call, read_onward
from .shell import has_desktop, open_page, start
from .terminal import Terminal

PROMPT = "> "
MOST_BYTES = 1 << 20


class Plain:
    """The same doors as a seat at a screen."""

    def __init__(self, words: Words, color: bool) -> None:
        self._terminal = Terminal(sys.stdout, sys.stdout, words, color)
        self._words = words
        self._typed, self._prompt = b"", ""
        self._has_ended = False
        self._waiting: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._terminal.end_line()

    async def line(self) -> str | None:
        """The next line; None when the person leaves by Ctrl+D or by Ctrl+C twice."""
        is_hinted = False
        while True:
            try:
                if (line := await self._read(PROMPT)) is None or line:
                    return line
                is_hinted = False
            except KeyboardInterrupt:
                if is_hinted:
                    return None
                is_hinted = True
                self.tell(self._words("repl.leave_hint"))

    def leave(self) -> None:
        """Ends the waiting for a line."""
        self._has_ended = True
        self._wake()

    @contextmanager
    def running(self, stop: Callable[[], object]) -> Iterator[None]:
        """While something runs, Ctrl+C stops it."""
        with on_interrupt(stop):
            yield
        self._terminal.end_line()

    def show(self, event: Event) -> None:
        """On lines of its own, and what is being asked stands below it again."""
        if self._prompt:
            sys.stdout.write("\n")
        self._terminal.show(event)
        sys.stdout.write(self._prompt)
        sys.stdout.flush()

    async def edit(self, text: str) -> str:
        return await self.read(PROMPT, text) or ""

    async def run(self, command: str) -> int:
        """Gives the terminal to a shell command."""
        with on_interrupt(lambda: None):
            return await (await start(command)).wait()

    async def approve(self, tool: Tool, arguments: Mapping[str, Any]) -> Consent:
        self._terminal.show(Page("\n".join(describe_call(tool, arguments, self._words))))
        answer = await self.read(self._words("question.run") + " ", "")
        return "stop" if answer is None else CONSENTS.get(answer.lower(), "no")

    async def at_limit(self, rounds: int) -> Onward:
        answer = await self.read(self._words("question.onward", rounds=rounds) + " ", "")
        return read_onward("stop" if answer is None else ONWARDS.get(answer.lower(), "answer"), rounds)

    async def agree(self, question: str) -> bool:
        return (await self.read(question, "") or "").lower() in ("y", "yes")

    async def read(self, question: str, default: str, _choices: Sequence[str] = ()) -> str | None:
        """A line, `default` for an empty one; None for Ctrl+C and Ctrl+D."""
        self._terminal.end_line()
        try:
            answer = await self._read(f"{question}[{default}] " if default else question)
        except KeyboardInterrupt:
            return None
        return default if answer == "" else answer

    @property
    def can_open(self) -> bool:
        return has_desktop()

    async def open_page(self, url: str) -> None:
        await open_page(url)

    def show_whole(self, text: str) -> None:
        self._terminal.show(Table((), ((text,),)))

    def tell(self, text: str) -> None:
        self.show(Notice(text))

    news = tell

    async def _read(self, prompt: str) -> str | None:
        """A line without its white space; None at the end of the input. Raises KeyboardInterrupt for Ctrl+C."""
        self._prompt = f"{reveal_line(prompt)} "
        sys.stdout.write(self._prompt)
        sys.stdout.flush()
        interrupted: list[bool] = []

        def interrupt() -> None:
            interrupted.append(True)
            self._wake()

        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self._take)
        try:
            with on_interrupt(interrupt):
                while b"\n" not in self._typed and not self._has_ended and not interrupted:
                    self._waiting = loop.create_future()
                    await self._waiting
        finally:
            self._prompt = ""
            loop.remove_reader(sys.stdin.fileno())
        if interrupted:
            raise KeyboardInterrupt
        line, ended, rest = self._typed.partition(b"\n")
        self._typed = rest
        return line.decode("utf-8", errors="replace").strip() if ended or line else None

    def _take(self) -> None:
        data = os.read(sys.stdin.fileno(), MOST_BYTES)
        self._typed += data
        self._has_ended = not data
        self._wake()

    def _wake(self) -> None:
        if self._waiting and not self._waiting.done():
            self._waiting.set_result(None)


@contextmanager
def on_interrupt(call: Callable[[], object]) -> Iterator[None]:
    """Has Ctrl+C call this; afterwards it does nothing."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, call)
    try:
        yield
    finally:
        loop.add_signal_handler(signal.SIGINT, id, None)
