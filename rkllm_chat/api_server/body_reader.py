"""Receive and parse the bodies of requests beside the event loop, one at a time, with a limit of their memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from .body_limits import MAX_BODY_BYTES, MAX_RECEIVED_BYTES
from .errors import ApiError
from .openai_schema import Body, read_body

_RETRY_S = 5
_MAX_IGNORED = 100
Result = TypeVar("Result")

log = logging.getLogger(__name__)


class BodyReader:
    """Reads bodies of one server."""

    def __init__(self) -> None:
        self._received_bytes = 0
        self._ignored: set[str] = set()
        self._lock = asyncio.Lock()

    async def read(self, request: Request, kind: type[Body], max_characters: int) -> Body:
        """Return the validated body of a request.

        Args:
            request: The request.
            kind: What its body must be.
            max_characters: Limit of the texts in a field.

        Raises:
            ApiError: The body is too large, or it is not of that kind.
        """
        data, counted = bytearray(), 0
        try:
            async for chunk in request.stream():
                data += chunk
                if len(data) > MAX_BODY_BYTES:
                    raise ApiError(413, f"The body is larger than {MAX_BODY_BYTES} bytes.", code="body_too_large")
                self._received_bytes += len(chunk)
                counted += len(chunk)
                if self._received_bytes > MAX_RECEIVED_BYTES:
                    message = "Too many large requests arrive at once."
                    raise ApiError(429, message, "rate_limit_error", code="queue_full", retry_after_s=_RETRY_S)
            return await self.run(lambda: read_body(data, kind, max_characters, self._report_ignored))
        except ClientDisconnect:
            raise ApiError(400, "The body is not complete.") from None
        finally:
            self._received_bytes -= counted

    def _report_ignored(self, field: str) -> None:
        """Log a field that means nothing here, the first time that a client sends it."""
        if field not in self._ignored and len(self._ignored) < _MAX_IGNORED:
            self._ignored.add(field)
            log.warning("a client sends %s, which is ignored", field)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run work on a body in a thread, after the work on earlier ones."""
        async with self._lock:
            return await asyncio.to_thread(work)
