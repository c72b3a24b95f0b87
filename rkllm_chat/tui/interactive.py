"""Front end on the interactive screen: shows events, reads lines and asks questions."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager, contextmanager

from prompt_toolkit.completion import Completer
from prompt_toolkit.history import History
from typing_extensions import Self

from ..chat.attachments import unescape_mentions
from ..core.errors import ChatError
from ..core.events import Copied, Draft, Event, NoticeLevel, Shown
from ..core.i18n import Words
from ..core.messages import Media
from ..core.sanitize import (
    escape_line_visibly,
    escape_visibly,
    sanitize_for_terminal,
    sanitize_line,
    summarize_arguments,
)
from .approval_prompt import CallLine, TerminalFrontend, split_answers
from .event_lines import format_table
from .event_view import EventView
from .input_line import PROMPT, Question
from .key_table import make_key_table
from .markdown.cells import break_words, cut_text, wrap_phrases, wrap_text
from .picker import Picker
from .screen import Screen
from .slash_commands import explain, is_known, leaves, needs_no_turn
from .slash_commands.permissions import switch_mode
from .status_source import CostPreview, StatusSource
from .terminal_pictures import choose_protocol, draw_picture
from .theme import Theme, paint

_MAX_ECHOED, _MAX_ECHOED_LINES = 4000, 40
_KEY = re.compile(r"\[(\w)\] ")
"""An answer in the line of a question, as in "Run it? [y] once [n] no"."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MIN_EMPTY_S = 2.0
"""An empty line answers no sooner why a call is declined: people press Enter behind the key n."""
_MAX_COPY_BYTES = 74_000
"""Terminals drop longer clipboard texts (xterm, tmux)."""


