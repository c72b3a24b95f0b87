"""What counts as an answer of a server, for the asyncio client and the direct client alike. Pure.

| answer | outcome |
|---|---|
| id "4" or 4.0 to request 4 | the answer: some servers turn every id into a string, or a number with a fraction |
| id of an earlier request | ignored: it comes late |
| any other id | an error that names both ids, unless the right answer follows soon |
| an event that is not called "message" | ignored (WHATWG HTML, 9.2.6) |
| a list that is null or no list | an error that names the server |
| a tool whose schema is no object or nested too deeply | left out and named; the others work |
| a result that does not match the tool's output schema | an error |
| invalid base64 | the result is used, and the block is shown as unreadable |
| HTTP 404 or 410, or an error that names the session | the session is begun anew once; the request was not processed |
| an error without an id, in the answer to a POST | the answer to its request |
| JSON under another content type, or none | is read |
| `[]` or null for an object, null for what is absent | an empty object, and absent (`normalize`) |
| a tool without an input schema, or without its type | takes any arguments, or an object |
| no structured content though a schema announces it | the result counts, with a note |
| a result of a tool or a resource over the limit | is cut there, with a note (`cut_result`) |
| an event without data | no message: it has an id at which the stream can be resumed |
| a stream that ends without the answer | it is resumed after its last id, twice in vain at most |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.errors import ConnectError, ProtocolError
from ...core.redact import truncate_at_word
from ...core.retry_after import parse_retry_after
from .framing import TOO_DEEP
from .limits import MAX_RETRY_WAIT_S

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
MISSING_CAPABILITY = -32021
"""The server did not process a request, because it needs what this client has not declared (MCP 2026-07-28)."""
UNUSABLE_CODE = -32700
"""Error code of a request whose response is unusable (JSON-RPC 2.0, 5.1: Parse error)."""
UNUSABLE = "rkllm_chat: unusable response"
"""The `data` of an error that stands for an unusable response; its message is the reason."""
MAX_MESSAGE_CHARS = 300
"""Length of what a server says within an error message."""
_SHOWN_LINES = 3
SERVER_INFO_META = "io.modelcontextprotocol/serverInfo"
"""Member of `_meta` that says who answered (MCP 2026-07-28); it is no part of the result."""
UNREADABLE_REQUEST_CODES = (-32700, -32600)
"""Codes with which a server reports a request whose id it could not read (JSON-RPC 2.0, 5.1)."""


class SessionLostError(ConnectError):
    """The server has forgotten the session and did not process the request."""


def is_same_id(response_id: object, request_id: int | str) -> bool:
    """Tell whether a response with this id answers the request."""
    return type(response_id) in (int, str) and str(response_id) == str(request_id)


def explain_wrong_id(response_id: object, request_id: object) -> str:
    """Return why a response is not the answer to the request."""
    return f"the response has the id {repr(response_id)[:60]}, not {request_id!r}"


def make_unusable(reason: str, code: int = UNUSABLE_CODE) -> dict[str, Any]:
    """Return the JSON-RPC error that stands for an unusable response."""
    return {"code": code, "message": reason, "data": UNUSABLE}


def quote_stderr(text: str) -> str:
    """Return the last lines of a server's standard error as a sentence after a space, "" if there are none."""
    from ...core.sanitize import sanitize_line

    lines = [line for line in text.splitlines() if line.strip()][-_SHOWN_LINES:]
    quoted = " / ".join(truncate_at_word(sanitize_line(line), MAX_MESSAGE_CHARS) for line in lines)
    return f" Its last output: {quoted}" if quoted else ""


def make_answer_error(server: str, error: Mapping[str, Any], problem: str = "", hint: str = "") -> ProtocolError:
    """Return the error of a request that a server answered with a JSON-RPC error, or with something unusable.

    Args:
        server: The server's name.
        error: The JSON-RPC error, without secrets.
        problem: The connection's own problem in brackets, such as an HTTP status, or "".
        hint: What the user can do.
    """
    from ...core.sanitize import sanitize_line  # 5 ms, most of it for regular expressions

    code, data = error.get("code"), error.get("data")
    message = sanitize_line(truncate_at_word(str(error.get("message", "")), MAX_MESSAGE_CHARS))
    if data == UNUSABLE:
        text = f'Server "{server}" sent an unusable response{problem}: {message}.'
        return ProtocolError(text, hint, server=server)
    number = f"error {code}" if isinstance(code, int) else "an error"
    text = f'Server "{server}" answered with {number}{problem}: {message}'
    return ProtocolError(text, hint, server=server, code=code, data=data)


