"""Text that arrives in pieces, read by generators as if it were all there. It knows no format.

A generator asks `yield from reader.until("</x>")`; where the text is not there yet it yields, and whoever feeds the
reader resumes it. What it yields is a pattern of one character: until one comes there is no sense in resuming it, and
`put_by` costs next to nothing. Each character is looked at a bounded number of times: what is consumed is never
searched again, and only the beginning of a possible match is kept back.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TypeVar

from .markers import edge_of, longest_of

T = TypeVar("T")
Edge = re.Pattern[str]
Reading = Generator["Edge | None", None, T]

LONGEST_HEAD = 256
LONGEST_CALL = 1024 * 1024
MOST_WAITING = 1024
SPACE = re.compile(r"\s*")


class EndOfTextError(Exception):
    """The text ended while more was needed."""


class TooLongError(Exception):
    """More was read than a limit allows."""


class Reader:
    """`feed` adds text, `end` says there is no more; the other methods are for the generators.

    While recording, what is consumed is kept, and bounded: `longest_head` characters until it is committed, `longest`
    from there on. `size` is how many were consumed since recording began.
    """

    def __init__(self, longest: int = LONGEST_CALL, longest_head: int = LONGEST_HEAD) -> None:
        self.text = ""
        self.at = 0
        self.ended = False
        self.is_committed = False
        self.longest = longest
        self.longest_head = longest_head
        self._limit = longest_head
        self._waiting: list[str] = []
        self._recorded: list[str] | None = None
        self.size = 0

    def feed(self, text: str) -> None:
        if not self._waiting and self.at == len(self.text):
            self.text, self.at = text, 0
            return
        self.text = "".join([self.text[self.at :], *self._waiting, text])
        self.at = 0
        self._waiting.clear()

    def put_by(self, text: str) -> bool:
        """Adds text in which the generator has nothing to look for; False when there is enough of it to be read."""
        self._waiting.append(text)
        return len(self._waiting) < MOST_WAITING

    def end(self) -> None:
        self.feed("")
        self.ended = True

    def record(self) -> None:
        """From here on, what is consumed is kept."""
        self._recorded = []
        self.size = 0
        self._limit = self.longest_head
        self.is_committed = False

    def commit(self) -> None:
        """What is being read is meant: from here on more may be consumed, and a text that ends here is cut off."""
        self.is_committed = True
        self._limit = self.longest

    @property
    def recorded(self) -> str:
        """What was consumed since `record`."""
        return "".join(self._recorded or ())

    def rewind(self, size: int) -> None:
        """Puts back all but the first `size` characters that were consumed since `record`."""
        parts: list[str] = []
        while self._recorded and self.size > size:
            parts.append(self._recorded.pop())
            self.size -= len(parts[-1])
        text = "".join(reversed(parts))
        kept = size - self.size
        if self._recorded is not None and kept:
            self._recorded.append(text[:kept])
            self.size = size
        self.unread(text[kept:])

    def stop_recording(self) -> str:
        """All that was consumed since `record`."""
        recorded = self.recorded
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
        room = self.at + self._limit - self.size
        stop = end if end <= room else room  # sooner than min()
        taken, self.at = self.text[self.at : stop], stop
        self._recorded.append(taken)
        self.size += len(taken)
        if stop < end:
            raise TooLongError
        return taken

    def take(self, count: int) -> str:
        """Consumes `count` characters, which must be there."""
        return self.take_to(self.at + count)

    def more(self, edge: Edge | None = None) -> Reading[None]:
        """Waits for text beyond what is there; raises EndOfTextError when there is none to come."""
        have = len(self.text) - self.at
        while len(self.text) - self.at <= have:
            if self.ended:
                raise EndOfTextError
            yield edge

    def next_is(self, literal: str) -> Reading[bool]:
        """Whether the text goes on with `literal`; waits only while it may."""
        while True:
            if self.text.startswith(literal, self.at):
                return True
            ahead = self.text[self.at : self.at + len(literal)]
            if not literal.startswith(ahead) or (self.ended and len(ahead) < len(literal)):
                return False
            try:
                yield from self.more()
            except EndOfTextError:
                return False

    def next_of(self, literals: tuple[str, ...]) -> Reading[str]:
        """The first of `literals` that the text goes on with, "" where it is none; waits only while it may."""
        is_enough = self.ended or len(self.text) - self.at >= longest_of(literals)
        if is_enough and not self.text.startswith(literals, self.at):
            return ""
        for literal in literals:
            if self.text.startswith(literal, self.at):
                return literal
            may_come = not is_enough and literal.startswith(self.text[self.at : self.at + len(literal)])
            if may_come and (yield from self.next_is(literal)):
                return literal
        return ""

    def skip(self, literal: str) -> Reading[bool]:
        """Consumes `literal` if the text goes on with it."""
        if (yield from self.next_is(literal)):
            self.take(len(literal))
            return True
        return False

    def ahead_to(self, literal: str, longest: int) -> Reading[str]:
        """The text from here to the next `literal`, that included; "" when it does not come within `longest`
        characters. Nothing is consumed."""
        while True:
            found = self.text.find(literal, self.at, self.at + longest)
            if found >= 0:
                return self.text[self.at : found + len(literal)]
            if self.ended or len(self.text) - self.at >= longest:
                return ""
            try:
                yield from self.more()
            except EndOfTextError:
                return ""

    def peek(self) -> Reading[str]:
        """The next character, not consumed."""
        if self.at >= len(self.text):
            yield from self.more()
        return self.text[self.at]

    def is_at_end(self) -> Reading[bool]:
        """Whether nothing more comes."""
        try:
            yield from self.peek()
        except EndOfTextError:
            return True
        return False

    def skip_space(self) -> Reading[str]:
        """Consumes and returns white space; the end of the text is no error here."""
        space: list[str] = []
        while found := SPACE.match(self.text, self.at):
            if found.end() > self.at:
                space.append(self.take_to(found.end()))
            if self.at < len(self.text) or self.ended:
                break
            yield None
        return "".join(space)

    def up_to(self, edge: Edge, wake: Edge | None = None) -> Reading[str]:
        """The text before the next match of a pattern of one character, which is not consumed.

        `wake` is what to wait for where it is not there yet, if it is known that nothing ends before.
        """
        found = edge.search(self.text, self.at)
        if found:
            return self.take_to(found.start())
        parts: list[str] = []
        while not found:
            parts.append(self.take_to(len(self.text)))
            yield from self.more(wake or edge)
            found = edge.search(self.text, self.at)
        parts.append(self.take_to(found.start()))
        return "".join(parts)

    def until(self, literal: str) -> Reading[str]:
        """The text before `literal`; both are consumed."""
        parts: list[str] = []
        while True:
            parts.append((yield from self.up_to(edge_of(literal[0]))))
            if (yield from self.skip(literal)):
                return "".join(parts)
            parts.append(self.take(1))
