"""A person at a terminal that cannot move its cursor: lines come, lines go. It opens nothing and runs no turn."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.history import History, InMemoryHistory
from typing_extensions import Self

from .chat import Onward
from .events import Event, Notice
from .language import Words
from .messages import Tool
from .policy import Consent
from .questions import CONSENTS, ONWARDS, describe_call, read_onward
from .screen import PROMPT, start
from .terminal import Terminal


class Plain:
    """The same doors as a seat at a screen."""

    def __init__(self, words: Words, history: History, color: bool) -> None:
        self._session: PromptSession[str] = PromptSession(history=history)
        self._terminal = Terminal(sys.stdout, sys.stdout, words, color)
        self._words = words

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._terminal.end_line()

    async def line(self) -> str | None:
        """The next line; None when the person leaves by Ctrl+D or by Ctrl+C twice."""
        for is_last in (False, True):
            try:
                while not (line := (await self._session.prompt_async(PROMPT)).strip()):
                    pass
                return line
            except EOFError:
                return None
            except KeyboardInterrupt:
                if not is_last:
                    self.tell(self._words("repl.leave_hint"))
        return None

    def leave(self) -> None:
        """Ends the waiting for a line."""
        if self._session.app.is_running:
            self._session.app.exit(exception=EOFError)

    @contextmanager
    def running(self, stop: Callable[[], object]) -> Iterator[None]:
        """While something runs, Ctrl+C stops it."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, stop)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            self._terminal.end_line()

    def show(self, event: Event) -> None:
        self._terminal.show(event)

    async def edit(self, text: str) -> str:
        return await self.read(PROMPT, text) or ""

    async def run(self, command: str) -> int:
        """Gives the terminal to a shell command."""
        return await (await start(command)).wait()

    async def approve(self, tool: Tool, arguments: Mapping[str, Any]) -> Consent:
        for line in describe_call(tool, arguments, self._words):
            self._terminal.show(Notice(line))
        answer = await self.read(self._words("question.run") + " ", "")
        return "stop" if answer is None else CONSENTS.get(answer.lower(), "no")

    async def at_limit(self, rounds: int) -> Onward:
        answer = await self.read(self._words("question.onward", rounds=rounds) + " ", "")
        return read_onward("stop" if answer is None else ONWARDS.get(answer.lower(), "answer"), rounds)

    async def agree(self, question: str) -> bool:
        return (await self.read(question, "") or "").strip().lower() in ("y", "yes")

    async def read(self, question: str, default: str, _choices: Sequence[str] = ()) -> str | None:
        """A line; None for Ctrl+C and Ctrl+D."""
        session: PromptSession[str] = PromptSession(history=InMemoryHistory())
        try:
            return (await session.prompt_async(question, default=default)).strip()
        except (EOFError, KeyboardInterrupt):
            return None

    def tell(self, text: str) -> None:
        self._terminal.show(Notice(text))

    news = tell
