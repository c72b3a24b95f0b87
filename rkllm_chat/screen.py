"""The terminal while a person sits at it: finished lines go above, what is still open stands over the line that is
typed, a status line below. It reads keys and draws; it knows no events and no model.

One prompt_toolkit application runs from beginning to end, so typing goes on while the model works. What has been
printed above is never touched again: the scrollback of the terminal stays whole.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, DynamicCompleter, FuzzyWordCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.history import History
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar
from typing_extensions import Self

from .keys import make_bindings
from .lens import Lens
from .redraw import REDRAW_S, SteadyApplication
from .shell import edit_text, start
from .typed import Question, is_written, mend

PROMPT, QUEUE_PROMPT = "> ", "+ "
MENU_ROWS = 8
MOST_INPUT_ROWS = 10
TICK_S = 0.5
ESCAPE_S = 0.1
CHORD_S = 1.0
STILL_S = 0.5
"""Who typed less than this before a question appeared did not mean to answer it; nor does an Enter behind a key."""
# the terminal shows what comes between these at once, if it knows them
BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
STYLE = Style.from_dict({"status": "", "suggestion": "fg:ansibrightblack"})


class Screen:
    """Enter it, and a person can type. `tail` gives the lines that are still open, `status` the last line for a width.

    `stop` is what Ctrl+C and Esc stop; None while nothing runs. `on_hint` is called for Ctrl+C on an empty line.
    """

    def __init__(self, history: History, completer: Completer, color: bool) -> None:
        self.tail: Callable[[], Sequence[str]] = list
        self.status: Callable[[int], str] = lambda _width: ""
        self.stop: Callable[[], None] | None = None
        self.on_hint: Callable[[], None] = lambda: None
        self._completer = completer
        self._lines: deque[str] = deque()
        self._more, self._drawn = asyncio.Event(), asyncio.Event()
        self._has_left = self._is_hinted = self._is_waiting = False
        self._questions: deque[Question] = deque()
        self._last_key = self._answered = 0.0
        self._away: list[str] | None = None
        self._running: asyncio.Task[None] | None = None
        self.buffer = self._make_buffer(history)
        self.app = self._make_app(color)

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.app.run_async(handle_sigint=True))
        self._running.add_done_callback(lambda _: self.leave())
        await self._drawn.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.app.is_running and not self.app.is_done:  # it is done already where the terminal has gone
            self.app.exit()
        if self._running:
            await asyncio.wait([self._running])

    @property
    def width(self) -> int:
        return self.app.output.get_size().columns

    @property
    def question(self) -> Question | None:
        return self._questions[0] if self._questions else None

    @property
    def queued(self) -> Sequence[str]:
        """The lines that were typed and not yet taken."""
        return tuple(self._lines)

    async def line(self) -> str | None:
        """The next line that was typed; None when the person leaves."""
        self._is_waiting = True
        self.refresh()
        while not self._lines and not self._has_left:
            self._more.clear()
            await self._more.wait()
        self._is_hinted = self._is_waiting = False
        return None if self._has_left else self._lines.popleft()

    def above(self, lines: Sequence[str]) -> None:
        """Prints lines, which may hold colours and nothing else, above what is open."""
        if not lines:
            return
        if self._away is not None:
            self._away += lines
            return
        text = "".join(f"{line}\r\n" for line in lines)
        output = self.app.output
        if not self.app.is_running:
            output.write_raw(text)
            output.flush()
            return
        output.write_raw(BEGIN_UPDATE)
        self.app.renderer.erase()
        output.write_raw(text)
        self.app.renderer.render(self.app, self.app.layout)
        output.write_raw(END_UPDATE)
        output.flush()

    def write_raw(self, sequence: str) -> None:
        """Sends the terminal a sequence that moves nothing."""
        self.app.output.write_raw(sequence)
        self.app.output.flush()

    def refresh(self) -> None:
        """Draws anew what is open, soon."""
        self.app.invalidate()

    async def tick(self) -> None:
        """Keeps clocks going until it is cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            self.refresh()

    async def choose(self, keys: Mapping[str, str], default: str, leaving: str, prompt: str) -> str:
        """The answer to a question by one key: Enter is `default`, Ctrl+C, Ctrl+D and Esc are `leaving`."""
        question = Question({**keys, "\r": default}, prompt, asyncio.get_running_loop().create_future())
        answer = await self._ask(question, "")
        return leaving if answer is None else answer

    async def read(self, prompt: str, default: str = "", choices: Sequence[str] = ()) -> str | None:
        """The answer to a question as a line; None for Ctrl+C, Ctrl+D and Esc."""
        return await self._ask(Question({}, prompt, asyncio.get_running_loop().create_future(), choices), default)

    async def _ask(self, question: Question, default: str) -> str | None:
        """Puts a question; a second one waits for the first. The line that was being typed comes back after it."""
        self._questions.append(question)
        is_put = False
        try:
            while self.question is not question:
                await asyncio.wait([self._questions[0].answer])
                await asyncio.sleep(0)
            question.draft, is_put = self.buffer.document, True
            self.buffer.reset(Document(default))
            if question.choices and not default:
                self.buffer.start_completion()
            self.refresh()
            return await question.answer
        finally:
            question.answer.cancel()
            self._questions.remove(question)
            if is_put:
                self.buffer.reset(question.draft)
            self.refresh()

    def draft(self, text: str) -> None:
        """Puts text into the line that is typed, before what stands there."""
        old = self.question.draft if self.question else self.buffer.document
        new = Document(f"{text}\n{old.text}" if old.text else text)
        if self.question:
            self.question.draft = new
        else:
            self.buffer.reset(new)
        self.refresh()

    def take_back(self) -> None:
        """Puts the lines that are queued back into the line that is typed."""
        if self._lines:
            self.draft("\n".join(self._lines))
            self._lines.clear()

    def leave(self) -> None:
        """The person leaves."""
        self._has_left = True
        self._more.set()
        self._drawn.set()
        for question in self._questions:
            if not question.answer.done():
                question.answer.set_result(None)

    async def edit(self, text: str) -> str:
        """The text as the person's editor leaves it; as it was where there is no editor."""
        return await edit_text(text, self.run)

    async def run(self, command: Sequence[str] | str) -> int:
        """Gives the terminal to a command (a text is for the shell) until it ends; gives its exit code."""
        self._away = []
        try:
            async with in_terminal():
                try:
                    child = await start(command)
                except OSError as error:
                    print(f"{command}: {error.strerror}", file=sys.stderr)  # noqa: T201 - the terminal is its own now
                    return 127
                code = await child.wait()
                self.write_raw(" " * self.width + "\r\x1b[K")  # to a new line, if the cursor is not at the start of one
                return code
        finally:
            held, self._away = self._away, None
            self.above(held)

    # what keys do

    def enter(self) -> None:
        """Enter: the line, or the answer to a question."""
        text = mend(self.buffer.text)
        is_behind_answer = time.monotonic() - self._answered < STILL_S
        self._last_key = self._answered = 0.0
        if is_behind_answer and not text:
            return
        if self.question:
            self._answer(text)
        elif text.endswith("\\") and self.buffer.document.is_cursor_at_the_end:
            self.buffer.delete_before_cursor(1)
            self.buffer.insert_text("\n")
        elif is_written(text):
            self.buffer.text = text
            self.buffer.append_to_history()
            self.buffer.reset()
            self._lines.append(text.strip())
            self._is_waiting = False
            self._more.set()

    def interrupt(self) -> None:
        """Ctrl+C: ends a question, stops what runs, clears the line, hints, and leaves; the first that applies."""
        if self._away is not None:
            return  # it was for the program that has the terminal
        if self.question:
            self._answer(None)
        elif self.stop:
            self.stop()
        elif self.buffer.text:
            self.buffer.reset()
            self._is_hinted = False
        elif self._is_hinted:
            self.leave()
        else:
            self._is_hinted = True
            self.on_hint()

    def end_of_input(self) -> None:
        """Ctrl+D on an empty line: ends a question, or leaves."""
        if self.question:
            self._answer(None)
        else:
            self.leave()

    def escape(self) -> None:
        """Esc: closes a menu, ends a question, or stops what runs."""
        if self.buffer.complete_state:
            self.buffer.cancel_completion()
        elif self.question:
            self._answer(None)
        elif self.stop:
            self.stop()

    def press(self, key: str) -> None:
        """A key while a question wants one; what was typed without seeing it goes into the line it was meant for."""
        question = self.question
        assert question
        now, before = time.monotonic(), self._last_key
        if key in ("\x1b", "\x04"):
            self._answer(None)
        elif key.startswith("\x1b"):
            return  # an arrow, a function key
        elif now - before < STILL_S or len(key) > 1 or question.answer.done():
            self._last_key = now
            question.draft = Document(question.draft.text + key.replace("\r", ""))
        elif key.lower() in question.keys and (key != "\r" or now - self._answered >= STILL_S):
            self._answered = now
            self._answer(question.keys[key.lower()])

    def note_key(self) -> None:
        """Every key passes here first."""
        if not (self.question and self.question.keys):
            self._last_key = time.monotonic()

    def _answer(self, text: str | None) -> None:
        if self.question and not self.question.answer.done():
            self.question.answer.set_result(text)

    def _make_buffer(self, history: History) -> Buffer:
        return Buffer(
            multiline=True,
            history=history,
            completer=DynamicCompleter(self._find_completer),
            complete_while_typing=Condition(self._wants_menu),
            auto_suggest=AutoSuggestFromHistory(),
            enable_history_search=False,
        )

    def _find_completer(self) -> Completer:
        return FuzzyWordCompleter(list(self.question.choices)) if self.question else self._completer

    def _wants_menu(self) -> bool:
        if self.question:
            return bool(self.question.choices)
        before = self.buffer.document.text_before_cursor
        return before.startswith("/") or "@" in before.rpartition(" ")[2]

    def _make_app(self, color: bool) -> Application[None]:
        output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
        output.enable_cpr = False  # a serial console answers late or never, and we need no answer
        search = SearchToolbar()
        control = BufferControl(self.buffer, [Lens()], search_buffer_control=search.control, preview_search=True)
        line = Window(
            control, height=self._input_height, dont_extend_height=True, wrap_lines=True, get_line_prefix=self._prefix
        )
        menu = Float(CompletionsMenu(max_height=MENU_ROWS, scroll_offset=1), xcursor=True, ycursor=True)
        tail = Window(FormattedTextControl(self._tail_text), dont_extend_height=True)
        last = Window(FormattedTextControl(self._status_text), height=1, style="class:status")
        body = HSplit(
            [
                ConditionalContainer(tail, Condition(lambda: bool(self._open_lines()))),
                FloatContainer(line, [menu]),
                search,
                ConditionalContainer(last, Condition(self._has_status)),
            ]
        )
        app = SteadyApplication(
            Layout(body, line),
            key_bindings=make_bindings(self),
            style=STYLE,
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            output=output,
            erase_when_done=True,
            min_redraw_interval=REDRAW_S,
        )
        app.ttimeoutlen = ESCAPE_S
        app.timeoutlen = ESCAPE_S
        app.after_render += lambda _: self._drawn.set()
        app.key_processor.before_key_press += lambda _: self.note_key()
        app.key_processor.after_key_press += lambda _: self._be_patient(app)
        return app

    def _be_patient(self, app: Application[None]) -> None:
        """Esc by itself is felt soon; Ctrl+X waits for the second key of its chord."""
        begun = app.key_processor.key_buffer
        app.timeoutlen = CHORD_S if begun and begun[0].key == "c-x" else ESCAPE_S

    def _open_lines(self) -> Sequence[str]:
        """What stands above the line, as much of its end as there is room for."""
        lines = self.tail()
        room = max(1, self.app.output.get_size().rows - 3)
        return lines[-room:]

    def _tail_text(self) -> AnyFormattedText:
        return ANSI("\n".join(self._open_lines()))

    def _status_text(self) -> AnyFormattedText:
        return ANSI(self.status(self.width))

    def _prefix(self, number: int, wraps: int) -> AnyFormattedText:
        prompt = self.question.prompt if self.question else PROMPT if self._is_waiting else QUEUE_PROMPT
        return prompt if not number and not wraps else " " * min(len(prompt), 2)

    def _has_status(self) -> bool:
        """A low window has none, or gives its room to the menu."""
        rows = self.app.output.get_size().rows
        return rows > 3 and (rows > MENU_ROWS + 2 or not self._has_menu())

    def _has_menu(self) -> bool:
        return bool(self.buffer.complete_state) or (self._wants_menu() and not self.question)

    def _input_height(self) -> Dimension:
        menu = self._has_menu()
        least = min(MENU_ROWS, max(1, self.app.output.get_size().rows - 2)) if menu else 1
        return Dimension(min=least, max=max(least, MOST_INPUT_ROWS))
