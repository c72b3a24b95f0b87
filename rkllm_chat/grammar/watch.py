"""Sees when the marker of a call has been written, outside of thoughts, in text that comes in pieces."""

from __future__ import annotations

from ..formats import FORMATS
from ..markers import Markers, markers_of
from ..scanner import THINK

THOUGHTS = THINK | {mark: end for form in FORMATS.values() for mark, end in form.thoughts.items()}


class MarkerWatch:
    """Feed it a reply piece by piece. `text` is what of the reply was there before it began."""

    def __init__(self, marker: str, text: str = "") -> None:
        self._marker = marker
        self._pending = ""
        self._end = ""  # of the thought that is being written
        self.feed(text)

    def feed(self, text: str) -> bool:
        """Whether the marker is whole with this piece, the first time behind the last one."""
        self._pending += text
        while found := self._markers.pattern.search(self._pending):
            self._pending = self._pending[found.end() :]
            if found[0] == self._marker:
                return True
            self._end = "" if self._end else THOUGHTS[found[0]]
        kept = self._markers.count_held(self._pending, 0)
        self._pending = self._pending[len(self._pending) - kept :]
        return False

    @property
    def _markers(self) -> Markers:
        """What counts next; nothing in a thought but its end."""
        return markers_of((self._end,) if self._end else (*THOUGHTS, self._marker))
