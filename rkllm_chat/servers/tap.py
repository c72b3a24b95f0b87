"""A transport with a tap on it: it notices when the server has gone, and mends results on their way.

The SDK tells nobody that an idle server died (mcp 2.3.0). A tap is a transport itself, so any transport can have one.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any

import anyio
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse
from typing_extensions import Self

from .mend import find_fault, mend_result

MOST_PENDING = 1000


class Tap:
    """Wraps a transport. `ended` is set once nothing will come from the server; `asked` are the methods it was sent.

    `version` of the protocol is told it once it is known: results are checked against it. Where `results` is a
    dictionary, it is given the last result of each method, as the server wrote it.
    """

    def __init__(self, transport: AbstractAsyncContextManager[Any]) -> None:
        self.transport = transport
        self.ended = asyncio.Event()
        self.methods: dict[Any, str] = {}
        self.asked: set[str] = set()
        self.version = ""
        self.results: dict[str, Any] | None = None

    async def __aenter__(self) -> tuple[ReadTap, WriteTap]:
        read, write = await self.transport.__aenter__()
        return ReadTap(read, self), WriteTap(write, self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self.transport.__aexit__(kind, error, trace)

    def note(self, message: Any) -> None:
        """Remembers what was asked, so that an answer is known for what it is."""
        inner = getattr(message, "message", None)
        if isinstance(inner, JSONRPCRequest):
            if len(self.methods) >= MOST_PENDING:
                self.methods.pop(next(iter(self.methods)))
            self.methods[inner.id] = inner.method
            self.asked.add(inner.method)

    def mend(self, message: Any) -> Any:
        inner = getattr(message, "message", None)
        if not isinstance(inner, JSONRPCResponse):
            return message
        method = self.methods.pop(inner.id, "")
        if self.results is not None:
            self.results[method] = inner.result
        if fault := find_fault(inner.result):
            error = ErrorData(code=INVALID_REQUEST, message=fault)
            return replace(message, message=JSONRPCError(jsonrpc="2.0", id=inner.id, error=error))
        mended = mend_result(method, inner.result, self.version)
        return (
            message if mended is inner.result else replace(message, message=inner.model_copy(update={"result": mended}))
        )


class Stream:
    """One end of a transport's stream; closing goes through."""

    def __init__(self, inner: Any, tap: Tap) -> None:
        self._inner, self._tap = inner, tap

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        closed: bool | None = await self._inner.__aexit__(kind, error, trace)
        return closed


class ReadTap(Stream):
    """What comes from the server."""

    async def receive(self) -> Any:
        try:
            message = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._tap.ended.set()
            raise
        return self._tap.mend(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    @property
    def last_context(self) -> Any:
        """The sender's context, where the stream carries one (the SDK looks for it)."""
        return getattr(self._inner, "last_context", None)


class WriteTap(Stream):
    """What goes to the server."""

    async def send(self, item: Any, /) -> None:
        self._tap.note(item)
        await self._inner.send(item)
