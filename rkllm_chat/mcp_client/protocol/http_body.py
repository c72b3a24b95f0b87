"""Decode the body of an HTTP response within limits. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .cut_result import explain_size
from .event_stream import EventParser
from .framing import BoundedBytes, CutText
from .limits import MAX_DISCARDED_BYTES

CHUNK_BYTES = 1 << 16
_GZIP_OR_ZLIB = 47


class BodyDecoder:
    """Decodes a body in pieces of at most 64 KB, also one whose encoding was not requested.

    Args:
        encoding: Its header Content-Encoding, "" if there is none.
        max_bytes: Limit of the whole body, or of an event in it; what is longer is cut.
        fail: Makes the exception of a reason why the body is unusable.

    Attributes:
        body: What `add` has decoded.
    """

    def __init__(self, encoding: str, max_bytes: int, fail: Callable[[str], Exception]) -> None:
        self.body = BoundedBytes(max_bytes)
        self._encoding, self._max_bytes, self._fail = encoding.strip().lower() or "identity", max_bytes, fail
        self._inflate: Any = None

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        """Decode a chunk; a small one cannot inflate at once."""
        if self._encoding == "identity":
            yield chunk
            return
        if self._encoding not in ("gzip", "x-gzip", "deflate"):
            from ...core.sanitize import sanitize_line

            raise self._fail(f"it has the encoding {sanitize_line(self._encoding)[:60]}, which was not requested")
        import zlib

        self._inflate = self._inflate or zlib.decompressobj(_GZIP_OR_ZLIB)
        try:
            while chunk and not self._inflate.eof:
                if piece := self._inflate.decompress(chunk, CHUNK_BYTES):
                    yield piece
                chunk = self._inflate.unconsumed_tail
        except zlib.error as error:
            raise self._fail(f"it is not valid {self._encoding}: {error}") from None

    def add(self, chunk: bytes) -> bool:
        """Decode a chunk of a body that is read as a whole; return whether to read on."""
        for piece in self.decode(chunk):
            self.body.add(piece)
        return self.body.discarded <= MAX_DISCARDED_BYTES

    def end(self) -> None:
        """Check that the whole body has been decoded."""
        if self._inflate and not self._inflate.eof and self.body.discarded <= MAX_DISCARDED_BYTES:
            raise self._fail(f"it is not valid {self._encoding}: it is incomplete")

    def parse(self, chunk: bytes, parser: EventParser) -> Iterator[tuple[str, str | CutText]]:
        """Decode a chunk of a stream of events; yield the events, see `EventParser.feed`."""
        for piece in self.decode(chunk):
            yield from parser.feed(piece)
            if parser.pending_bytes > MAX_DISCARDED_BYTES:
                raise self._fail(explain_size(parser.pending_bytes, self._max_bytes))
