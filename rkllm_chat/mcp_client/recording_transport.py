"""Wrap a transport to detect the end of the connection and repair results.

The SDK reports nothing when an idle server dies (mcp 2.3.0). A `RecordingTransport` is a transport itself, so it can
wrap any.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse
from typing_extensions import Self

from ..config.tool_pins import extract_pinned_fields
from .error_messages import SDK_CODES, SentByServer
from .protocol.faults import explain_list_fault, find_tool_fault
from .protocol.paging import ListPages
from .repair_messages import explain_unusable_result, find_left_out, repair_result

if TYPE_CHECKING:
    from ..config.tool_pins import Told

_MAX_PENDING = 1000


class RecordingTransport:
    """A transport that records requests and repairs results.

    Attributes:
        transport: The wrapped transport.
        has_ended: Set when nothing more will come from the server.
        pending_methods: Method of each unanswered request, by request ID.
        sent_methods: Methods sent so far.
        version: The negotiated protocol version, once known; results are validated against it.
        left_out: Tools of the last list that cannot be used, with the reason, a key of TOOL_FAULTS.
        listed_tools: Number of tools in the last list.
        pages: The pages of the last list of tools.
        descriptions: What each tool of it declares about itself, used or not, by name.
        output_schemas: Output schema of each tool of it that has one. The SDK does not get them: it would discard the
            results of a tool whose schema has a fault (mcp 2.3.0), and `output_check` checks them for every client.
        list_fault: Why the last list of tools is unusable, "" if it is usable.
        results: If set to a dictionary, receives the last raw result of each method.
    """

    def __init__(self, transport: AbstractAsyncContextManager[Any]) -> None:
        self.transport = transport
        self.has_ended = asyncio.Event()
        self.pending_methods: dict[Any, str] = {}
        self.sent_methods: set[str] = set()
        self.version = ""
        self.results: dict[str, Any] | None = None
        self.left_out: dict[str, str] = {}
        self.listed_tools, self.list_fault = 0, ""
        self.pages = ListPages()
        self.descriptions: dict[str, Told] = {}
        self.output_schemas: dict[str, Any] = {}

    async def __aenter__(self) -> tuple[RecordingReadStream, RecordingWriteStream]:
        read, write = await self.transport.__aenter__()
        return RecordingReadStream(read, self), RecordingWriteStream(write, self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self.transport.__aexit__(kind, error, trace)

    def record_request(self, message: Any) -> None:
        """Record the method of a request, to interpret its response."""
        inner = getattr(message, "message", None)
        if isinstance(inner, JSONRPCRequest):
            if len(self.pending_methods) >= _MAX_PENDING:
                self.pending_methods.pop(next(iter(self.pending_methods)))
            self.pending_methods[inner.id] = inner.method
            self.sent_methods.add(inner.method)
            if inner.method == "tools/list" and not (inner.params or {}).get("cursor"):
                self.left_out, self.listed_tools, self.list_fault = {}, 0, ""
                self.pages, self.descriptions, self.output_schemas = ListPages(), {}, {}

    def repair_response(self, message: Any) -> Any:
        """Return the message with its result repaired, or an error response if it is unusable.

        Errors whose codes the SDK uses itself are marked as sent by the server.
        """
        inner = getattr(message, "message", None)
        if isinstance(inner, JSONRPCError) and inner.error.code in SDK_CODES:
            marked = inner.error.model_copy(update={"data": SentByServer(inner.error.data)})
            return replace(message, message=inner.model_copy(update={"error": marked}))
        if not isinstance(inner, JSONRPCResponse):
            return message
        method = self.pending_methods.pop(inner.id, "")
        if self.results is not None:
            self.results[method] = inner.result
        if fault := explain_unusable_result(method, inner.result):
            error = ErrorData(code=INVALID_REQUEST, message=fault)
            return replace(message, message=JSONRPCError(jsonrpc="2.0", id=inner.id, error=error))
        repaired = repair_result(method, inner.result, self.version)
        if method == "tools/list":
            self._record_tools(inner.result, repaired)
        if repaired is inner.result:
            return message
        return replace(message, message=inner.model_copy(update={"result": repaired}))

    def _record_tools(self, result: dict[str, Any], repaired: dict[str, Any]) -> None:
        """Record what a page of the list of tools declares, and lacks after its repair; end a list that is too long."""
        self.list_fault = explain_list_fault(result, "tools")
        if self.list_fault:
            return
        self.listed_tools += len(result["tools"])
        self.left_out.update(find_left_out(result["tools"], repaired["tools"]))
        for entry in self.pages.add(
            [one for one in result["tools"] if isinstance(one, dict)], result.get("nextCursor")
        ):
            name = entry.get("name")
            if isinstance(name, str) and name not in self.descriptions and not find_tool_fault(entry):
                self.descriptions[name] = extract_pinned_fields(entry)
                if entry.get("outputSchema") is not None:
                    self.output_schemas[name] = entry["outputSchema"]
        if self.pages.cursor is None:
            repaired.pop("nextCursor", None)


class RecordingStream:
    """One direction of a transport's streams; closing is passed on."""

    def __init__(self, inner: Any, recorder: RecordingTransport) -> None:
        self._inner, self._recorder = inner, recorder

    async def aclose(self) -> None:
        """Close the wrapped stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        closed: bool | None = await self._inner.__aexit__(kind, error, trace)
        return closed


class RecordingReadStream(RecordingStream):
    """Messages from the server."""

    async def receive(self) -> Any:
        """Return the next message, repaired; set `has_ended` at the end of the stream."""
        try:
            message = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._recorder.has_ended.set()
            raise
        return self._recorder.repair_response(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    @property
    def last_context(self) -> Any:
        """The sender's context where the stream carries one (the SDK reads it)."""
        return getattr(self._inner, "last_context", None)


class RecordingWriteStream(RecordingStream):
    """Messages to the server."""

    async def send(self, item: Any, /) -> None:
        """Record and send a message."""
        self._recorder.record_request(item)
        await self._inner.send(item)
