"""Parse a stream of server-sent events, and decide when one that broke off is resumed. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from .framing import BoundedBytes, CutText
from .limits import DEFAULT_RESUME_S, MAX_MESSAGE_BYTES, MAX_RESUME_FAILURES, MIN_RESUME_S

_MAX_RETRY_DIGITS = 10


def resume_wait_s(parser: EventParser, failures: int) -> float | None:
    """Return how long to wait before a stream without the answer is resumed; None if it cannot be.

    Args:
        parser: Has read the stream.
        failures: How often in a row it could not be resumed.
    """
    return parser.retry_s if parser.last_id and failures < MAX_RESUME_FAILURES else None


class EventParser:
    """Parse a stream of server-sent events (WHATWG HTML, 9.2.6): lines end with CR, LF or both.

    Args:
        max_bytes: Limit of the data of an event; what is longer is cut.

    Attributes:
        pending_bytes: Size of the event that is not complete yet.
        last_id: The id of the last complete event that had one, where a broken stream is resumed; empty before.
        retry_s: How long to wait before that, as the server wishes or else as usual.
    """

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self.last_id = self._id = b""
        self.retry_s = DEFAULT_RESUME_S
        self._max_bytes = max_bytes
        self.restart()

    def restart(self) -> None:
        """Forget an incomplete event: what comes next is another stream with the rest."""
        self._line, self._data = BoundedBytes(self._max_bytes), BoundedBytes(self._max_bytes)
        self._name, self._id = b"", self.last_id
        self._has_data = self._has_lines = self._ends_with_cr = False
        self.pending_bytes = 0

    def feed(self, piece: bytes) -> Iterator[tuple[str, str | CutText]]:
        """Yield each event that is complete: its name and its data.

        The data of an event that only has an id is empty: servers open a stream with one (MCP 2025-11-25, transports).
        """
        text = piece.removeprefix(b"\n") if self._ends_with_cr else piece
        if piece:  # an empty one leaves open whether the LF of a CRLF follows
            self._ends_with_cr = piece.endswith(b"\r")
        *whole, rest = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for part in whole:
            self._line.add(part)
            line, self._line = self._line, BoundedBytes(self._max_bytes)
            if not line.size:
                yield from self._end_event()
            else:
                self._take(line)
        self._line.add(rest)
        self.pending_bytes = self._line.size + self._data.size

    def _take(self, line: BoundedBytes) -> None:
        """Process a line, whose data is as large as a result at most: it is not copied."""
        content = line.content
        end = content.find(b":")
        field, start = bytes(content[: end if end >= 0 else None]), end + 1 if end >= 0 else len(content)
        start += content[start : start + 1] == b" "
        if field == b"data":
            del content[:start]
            if self._has_data:
                self._data.add(b"\n")
            self._data.join(line)
            self._has_data = True
        elif field == b"event":
            self._name = bytes(content[start:])
        elif field in (b"id", b"retry"):
            self._has_lines = True
            self._note(field, bytes(content[start:]))

    def _end_event(self) -> Iterator[tuple[str, str | CutText]]:
        self.last_id = self._id
        name, data = self._name.decode("utf-8", errors="replace") or "message", self._data
        is_event = self._has_data or self._has_lines
        self._name, self._data, self._has_data, self._has_lines = b"", BoundedBytes(self._max_bytes), False, False
        if is_event:
            yield name, data.take_text()

    def _note(self, field: bytes, value: bytes) -> None:
        if field == b"id" and b"\0" not in value:
            self._id = value
        elif field == b"retry" and value.isdigit() and len(value) < _MAX_RETRY_DIGITS:
            self.retry_s = max(MIN_RESUME_S, int(value) / 1000)
