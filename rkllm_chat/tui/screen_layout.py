"""Layout of the screen: open lines, input line with completion menu, status line, in a prompt_toolkit application."""

from __future__ import annotations

import errno
import os
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindingsBase
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
from prompt_toolkit.layout.processors import ConditionalProcessor, TabsProcessor
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from ..core.ascii_fallback import make_encodable
from .event_lines import open_terminal
from .input_line import InputLine
from .picker import Picker
from .reflow_renderer import ReflowRenderer, rewraps_lines
from .reveal_processor import RevealProcessor

MIN_REDRAW_S = 0.03
_MENU_ROWS = 8
_MAX_INPUT_ROWS = 10
_ESCAPE_S = 0.1
_CHORD_S = 1.0
_STYLE = Style.from_dict({"status": "", "suggestion": "fg:ansibrightblack"})


class ScreenLayout:
    """Arranges the parts of the screen.

    Args:
        line: The input line.
        open_lines: Returns the unfinished lines above it.
        status: Returns the status line for a width in cells.
    """

    def __init__(self, line: InputLine, open_lines: Callable[[], Sequence[str]], status: Callable[[int], str]) -> None:
        self._line, self.open_lines, self._status = line, open_lines, status
        self._output: Output = _TerminalOutput.from_pty(open_terminal(), term=os.environ.get("TERM"))
        self._output.enable_cpr = False  # a serial console answers late or never, and the answer is not needed

    @property
    def width(self) -> int:
        """The width of the terminal in cells."""
        return self._output.get_size().columns

    @property
    def rows(self) -> int:
        """The height of the terminal in lines."""
        return self._output.get_size().rows

    def make_application(self, color: bool, bindings: KeyBindingsBase) -> Application[None]:
        """Build the application of the screen."""
        search = SearchToolbar()
        has_tabs = Condition(lambda: "\t" in self._line.buffer.text)  # the processor takes long for long lines
        tabs = ConditionalProcessor(TabsProcessor(tabstop=4, char1=" ", char2=" "), has_tabs)
        control = BufferControl(
            self._line.buffer, [RevealProcessor(), tabs], search_buffer_control=search.control, preview_search=True
        )
        line = Window(
            control,
            height=self._input_height,
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=self._line_prefix,
        )
        menu = Float(CompletionsMenu(max_height=_MENU_ROWS, scroll_offset=1), xcursor=True, ycursor=True)
        open_lines = Window(FormattedTextControl(self._open_text), dont_extend_height=True, wrap_lines=True)
        status = Window(FormattedTextControl(self._status_text), height=1, style="class:status")
        body = HSplit(
            [
                ConditionalContainer(open_lines, Condition(lambda: bool(self._visible_open_lines()))),
                FloatContainer(line, [menu]),
                search,
                ConditionalContainer(status, Condition(self._has_status)),
            ]
        )
        app = SteadyApplication(
            Layout(body, line),
            key_bindings=bindings,
            style=_STYLE,
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            output=self._output,
            erase_when_done=True,
            min_redraw_interval=MIN_REDRAW_S,
        )
        app.ttimeoutlen = app.timeoutlen = _ESCAPE_S
        app.key_processor.after_key_press += lambda _: _set_key_timeout(app)
        return app

    def make_picker_application(self, picker: Picker, color: bool) -> Application[None]:
        """Build the application that shows a picker in place of the screen.

        It has an input of its own: the screen's application, which flushes its input shortly after each key, would take
        an Esc that was typed just after the picker appeared, and stop the command.
        """

        def render() -> StyleAndTextTuples:
            return picker.render(self.width, self.rows)

        window = Window(FormattedTextControl(render, show_cursor=False), dont_extend_height=True)
        app = SteadyApplication(
            Layout(window),
            key_bindings=picker.make_bindings(),
            input=create_input(),
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            output=self._output,
            erase_when_done=True,
        )
        app.ttimeoutlen = app.timeoutlen = _ESCAPE_S
        picker.close = app.exit
        return app

    @property
    def open_rows(self) -> int:
        """The height of the part above the input line, if that is one line high."""
        return max(1, self.rows - 3)

    def _visible_open_lines(self) -> Sequence[str]:
        """Return the last open lines, as many as fit above the input line; those of a question are the last."""
        question = self._line.question
        return [*self.open_lines(), *(question.lines if question else ())][-self.open_rows :]

    def _open_text(self) -> AnyFormattedText:
        return ANSI("\n".join(self._visible_open_lines()))

    def _status_text(self) -> AnyFormattedText:
        return ANSI(self._status(self.width))

    def _line_prefix(self, number: int, wraps: int) -> AnyFormattedText:
        prompt = self._line.prompt
        return prompt if not number and not wraps else " " * min(len(prompt), 2)

    def _has_status(self) -> bool:
        """Return whether the status line is shown; a low window has no room for it beside the menu."""
        return self.rows > 3 and (self.rows > _MENU_ROWS + 2 or not self._line.has_menu)

    def _input_height(self) -> Dimension:
        min_rows = min(_MENU_ROWS, max(1, self.rows - 2)) if self._line.has_menu else 1
        return Dimension(min=min_rows, max=max(min_rows, _MAX_INPUT_ROWS))


class _TerminalOutput(Vt100_Output):
    """Output with ASCII in place of what the terminal's encoding does not have."""

    def write(self, data: str) -> None:
        """Write text without escape sequences."""
        super().write(make_encodable(data, self.encoding()))

    def write_raw(self, data: str) -> None:
        """Write text with escape sequences."""
        super().write_raw(make_encodable(data, self.encoding()))


class SteadyApplication(Application[None]):
    """Application that survives a clock set back and a closed terminal.

    prompt_toolkit 3.0.52 measures `min_redraw_interval` by the wall clock: if the clock is set back by an hour, the
    screen would not be redrawn for an hour.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.renderer = ReflowRenderer(self.renderer.style, self.output, rewraps_lines(os.environ))

    def invalidate(self) -> None:
        """Schedule a redraw, also if the wall clock was set back since the last one."""
        self._last_redraw_time = min(self._last_redraw_time, time.time())
        super().invalidate()

    def _handle_exception(self, loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        """Exit if the terminal is gone (EIO); prompt_toolkit would wait for an Enter that cannot come."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno != errno.EIO:
            super()._handle_exception(loop, context)
        elif self.is_running and not self.is_done:
            self.exit()


def _set_key_timeout(app: Application[None]) -> None:
    """Use a short timeout for Esc and a longer one for the second key of a Ctrl+X chord."""
    pending_keys = app.key_processor.key_buffer
    app.timeoutlen = _CHORD_S if pending_keys and pending_keys[0].key == "c-x" else _ESCAPE_S
