"""Detect that a reply should end although the engine continues: stop sequences and repetition.

A model converted with a wrong end token writes `<|im_end|>` as text and never stops; a small model may repeat one line,
or a verse, endlessly.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from enum import Enum

from ...calls.literals import Markers
from ...core.events import Sentence, Usage
from ..base import ModelStream, StoppableStream, StreamItem

_WINDOW_LENGTH = 1200
"""Length in characters of the text that is checked for the repetition of short units."""
_MAX_PASSAGE_LENGTH, _MIN_PASSAGE_REPEATS = 1000, 3
"""How long a passage may be that ends the reply, and how often it comes, to the letter."""
_TAIL_LENGTH = _MAX_PASSAGE_LENGTH * _MIN_PASSAGE_REPEATS
_MAX_UNIT_LENGTH = 300
_MIN_LINE_REPEATS, _MIN_LINES_LENGTH = 12, 96
"""How often, and over how many characters, a line or a short verse is repeated before the reply is ended."""
_CHECK_INTERVAL = 100
"""Characters between two checks for repetition."""
_GARBAGE_LENGTH, _MAX_GARBAGE_UNIT = 200, 12
"""From how many characters on a repeated token of punctuation counts: `&&&&`, `!!!!`, `[PAD151935][PAD151935]`."""
_LIST_NUMBER = re.compile(r"^\s*\d+[.)、] ?", re.MULTILINE)
_RULE_CHARACTERS = frozenset("-=_*~.#─━═")
"""Characters that lines in text are drawn with."""


class Ending(Enum):
    """Why a reply was ended although the engine continues."""

    STOP_SEQUENCE = "stop sequence"
    REPETITION = "repetition"
    GARBAGE = "garbage"


class StopDetector:
    """Feed it a reply; it returns the text that may be shown.

    Attributes:
        ending: Why the reply has to end; None while it may continue.
    """

    def __init__(self, stop_sequences: Sequence[str]) -> None:
        self._markers = Markers(tuple(filter(None, stop_sequences)))
        self._delayed = ""
        self._tail = ""
        self._unchecked = 0
        self.ending: Ending | None = None

    def feed(self, text: str) -> str:
        """Return the text that is certain; a possible beginning of a stop sequence is delayed."""
        if self.ending:
            return ""
        self._delayed += text
        match = self._markers.pattern.search(self._delayed)
        cut = match.start() if match else len(self._delayed) - self._markers.count_partial(self._delayed, 0)
        if match:
            self.ending = Ending.STOP_SEQUENCE
        shown, self._delayed = self._delayed[:cut], self._delayed[cut:]
        self._check_repetition(shown)
        return shown

    @property
    def is_repeating(self) -> bool:
        """Whether the reply has to end because it repeats itself."""
        return self.ending in (Ending.REPETITION, Ending.GARBAGE)

    def close(self) -> str:
        """Return the delayed text when the reply is over."""
        rest, self._delayed = self._delayed, ""
        return "" if self.ending else rest

    def _check_repetition(self, shown: str) -> None:
        self._tail = (self._tail + shown)[-_TAIL_LENGTH:]
        self._unchecked += len(shown)
        if self._unchecked >= _CHECK_INTERVAL and not self.ending:
            self._unchecked = 0
            window = self._tail[-_WINDOW_LENGTH:]
            is_full = len(window) == _WINDOW_LENGTH
            is_line = _repeats_lines(window) or _repeats_lines(_LIST_NUMBER.sub("", window))
            if is_line or (is_full and _is_repetition(window)) or _repeats_passage(self._tail):
                self.ending = Ending.REPETITION
            elif len(self._tail) >= _GARBAGE_LENGTH and _is_garbage(self._tail[-_GARBAGE_LENGTH:]):
                self.ending = Ending.GARBAGE


def end_reply(stream: ModelStream, stop_sequences: Sequence[str] = ()) -> ModelStream:
    """Return a stream that ends at a stop sequence or a repetition, for an engine that would continue there.

    Args:
        stream: The reply of the engine, which is stopped; its Usage still comes.
        stop_sequences: Texts that end the reply and are no part of it.
    """
    return StoppableStream(_read_to_end(stream, StopDetector(stop_sequences)), stream.stop)


async def _read_to_end(stream: ModelStream, detector: StopDetector) -> AsyncGenerator[StreamItem, None]:
    async with aclosing(stream):
        async for item in stream:
            if isinstance(item, str):
                shown = detector.feed(item)
                if detector.ending:
                    stream.stop()
                if shown:
                    yield shown
            elif isinstance(item, Usage):
                if rest := detector.close():
                    yield rest
                if detector.is_repeating:
                    yield Sentence("chat.circle")
                is_ended = detector.ending is Ending.STOP_SEQUENCE
                hit_limit = item.hit_limit and not (is_ended or detector.is_repeating)
                yield replace(item, hit_limit=hit_limit, was_repeating=detector.is_repeating)
            else:
                yield item


def _is_garbage(text: str) -> bool:
    """Return whether the text is one token with punctuation, repeated, as broken runtimes write it.

    >>> _is_garbage("[PAD151935]" * 20), _is_garbage("-" * 200), _is_garbage("ha" * 100)
    (True, False, False)
    """
    units = (text[:unit] for unit in range(1, _MAX_GARBAGE_UNIT + 1) if text[unit:] == text[:-unit])
    unit = next(units, "")
    return bool(unit) and not (set(unit) <= _RULE_CHARACTERS or unit.isalnum() or any(map(str.isspace, unit)))


def _is_repetition(text: str) -> bool:
    """Return whether the text is one unit repeated.

    >>> _is_repetition("no, " * 300)
    True
    """
    return any(text[unit:] == text[:-unit] for unit in range(1, _MAX_UNIT_LENGTH + 1))


def _repeats_passage(text: str) -> bool:
    """Return whether the text ends in one long passage that is repeated, such as a story.

    >>> _repeats_passage("It was. " * 3), _repeats_passage("".join(map(str, range(200))) * 3)
    (False, True)
    """
    for unit in range(_MAX_UNIT_LENGTH, len(text) // _MIN_PASSAGE_REPEATS + 1):
        if text[-1] == text[-1 - unit] and text.endswith(text[-unit * _MIN_PASSAGE_REPEATS : -unit]):
            return True
    return False


def _repeats_lines(text: str) -> bool:
    r"""Return whether the end of the text is one line, or a few short ones, again and again.

    >>> _repeats_lines("It is Paris.\n" * 12), _repeats_lines("It is Paris.\n" * 11), _repeats_lines("\n" * 500)
    (True, False, False)
    """
    for unit in range(1, len(text) // _MIN_LINE_REPEATS + 1):
        end = text[-max(unit * _MIN_LINE_REPEATS, _MIN_LINES_LENGTH) :]
        if end[unit:] == end[:-unit] and len(end) >= _MIN_LINES_LENGTH and "\n" in end.strip():
            return True
    return False
