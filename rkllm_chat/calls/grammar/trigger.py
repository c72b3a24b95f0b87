"""Detect in streamed text when a marker of a call has been written outside of thoughts."""

from __future__ import annotations

from ..formats import FORMATS
from ..literals import Markers, compile_markers
from ..scanner import THINK_TAGS

_THOUGHTS = THINK_TAGS | {mark: end for form in FORMATS.values() for mark, end in form.thought_markers.items()}


def find_open_thought(text: str) -> str:
    """Return the closing mark of the thought that a text opens and does not close; "" if there is none."""
    detector = MarkerDetector()
    detector.feed(text)
    return detector.thought_end


class MarkerDetector:
    """Watches a reply for markers.

    Attributes:
        thought_end: Closing mark of the open thought; "" outside of thoughts.
    """

    def __init__(self, *markers: str) -> None:
        """Start watching for the markers of calls."""
        self._sought = markers
        self._pending = ""
        self.thought_end = ""

    def feed(self, text: str) -> str:
        """Return the marker that is completed by this chunk, the first since the last one; "" if there is none."""
        self._pending += text
        while match := self._markers.pattern.search(self._pending):
            self._pending = self._pending[match.end() :]
            if match[0] in self._sought:
                return match[0]
            self.thought_end = "" if self.thought_end else _THOUGHTS[match[0]]
        held_length = self._markers.count_partial(self._pending, 0)
        self._pending = self._pending[len(self._pending) - held_length :]
        return ""

    @property
    def _markers(self) -> Markers:
        """The next markers of interest; inside a thought, only its end."""
        return compile_markers((self.thought_end,) if self.thought_end else (*_THOUGHTS, *self._sought))
