"""Detect in streamed text when a call begins: a marker outside of thoughts, or bare JSON where a call can be meant."""

from __future__ import annotations

import re

from ..formats import FORMATS
from ..formats.openers import unmarked_pattern
from ..literals import Markers, compile_markers
from ..scanner import THINK_TAGS
from . import CallGrammar

THOUGHT_MARKS = THINK_TAGS | {
    mark: end for call_format in FORMATS.values() for mark, end in call_format.thought_markers.items()
}
"""Maps what opens a thought, in any format, to what closes it."""

_MAX_HEAD_LENGTH = 256
"""How much of a reply may precede an unmarked call where it can be meant, with its opener, in characters."""
_WHITE_SPACE = re.compile(r"\s+")


def find_open_thought(text: str) -> str:
    """Return the closing mark of the thought that a text opens and does not close; "" if there is none."""
    detector = CallDetector(CallGrammar(""))
    detector.feed(text)
    return detector.thought_end


class CallDetector:
    """Watches a reply for what begins a call.

    Attributes:
        thought_end: Closing mark of the open thought; "" outside of thoughts.
        rest: What follows the last opener in the chunk that completed it.
    """

    def __init__(self, grammar: CallGrammar) -> None:
        """Start watching for the beginnings of calls in a grammar."""
        self._markers = tuple(grammar.triggers)
        self._unmarked = unmarked_pattern(grammar.is_behind_prose) if grammar.unmarked else None
        self.thought_end = ""
        self.rest = ""
        self.expect_call()

    def expect_call(self) -> None:
        """Continue where a call may begin: at the start of the reply, or behind a call."""
        self._pending = self._head = ""
        self._is_fresh = True

    def feed(self, text: str) -> str:
        """Return what this chunk completes: a marker, or an unmarked opener without white space; "" if nothing."""
        self._pending += text
        while match := self._sought.pattern.search(self._pending):
            self.rest = self._pending = self._pending[match.end() :]
            if match[0] in self._markers:
                return match[0]
            is_end = bool(self.thought_end)
            self.thought_end = "" if is_end else THOUGHT_MARKS[match[0]]
            if is_end:
                text = self._pending
                self._head, self._is_fresh = "", True
        if not self.thought_end and (opener := self._find_unmarked(text)):
            return opener
        held_length = self._sought.count_partial(self._pending, 0)
        self._pending = self._pending[len(self._pending) - held_length :]
        return ""

    def _find_unmarked(self, text: str) -> str:
        """Return the unmarked opener that this chunk completes, without white space; "" if there is none."""
        seen = len(self._head)
        self._head += text
        for match in self._unmarked.finditer(self._head) if self._unmarked else ():
            if match.end() > seen and (self._is_fresh or match.start() or match[0].startswith("\n")):
                self.rest = self._head[match.end() :]
                self._pending = ""
                return _WHITE_SPACE.sub("", match["opener"])
        if len(self._head) > _MAX_HEAD_LENGTH:
            self._head, self._is_fresh = self._head[-_MAX_HEAD_LENGTH:], False
        return ""

    @property
    def _sought(self) -> Markers:
        """The next markers of interest; inside a thought, only its end."""
        return compile_markers((self.thought_end,) if self.thought_end else (*THOUGHT_MARKS, *self._markers))
