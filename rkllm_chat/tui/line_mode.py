"""Front end for terminals that cannot move the cursor.

The terminal itself edits the line (cooked mode), so this works on any terminal with a keyboard.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from typing_extensions import Self

from ..chat.server_events import ServerWait
from ..core.events import Draft, Event, Notice, NoticeLevel, Page, Table
from ..core.i18n import Words
from ..core.sanitize import escape_line_visibly
from .approval_prompt import CallLine, TerminalFrontend
from .event_lines import EventPrinter, open_terminal
from .external_programs import start_external
from .picker import Picker

PROMPT = "> "
MAX_READ_BYTES = 1 << 20


@dataclass(eq=False)
class _Reading:
    """A line that is being read: its prompt, and whether Ctrl+C ended it."""

    prompt: str
    is_interrupted: bool = False


class LineModeFrontend(TerminalFrontend):
    """Line-mode front end with the same interface as the screen front end."""

    def __init__(self, words: Words, color: bool) -> None:
        super().__init__(words)
        self._out = open_terminal()
        self._printer = EventPrinter(self._out, self._out, words, color)
        self._input, self._draft = b"", ""
        self._has_ended = False
        self._readings: list[_Reading] = []
        self._has_changed = asyncio.Event()
        self._interrupts: list[Callable[[], object]] = []
        self._questioning = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._printer.end_line()

    async def read_line(self) -> str | None:
        """Return the next line; None after Ctrl+D or a second Ctrl+C.

        A draft is shown in brackets and returned for an empty line; another line replaces it, and Ctrl+C discards it.
        """
        hint_shown = False
        while True:
            draft, self._draft = self._draft, ""
            try:
                line = await self._read(f"{PROMPT}[{draft}] " if draft else PROMPT)
                if line is None or line or draft:
                    return draft if line == "" else line
                hint_shown = False
            except KeyboardInterrupt:
                if hint_shown:
                    return None
                hint_shown = not draft
                if hint_shown:
                    self.notify(self._words("repl.leave_hint"))

    def submit(self, line: str) -> None:
        """Enter a line as if it had been typed; do nothing if it is empty."""
        if line:
            self.notify(f"{PROMPT}{line}")
            self._input = f"{line}\n".encode() + self._input

    def show_example(self, _text: str) -> None:
        """Show no example: a line has one look here."""

    def close_input(self) -> None:
        """Make a pending `read_line` return None."""
        self._has_ended = True
        self._has_changed.set()

    @contextmanager
    def interruptible(self, stop: Callable[[], object]) -> Iterator[None]:
        """Return a context in which Ctrl+C calls `stop`."""
        with self._on_interrupt(stop):
            yield
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._printer.end_line()

    def show(self, event: Event) -> None:
        """Display an event on lines of its own and repeat the prompt below it."""
        if isinstance(event, Draft):
            self._draft = event.text
            return
        if isinstance(event, ServerWait):
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._end_wait, event.send_now)
        if self._readings:
            self._out.write("\n")
        self._printer.show(event)
        self._write_prompt()

    async def run_command(self, command: str) -> int:
        """Run a shell command in the foreground and return its exit code; questions wait, as it reads the keys."""
        async with self._questioning:
            with self._on_interrupt(lambda: None):
                return await (await start_external(command)).wait()

    async def pick(self, picker: Picker) -> str | None:
        """Show the rows with their numbers and ask for one."""
        rows = [(str(number), *choice.columns) for number, choice in enumerate(picker.choices, 1)]
        self.notify(picker.title)
        self._printer.show(Table((), tuple(rows)))
        answer = await self.ask_line(self._words("picker.number") + " ", "") or ""
        is_valid = answer.isdecimal() and 1 <= int(answer) <= len(rows)
        return picker.choices[int(answer) - 1].key if is_valid else None

    async def choose(self, lines: Sequence[CallLine], question: str, keys: Mapping[str, str], default: str) -> str:
        """Show a call and ask a question that a line with one key answers."""
        answer = await self._ask(f"{question} ", "", Page("\n".join(line.text for line in lines)))
        return "stop" if answer is None else keys.get(answer.lower(), default)

    async def ask_text(self, question: str, default: str) -> str | None:
        """Ask for a line."""
        return await self.ask_line(f"{question} ", default)

    async def confirm(self, question: str) -> bool:
        """Ask a yes/no question; anything but yes is False."""
        return (await self.ask_line(question, "") or "").lower() in ("y", "yes")

    async def ask_line(self, question: str, default: str, _choices: Sequence[str] = ()) -> str | None:
        """Ask for a line; `default` for an empty one, None for Ctrl+C and Ctrl+D."""
        return await self._ask(question, default)

    async def _ask(self, question: str, default: str, about: Page | None = None) -> str | None:
        """Ask for a line as `ask_line`, after the question before, below a text about it."""
        async with self._questioning:
            if self._readings:
                self._out.write("\n")
            if about:
                self._printer.show(about)
            self._printer.end_line()
            try:
                answer = await self._read(f"{question}[{default}] " if default else question)
            except KeyboardInterrupt:
                return None
            return default if answer == "" else answer

    def show_untruncated(self, text: str) -> None:
        """Print text without shortening it."""
        self._printer.show(Table((), ((text,),)))

    def notify(self, text: str, level: NoticeLevel = "info") -> None:
        """Show a notice."""
        self.show(Notice(text, level))

    async def _read(self, prompt: str) -> str | None:
        """Return a stripped line; None at the end of input. Of several readers the newest gets the line.

        Raises:
            KeyboardInterrupt: Ctrl+C was pressed.
        """
        reading = _Reading(f"{escape_line_visibly(prompt)} ")

        def interrupt() -> None:
            reading.is_interrupted = True
            self._has_changed.set()

        self._readings.append(reading)
        self._write_prompt()
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self._read_input)
        try:
            with self._on_interrupt(interrupt):
                while not reading.is_interrupted and not (self._readings[-1] is reading and self._has_line()):
                    self._has_changed.clear()
                    await self._has_changed.wait()
        finally:
            self._readings.remove(reading)
            if not self._readings:
                loop.remove_reader(sys.stdin.fileno())
            self._has_changed.set()
            if reading.is_interrupted:
                self._out.write("\n")  # behind the ^C of the terminal
            self._write_prompt()
        if reading.is_interrupted:
            raise KeyboardInterrupt
        line, ended, rest = self._input.partition(b"\n")
        self._input = rest
        return line.decode("utf-8", errors="replace").strip() if ended or line else None

    def _has_line(self) -> bool:
        return self._has_ended or b"\n" in self._input

    def _write_prompt(self) -> None:
        """Write the prompt of the newest reader, if there is one."""
        self._out.write(self._readings[-1].prompt if self._readings else "")
        self._out.flush()

    def _read_input(self) -> None:
        data = os.read(sys.stdin.fileno(), MAX_READ_BYTES)
        self._input += data
        self._has_ended = not data
        self._has_changed.set()

    def _end_wait(self, send_now: Callable[[], None]) -> None:
        """Read what is typed while a message waits for servers; an empty line sends it."""
        self._read_input()
        if self._has_ended or self._input.startswith(b"\n"):
            self._input = self._input.removeprefix(b"\n")
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            send_now()

    @contextmanager
    def _on_interrupt(self, handler: Callable[[], object]) -> Iterator[None]:
        """Call `handler` on Ctrl+C inside the context; in an inner one, that of it. Outside, Ctrl+C is ignored."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
        self._interrupts.append(handler)
        try:
            yield
        finally:
            self._interrupts.remove(handler)

    def _interrupt(self) -> None:
        if self._interrupts:
            self._interrupts[-1]()
