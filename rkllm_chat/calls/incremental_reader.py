"""Read streamed text with generators that are written as if all of it were there.

A parser calls `yield from reader.read_through("</x>")`; while the text is not there yet, the generator yields, and the
caller that feeds the reader resumes it. It yields a `CharPattern`, the pattern of one character: resuming it earlier
than that character is useless, and `hold` buffers such text at almost no cost. Each character is examined a bounded
number of times: consumed text is never searched again, and only the beginning of a possible match is kept.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from typing import TypeVar

from .literals import Markers, char_pattern, compile_markers

T = TypeVar("T")
CharPattern = re.Pattern[str]
Parsing = Generator["CharPattern | None", None, T]

_MAX_HEAD_LENGTH = 256
MAX_CALL_LENGTH = 1024 * 1024
_MAX_WAITING = 1024
"""How many chunks are buffered before they are joined."""
_SPACE = re.compile(r"\s*")


def run(parsing: Parsing[T]) -> T:
    """Return the result of a parser whose text is complete."""
    try:
        while True:
            next(parsing)
    except StopIteration as stop:
        result: T = stop.value
        return result


class EndOfTextError(Exception):
    """The text ended although the parser needs more."""


class TooLongError(Exception):
    """A parser consumed more than its limit allows."""


class Reader:
    """Buffer of streamed text with the primitives that parsers are made of.

    The caller uses `feed` and `end`; the other methods are for the parsers. Methods that return a `Parsing` are
    generators that wait for more text. While recording, consumed text is stored for `rewind` and limited in length.

    Attributes:
        text: The buffered text.
        at: Position in `text` up to which it is consumed.
        ended: Whether no more text will come.
        is_complete: Whether the text ended where its author wanted it to, and was not cut off.
        is_committed: Whether the parser is certain of what it reads; see `commit`.
        max_length: Limit of a recording after `commit`, in characters.
        max_head_length: Limit of a recording before `commit`, in characters.
        is_mid_line: Whether text precedes the recording on its line.
        is_in_markup: Whether the text before the recording ends with a tag.
        is_alone: Whether nothing precedes the recording in its text.
        without: Maps what a parser sought to the last how many characters of the text do not hold it.
    """

    def __init__(self, max_length: int = MAX_CALL_LENGTH, max_head_length: int = _MAX_HEAD_LENGTH) -> None:
        self.text = ""
        self.at = 0
        self.ended = self.is_complete = False
        self.is_committed = self.is_mid_line = self.is_in_markup = self.is_alone = False
        self.max_length = max_length
        self.max_head_length = max_head_length
        self.without: dict[tuple[str, ...], int] = {}
        self._waiting: list[str] = []
        # A recording is what `_recorded` has, `_recorded_length` characters, and the text from `_begin` on; it ends at
        # `_stop` at the latest. Consumed text stays in the buffer until the next chunk, so that a step back costs
        # nothing.
        self._recorded: list[str] | None = None
        self._recorded_length = self._begin = 0
        self._stop = sys.maxsize

    def hold(self, text: str) -> bool:
        """Buffer text for the next `feed` and return whether there was room: chunks are joined from time to time."""
        self._waiting.append(text)
        return len(self._waiting) < _MAX_WAITING

    def feed(self, text: str) -> None:
        """Append text."""
        if self._recorded is not None:
            if self.at > self._begin:
                self._recorded.append(self.text[self._begin : self.at])
                self._recorded_length += self.at - self._begin
            self._begin_at(0)
        if self._waiting or self.at < len(self.text):
            text = "".join([self.text[self.at :], *self._waiting, text])
            self._waiting.clear()
        self.text = text
        self.at = 0

    def end(self, is_complete: bool = False) -> None:
        """Mark the end of the text."""
        self.feed("")
        self.ended, self.is_complete = True, is_complete

    def start_recording(self) -> None:
        """Start a recording: consumed text is stored until `stop_recording`."""
        self._recorded = []
        self._recorded_length = 0
        self.is_committed = False
        self._begin_at(self.at)

    def commit(self, is_certain: bool = True) -> None:
        """Mark what is being read as a certain call, or as uncertain again.

        The larger limit applies from here on, and a text that ends now is reported as truncated instead of put back.
        """
        self.is_committed = is_certain
        self._begin_at(self._begin)

    def _begin_at(self, begin: int) -> None:
        self._begin = begin
        self._stop = begin + (self.max_length if self.is_committed else self.max_head_length) - self._recorded_length

    @property
    def size(self) -> int:
        """Number of characters consumed since `start_recording`."""
        return self._recorded_length + self.at - self._begin

    def recorded(self, size: int = 0) -> str:
        """Return the text consumed since `start_recording`, without its first `size` characters."""
        if size >= self._recorded_length:
            return self.text[self._begin + size - self._recorded_length : self.at]
        parts, length = [self.text[self._begin : self.at]], self._recorded_length
        for part in reversed(self._recorded or ()):
            parts.append(part)
            length -= len(part)
            if length <= size:
                break
        return "".join(reversed(parts))[size - length :]

    def rewind(self, size: int) -> None:
        """Put back all but the first `size` characters consumed since `start_recording`."""
        if self._recorded and size < self._recorded_length:
            parts = [self.text[self._begin :]]
            while self._recorded_length > size:
                parts.append(self._recorded.pop())
                self._recorded_length -= len(parts[-1])
            self.text = "".join(reversed(parts))
            self.at = len(self.text)
            self._begin_at(0)
        self.at = min(self.at, self._begin + size - self._recorded_length)

    def stop_recording(self) -> str:
        """End the recording and return the text consumed since `start_recording`."""
        recorded = self.recorded()
        self._recorded = None
        self._stop = sys.maxsize
        return recorded

    def unread(self, text: str) -> None:
        """Put text back in front of the unread text; not while recording."""
        if self.text.endswith(text, 0, self.at):
            self.at -= len(text)
        else:
            self.text = text + self.text[self.at :]
            self.at = 0

    def take_to(self, end: int) -> str:
        """Consume and return the buffered text up to position `end`.

        Raises:
            TooLongError: The recording reached its limit; the text up to it was consumed.
        """
        begin = self.at
        if end > self._stop:
            self.at = self._stop
            raise TooLongError
        self.at = end
        return self.text[begin:end]

    def take_run(self, run: re.Pattern[str]) -> str:
        """Consume and return what a pattern matches here, possibly nothing."""
        match = run.match(self.text, self.at)
        return self.take_to(match.end()) if match else ""

    def take(self, count: int) -> str:
        """Consume and return `count` characters, which must be buffered."""
        return self.take_to(self.at + count)

    def wait_for_text(self, edge: CharPattern | None = None) -> Parsing[None]:
        """Wait for text beyond what is buffered.

        Args:
            edge: Pattern of the character to wait for; None for any.

        Raises:
            EndOfTextError: No more text will come.
        """
        buffered = len(self.text) - self.at
        while len(self.text) - self.at <= buffered:
            if self.ended:
                raise EndOfTextError
            yield edge

    def is_next(self, literal: str) -> Parsing[bool]:
        """Tell whether the unread text begins with `literal`; waits only while undecided."""
        while not self.text.startswith(literal, self.at):
            rest = len(self.text) - self.at
            if self.ended or rest >= len(literal) or not literal.startswith(self.text[self.at :]):
                return False
            yield None
        return True

    def peek_literal(self, literals: tuple[str, ...] | Markers) -> Parsing[str]:
        """Return the longest of `literals` that the unread text begins with, or ""; waits only while undecided."""
        markers = compile_markers(literals) if isinstance(literals, tuple) else literals
        while (found := markers.match(self.text, self.at, self.ended)) is None:
            yield None
        return found

    def skip(self, literal: str) -> Parsing[bool]:
        """Consume `literal` if the unread text begins with it; tell whether it did."""
        if (yield from self.is_next(literal)):
            self.take(len(literal))
            return True
        return False

    def peek_until(self, literal: str, longest: int) -> Parsing[str]:
        """Return the unread text up to and with the next `literal` without consuming it.

        Returns:
            "" if `literal` does not come within `max_length` characters.
        """
        while True:
            index = self.text.find(literal, self.at, self.at + longest)
            if index >= 0:
                return self.text[self.at : index + len(literal)]
            if self.ended or len(self.text) - self.at >= longest:
                return ""
            yield None

    def peek(self) -> Parsing[str]:
        """Return the next character without consuming it."""
        if self.at >= len(self.text):
            yield from self.wait_for_text()
        return self.text[self.at]

    def is_at_end(self) -> Parsing[bool]:
        """Tell whether no more text comes; waits until that is certain."""
        try:
            yield from self.peek()
        except EndOfTextError:
            return True
        return False

    def skip_space(self) -> Parsing[str]:
        """Consume and return white space; the end of the text is not an error."""
        space: list[str] = []
        while match := _SPACE.match(self.text, self.at):
            if match.end() > self.at:
                space.append(self.take_to(match.end()))
            if self.at < len(self.text) or self.ended:
                break
            yield None
        return "".join(space)

    def read_up_to(self, edge: CharPattern, wake: CharPattern | None = None) -> Parsing[str]:
        """Consume and return the text before the next match of `edge`.

        Args:
            edge: Pattern of one character, which is not consumed.
            wake: Pattern of the characters to wait for instead of `edge`, if nothing can end before one of them.
        """
        match = edge.search(self.text, self.at)
        if match:
            return self.take_to(match.start())
        parts: list[str] = []
        while not match:
            parts.append(self.take_to(len(self.text)))
            yield from self.wait_for_text(wake or edge)
            match = edge.search(self.text, self.at)
        parts.append(self.take_to(match.start()))
        return "".join(parts)

    def read_run(self, run: re.Pattern[str], wake: CharPattern) -> Parsing[str]:
        """Consume and return text that consists of matches of `run`, up to something else.

        Args:
            run: Pattern of any number of things.
            wake: Pattern of the characters to wait for.
        """
        taken = self.take_run(run)
        if self.at < len(self.text):
            return taken
        parts = [taken]
        while self.at == len(self.text):
            yield from self.wait_for_text(wake)
            parts.append(self.take_run(run))
        return "".join(parts)

    def read_through(self, literal: str) -> Parsing[str]:
        """Consume the text up to and with `literal`; return it without `literal`."""
        parts: list[str] = []
        while True:
            parts.append((yield from self.read_up_to(char_pattern(literal[0]))))
            if (yield from self.skip(literal)):
                return "".join(parts)
            parts.append(self.take(1))
