"""Terminal screen: scrollback above, open lines and input line below, status line.

One prompt_toolkit application runs for the whole session, so the user can type while the model works. Printed lines
are never redrawn, which keeps the scrollback of the terminal intact. The screen does not know events or the model. Its
parts are `InputLine` (what is typed), `KeyHandler` (what keys do) and `ScreenLayout` (what is drawn where).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sys
import termios
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.completion import Completer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.history import History
from prompt_toolkit.input.typeahead import clear_typeahead, store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.key_binding.vi_state import InputMode
from typing_extensions import Self

from ..core.sanitize import sanitize_line
from .external_programs import edit_text, page_text, start_external
from .input_line import InputLine
from .key_bindings import KeyActions, KeyHandler
from .picker import Picker
from .screen_layout import ScreenLayout

_TICK_S = 0.25
_MARGIN_ROWS = 4
# synchronized output: terminals that support it draw what is between these in one frame
_BEGIN_UPDATE, _END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"


class Screen:
    """The interactive terminal, used as an async context manager.

    Attributes:
        line: The input line.
        keys: The actions of keys.
        layout: The arrangement of the screen.
    """

    def __init__(
        self,
        history: History,
        completer: Completer,
        color: bool,
        actions: KeyActions,
        open_lines: Callable[[], Sequence[str]],
        status: Callable[[int], str],
    ) -> None:
        self.line = InputLine(history, completer, self.refresh)
        self.keys = KeyHandler(self.line, self.close_input, self.edit_text, actions)
        self.layout = ScreenLayout(self.line, open_lines, status)
        self._drawn = asyncio.Event()
        self._deferred_lines: list[str] | None = None
        self._foreground = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._app: Application[None] = self.layout.make_application(color, self.keys.make_bindings())
        self._app.after_render += lambda _: self._drawn.set()
        self._app.key_processor.before_key_press += lambda _: self.keys.record_key_time()

    async def __aenter__(self) -> Self:
        store_typeahead(self._app.input, self._read_typed_ahead())
        self.keys.is_typed_ahead = True
        self._running = asyncio.create_task(self._app.run_async(handle_sigint=True))
        self._running.add_done_callback(lambda _: self.close_input())
        await self._drawn.wait()
        self._take_typed_ahead()
        redrawing = asyncio.create_task(self._redraw_periodically())
        self._running.add_done_callback(lambda _: redrawing.cancel())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._app.is_running and not self._app.is_done:  # it is done already if the terminal was closed
            self._app.exit()
        if self._running:
            await asyncio.wait([self._running])

    @property
    def width(self) -> int:
        """The width of the terminal in cells."""
        return self.layout.width

    def use_keys(self, is_vi: bool) -> None:
        """Edit the input line as in vi, which begins to insert text, or as in Emacs."""
        self._app.editing_mode = EditingMode.VI if is_vi else EditingMode.EMACS
        self._app.vi_state.input_mode = InputMode.INSERT

    async def read_line(self) -> str | None:
        """Return the next submitted line; None when the user leaves."""
        line = await self.line.read_line()
        self.keys.forget_hint()
        return line

    def close_input(self) -> None:
        """End the session: `read_line` returns None and open questions are cancelled."""
        self.line.close()
        self._drawn.set()

    def print_lines(self, lines: Sequence[str]) -> None:
        """Print finished lines into the scrollback; they may contain SGR sequences only.

        While another program has the terminal, the lines are buffered.
        """
        if not lines:
            return
        if self._deferred_lines is not None:
            self._deferred_lines += lines
            return
        text = "".join(f"{line}\r\n" for line in lines)
        if not self._app.is_running:
            self.write_raw(text)
            return
        output = self._app.output
        output.write_raw(_BEGIN_UPDATE)
        self._app.renderer.erase()
        output.write_raw(text)
        self._app.renderer.render(self._app, self._app.layout)
        output.write_raw(_END_UPDATE)
        output.flush()
        self.refresh()  # what was rendered here came from prompt_toolkit's cache, also an old status line

    def write_raw(self, sequence: str) -> None:
        """Send an escape sequence that does not move the cursor."""
        self._app.output.write_raw(sequence)
        self._app.output.flush()

    def refresh(self) -> None:
        """Schedule a redraw of the open lines, the input line and the status line."""
        self._app.invalidate()

    async def _redraw_periodically(self) -> None:
        """Redraw open lines every _TICK_S seconds until cancelled, so that clocks and spinners move."""
        while True:
            await asyncio.sleep(_TICK_S)
            if self.layout.open_lines() or (self.keys.stop and not self.line.question):
                self.refresh()

    def _take_typed_ahead(self) -> None:
        """Handle the keys that were typed before the terminal was raw: each Enter sends a line."""
        self.keys.is_typed_ahead = True
        try:
            with set_app(self._app):
                self._app.key_processor.feed_multiple(self._read_typed_ahead())
                self._app.key_processor.process_keys()
        finally:
            self.keys.is_typed_ahead = False

    def _read_typed_ahead(self) -> list[KeyPress]:
        """Return the keys that were typed before the terminal was raw.

        The terminal has made line feeds of carriage returns, which mean a line break from now on.
        """
        fd, waiting = self._app.input.fileno(), bytearray(4)
        presses: list[KeyPress] = []
        with suppress(OSError):  # the terminal was closed
            fcntl.ioctl(fd, termios.FIONREAD, waiting)
            size = int.from_bytes(waiting, sys.byteorder)
            data = os.read(fd, size) if size else b""
            Vt100Parser(presses.append).feed_and_flush(
                data.decode("utf-8", errors="surrogateescape").replace("\n", "\r")
            )
        return presses

    async def edit_text(self, text: str) -> str:
        """Return the text as edited in the user's editor; unchanged if the editor fails."""
        try:
            return await edit_text(text, self.run_command)
        except (OSError, ValueError) as error:  # no room for a file, or an open quote in EDITOR
            self.print_lines([sanitize_line(f"EDITOR: {error}")])
            return text

    async def show_page(self, text: str, in_pager: bool) -> None:
        """Show a sanitized text: in the scrollback if it fits on the screen and `in_pager` is False, else in the pager.

        Without a pager it is printed.
        """
        from rich.cells import cell_len

        lines = text.splitlines()
        rows = sum(max(1, -(-cell_len(line) // max(1, self.width))) for line in lines)
        if in_pager or rows > self.layout.rows - _MARGIN_ROWS:
            with suppress(OSError, ValueError):  # no room for a file, or an open quote in PAGER
                if await page_text(f"{text}\n", self.run_command):
                    return
        self.print_lines(lines)

    async def run_picker(self, picker: Picker, color: bool) -> str | None:
        """Show a picker in place of the screen and return the key of the chosen row; None if there is none."""
        async with self._lend_terminal():
            try:
                await self.layout.make_picker_application(picker, color).run_async(handle_sigint=False)
            except EOFError:  # the terminal was closed
                self.close_input()
            finally:
                clear_typeahead(self._app.input)  # keys behind the one that closed this picker are not for the next one
        return picker.picked

    async def run_command(self, command: Sequence[str] | str) -> int:
        """Run a command in the foreground and return its exit code; 127 if it cannot start.

        Args:
            command: Program and arguments, or a string for the shell.
        """
        async with self._lend_terminal() as record_interrupted:
            try:
                child = await start_external(command)
            except OSError as error:
                name = command if isinstance(command, str) else command[0]
                print(f"{name}: {error.strerror}", file=sys.stderr)  # noqa: T201 - in the foreground
                return 127
            code = await child.wait()
            if code in (-signal.SIGINT, 128 + signal.SIGINT):
                record_interrupted()
            # to a new line, if the cursor is not at the start of one
            self.write_raw(" " * self.width + "\r\x1b[K")
        self._take_typed_ahead()
        return code

    @asynccontextmanager
    async def _lend_terminal(self) -> AsyncGenerator[Callable[[], None], None]:
        """Wait until the terminal is free, hide the screen, and afterwards print the lines that were buffered.

        Yields a function to call if Ctrl+C has ended the program that had the terminal.
        """
        async with self._foreground:
            self._deferred_lines = []
            try:
                with self.keys.foreground_program() as record_interrupted:
                    async with in_terminal():
                        yield record_interrupted
            finally:
                deferred, self._deferred_lines = self._deferred_lines, None
                self.print_lines(deferred)