NAME_PARAMS = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/result", "tasks/cancel"), "taskId"),
}
"""The parameter whose value goes into the header Mcp-Name, by method (MCP 2026-07-28, transports)."""
NEEDS = {
    "elicitation/create": "It asks for a form, and a one-shot command has no terminal here to show it; use the chat.",
    "sampling/createMessage": "It asks a language model, which a one-shot command does not have; use the chat or -p.",
}
"""Requests of servers that a one-shot command cannot answer, and what a user can do."""
TOOL_FAULTS = {
    "deep": "its schema is nested too deeply",
    "schema": "its input schema is not an object",
    "malformed": "its description is malformed",
}
"""Why a tool is left out: a key of the language table "hidden", and the reason in English."""


def is_for_model(meta: object) -> bool:
    """Tell whether a tool is for a model, by its `_meta`: not for the server's pages alone (MCP Apps, SEP-1865)."""
    pages = meta.get("ui") if isinstance(meta, Mapping) else None
    readers = pages.get("visibility") if isinstance(pages, Mapping) else None
    return not isinstance(readers, list) or not readers or "model" in readers


def find_tool_fault(entry: dict[str, Any]) -> str:
    """Return why an entry of a list of tools is left out, a key of TOOL_FAULTS; "" if it is usable."""
    schema = entry.get("inputSchema")
    if TOO_DEEP in (schema, entry.get("outputSchema")):
        return "deep"
    if TOO_DEEP in entry.values():
        return "malformed"
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "schema"
    return "" if isinstance(schema.get("properties", {}), dict) else "schema"


def make_output_error(server: str, reason: str, **details: Any) -> ProtocolError:
    """Return the error of a result that does not match the output schema of its tool."""
    text = f'Server "{server}" returned a result that does not match the output schema of the tool: {reason}.'
    return ProtocolError(text, server=server, **details)


def explain_list_fault(result: object, key: str) -> str:
    """Return why a list result is unusable, "" if it is usable."""
    entries = result.get(key) if isinstance(result, dict) else None
    if isinstance(entries, list):
        return ""
    kind = "missing" if isinstance(result, dict) and key not in result else f"{_name_type(entries)}, not a list"
    return f'"{key}" is {kind}'


def make_list_error(server: str, fault: str) -> ProtocolError:
    """Return the error of a list that is unusable as a whole."""
    text = f'Server "{server}" sent an unusable list: {fault}.'
    return ProtocolError(text, server=server, phase="list", expected="list")


def _name_type(value: object) -> str:
    names = {type(None): "null", dict: "an object", str: "a string", bool: "a boolean"}
    return names.get(type(value), "a number")


def hint_for_status(status: int) -> str:
    """Return what a user can do about an HTTP status."""
    if status == 429:
        return "The server limits the rate of requests; try again later."
    if status >= 500:
        return "The server has a problem of its own; try again later, or ask its operator."
    if status in (404, 405, 410):
        return "Check the path of the URL, and whether the transport is right."
    if 300 <= status < 400:
        return "Check the URL; redirects to another server are not followed."
    return "Check the URL and what the server requires."


def retry_wait_s(status: int, retry_after: str) -> float:
    """Return how long to wait before a request is repeated, from its Retry-After; 0 not to repeat it."""
    wait_s = parse_retry_after(retry_after) if status == 429 else None
    return wait_s if wait_s is not None and wait_s <= MAX_RETRY_WAIT_S else 0.0


def is_response(value: Any) -> bool:
    """Tell whether a JSON value is meant as a response, as opposed to a request or a notification."""
    return isinstance(value, dict) and "method" not in value and bool(value.keys() & {"result", "error"})
