"""Encode, validate and diagnose JSON-RPC 2.0 messages. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import Any

from mcp_types import JSONRPCMessage, JSONRPCNotification, RequestId, jsonrpc_message_adapter

from ..protocol.framing import check_depth, replace_unrepresentable
from ..protocol.limits import MAX_MESSAGE_BYTES, MB

ID_PATTERN = re.compile(rb'"id"\s*:\s*(-?\d{1,18}(?=[\s,}])|"[^"\\]{0,200}")')
_METHOD = re.compile(rb'"method"\s*:')
_BODY = re.compile(rb'"(?:result|error)"\s*:')
END_BYTES = 256

NotificationKey = tuple[str, str, str, str]


def encode(message: JSONRPCMessage) -> tuple[JSONRPCMessage, str]:
    """Return the message with unrepresentable values replaced, and its JSON.

    Raises:
        ValueError: JSON cannot represent it, or it exceeds 4 MB.
    """
    try:
        data = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        check_depth(data)
        data = replace_unrepresentable(data)
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(str(error).splitlines()[0]) from error
    if len(text) > MAX_MESSAGE_BYTES:
        raise ValueError(f"message too large ({len(text) / MB:.0f} MB), limit {MAX_MESSAGE_BYTES // MB} MB")
    return jsonrpc_message_adapter.validate_python(data, by_name=False), text


def decode(value: dict[str, Any]) -> JSONRPCMessage:
    """Return the message that a JSON object represents. Raises ValueError with the reason if it is invalid."""
    if value.get("jsonrpc") != "2.0":
        raise ValueError("it is not JSON-RPC 2.0")
    if "result" in value and "error" in value:
        # some servers write both, one of them as null (JSON-RPC 2.0, 5: either, not both)
        value = {key: item for key, item in value.items() if key not in ("result", "error") or item is not None}
    if "result" in value and "error" in value:
        raise ValueError("it has a result and an error")
    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        raise ValueError(_explain_invalid(value)) from None


def _explain_invalid(value: dict[str, Any]) -> str:
    if "result" not in value and "error" not in value:
        return "it is not a JSON-RPC message"
    if type(value.get("id")) not in (int, str):
        return f"its id is {value.get('id')!r}"
    return "its result is not an object" if "result" in value else "its error is invalid"


def get_notification_key(message: JSONRPCNotification) -> NotificationKey:
    """Return the key under which a newer notification replaces an older one."""
    params = message.params or {}
    token, request_id, uri = (params.get(name) for name in ("progressToken", "requestId", "uri"))
    return (message.method, repr(token), repr(request_id), repr(uri))


def find_request_id(line: bytes, pending: Container[RequestId], default: RequestId | None) -> RequestId | None:
    """Return the pending request that a malformed response belongs to.

    Looks for an `id` before the body, else near the end of the text.

    Args:
        line: The text, possibly truncated in the middle.
        pending: IDs of the open requests.
        default: Returned if the text has no recognizable `id`.

    Returns:
        None if the `id` is unknown or the text is a request of the server.
    """
    body = _BODY.search(line)
    before = body.start() if body else len(line)
    if _METHOD.search(line, 0, before):
        return None
    found = ID_PATTERN.search(line, 0, before)
    tail_ids = [] if found else ID_PATTERN.findall(line[-END_BYTES:])
    if not found and not tail_ids:
        return default
    request_id = _read_id(found[1] if found else tail_ids[-1])
    return request_id if request_id in pending else None if found else default


def _read_id(text: bytes) -> RequestId:
    return text[1:-1].decode("utf-8", errors="replace") if text.startswith(b'"') else int(text)
