"""Render events on the interactive screen: growing answer, running calls, wait states.

Text from the model and from servers is sanitized before it is drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..chat.server_events import ServerWait
from ..core.events import (
    CallDescribed,
    CallFound,
    CallsDetected,
    Event,
    Loading,
    Notice,
    NoticeLevel,
    Page,
    Picture,
    Reading,
    ReplyDiscarded,
    Table,
    Text,
    Thought,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    WritingCall,
)
from ..core.i18n import Words
from ..core.messages import NOT_SHOWN, Media
from ..core.sanitize import MAX_LINE_LENGTH, sanitize_for_terminal, sanitize_line, truncate
from .event_lines import ANSWER_MARK, describe_event, format_table, format_user_text
from .markdown import Growing
from .markdown.cells import break_words, cut_text, wrap_text
from .screen import Screen
from .status_line import format_seconds, format_tokens, progress_bar
from .theme import Theme, paint, spin
from .tool_view import ToolCallView

_MARGIN = 2


@dataclass
class _HeldResult:
    """A result whose rows are printed once an answer differs from it: an answer that repeats it stands alone.

    Attributes:
        text: The result, its white space unified.
        rows: Its rows on the screen.
        answer: The answer so far.
        answer_lines: Finished lines of the answer, which stand below the rows.
    """

    text: str
    rows: list[str]
    answer: str = ""
    answer_lines: list[str] = field(default_factory=list[str])

    @property
    def may_repeat(self) -> bool:
        """Whether the answer so far is the beginning of the result."""
        return self.text.startswith(_unify_blanks(self.answer))

    @property
    def is_repeated(self) -> bool:
        """Whether the answer is the result."""
        return self.text == _unify_blanks(self.answer)


def _unify_blanks(text: str) -> str:
    return " ".join(text.split())


_MAX_OPEN_ROWS = 8
"""Rows of an answer that are not printed before it ends, so that one that is replaced can be taken off the screen."""
_MAX_PICTURES = 3
"""Maximum number of pictures of a result that are shown; `/image` has the others."""


class EventView:
    """Renders the events of successive turns on a screen.

    Attributes:
        shows_thoughts: Show thoughts in full instead of one line with their length.
        calls: Running calls and shortened results.
        theme: Colours of the next lines.
    """

    def __init__(
        self,
        screen: Screen,
        words: Words,
        theme: Theme,
        expect_s: Callable[[int], float],
        draw_picture: Callable[[Media], list[str]],
        names_servers: Callable[[], bool],
        find_bases: Callable[[str], Sequence[Path]],
    ) -> None:
        """Create the view.

        Args:
            screen: The screen.
            words: Sentences in the user's language.
            theme: Colours.
            expect_s: Estimates the prefill time in seconds of a number of tokens, used if the backend does not report
                its speed; 0.0 if unknown.
            draw_picture: Returns the lines that show a picture; none if the terminal cannot.
            names_servers: Returns whether the lines about calls name the servers of the tools.
            find_bases: Returns the folders to which a relative path of a server may belong.
        """
        self.shows_thoughts = False
        self._screen, self._words, self.theme = screen, words, theme
        self._expect_s, self._draw_picture = expect_s, draw_picture
        self.calls = ToolCallView(words, names_servers, find_bases)
        self._answer: Growing | None = None
        self._held: _HeldResult | None = None
        self._answer_rows: list[str] | None = None  # finished, but not printed; None once the answer is too long
        self._has_printed_answer = self._is_busy = False
        self._thinking_since: float | None = None  # on the monotonic clock
        self._thought_length = 0
        self._thoughts: Growing | None = None
        self._state: tuple[Event, float] | None = None
        self._waiting: float | None = None

    @property
    def is_answering(self) -> bool:
        """Whether an answer or thoughts are growing, so that nothing else can be printed above the input line."""
        return self._answer is not None or self._thinking_since is not None

    def begin_work(self) -> None:
        """Mark work as started and show a wait line until its first event."""
        self._is_busy, self._waiting = True, time.monotonic()

    def end_work(self) -> None:
        """Mark work as finished and close whatever is still open."""
        self._close()
        for event in self.calls.list_interrupted():
            self._screen.print_lines(self.format_event(event))
        self._is_busy, self._waiting, self._state = False, None, None
        self._screen.refresh()

    def show(self, event: Event) -> None:
        """Render an event."""
        before = self._state[0] if self._state else None
        if not (self._is_busy and isinstance(event, Notice)):
            self._state = None
        match event:
            case Text(text, is_report=False):  # a report says what the lines of the calls above show
                self._add_answer(text)
            case Thought(text):
                self._add_thought(text)
            case CallFound() if self._answer:  # the call may turn out to be void, and the text before it with it
                self._emit(self._answer.feed("\n\n"))
            case ReplyDiscarded(reason="unspoken" | "nameless") if not self._answer:
                # nothing was shown or made of it: a line that stays only puzzles who said hello
                self._state = (event, time.monotonic())
            case ReplyDiscarded():
                self._drop_answer()
                self._finish(event)
            case ToolProgress():
                self.calls.update(event)
            case Reading():
                self._state = (self._continue_reading(event, before), time.monotonic())
            case Loading() | WritingCall() | ServerWait():
                self._state = (event, time.monotonic())
            case _:
                self._finish(event)
        self._screen.refresh()

    def send_now(self) -> None:
        """Let a message that waits for servers be sent without them."""
        if self._state and isinstance(self._state[0], ServerWait):
            self._state[0].send_now()

    def open_lines(self) -> list[str]:
        """Return the unfinished lines: thoughts, answer, running calls, wait state and queued input."""
        lines = [*self._held.rows, *self._held.answer_lines] if self._held else []
        has_result_alone = bool(lines) and self._answer is None
        if self._thinking_since is not None and not self.shows_thoughts:
            lines.append(self.dim(spin(self._describe_thinking("live.thinking", self._thinking_since))))
        if self._thoughts:
            lines += map(self.dim, self._thoughts.tail(self._width))
        if self._answer:
            lines += [*(self._answer_rows or []), *self._mark(self._answer.tail(self._width))]
        lines += [self.dim(spin(line)) for line in self.calls.describe_running(self._width)]
        # behind an answer, the engine may find out whether a tool was meant
        is_reading = self._state is not None and isinstance(self._state[0], Reading)
        is_waiting = has_result_alone or is_reading or not lines
        if is_waiting and not self._screen.line.question and (waiting := self._wait_lines()):
            lines += map(self.dim, [spin(waiting[0]), *waiting[1:]])
        *queued, last = [sanitize_line(text) for text in self._screen.line.queued] or [""]
        lines += [self.dim(self._words("live.queued", text=text)) for text in queued]
        return [*lines, self.dim(self._words("live.queued_last", text=last))] if last else lines

    def print_notice(self, text: str, level: NoticeLevel = "info") -> None:
        """Print a line of the program, wrapped, in the style of its level."""
        self.release_result()
        style = self.theme.style_of(Notice(text, level))
        self._screen.print_lines([paint(line, style) for line in wrap_text(sanitize_line(text), self._screen.width)])

    def _finish(self, event: Event) -> None:
        """Render an event that closes the open answer and has lines of its own."""
        self._close()
        if isinstance(event, ToolStarted):
            self.calls.start(event)
        elif isinstance(event, CallsDetected):
            self.calls.call_count = event.count
        self._waiting = time.monotonic() if self._is_busy and not isinstance(event, TurnEnded) else None
        self._screen.print_lines(self.format_event(event))

    def format_event(self, event: Event) -> Sequence[str]:
        """Return the lines of an event, for the width of the screen."""
        if isinstance(event, Table):
            return format_table(event, self._screen.width)
        if isinstance(event, Page):
            width = self._screen.width
            return [row for line in sanitize_for_terminal(event.text).splitlines() for row in break_words(line, width)]
        if isinstance(event, Picture):
            return self._draw_picture(event.media)
        # the line of the result says it all, and so does the question about a described call
        if isinstance(event, ToolStarted | CallDescribed) or event == CallsDetected(1):
            return []
        width, style = self._screen.width, self.theme.style_of(event)
        if isinstance(event, ToolFinished):
            lines = [paint(part, style) for part in wrap_text(self.calls.finish(event), width)]
            pictures = [media for media in event.result.media if media.kind == "image"][:_MAX_PICTURES]
            drawn = [line for media in pictures for line in self._draw_picture(media)]
            result = event.result
            if drawn:
                result = replace(result, text=result.text.replace(NOT_SHOWN, "]"))
            shown = self.calls.shorten_result(result, width, event.is_asked)
            rows = [self.dim(row) for row in shown.rows]
            below = [*drawn, *format_user_text(event.result, self._words)]
            if shown.is_whole and not (below or event.is_asked or self.calls.has_running):
                self._held = _HeldResult(_unify_blanks(result.text), rows)
                return lines
            return [*lines, *rows, *below]
        line = truncate(describe_event(event, self._words), MAX_LINE_LENGTH)
        return [paint(part, style) for part in wrap_text(line, width)] if line else []

    def _add_answer(self, text: str) -> None:
        self._close_thoughts()
        if self._answer is None:
            text = text.lstrip()
            if not text:
                return
            self._answer = Growing(self._width, self.theme.has_color, wraps_code=False)
            self._has_printed_answer = False
            self._answer_rows = []
        self._waiting = None
        if self._held:
            self._held.answer += text
            if not self._held.may_repeat:
                self.release_result()
        self._answer.resize(self._width)
        self._emit(self._answer.feed(text))

    def _add_thought(self, text: str) -> None:
        if self._thinking_since is None:
            if not text.strip():
                return
            self._close()
            self._thinking_since, self._thought_length = time.monotonic(), 0
            self._thoughts = Growing(self._width, color=False) if self.shows_thoughts else None
        self._waiting = None
        self._thought_length += len(text)
        if self._thoughts:
            self._thoughts.resize(self._width)
            self._screen.print_lines([self.dim(line) for line in self._thoughts.feed(text)])

    def _emit(self, lines: Sequence[str]) -> None:
        marked = self._mark(lines)
        self._has_printed_answer = self._has_printed_answer or bool(lines)
        if self._held:
            self._held.answer_lines += marked
        elif self._answer_rows is None:
            self._screen.print_lines(marked)
        else:
            self._answer_rows += marked
            if len(self._answer_rows) > min(_MAX_OPEN_ROWS, self._screen.layout.open_rows // 2):
                self._print_answer()

    def _print_answer(self) -> None:
        rows, self._answer_rows = self._answer_rows, None
        self._screen.print_lines(rows or [])

    def _drop_answer(self) -> None:
        """Take an answer that is replaced off the screen, unless its beginning is printed already."""
        if self._answer and self._answer_rows is not None:
            self._answer, self._answer_rows = None, None
            if self._held:
                self._held.answer, self._held.answer_lines = "", []

    def release_result(self) -> None:
        """Print a result that was held back, if there is one, with the answer below it."""
        held, self._held = self._held, None
        if not held:
            return
        self._screen.print_lines([] if held.is_repeated else held.rows)
        if self._answer and self._answer_rows is not None:
            self._answer_rows += held.answer_lines
        else:
            self._screen.print_lines(held.answer_lines)

    def _mark(self, lines: Sequence[str]) -> list[str]:
        """Return the lines with the answer mark before the first line of an answer."""
        return [ANSWER_MARK + lines[0], *lines[1:]] if lines and not self._has_printed_answer else list(lines)

    def _close(self) -> None:
        self._close_thoughts()
        if self._answer:
            self._emit(self._answer.close())
            self._answer = None
        self.release_result()
        self._print_answer()

    def _close_thoughts(self) -> None:
        if self._thinking_since is None:
            return
        if self._thoughts:
            self._screen.print_lines([self.dim(line) for line in self._thoughts.close()])
        else:
            self.print_notice(self._describe_thinking("live.thought", self._thinking_since))
        self._thinking_since = self._thoughts = None

    def _describe_thinking(self, key: str, since: float) -> str:
        return self._words(key, time=_seconds_since(since), characters=self._thought_length)

    def _wait_lines(self) -> list[str]:
        """Return a line about what the user is waiting for, if anything."""
        event, noted_at = self._state or (None, 0.0)
        if isinstance(event, Reading):
            done = min(event.total, event.done + (time.monotonic() - noted_at) * event.tokens_per_s)
            left_s = (event.total - done) / event.tokens_per_s if event.tokens_per_s else 0
            key, bar = "live.reading_left" if left_s else "live.reading", progress_bar(done, event.total)
            counts = {"done": format_tokens(int(done)), "total": format_tokens(event.total)}
            return [cut_text(self._words(key, bar=bar, left=format_seconds(left_s), **counts), self._width)]
        if isinstance(event, ReplyDiscarded):
            return [cut_text(describe_event(event, self._words), self._width)]
        if isinstance(event, WritingCall):
            key, tool = "live.writing" if event.tool else "live.writing_any", sanitize_line(event.tool)
            return [cut_text(self._words(key, tool=tool, characters=event.characters), self._width)]
        if isinstance(event, Loading):
            expected_s, passed_s, bar = event.expected_s, time.monotonic() - noted_at, ""
            passed = _seconds_since(noted_at)
            if passed_s < expected_s:  # a longer load than the one before says nothing of its end
                bar, passed = f"{progress_bar(passed_s, expected_s)} ", f"{passed} / {format_seconds(expected_s)}"
            line = self._words("live.loading", model=sanitize_line(event.model), bar=bar, time=passed)
            return [cut_text(line, self._width)]
        if isinstance(event, ServerWait):
            started = noted_at if self._waiting is None else self._waiting
            line = self._words("live.servers", servers=event.servers, time=_seconds_since(started))
            return wrap_text(sanitize_line(line), self._width)
        if self._waiting is not None:
            return [self._words("live.waiting", time=_seconds_since(self._waiting))]
        return []

    def _continue_reading(self, reading: Reading, before: Event | None) -> Reading:
        """Return the event with the total of the one before: what turns out to be cached counts as done."""
        reading = self._with_learned_speed(reading)
        if isinstance(before, Reading) and reading.total < before.total:
            return replace(reading, done=reading.done + before.total - reading.total, total=before.total)
        return reading

    def _with_learned_speed(self, reading: Reading) -> Reading:
        """Return the event with the learned prefill speed if the backend reports none."""
        if reading.tokens_per_s or reading.done or not (expected_s := self._expect_s(reading.total)):
            return reading
        return replace(reading, tokens_per_s=reading.total / expected_s)

    @property
    def _width(self) -> int:
        return max(1, self._screen.width - _MARGIN)

    def dim(self, line: str) -> str:
        """Return the line in the style of the program's lines."""
        return paint(line, self.theme.system)


def _seconds_since(started: float) -> str:
    """Return the elapsed time as text, such as `3 s`."""
    return f"{time.monotonic() - started:.0f} s"
