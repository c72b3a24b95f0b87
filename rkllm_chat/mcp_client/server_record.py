"""What a server has said, beyond what the SDK tells of it, and the repair of its results.

The SDK's client does not tell which tools it left out and what they declare, and its answers to a request are parsed:
others need them as they were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT

from ..config.tool_pins import extract_pinned_fields
from .protocol.faults import explain_list_fault, find_tool_fault, make_unusable
from .protocol.paging import ListPages
from .repair_messages import explain_unusable_result, find_left_out, repair_result

if TYPE_CHECKING:
    from ..config.tool_pins import Told


SDK_CODES = (CONNECTION_CLOSED, REQUEST_TIMEOUT)
"""Codes of errors that the SDK makes itself. A server may send the same ones: those carry `SentByServer`."""


@dataclass(frozen=True)
class SentByServer:
    """Marks an error as sent by the server; replaces the error's `data`, which is kept here."""

    data: Any


class ServerRecord:
    """What one connection of a server has said.

    Attributes:
        sent_methods: Methods of the requests that were sent.
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

    def __init__(self) -> None:
        self.sent_methods: set[str] = set()
        self.version = ""
        self.results: dict[str, Any] | None = None
        self._begin_list()

    def _begin_list(self) -> None:
        self.left_out: dict[str, str] = {}
        self.listed_tools, self.list_fault = 0, ""
        self.pages = ListPages()
        self.descriptions: dict[str, Told] = {}
        self.output_schemas: dict[str, Any] = {}

    def note_request(self, message: dict[str, Any]) -> None:
        """Record a message that was sent."""
        if "id" in message and (method := message.get("method")):
            self.sent_methods.add(method)
            if method == "tools/list" and (message.get("params") or {}).get("cursor") is None:
                self._begin_list()

    def read_response(self, message: dict[str, Any], method: str) -> dict[str, Any]:
        """Record the response to a request; return it with its result repaired, or an error if that is unusable.

        Errors whose codes the SDK uses itself are marked as sent by the server.
        """
        if error := message.get("error"):
            is_own = error["code"] in SDK_CODES
            return {**message, "error": {**error, "data": SentByServer(error.get("data"))}} if is_own else message
        result = message["result"]
        if self.results is not None:
            self.results[method] = result
        if fault := explain_unusable_result(method, result):
            return {"jsonrpc": "2.0", "id": message["id"], "error": make_unusable(fault, INVALID_REQUEST)}
        repaired = repair_result(method, result, self.version)
        if method == "tools/list":
            self._record_tools(result, repaired)
        return {**message, "result": repaired}

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
        if self.pages.is_complete:
            repaired.pop("nextCursor", None)
