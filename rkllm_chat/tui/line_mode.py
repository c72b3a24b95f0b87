"""Front end for terminals that cannot move the cursor.

The terminal itself edits the line (cooked mode), so this works on any terminal with a keyboard.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from typing_extensions import Self

from ..chat.server_events import ServerWait
from ..core.errors import ChatError
from ..core.events import Draft, Event, Notice, NoticeLevel, Page, Table
from ..core.i18n import Words
from ..core.sanitize import escape_line_visibly
from .approval_prompt import CallLine, TerminalFrontend, split_answers
from .event_lines import EventPrinter, open_terminal
from .external_programs import start_external
from .markdown.cells import wrap_phrases
from .picker import Picker
from .slash_commands import explain, is_command, needs_no_turn
from .status_source import StatusSource

PROMPT = "> "
MAX_READ_BYTES = 1 << 20


@dataclass(eq=False)
class _Reading:
    """A line that is being read: its prompt, whether it is the next one to run, and whether Ctrl+C ended it."""

    prompt: str
    is_next: bool = False
    is_interrupted: bool = False


class LineModeFrontend(TerminalFrontend):
    """Line-mode front end with the same interface as the screen front end."""

    def __init__(self, words: Words, color: bool, status_source: StatusSource) -> None:
        super().__init__(words, status_source.find_bases)
        self._out = open_terminal()
        self._printer = EventPrinter(
            self._out,
            self._out,
            words,
            color,
            names_servers=lambda: status_source.has_several_servers,
            get_width=self._get_width,
        )
        self._input, self._draft = b"", ""
        self._status_source = status_source
        self._later: deque[str] = deque()  # written at or before a question that they do not answer
        self._has_ended = self._is_working = self._is_hinted = False
        self._send_now: Callable[[], None] | None = None
        self._helping: set[asyncio.Task[None]] = set()
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
        while True:
            draft, self._draft = self._draft, ""
            try:
                line = await self._read(f"{PROMPT}[{draft}] " if draft else PROMPT, is_next=True)
                self._is_hinted = False
                if line is None or line or draft:
                    return draft if line == "" else line
            except KeyboardInterrupt:
                if draft:
                    self._is_hinted = False
                    continue
                self._hint_or_leave()
                if self._has_ended:
                    return None

    def _hint_or_leave(self) -> None:
        """Say that another Ctrl+C leaves, or leave: what was typed ahead is not run."""
        if self._is_hinted:
            self._input = b""
            self._later.clear()
            self.close_input()
        else:
            self._is_hinted = True
            self.notify(self._words("repl.leave_hint"))

    def submit(self, line: str) -> None:
        """Enter a line as if it had been typed; do nothing if it is empty."""
        if line:
            self.notify(f"{PROMPT}{line}")
            self._input = f"{line}\n".encode() + self._input

    async def run_later(self, line: str) -> None:
        """Run a line before the next one is read, /help at once."""
        if needs_no_turn(line):
            await self._show_help(line)
            return
        self._later.append(line)
        self.notify(self._words("question.command_waits", line=line))

    def show_example(self, _text: str) -> None:
        """Show no example: a line has one look here."""

    def close_input(self) -> None:
        """Make a pending `read_line` return None."""
        self._has_ended = True
        self._has_changed.set()

    @contextmanager
    def interruptible(self, stop: Callable[[], object]) -> Iterator[None]:
        """Return a context in which Ctrl+C calls `stop`, and after that says how to leave, and then leaves.

        To call `stop` again would cancel what ends the work: it would go on behind the prompt.
        """
        is_stopped = False

        def interrupt() -> None:
            nonlocal is_stopped
            if is_stopped:
                self._hint_or_leave()
            else:
                is_stopped = True
                stop()

        self._is_working, self._is_hinted = True, False
        self._watch_input()
        try:
            with self._on_interrupt(interrupt):
                yield
        finally:
            self._is_working, self._send_now = False, None
            self._watch_input()
            self._printer.end_line()

    def show(self, event: Event) -> None:
        """Display an event on lines of its own and repeat the prompt below it."""
        if isinstance(event, Draft):
            self._draft = event.text
            return
        if isinstance(event, ServerWait):
            self._send_now = event.send_now
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
        """Show the rows with their numbers and ask for one; a command runs instead."""
        rows = [(str(number), *choice.columns) for number, choice in enumerate(picker.choices, 1)]
        self.notify(picker.title)
        self._printer.show(Table((), tuple(rows)))
        answer = await self.ask_line(self._words("picker.number") + " ", "") or ""
        if is_command(answer):
            await self.run_later(answer)
        is_valid = answer.isdecimal() and 1 <= int(answer) <= len(rows)
        return picker.choices[int(answer) - 1].key if is_valid else None

    @property
    def has_queued(self) -> bool:
        """Whether a line waits that is the next to run."""
        return bool(self._later)

    async def choose(self, lines: Sequence[CallLine], question: str, keys: Mapping[str, str], default: str) -> str:
        """Show a call and ask a question that a line with one key answers; another line is a message for later."""
        answer = await self._ask(f"{question} ", "", Page("\n".join(line.text for line in lines)))
        while answer and answer.lower() not in keys:
            if not needs_no_turn(answer):
                self.notify(self._words("question.no_key", line=answer, keys=", ".join(keys)))
            if answer.lower() not in ("yes", "no"):
                await self.run_later(answer)
            answer = await self._ask(f"{question} ", "")
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
            self._set_aside_typed()
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

    async def _read(self, prompt: str, is_next: bool = False) -> str | None:
        """Return a stripped line; None at the end of input. Of several readers the newest gets the line.

        Raises:
            KeyboardInterrupt: Ctrl+C was pressed.
        """
        reading = _Reading(f"{self._wrap(escape_line_visibly(prompt))} ", is_next)

        def interrupt() -> None:
            reading.is_interrupted = True
            self._has_changed.set()

        self._readings.append(reading)
        self._write_prompt()
        self._watch_input()
        try:
            with self._on_interrupt(interrupt):
                while not reading.is_interrupted and not (self._readings[-1] is reading and self._has_line(is_next)):
                    self._has_changed.clear()
                    await self._has_changed.wait()
        finally:
            self._readings.remove(reading)
            self._watch_input()
            self._has_changed.set()
            if reading.is_interrupted:
                self._out.write("\n")  # behind the ^C of the terminal
            self._write_prompt()
        if reading.is_interrupted:
            raise KeyboardInterrupt
        if is_next and self._later:
            later = self._later.popleft()
            self._out.write(f"{escape_line_visibly(later)}\n")
            return later
        line, ended, rest = self._input.partition(b"\n")
        self._input = rest
        return _decode(line) if ended or line else None

    def _wrap(self, prompt: str) -> str:
        """Return a prompt as lines that the terminal need not wrap, with room for what is typed behind it."""
        width = self._get_width()
        return "\n".join(wrap_phrases(split_answers(prompt), width - 1)) if width > 1 and prompt else prompt

    def _get_width(self) -> int:
        """Return the width of the terminal in cells; 0 if it is not known."""
        try:
            return os.get_terminal_size(self._out.fileno()).columns
        except OSError:
            return 0

    def _has_line(self, is_next: bool) -> bool:
        return bool(self._has_ended or b"\n" in self._input or (is_next and self._later))

    def _write_prompt(self) -> None:
        """Write the prompt of the newest reader, if there is one."""
        self._out.write(self._readings[-1].prompt if self._readings else "")
        self._out.flush()

    def _watch_input(self) -> None:
        """Read what is typed while a line is read or something runs; else it is for the programs of `run_command`."""
        loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
        if self._readings or (self._is_working and not self._has_ended):
            loop.add_reader(fd, self._read_input)
        else:
            loop.remove_reader(fd)

    def _set_aside_typed(self) -> None:
        """Keep the lines that were typed before a question was visible: they do not answer it."""
        if not sys.stdin.isatty():
            return
        while not self._has_ended and select.select([sys.stdin], [], [], 0)[0]:
            self._read_input()
        *lines, self._input = self._input.split(b"\n")
        self._later += filter(None, map(_decode, lines))

    def _read_input(self) -> None:
        data = os.read(sys.stdin.fileno(), MAX_READ_BYTES)
        self._input += data
        self._has_ended = not data
        self._has_changed.set()
        if not self._readings:
            self._watch_input()
            self._act_at_work()

    def _act_at_work(self) -> None:
        """Answer /help while something runs; an empty line sends a message that waits for servers."""
        send_now = self._send_now
        if send_now and (self._has_ended or self._input.startswith(b"\n")):
            self._input, self._send_now = self._input.removeprefix(b"\n"), None
            send_now()
        *lines, rest = self._input.split(b"\n")
        for line in filter(needs_no_turn, map(_decode, lines)):
            task = asyncio.get_running_loop().create_task(self._show_help(line))
            self._helping.add(task)
            task.add_done_callback(self._helping.discard)
        self._input = b"\n".join([*(line for line in lines if not needs_no_turn(_decode(line))), rest])

    async def _show_help(self, line: str) -> None:
        async def show(event: Event) -> None:
            self.show(event)

        try:
            await explain(self._status_source.app, self._words, line.partition(" ")[2].strip(), show)
        except ChatError as error:
            self.notify(str(error), "error")

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


def _decode(line: bytes) -> str:
    return line.decode("utf-8", errors="replace").strip()
