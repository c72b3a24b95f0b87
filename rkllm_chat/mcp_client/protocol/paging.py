"""One list of a server, page by page: what of it is read, and where it ends."""

from __future__ import annotations

from typing import Any

from .limits import MAX_ENTRIES, MAX_LIST_CHARACTERS, MAX_PAGES


class ListPages:
    """The pages of a list that have been received.

    A list ends at a page without cursor, or with one that was seen before: some servers repeat it for ever. It is cut
    at the limits of `limits`, always at the same place, so that every client sees the same part.

    An empty text is a cursor like any other (MCP 2025-11-25, pagination), but some servers mean the end by it: what
    comes for it may be an error (`end_at_empty_cursor`), or what was listed before, which is left out.

    Attributes:
        count: Number of entries that were read.
        cursor: The cursor of the page to request next; None for the first.
        is_complete: Whether no further page is to be requested.
        is_cut: Whether the server has more than was read.
    """

    def __init__(self) -> None:
        self.count = 0
        self.cursor: str | None = None
        self.is_complete = self.is_cut = False
        self._seen: set[str | None] = set()
        self._listed: set[str] = set()
        self._characters = 0

    def add(self, entries: list[Any], next_cursor: object) -> list[Any]:
        """Add the page that was requested; return those of its entries that are used."""
        if self.cursor == "":
            entries = [entry for entry in entries if repr(entry) not in self._listed]
        elif next_cursor == "":
            self._listed.update(map(repr, entries))
        self._seen.add(self.cursor)
        used = entries[: MAX_ENTRIES - self.count]
        self.count += len(used)
        self._characters += sum(len(str(entry)) for entry in used if isinstance(entry, dict))
        is_last = not isinstance(next_cursor, str) or next_cursor in self._seen or (self.cursor == "" and not used)
        is_full = self.count >= MAX_ENTRIES or len(self._seen) >= MAX_PAGES
        is_full = is_full or self._characters >= MAX_LIST_CHARACTERS
        self.is_cut = len(used) < len(entries) or (is_full and not is_last)
        self.is_complete = is_last or is_full
        self.cursor = None if self.is_complete else str(next_cursor)
        return used

    def end_at_empty_cursor(self) -> bool:
        """End the list if the last cursor was empty, as a server may refuse it; return whether it was."""
        self.is_complete = self.is_complete or self.cursor == ""
        return self.cursor == ""


def explain_cut(server: str, what: str, count: int) -> str:
    """Return the notice about a list that was not read to its end.

    Args:
        server: The server's name.
        what: What is listed, such as "tools".
        count: Number of entries that were read.
    """
    return f'Server "{server}" lists more {what} than are read; only the first {count} are used.'
