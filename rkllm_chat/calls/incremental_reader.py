"""Read streamed text with generators that are written as if all of it were there.

A parser calls `yield from reader.read_through("</x>")`; while the text is not there yet, the generator yields, and the
caller that feeds the reader resumes it. It yields a `CharPattern`, the pattern of one character: resuming it earlier
than that character is useless, and `feed` buffers such text at almost no cost. Each character is examined a bounded
number of times: consumed text is never searched again, and only the beginning of a possible match is kept.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import suppress
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
        size: Number of characters consumed since `start_recording`.
        is_mid_line: Whether text precedes the recording on its line.
        is_in_markup: Whether the text before the recording ends with a tag.
    """

    def __init__(self, max_length: int = MAX_CALL_LENGTH, max_head_length: int = _MAX_HEAD_LENGTH) -> None:
        self.text = ""
        self.at = 0
        self.ended = self.is_complete = False
        self.is_committed = self.is_mid_line = self.is_in_markup = False
        self.max_length = max_length
        self.max_head_length = max_head_length
        self._limit = max_head_length
        self._waiting: list[str] = []
        self._recorded: list[str] | None = None
        self.size = 0

    def feed(self, text: str, edge: CharPattern | None = None) -> bool:
        """Append text and return whether the parser must be resumed.

        Args:
            text: The next chunk.
            edge: The character that the parser waits for, if it named one. A chunk without it is only buffered, unless
                so many chunks are buffered that they are joined.
        """
        if edge and len(self._waiting) < _MAX_WAITING and not edge.search(text):
            self._waiting.append(text)
            return False
        if not self._waiting and self.at == len(self.text):
            self.text, self.at = text, 0
            return True
        self.text = "".join([self.text[self.at :], *self._waiting, text])
        self.at = 0
        self._waiting.clear()
        return True

    def end(self, is_complete: bool = False) -> None:
        """Mark the end of the text."""
        self.feed("")
        self.ended, self.is_complete = True, is_complete

    def start_recording(self) -> None:
        """Start a recording: consumed text is stored until `stop_recording`."""
        self._recorded = []
        self.size = 0
        self._limit = self.max_head_length
        self.is_committed = False

    def commit(self) -> None:
        """Mark what is being read as a certain call.

        The larger limit applies from here on, and a text that ends now is reported as truncated instead of put back.
        """
        self.is_committed = True
        self._limit = self.max_length

    @property
    def recorded(self) -> str:
        """The text consumed since `start_recording`."""
        return "".join(self._recorded or ())

    def rewind(self, size: int) -> None:
        """Put back all but the first `size` characters consumed since `start_recording`."""
        parts: list[str] = []
        while self._recorded and self.size > size:
            parts.append(self._recorded.pop())
            self.size -= len(parts[-1])
        text = "".join(reversed(parts))
        retained = size - self.size
        if self._recorded is not None and retained:
            self._recorded.append(text[:retained])
            self.size = size
        self.unread(text[retained:])

    def stop_recording(self) -> str:
        """End the recording and return the text consumed since `start_recording`."""
        recorded = self.recorded
        self._recorded = None
        return recorded

    def unread(self, text: str) -> None:
        """Put text back in front of the unread text."""
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
        if self._recorded is None:
            taken, self.at = self.text[self.at : end], end
            return taken
        room = self.at + self._limit - self.size
        stop = end if end <= room else room  # faster than min()
        taken, self.at = self.text[self.at : stop], stop
        self._recorded.append(taken)
        self.size += len(taken)
        if stop < end:
            raise TooLongError
        return taken

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
        while True:
            if self.text.startswith(literal, self.at):
                return True
            beginning = self.text[self.at : self.at + len(literal)]
            if not literal.startswith(beginning) or (self.ended and len(beginning) < len(literal)):
                return False
            try:
                yield from self.wait_for_text()
            except EndOfTextError:
                return False

    def peek_literal(self, literals: tuple[str, ...] | Markers) -> Parsing[str]:
        """Return the longest of `literals` that the unread text begins with, or ""; waits only while undecided."""
        markers = compile_markers(literals) if isinstance(literals, tuple) else literals
        while (found := markers.match(self.text, self.at, self.ended)) is None:
            with suppress(EndOfTextError):  # then the next look decides
                yield from self.wait_for_text()
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
            try:
                yield from self.wait_for_text()
            except EndOfTextError:
                return ""

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

    def read_through(self, literal: str) -> Parsing[str]:
        """Consume the text up to and with `literal`; return it without `literal`."""
        parts: list[str] = []
        while True:
            parts.append((yield from self.read_up_to(char_pattern(literal[0]))))
            if (yield from self.skip(literal)):
                return "".join(parts)
            parts.append(self.take(1))
