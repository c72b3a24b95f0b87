"""Response bodies, decoded here within limits, so that a bad encoding is one clear error."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2

from ..protocol.cut_result import explain_size
from ..protocol.event_stream import EventParser
from ..protocol.framing import BoundedBytes, CutText
from ..protocol.http_body import BodyDecoder
from ..protocol.limits import MAX_MESSAGE_BYTES

_ENCODING_HEADERS = ("content-encoding", "content-length", "transfer-encoding")


class UnreadableBodyError(Exception):
    """Raised when a body cannot be decoded, or an event of it has no end."""


async def read_body(response: httpx2.Response, max_bytes: int = MAX_MESSAGE_BYTES) -> BoundedBytes:
    """Return the body of a response, cut at the limit. Raises UnreadableBodyError."""
    decoder = _make_decoder(response, max_bytes)
    async for chunk in response.aiter_raw():
        if not decoder.add(chunk):
            break
    decoder.end()
    return decoder.body


async def read_whole_body(response: httpx2.Response) -> bytes:
    """Return the whole body of a response. Raises UnreadableBodyError, also if it is too large."""
    body = await read_body(response)
    if body.discarded:
        raise UnreadableBodyError(explain_size(body.size, MAX_MESSAGE_BYTES))
    return bytes(body.content)


async def read_events(
    response: httpx2.Response, parser: EventParser, max_bytes: int
) -> AsyncGenerator[tuple[str, str | CutText], None]:
    """Yield the events of a response, see `EventParser.feed`. Raises UnreadableBodyError."""
    decoder = _make_decoder(response, max_bytes)
    async for chunk in response.aiter_raw():
        for event in decoder.parse(chunk, parser):
            yield event


def _make_decoder(response: httpx2.Response, max_bytes: int) -> BodyDecoder:
    return BodyDecoder(response.headers.get("content-encoding", ""), max_bytes, UnreadableBodyError)


def get_content_type(response: httpx2.Response) -> str:
    """Return the type of a body without its parameters, in lower case; "" if it is not said."""
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def copy_response(response: httpx2.Response, content: bytes) -> httpx2.Response:
    """Return a copy of the response with a decoded body."""
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _ENCODING_HEADERS]
    made = httpx2.Response(
        response.status_code,
        headers=headers,
        content=content,
        request=response.request,
        extensions=response.extensions,
    )
    made.next_request = response.next_request
    return made
