"""Response bodies, decoded here within limits, so that a bad encoding is one clear error."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from ..protocol.event_stream import EventParser
from ..protocol.faults import explain_wrong_id, is_response, is_same_id, make_unusable
from ..protocol.framing import prune_deep_lists
from ..protocol.http_answer import SESSION_LOST, adopt_error, reports_lost_session
from ..protocol.http_body import BodyDecoder
from ..protocol.limits import MAX_MESSAGE_BYTES

_ENCODING_HEADERS = ("content-encoding", "content-length", "transfer-encoding")


class UnreadableBodyError(httpx2.SSEError):
    """Raised when a body is too large or cannot be decoded.

    The SDK treats an SSEError as the end of one call (2.3.0).
    """


class DecodedBody(httpx2.AsyncByteStream):
    """The decoded bytes of a response."""

    def __init__(self, response: httpx2.Response, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._response = response
        self._decoder = BodyDecoder(response.headers.get("content-encoding", ""), max_bytes, UnreadableBodyError)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.aiter_raw():
            for piece in self._decoder.decode(chunk):
                yield piece

    async def read_all(self) -> bytes:
        """Return the whole body. Raises UnreadableBodyError beyond the limit."""
        async for chunk in self._response.aiter_raw():
            self._decoder.add(chunk)
        self._decoder.end()
        return bytes(self._decoder.content)

    async def parse_events(self) -> AsyncIterator[tuple[str, str, bytes]]:
        """Yield the events of a stream, see `EventParser.feed`."""
        parser = EventParser()
        async for chunk in self._response.aiter_raw():
            for event in self._decoder.parse(chunk, parser):
                yield event

    async def aclose(self) -> None:
        """Close the response."""
        await self._response.aclose()


class AnswerEvents(httpx2.AsyncByteStream):
    """The events of the response to one request, rewritten so that only its own answer is one.

    The SDK's client gives every response in such a stream the id of the request (2.3.0). A response with another id
    becomes an error if no better one arrives. An error without an id is its own, and one that says that the session is
    lost is marked as such.
    """

    def __init__(self, body: DecodedBody, request_id: int | str, in_session: bool = False) -> None:
        self._body, self._request_id, self._in_session = body, request_id, in_session

    async def __aiter__(self) -> AsyncIterator[bytes]:
        doubtful, is_answered = b"", False
        async for name, data, others in self._body.parse_events():
            value = _parse(data) if name == "message" else {}
            if (adopted := adopt_error(value, self._request_id)) is not value:
                value, data = adopted, json.dumps(adopted)
            if self._in_session and is_response(value) and reports_lost_session(200, value):
                value["error"]["data"] = SESSION_LOST
                data = json.dumps(value)
            response_id = value.get("id") if isinstance(value, dict) else None
            if is_response(value) and response_id is not None and not is_same_id(response_id, self._request_id):
                error = make_unusable(explain_wrong_id(response_id, self._request_id))
                doubtful = json.dumps({"jsonrpc": "2.0", "id": self._request_id, "error": error}).encode()
                continue
            is_answered = is_answered or is_response(value)
            yield write_event(name, prune_deep_lists(data.encode()), others)
        if doubtful and not is_answered:
            yield write_event("message", doubtful)

    async def aclose(self) -> None:
        """Close the response."""
        await self._body.aclose()


def write_event(name: str, data: bytes, others: bytes = b"") -> bytes:
    """Return a server-sent event; `others` are its lines with id and retry."""
    lines = b"".join(b"data: " + line + b"\n" for line in data.split(b"\n"))
    return b"event: " + name.encode() + b"\n" + others + lines + b"\n"


def _parse(data: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def copy_response(response: httpx2.Response, **body: Any) -> httpx2.Response:
    """Return a copy of the response with a decoded body."""
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _ENCODING_HEADERS]
    made = httpx2.Response(
        response.status_code,
        headers=headers,
        request=response.request,
        extensions=response.extensions,
        **body,
    )
    made.next_request = response.next_request
    return made
