"""Layout of the screen: open lines, input line with completion menu, status line, in a prompt_toolkit application.

The application draws right where prompt_toolkit 3.0.52 does not: after the terminal has wrapped its lines anew, after
the clock was set back, and for characters of the input line that the user could not see.
"""

from __future__ import annotations

import errno
import os
import re
import time
from asyncio import AbstractEventLoop
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText, StyleAndTextTuples, fragment_list_to_text
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
from prompt_toolkit.layout.processors import (
    AfterInput,
    ConditionalProcessor,
    Processor,
    TabsProcessor,
    Transformation,
    TransformationInput,
)
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle, Style
from prompt_toolkit.widgets import SearchToolbar

from ..core.ascii_fallback import make_encodable
from ..core.sanitize import compile_invisible, escape_visibly
from .event_lines import open_terminal
from .input_line import InputLine
from .picker import Picker
from .status_line import SEPARATOR

MIN_REDRAW_S = 0.03
_MENU_ROWS = 8
_MAX_INPUT_ROWS = 10
_ESCAPE_S = 0.1
_CHORD_S = 1.0
_STYLE = Style.from_dict({"status": "", "suggestion": "fg:ansibrightblack"})
_TRUNCATING_TERMS = re.compile(r"xterm|(linux|dumb|putty|screen|rxvt(?!-unicode))\b.*")
"""What TERM is in terminals that truncate lines. xterm and PuTTY say "xterm", those that wrap "xterm-256color"."""


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
        shows_example = Condition(lambda: not (self._line.buffer.text or self._line.question))
        example = ConditionalProcessor(AfterInput(lambda: self._line.example, "class:suggestion"), shows_example)
        control = BufferControl(
            self._line.buffer,
            [RevealProcessor(), tabs, example],
            search_buffer_control=search.control,
            preview_search=True,
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

    @property
    def question_rows(self) -> int:
        """The height of the part above the line of a question."""
        return max(1, self.rows - (1 if self.is_low else 3))

    @property
    def is_low(self) -> bool:
        """Whether the window has no room for a status line beside a menu or a question."""
        return self.rows <= _MENU_ROWS + 2

    def _visible_open_lines(self) -> Sequence[str]:
        """Return the last open lines, as many as fit above the input line; those of a question are the last."""
        if self._line.question:
            rows = max(1, self.question_rows + 1 - self._count_input_rows())
            return [*self.open_lines(), *self._line.question_lines][-rows:]
        return self.open_lines()[-self.open_rows :]

    def _open_text(self) -> AnyFormattedText:
        return ANSI("\n".join(self._visible_open_lines()))

    def _status_text(self) -> AnyFormattedText:
        state = self._line.buffer.complete_state
        if state is None or not state.completions:
            return ANSI(self._status(self.width))
        place = f"({(state.complete_index or 0) + 1}/{len(state.completions)})"
        return ANSI(f"{place}{SEPARATOR}{self._status(max(0, self.width - len(place) - len(SEPARATOR)))}")

    def _line_prefix(self, number: int, wraps: int) -> AnyFormattedText:
        prompt = self._line.prompt
        return prompt if not number and not wraps else " " * min(len(prompt), 2)

    def _has_status(self) -> bool:
        """Return whether the status line is shown; a low window has no room for it beside a menu or a question."""
        return self.rows > 3 and not (self.is_low and (self._line.has_menu or self._line.question))

    def _input_height(self) -> Dimension:
        min_rows = self._min_input_rows
        return Dimension(min=min_rows, max=max(min_rows, _MAX_INPUT_ROWS))

    @property
    def _min_input_rows(self) -> int:
        return min(_MENU_ROWS, max(1, self.rows - 2)) if self._line.has_menu else 1

    def _count_input_rows(self) -> int:
        """Return about how many rows the input line takes, for what is to stay visible above it."""
        if not self._line.buffer.text:
            return self._min_input_rows
        from rich.cells import cell_len

        start = len(self._line.prompt)
        texts = self._line.buffer.text[: self.width * _MAX_INPUT_ROWS].split("\n")
        rows = sum(1 + (start + cell_len(text)) // max(1, self.width) for text in texts)
        return max(self._min_input_rows, min(rows, _MAX_INPUT_ROWS))


class _TerminalOutput(Vt100_Output):
    """Output with ASCII in place of what the terminal's encoding does not have.

    tmux moves a screen that is erased from its first cell on into the scrollback, where a copy of what was drawn would
    remain. So the first cell is overwritten, and the rest is erased.
    """

    def write(self, data: str) -> None:
        """Write text without escape sequences."""
        super().write(make_encodable(data, self.encoding()))

    def erase_down(self) -> None:
        """Erase the line of the cursor, which is in its first cell, and all lines below it."""
        self.write_raw(" \x1b[J\b")

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


class ReflowRenderer(Renderer):
    """Renderer for a narrowed terminal.

    A terminal that becomes narrower wraps the lines on its screen, so that the first of them stands higher above the
    cursor than where prompt_toolkit 3.0.52 has drawn it: a copy of the lines above the cursor would remain.
    """

    def __init__(self, style: BaseStyle, output: Output, rewraps: bool) -> None:
        super().__init__(style, output)
        self._rewraps = rewraps

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Erase all that was drawn and put the cursor at its start."""
        self._follow_cursor()
        super().erase(leave_alternate_screen)

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        """Draw what has changed since the last time."""
        self._follow_cursor()
        super().render(app, layout, is_done)

    def _follow_cursor(self) -> None:
        """Correct the known position of the cursor if the terminal has become narrower since the last drawing."""
        drawn, size = self._last_screen, self._last_size
        columns = self.output.get_size().columns
        if not (self._rewraps and drawn and size and 0 < columns < size.columns):
            return
        x, y = self._cursor_pos
        rows = sum(_count_rows(drawn.data_buffer[row], columns) for row in range(y))
        self._cursor_pos = Point(x=x % columns, y=rows + x // columns)
        self._last_size = size._replace(columns=columns)
        self._last_screen = None


def _count_rows(line: Mapping[int, Char], columns: int) -> int:
    """Return how many rows a drawn line takes in a terminal of that width."""
    end = max((x for x, char in line.items() if char.char != " "), default=-1) + 1
    rows = 1
    used = 0
    for width in (line[x].width if x in line else 1 for x in range(end)):
        if used + width > columns:
            rows += 1
            used = 0
        used += width
    return rows


def rewraps_lines(environment: Mapping[str, str]) -> bool:
    """Whether the terminal is expected to wrap its lines anew when it becomes narrower, and not to truncate them.

    Moving up too far would erase output, so a terminal that may truncate is taken for one that does.
    """
    if "TMUX" in environment:
        return True
    truncates = _TRUNCATING_TERMS.fullmatch(environment.get("TERM", "dumb"))
    return not (truncates or "XTERM_VERSION" in environment or "STY" in environment)


class RevealProcessor(Processor):
    """prompt_toolkit processor that displays an escape for each hidden character."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return the visible fragments with the cursor mapping between text and display."""
        text = fragment_list_to_text(transformation_input.fragments)
        hidden = {match.start() for match in compile_invisible().finditer(text)}
        if not hidden:
            return Transformation(transformation_input.fragments)
        letters = explode_text_fragments(transformation_input.fragments)
        shown = [(item[0], escape_visibly(item[1]) if i in hidden else item[1]) for i, item in enumerate(letters)]
        positions = list(accumulate((len(text) for _, text in shown), initial=0))
        added = positions[-1] - len(shown)
        return Transformation(
            list(shown),
            source_to_display=lambda i: positions[i] if i < len(positions) else i + added,
            display_to_source=lambda i: bisect_right(positions, i) - 1 if i < positions[-1] else i - added,
        )
