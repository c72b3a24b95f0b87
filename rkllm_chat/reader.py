"""Text that arrives in pieces, read by generators as if it were all there. It knows no format.

A generator asks `yield from reader.until("</x>")`; where the text is not there yet it yields, and whoever feeds the
reader resumes it. Each character is looked at a bounded number of times: what is consumed is never searched again,
and only the beginning of a possible match is kept back.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Reading = Generator[None, None, T]


class EndOfTextError(Exception):
    """The text ended while more was needed."""


class TooLongError(Exception):
    """More was read than a limit allows."""


class Reader:
    """`feed` adds text, `end` says there is no more; the other methods are for the generators.

    `limit` bounds what may be consumed while recording, in characters.
    """

    def __init__(self, limit: int = 256 * 1024) -> None:
        self.text = ""
        self.at = 0
        self.ended = False
        self.limit = limit
        self._recorded: list[str] | None = None
        self._size = 0

    def feed(self, text: str) -> None:
        self.text = self.text[self.at :] + text
        self.at = 0

    def end(self) -> None:
        self.ended = True

    def record(self) -> None:
        """From here on, what is consumed is kept, and bounded."""
        self._recorded = []
        self._size = 0

    def stop_recording(self) -> str:
        """All that was consumed since `record`."""
        recorded = "".join(self._recorded or ())
        self._recorded = None
        return recorded

    def unread(self, text: str) -> None:
        """Puts text back in front of what is to be read."""
        if self.text.endswith(text, 0, self.at):
            self.at -= len(text)
        else:
            self.text = text + self.text[self.at :]
            self.at = 0

    def take_to(self, end: int) -> str:
        """Consumes up to position `end` of what is there; while recording, no more than the limit leaves room for."""
        if self._recorded is None:
            taken, self.at = self.text[self.at : end], end
            return taken
        stop = min(end, self.at + self.limit - self._size)
        taken, self.at = self.text[self.at : stop], stop
        self._recorded.append(taken)
        self._size += len(taken)
        if stop < end:
            raise TooLongError
        return taken

    def take(self, count: int) -> str:
        """Consumes `count` characters, which must be there."""
        return self.take_to(self.at + count)

    def more(self) -> Reading[None]:
        """Waits for text beyond what is there; raises EndOfTextError when there is none to come."""
        have = len(self.text) - self.at
        while len(self.text) - self.at <= have:
            if self.ended:
                raise EndOfTextError
            yield

    def next_is(self, literal: str) -> Reading[bool]:
        """Whether the text goes on with `literal`; waits only while it may."""
        while True:
            ahead = self.text[self.at : self.at + len(literal)]
            if ahead == literal:
                return True
            if not literal.startswith(ahead) or (self.ended and len(ahead) < len(literal)):
                return False
            try:
                yield from self.more()
            except EndOfTextError:
                return False

    def skip(self, literal: str) -> Reading[bool]:
        """Consumes `literal` if the text goes on with it."""
        if (yield from self.next_is(literal)):
            self.take(len(literal))
            return True
        return False

    def peek(self) -> Reading[str]:
        """The next character, not consumed."""
        if self.at >= len(self.text):
            yield from self.more()
        return self.text[self.at]

    def skip_space(self) -> Reading[str]:
        """Consumes and returns white space; the end of the text is no error here."""
        space: list[str] = []
        try:
            while (yield from self.peek()).isspace():
                space.append(self.take(1))
        except EndOfTextError:
            pass
        return "".join(space)

    def up_to(self, edge: re.Pattern[str]) -> Reading[str]:
        """The text before the next match of a pattern of one character, which is not consumed."""
        parts: list[str] = []
        while not (found := edge.search(self.text, self.at)):
            parts.append(self.take_to(len(self.text)))
            yield from self.more()
        parts.append(self.take_to(found.start()))
        return "".join(parts)

    def until(self, literal: str) -> Reading[str]:
        """The text before `literal`; both are consumed."""
        parts: list[str] = []
        while True:
            found = self.text.find(literal, self.at)
            if found >= 0:
                parts.append(self.take_to(found))
                self.take_to(found + len(literal))
                return "".join(parts)
            keep = partial_suffix(self.text[max(self.at, len(self.text) - len(literal) + 1) :], (literal,))
            parts.append(self.take_to(len(self.text) - keep))
            yield from self.more()


def partial_suffix(text: str, literals: tuple[str, ...]) -> int:
    """The length of the longest end of `text` that is a proper beginning of one of `literals`.

    >>> partial_suffix("ab[TOOL", ("[TOOL_CALL]",))
    5
    """
    longest = max(map(len, literals)) - 1
    for start in range(max(0, len(text) - longest), len(text)):
        if any(literal.startswith(text[start:]) for literal in literals):
            return len(text) - start
    return 0
