"""A person at a screen: shows what happens, gives what is typed, and asks. It opens nothing and runs no turn."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from prompt_toolkit.completion import Completer
from prompt_toolkit.history import History
from typing_extensions import Self

from .chat import Onward
from .clean import clean, clean_line, reveal, reveal_line
from .events import Copied, Draft, Event, Shown
from .gauge import status_line
from .language import Words
from .live import Live
from .markdown.cells import chop_text, fold
from .messages import Tool
from .overview import Overview
from .policy import Consent
from .price import Price
from .questions import CONSENTS, ONWARDS, describe_call, read_onward
from .screen import PROMPT, Screen
from .shell import has_desktop, open_page

MOST_ECHOED, MOST_ECHOED_LINES = 4000, 40
LARGEST_COPY = 74_000
"""Bytes; terminals drop a longer one (xterm, tmux)."""


class Seat:
    """Enter it, and the person can type. `live` is what he looks at."""

    def __init__(self, words: Words, history: History, completer: Completer, overview: Overview, color: bool) -> None:
        self.screen = Screen(history, completer, color)
        self.live = Live(self.screen, words, color)
        self._words = words
        self.live.expect_s = overview.expect_s
        self._overview, self._price = overview, Price(self.screen.refresh)
        self.screen.status = self._status
        self.screen.on_hint = lambda: self.live.say(words("repl.leave_hint"))

    async def __aenter__(self) -> Self:
        await self.screen.__aenter__()
        return self

    def _status(self, width: int) -> str:
        """The last line; while a message is typed, with what it would cost."""
        is_idle = self.screen.stop is None and self.screen.question is None
        price = self._price.look(self._overview.desk, self.screen.buffer.text if is_idle else "")
        return self.live.dim(status_line(self._overview.status(price), self._words, width))

    async def __aexit__(self, *_: object) -> None:
        self._price.close()
        await self.screen.__aexit__()

    async def line(self) -> str | None:
        """The next line, printed as it was typed; None when the person leaves."""
        line = await self.screen.line()
        if line is not None:
            self._print(PROMPT, self._echo(line))
        return line

    def _echo(self, line: str) -> list[str]:
        """A line as it was typed; of a very long one its beginning and how long it is."""
        lines = clean(line[:MOST_ECHOED]).splitlines()
        if len(line) <= MOST_ECHOED and len(lines) <= MOST_ECHOED_LINES:
            return lines
        values = {"lines": line.count("\n") + 1, "characters": len(line)}
        return [*lines[:MOST_ECHOED_LINES], self._words("repl.long", **values)]

    def _print(self, start: str, lines: Sequence[str]) -> None:
        """Lines behind a start, broken where the terminal ends and indented as the first is."""
        room = self.screen.width - len(start)
        parts = [part for line in lines for part in chop_text(line, room)]
        self.screen.above([f"{' ' * len(start) if i else start}{part}".rstrip() for i, part in enumerate(parts)])

    def leave(self) -> None:
        """Ends the waiting for a line."""
        self.screen.leave()

    @contextmanager
    def running(self, stop: Callable[[], object]) -> Iterator[None]:
        """While something runs, Ctrl+C and Esc stop it; what was typed ahead comes back if they do.

        Once they have, Ctrl+C is for leaving, however long the stop may take.
        """

        def stop_it() -> None:
            self.screen.stop = None
            self.screen.take_back()
            stop()

        ticking = asyncio.ensure_future(self.screen.tick())
        self.screen.stop = stop_it
        self.live.begin()
        try:
            yield
        finally:
            ticking.cancel()
            self.screen.stop = None
            self.live.end()

    def show(self, event: Event) -> None:
        match event:
            case Draft(text):
                self.screen.draft(text)
            case Copied(text):
                self._copy(text)
            case Shown(thoughts):
                self.live.shows_thoughts = thoughts
            case _:
                self.live.show(event)

    def _copy(self, text: str) -> None:
        """Into the clipboard of the terminal (OSC 52), also over SSH."""
        data = base64.b64encode(text.encode("utf-8", errors="replace")[:LARGEST_COPY]).decode("ascii")
        self.screen.write_raw(f"\x1b]52;c;{data}\x07")

    async def edit(self, text: str) -> str:
        return await self.screen.edit(text)

    async def run(self, command: str) -> int:
        """Gives the terminal to a shell command."""
        return await self.screen.run(command)

    async def approve(self, tool: Tool, arguments: Mapping[str, Any]) -> Consent:
        for line in describe_call(tool, arguments, self._words):
            text = line.lstrip()
            self._print(line[: len(line) - len(text)], [text])
        consent: Consent = await self._choose(CONSENTS, "no", "stop", self._words("question.run"))
        return consent

    async def at_limit(self, rounds: int) -> Onward:
        answer = await self._choose(ONWARDS, "answer", "stop", self._words("question.onward", rounds=rounds))
        return read_onward(answer, rounds)

    async def _choose(self, keys: Mapping[str, Any], default: str, leaving: str, question: str) -> Any:
        prompt = self._begin(question)
        answer = await self.screen.choose(keys, default, leaving, prompt)
        self._say_answered(prompt, next((key for key, value in keys.items() if value == answer), ""))
        return answer

    async def agree(self, question: str) -> bool:
        first, _, prompt = question.rpartition("\n")
        self._print("", reveal(first).splitlines())
        return bool(await self._choose({"y": "yes", "n": "no"}, "no", "no", prompt) == "yes")

    async def read(self, question: str, default: str, choices: Sequence[str] = ()) -> str | None:
        prompt = self._begin(question)
        answer = await self.screen.read(prompt, default, [one for one in choices if one == reveal(one)])
        self._say_answered(prompt, reveal_line(answer or ""))
        return answer

    def _begin(self, question: str) -> str:
        """Prints all lines of a question but the last, which stands before the answer."""
        *lines, last = fold(reveal_line(question), self.screen.width - 1)
        self.screen.above(lines)
        return f"{last} "

    def _say_answered(self, prompt: str, answer: str) -> None:
        self.screen.above(fold(f"{prompt}{answer}", self.screen.width))

    @property
    def can_open(self) -> bool:
        return has_desktop()

    async def open_page(self, url: str) -> None:
        await open_page(url)

    def show_whole(self, text: str) -> None:
        self.screen.above([clean_line(text)])

    def tell(self, text: str) -> None:
        self.live.say(text)

    news = tell
