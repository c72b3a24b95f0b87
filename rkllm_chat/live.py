"""Events on the screen of a person: the answer as it grows, a line for each call that runs, and what takes its time.

It knows no model and no server. Everything that others wrote is made safe before it is drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .clean import clean, clean_line
from .events import (
    Event,
    Loading,
    Page,
    Reading,
    Table,
    Text,
    Thought,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from .gauge import bar, seconds, thousands
from .language import Words
from .markdown import Growing
from .markdown.cells import fold
from .messages import ToolResult
from .screen import Screen
from .terminal import ANSWER_MARK, DIM, PLAIN, line_about, sketch_arguments, table_lines

MARGIN = 2
LONGEST_RESULT = 300


@dataclass
class Running:
    """A call on its way."""

    server: str
    tool: str
    arguments: Mapping[str, Any]
    begun: float = field(default_factory=time.monotonic)
    progress: ToolProgress | None = None


@dataclass
class Thinking:
    """What the model thinks, before it says something."""

    begun: float = field(default_factory=time.monotonic)
    characters: int = 0


class Live:
    """Shows the events of one turn after another. `shows_thoughts`: whole, instead of one line with their length.

    `expect_s` says how long so many tokens are read, where the engine does not; 0.0 where nobody knows.
    """

    def __init__(self, screen: Screen, words: Words, color: bool) -> None:
        self.shows_thoughts = False
        self.expect_s: Callable[[int], float] = lambda _new: 0.0
        self._screen, self._words, self._color = screen, words, color
        self._answer: Growing | None = None
        self._is_begun = self._is_busy = False
        self._thinking: Thinking | None = None
        self._thoughts: Growing | None = None
        self._running: list[Running] = []
        self._reading: tuple[Reading, float] | None = None
        self._loading: tuple[Loading, float] | None = None
        self._waiting: float | None = None
        screen.tail = self.tail

    def begin(self) -> None:
        """Something runs; nothing has come of it yet."""
        self._is_busy, self._waiting = True, time.monotonic()

    def end(self) -> None:
        """Nothing runs any more: what is open is finished as it is."""
        self._close()
        self._running.clear()
        self._is_busy, self._waiting, self._reading = False, None, None
        self._screen.refresh()

    def show(self, event: Event) -> None:
        match event:
            case Text(text):
                self._say(text)
            case Thought(text):
                self._think(text)
            case Reading():
                self._reading = (self._timed(event), time.monotonic())
            case Loading():
                self._loading = (event, time.monotonic())
            case ToolProgress():
                self._note_progress(event)
            case _:
                self._finish(event)
        if not isinstance(event, Reading):
            self._reading = None
        if not isinstance(event, Loading):
            self._loading = None
        self._screen.refresh()

    def tail(self) -> list[str]:
        """The lines that are still open."""
        lines: list[str] = []
        if self._thinking and not self.shows_thoughts:
            lines.append(self.dim(self._words("live.thinking", **measure(self._thinking))))
        if self._thoughts:
            lines += map(self.dim, self._thoughts.tail())
        if self._answer:
            lines += self._mark(self._answer.tail())
        lines += [self.dim(self._describe(running)) for running in self._running]
        if not lines and not self._screen.question:
            lines += map(self.dim, self._explain_wait())
        return [*lines, *(self.dim(self._words("live.queued", text=clean_line(text))) for text in self._screen.queued)]

    def say(self, text: str) -> None:
        """A line of ours above everything."""
        self._screen.above([self.dim(line) for line in fold(clean_line(text), self._screen.width)])

    def _finish(self, event: Event) -> None:
        """An event that ends what was open, and has a line or lines of its own."""
        self._close()
        if isinstance(event, ToolStarted):
            self._running.append(Running(event.server, event.tool, event.call.arguments))
        elif isinstance(event, ToolFinished):
            self._forget(event.result)
        self._waiting = time.monotonic() if self._is_busy and not isinstance(event, TurnEnded) else None
        self._screen.above(self._lines_of(event))

    def _lines_of(self, event: Event) -> Sequence[str]:
        if isinstance(event, Table):
            return table_lines(event, self._screen.width)
        if isinstance(event, Page):
            return clean(event.text).splitlines()
        line = line_about(event, self._words)
        if isinstance(event, ToolStarted) and event.call.arguments:
            line += f" {sketch_arguments(event.call.arguments)}"
        elif isinstance(event, ToolFinished) and event.result.seconds:
            line = f"{line[:LONGEST_RESULT]} {seconds(event.result.seconds)}"
        line = line if len(line) <= LONGEST_RESULT + 20 else line[:LONGEST_RESULT] + "…"
        return [self.dim(part) for part in fold(line, self._screen.width)] if line else []

    def _say(self, text: str) -> None:
        if self._thinking:
            self._close_thoughts()
        if self._answer is None:
            text = text.lstrip()
            if not text:
                return
            self._close()
            self._answer, self._is_begun = Growing(self._width, self._color), False
        self._waiting = None
        self._emit(self._answer.feed(text))

    def _think(self, text: str) -> None:
        if self._thinking is None:
            if not text.strip():
                return
            self._close()
            self._thinking = Thinking()
            self._thoughts = Growing(self._width, color=False) if self.shows_thoughts else None
        self._waiting = None
        self._thinking.characters += len(text)
        if self._thoughts:
            self._screen.above([self.dim(line) for line in self._thoughts.feed(text)])

    def _emit(self, lines: Sequence[str]) -> None:
        marked = self._mark(lines)
        self._is_begun = self._is_begun or bool(lines)
        self._screen.above(marked)

    def _mark(self, lines: Sequence[str]) -> list[str]:
        """The lines of an answer, with the mark before the first one."""
        return [ANSWER_MARK + lines[0], *lines[1:]] if lines and not self._is_begun else list(lines)

    def _close(self) -> None:
        self._close_thoughts()
        if self._answer:
            self._emit(self._answer.close())
            self._answer = None

    def _close_thoughts(self) -> None:
        if self._thinking is None:
            return
        if self._thoughts:
            self._screen.above([self.dim(line) for line in self._thoughts.close()])
        else:
            self.say(self._words("live.thought", **measure(self._thinking)))
        self._thinking = self._thoughts = None

    def _note_progress(self, event: ToolProgress) -> None:
        found = next((one for one in self._running if (one.server, one.tool) == (event.server, event.tool)), None)
        if found:
            found.progress = event

    def _forget(self, result: ToolResult) -> None:
        """Takes the call that has ended out of those that run."""
        same = [one for one in self._running if (one.server, one.tool) == (result.server, result.tool)]
        exact = [one for one in same if one.arguments == result.arguments]
        for one in (exact or same)[:1]:
            self._running.remove(one)

    def _describe(self, running: Running) -> str:
        """A call that runs, in one line."""
        parts = [f"  {clean_line(running.tool)}", seconds_since(running.begun)]
        if progress := running.progress:
            if progress.total:
                parts.append(bar(progress.progress, progress.total))
                parts.append(f"{progress.progress:g}/{progress.total:g}")
            else:
                parts.append(f"{progress.progress:g}")
            parts.append(clean_line(progress.message))
        return " ".join(parts)

    def _explain_wait(self) -> list[str]:
        """Why nothing is to be seen."""
        if self._reading:
            reading, noted = self._reading
            done = min(reading.total, reading.done + (time.monotonic() - noted) * reading.tokens_per_s)
            left_s = (reading.total - done) / reading.tokens_per_s if reading.tokens_per_s else 0
            values = {"done": thousands(int(done)), "total": thousands(reading.total), "left": seconds(left_s)}
            key = "live.reading_left" if left_s else "live.reading"
            return [self._words(key, bar=bar(done, reading.total), **values)[: self._width]]
        if self._loading:
            return [self._describe_loading(*self._loading)]
        if self._waiting is not None:
            return [self._words("live.waiting", time=seconds_since(self._waiting))]
        return []

    def _timed(self, reading: Reading) -> Reading:
        """With the speed that was learnt, while the engine does not know its own."""
        if reading.tokens_per_s or reading.done or not (expected_s := self.expect_s(reading.total)):
            return reading
        return replace(reading, tokens_per_s=reading.total / expected_s)

    def _describe_loading(self, loading: Loading, begun: float) -> str:
        expected_s = loading.expected_s
        shown = f"{bar(time.monotonic() - begun, expected_s)} " if expected_s else ""
        left = f" / {seconds(expected_s)}" if expected_s else ""
        return self._words("live.loading", model=clean_line(loading.model), bar=shown, time=seconds_since(begun) + left)

    @property
    def _width(self) -> int:
        return max(1, self._screen.width - MARGIN)

    def dim(self, line: str) -> str:
        return f"{DIM}{line}{PLAIN}" if self._color and line else line


def seconds_since(begun: float) -> str:
    return f"{time.monotonic() - begun:.0f} s"


def measure(thinking: Thinking) -> dict[str, Any]:
    return {"time": seconds_since(thinking.begun), "characters": thinking.characters}
