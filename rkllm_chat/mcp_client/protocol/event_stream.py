"""Parse a stream of server-sent events, and decide when one that broke off is resumed. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .limits import DEFAULT_RESUME_S, MAX_RESUME_FAILURES, MIN_RESUME_S

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

    Attributes:
        pending_bytes: Size of the event that is not complete yet.
        last_id: The id of the last complete event that had one, where a broken stream is resumed; empty before.
        retry_s: How long to wait before that, as the server wishes or else as usual.
    """

    def __init__(self) -> None:
        self.last_id = self._id = b""
        self.retry_s = DEFAULT_RESUME_S
        self._rest = bytearray()
        self._lines: list[str] = []
        self._name = self._others = b""
        self._ends_with_cr = False
        self._line_bytes = 0
        self.pending_bytes = 0

    def restart(self) -> None:
        """Forget an incomplete event: what comes next is another stream with the rest."""
        self._rest, self._lines, self._name, self._others, self._id = bytearray(), [], b"", b"", self.last_id
        self._ends_with_cr, self._line_bytes, self.pending_bytes = False, 0, 0

    def feed(self, piece: bytes) -> Iterator[tuple[str, str, bytes]]:
        """Yield each event that is complete: its name, its data, and its other lines (id, retry).

        The data of an event that only has an id is empty: servers open a stream with one (MCP 2025-11-25, transports).
        """
        text = piece.removeprefix(b"\n") if self._ends_with_cr else piece
        if piece:  # an empty one leaves open whether the LF of a CRLF follows
            self._ends_with_cr = piece.endswith(b"\r")
        *whole, rest = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            self._rest += line
            complete, self._rest = self._rest, bytearray()
            yield from self._take(complete)
        self._rest += rest
        self.pending_bytes = len(self._rest) + self._line_bytes

    def _take(self, line: bytearray) -> Iterable[tuple[str, str, bytes]]:
        """Process a line, which is as large as a result at most: it is decoded at once, and its bytes are freed."""
        if not line:
            return self._end_event()
        end = line.find(b":")
        field, start = bytes(line[: end if end >= 0 else None]), end + 1 if end >= 0 else len(line)
        start += line[start : start + 1] == b" "
        if field == b"data":
            self._line_bytes += len(line)
            del line[:start]
            self._lines.append(line.decode("utf-8", errors="replace"))
            line.clear()
        elif field == b"event":
            self._name = bytes(line[start:])
        elif field in (b"id", b"retry"):
            self._others += bytes(line) + b"\n"
            self._note(field, bytes(line[start:]))
        return []

    def _end_event(self) -> Iterable[tuple[str, str, bytes]]:
        self.last_id = self._id
        name = self._name.decode("utf-8", errors="replace") or "message"
        event = (name, "\n".join(self._lines), self._others)
        is_event, self._lines, self._name, self._others = bool(self._lines or self._others), [], b"", b""
        self._line_bytes = 0
        return [event] if is_event else []

    def _note(self, field: bytes, value: bytes) -> None:
        if field == b"id" and b"\0" not in value:
            self._id = value
        elif field == b"retry" and value.isdigit() and len(value) < _MAX_RETRY_DIGITS:
            self.retry_s = max(MIN_RESUME_S, int(value) / 1000)
