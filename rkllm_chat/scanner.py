"""Finds thoughts and tool calls in a model's text while it is being written. It runs nothing and knows no tools.

A state machine over a Reader: text, thought, or a candidate call that its format accepts or turns down. Events are
the same for every chunking (neighbouring Texts joined), and only what may be the beginning of a marker is held back.
A reply that ends inside a call gives CallGarbled("truncated"): it is never completed and never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .events import CallFound, CallGarbled, Text, Thought
from .formats import FORMATS, Format
from .reader import EndOfTextError, Reader, Reading, TooLongError, partial_suffix

THINK, END_THINK = "<think>", "</think>"

Seen = Text | Thought | CallFound | CallGarbled


class Scanner:
    """Feed it a reply piece by piece; each call gives the events that are certain by now."""

    def __init__(self, formats: Iterable[Format] = tuple(FORMATS.values())) -> None:
        self._formats = {form.opener: form for form in formats}
        self._reader = Reader()
        self._seen: list[Seen] = []
        self._scan = self._read_reply()

    def feed(self, text: str) -> list[Seen]:
        """What has become certain with this piece."""
        self._reader.feed(text)
        return self._advance()

    def close(self) -> list[Seen]:
        """What is left when the reply has ended."""
        self._reader.end()
        return self._advance()

    def _advance(self) -> list[Seen]:
        next(self._scan, None)
        seen, self._seen = self._seen, []
        return seen

    def _read_reply(self) -> Reading[None]:
        while marker := (yield from self._pass_on(Text, (THINK, *self._formats))):
            if marker == THINK:
                yield from self._pass_on(Thought, (END_THINK,))
            else:
                yield from self._read_candidate(self._formats[marker])

    def _pass_on(self, kind: type[Text] | type[Thought], markers: tuple[str, ...]) -> Reading[str]:
        """Passes text on as events of one kind up to a marker, which is returned; "" at the end of the reply."""
        reader = self._reader
        pattern = re.compile("|".join(map(re.escape, markers)))
        while True:
            found = pattern.search(reader.text, reader.at)
            end = found.start() if found else len(reader.text)
            if not found and not reader.ended:
                end -= partial_suffix(reader.text[reader.at :], markers)
            if end > reader.at:
                self._seen.append(kind(reader.take_to(end)))
            if found:
                return reader.take_to(found.end())
            try:
                yield from reader.more()
            except EndOfTextError:
                if reader.at == len(reader.text):
                    return ""

    def _read_candidate(self, form: Format) -> Reading[None]:
        reader = self._reader
        reader.record()
        try:
            found = yield from form.read(reader)
        except EndOfTextError:
            reader.take_to(len(reader.text))
            found = CallGarbled("truncated", "The reply ended before the call did.", "")
        except TooLongError:
            found = CallGarbled("too_large", f"The call is longer than {reader.limit} characters.", "")
        written = reader.stop_recording()
        if found is None:
            self._seen.append(Text(form.opener))
            reader.unread(written)
        elif isinstance(found, CallGarbled):
            self._seen.append(CallGarbled(found.fault, found.detail, form.opener + written))
        else:
            self._seen.append(found)