class InteractiveFrontend(TerminalFrontend):
    """Interactive front end; enter it to start the screen.

    Attributes:
        screen: The terminal screen.
        live: Renders events on it.
    """

    def __init__(
        self,
        words: Words,
        history: History,
        completer: Completer,
        status_source: StatusSource,
        themes: Callable[[str], Theme],
    ) -> None:
        super().__init__(words, status_source.find_bases)
        theme = themes(status_source.settings.theme)
        self._theme, self._themes, self._status_source = theme, themes, status_source
        self._questioning = asyncio.Lock()
        self.screen = Screen(
            history, completer, theme.has_color, self, lambda: self.live.open_lines(), self._format_status
        )
        self.live = EventView(
            self.screen,
            words,
            theme,
            status_source.expect_s,
            self._draw_picture,
            lambda: status_source.has_several_servers,
            status_source.find_bases,
        )
        self._cost_preview = CostPreview(self.screen.refresh)

    async def __aenter__(self) -> Self:
        await self.screen.__aenter__()
        return self

    def _format_status(self, width: int) -> str:
        """Return the status line, with a cost estimate while a message is being typed."""
        is_idle = self.screen.keys.stop is None and self.screen.line.question is None
        cost = self._cost_preview.update(self._status_source.app, self.screen.line.buffer.text if is_idle else "")
        asks = self.screen.line.question is not None
        return self.live.dim(self._status_source.format(self._words, width, cost, asks))

    async def __aexit__(self, *_: object) -> None:
        self._cost_preview.close()
        await self.screen.__aexit__()

    async def read_line(self) -> str | None:
        """Return the next line after echoing it; None when the user leaves."""
        settings = self._status_source.settings
        self.screen.use_keys(settings.key_bindings == "vi")
        self._theme = self.live.theme = self._themes(settings.theme)
        line = await self.screen.read_line()
        if line is not None:
            self.screen.print_lines(self._format(PROMPT, self._echo(line), self._theme.own))
        return line

    def submit(self, line: str) -> None:
        """Enter a line as if it had been typed; do nothing if it is empty."""
        if line:  # else what was typed during the start stays
            self.screen.line.buffer.text = line
            self.screen.line.submit()

    def show_example(self, text: str) -> None:
        """Show what can be asked in the empty line, unless a key was pressed already."""
        if not self.screen.keys.was_pressed:
            self.screen.line.example = sanitize_line(text)
            self.screen.refresh()

    def _echo(self, line: str) -> list[str]:
        """Return the lines to echo, as they are sent; a very long input is truncated and its length added."""
        lines = sanitize_for_terminal(unescape_mentions(line[:_MAX_ECHOED])).splitlines()
        if len(line) <= _MAX_ECHOED and len(lines) <= _MAX_ECHOED_LINES:
            return lines
        return [*lines[:_MAX_ECHOED_LINES], self._words("repl.long", lines=line.count("\n") + 1, characters=len(line))]

    def _format(self, start: str, lines: Sequence[str], style: str = "") -> list[str]:
        """Return lines with a prefix, wrapped and indented to the width of the prefix."""
        room = self.screen.width - len(start)
        parts = [part for line in lines for part in break_words(line, room)]
        shown = [f"{' ' * len(start) if i else start}{part}".rstrip() for i, part in enumerate(parts)]
        return [paint(line, style) for line in shown]

    def close_input(self) -> None:
        """Make a pending `read_line` return None."""
        self.screen.close_input()

    @contextmanager
    def interruptible(self, stop: Callable[[], object]) -> Iterator[None]:
        """Return a context in which Ctrl+C and Esc call `stop`.

        Stopping moves queued lines back into the input line. After that Ctrl+C clears them, and on an empty line leaves
        at the second time, even if stopping takes long.
        """

        def stop_it() -> None:
            self.screen.keys.stop = None
            self._restore_queued()
            stop()

        self.screen.keys.stop = stop_it
        self.live.begin_work()
        try:
            yield
        finally:
            self.screen.keys.stop = None
            self.live.end_work()

    def _restore_queued(self) -> None:
        """Move queued lines back into the input line, and say which commands were not run."""
        if commands := self.screen.line.restore_queued():
            self.live.print_notice(self._words("repl.not_run", commands=", ".join(commands)), "warning")

    def show(self, event: Event) -> None:
        """Display an event."""
        match event:
            case Draft(text):
                self.screen.line.insert_draft(text)
            case Copied(text):
                self._copy(text)
            case Shown(thoughts):
                self.live.shows_thoughts = thoughts
            case _:
                self.live.show(event)

    def _copy(self, text: str) -> None:
        """Copy text to the terminal's clipboard (OSC 52), which works over SSH too."""
        data = base64.b64encode(text.encode("utf-8", errors="replace")[:_MAX_COPY_BYTES]).decode("ascii")
        self.screen.write_raw(f"\x1b]52;c;{data}\x07")

    def _draw_picture(self, media: Media) -> list[str]:
        """Return the lines that show a picture in the way that the settings and the terminal say."""
        name = self._status_source.settings.pictures
        protocol = choose_protocol(name, os.environ, has_color=self.live.theme.has_color)
        return draw_picture(media, protocol, self.screen.width, os.environ)

    async def show_help(self, line: str) -> None:
        """Answer a line with /help while something runs: above the input line, or in a pager while an answer grows."""
        shown = list[str]()

        async def add(event: Event) -> None:
            shown.extend(self.live.format_event(event))

        try:
            await explain(self._status_source.app, self._words, line.partition(" ")[2].strip(), add)
        except ChatError as error:
            shown.append(str(error))
        if self.live.is_answering:
            await self.screen.show_page("\n".join(_COLOUR.sub("", row) for row in shown), in_pager=True)
        else:
            self.screen.print_lines([*self._format(PROMPT, self._echo(line), self._theme.own), *shown])

    async def run_later(self, line: str) -> None:
        """Run a command behind the turn, /help at once, and leave for /quit."""
        if leaves(line):
            if self.screen.keys.stop:
                self.screen.keys.stop()
            self.close_input()
        elif needs_no_turn(line):
            await self.show_help(line)
        else:
            self.screen.line.queue(line)
            self.notify(self._words("question.command_waits", line=line))

    def switch_mode(self) -> None:
        """Switch to the next approval mode, once the app is open."""
        if self._status_source.app:
            notice = switch_mode(self._status_source.app)
            if not self.live.is_answering:
                self.live.print_notice(notice.text, notice.level)
            self.screen.refresh()

    def send_now(self) -> None:
        """Let a message that waits for servers be sent without them."""
        self.live.send_now()

    def show_keys(self) -> None:
        """Print the keys of the prompt."""
        self.screen.print_lines(format_table(make_key_table(self._words, ["at_prompt"]), self.screen.width))

    def hint_leaving(self) -> None:
        """Say how to leave."""
        self.live.print_notice(self._words("repl.leave_hint"))

    async def unfold(self) -> None:
        """Show the newest shortened result that was not unfolded yet: above the input line, or in a pager."""
        if result := self.live.calls.take_folded():
            head = f"{result.tool} {summarize_arguments(result.arguments)}" if result.arguments else result.tool
            text = f"{sanitize_line(head)}:\n{sanitize_for_terminal(result.text)}"
            await self.screen.show_page(text, in_pager=self.live.is_answering)
        elif not self.live.is_answering:
            self.live.print_notice(self._words("live.nothing_folded"))

    async def run_command(self, command: str) -> int:
        """Run a shell command in the foreground and return its exit code."""
        return await self.screen.run_command(command)

    async def pick(self, picker: Picker) -> str | None:
        """Show a picker and return the key of the chosen row; None if the user leaves it, or runs a command instead."""
        picker.is_command = is_known
        picked = await self.screen.run_picker(picker, self._theme.has_color)
        if picker.command:
            self.screen.line.queue(picker.command)
        return picked

    @property
    def has_queued(self) -> bool:
        """Whether a line waits that is the next to run."""
        return bool(self.screen.line.queued)

    async def switch(self, picker: Picker) -> Set[str]:
        """Show a picker and return the keys of the rows to switch; none if the user leaves it."""
        return set() if await self.pick(picker) is None else picker.switched

    async def choose(self, lines: Sequence[CallLine], question: str, keys: Mapping[str, str], default: str) -> str:
        """Show a call and ask a question that one key answers."""
        return await self._choose(keys, default, "stop", question, self._format_call(lines), self._shorten_call(lines))

    def _format_call(self, lines: Sequence[CallLine]) -> list[str]:
        """Return the lines that describe a call, wrapped and coloured."""
        styles = {"warning": self._theme.warning, "added": self._theme.added, "removed": self._theme.removed}
        formatted: list[str] = []
        for line, kind in lines:
            text = line.lstrip()
            formatted += self._format(line[: len(line) - len(text)], [text], styles.get(kind, ""))
        return formatted

    def _shorten_call(self, lines: Sequence[CallLine]) -> list[str]:
        """Return a call in as many lines as a low window has above the answer: tool, arguments, number of warnings."""
        width, rows = self.screen.width, self.screen.layout.question_rows
        head, *rest = lines or [CallLine("")]
        warnings = sum(line.kind == "warning" for line in rest)
        arguments = " ".join(line.text.strip() for line in rest if line.kind != "warning")
        ends = [paint(self._words("trust.counted", count=warnings), self._theme.warning)] if warnings else []
        starts = wrap_text(head.text, width)[: max(1, rows - len(ends))]
        shown = wrap_text(arguments, width) if arguments else []
        room = max(0, rows - len(starts) - len(ends))
        if len(shown) > room:
            shown = [*shown[: room - 1], cut_text(" ".join(shown[room - 1 :]), width)] if room else []
        return [*starts, *shown, *ends]

    async def ask_text(self, question: str, default: str) -> str | None:
        """Ask for a line; keys that follow it at once answer no question."""
        answer = await self.ask_line(question, default, min_empty_s=_MIN_EMPTY_S)
        self.screen.keys.require_pause()
        return answer

    async def _choose(
        self,
        keys: Mapping[str, str],
        default: str,
        leaving: str,
        question: str,
        about: Sequence[str] = (),
        short: Sequence[str] = (),
    ) -> str:
        """Ask a question that one key answers: `default` is the answer of Enter, `leaving` that of Ctrl+C and Esc."""
        async with self._question(about, question, short) as asked:
            asked.keys = {**keys, "\r": default}
            if not self.screen.layout.is_low:
                hint = wrap_text(self._words("question.typed"), self.screen.width)
                asked.hint = [self.live.dim(line) for line in hint]
            answer = await self.screen.line.ask(asked)
            answer = leaving if answer is None else answer
            key = next((key for key, value in keys.items() if value == answer), "")
            asked.shown_answer = f"{asked.left_by} ({key})" if asked.left_by else key
        if answer == "stop":
            self._restore_queued()
        return answer

    async def confirm(self, question: str) -> bool:
        """Ask a yes/no question."""
        first, _, prompt = question.rpartition("\n")
        about = self._format("", escape_visibly(first).splitlines())
        return await self._choose({"y": "yes", "n": "no"}, "no", "no", prompt, about) == "yes"

    async def ask_line(
        self, question: str, default: str, choices: Sequence[str] = (), min_empty_s: float = 0.0
    ) -> str | None:
        """Ask for a line; None if the user declines.

        Choices with hidden characters are not offered, and an empty line is no answer before `min_empty_s` seconds,
        where what was typed is kept also if the user declines.
        """
        async with self._question((), question) as asked:
            asked.min_empty_s = min_empty_s
            asked.keeps_text = bool(min_empty_s) and not default
            asked.choices = [choice for choice in choices if choice == escape_visibly(choice)]
            answer = await self.screen.line.ask(asked, default)
            asked.shown_answer = escape_line_visibly(answer or "")
        return answer

    @asynccontextmanager
    async def _question(
        self, about: Sequence[str], question: str, short: Sequence[str] = ()
    ) -> AsyncGenerator[Question, None]:
        """Wait for the question before, ring the bell, and print the question with its answer at the end.

        Until the end its lines are to be drawn in one piece, below whatever is printed meanwhile; those that do not fit
        are printed at once. In a low window that is all of it, and what is drawn is its short form.

        Args:
            about: Formatted lines above the question.
            question: The question.
            short: The lines of its short form, if it has one.
        """
        layout = self.screen.layout
        async with self._questioning:
            self.live.release_result()
            if self._status_source.settings.bell:
                self.screen.write_raw("\a")
            *lines, last = [
                *about,
                *wrap_phrases(split_answers(escape_line_visibly(question)), self.screen.width - 1),
            ]
            hidden = max(0, len(lines) - layout.question_rows)
            if short and hidden and layout.is_low:
                self.screen.print_lines([*lines, last])
                asked = Question(f"[{'/'.join(_KEY.findall(question))}] ", short)
            else:
                self.screen.print_lines(lines[:hidden])
                asked = Question(f"{last} ", lines[hidden:])
            try:
                yield asked
            finally:
                end = wrap_text(f"{asked.prompt}{asked.shown_answer}", self.screen.width)
                self.screen.print_lines(end if asked.lines is short else [*asked.lines, *end])

    def show_untruncated(self, text: str) -> None:
        """Print text as one line without shortening it."""
        self.screen.print_lines([sanitize_line(text)])

    def notify(self, text: str, level: NoticeLevel = "info") -> None:
        """Print a line of the program."""
        self.live.print_notice(text, level)
